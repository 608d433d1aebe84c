"""A job that is long for something else than a lack of instances gets no more of them, and is told what would help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotrascale.domain.look import Look
from autotrascale.domain.snapshot import CRITICAL_FIELDS, Critical, Snapshot
from autotrascale.loop import Loop
from autotrascale.plan.control.looks.elsewhere import BOUND, bound_elsewhere
from autotrascale.plan.control.loop_state import Entry
from autotrascale.testing.strategies import snapshots
from tests.loop.scripts import RULES, START, live

EVERY_LOOK = range(1, 1000)
TOO_MUCH = 400.0  # records/s, that eight instances carry and three do not
criticals = st.builds(Critical, *(st.floats(0, 1) for _ in CRITICAL_FIELDS), st.sampled_from(("", "work")))


def showing(critical: Critical | None) -> Callable[[Look], Look]:
    def change(look: Look) -> Look:
        return look if look.snapshot is None else replace(look, snapshot=replace(look.snapshot, critical=critical))

    return change


def ran(critical: Critical | None) -> tuple[list[int], set[str]]:
    """The instances of `work` that each look of a quarter of an hour asked for, and the codes of all reasons."""
    job = live(lambda _: TOO_MUCH, looks=dict.fromkeys(EVERY_LOOK, showing(critical)))
    entries: list[Entry] = []
    Loop(job, RULES, initial=START, report=lambda _, entry: entries.append(entry)).run(900)
    return [entry.wanted["work"] for entry in entries], {each.code for entry in entries for each in entry.reasons}


@pytest.fixture(scope="module")
def without() -> tuple[list[int], set[str]]:
    wanted, codes = ran(None)
    assert max(wanted) > START["work"], "it lacks instances, as far as anybody knows"
    return wanted, codes


@settings(deadline=None, max_examples=25)
@given(critical=criticals)
def test_no_instance_is_added_where_they_divide_less_than_half(
    without: tuple[list[int], set[str]], critical: Critical
) -> None:
    wanted, codes = ran(critical)
    if critical.elsewhere >= BOUND:
        assert max(wanted) <= START["work"]
        assert "hold-critical" in codes
    else:
        assert (wanted, codes) == without


@given(snapshots(), criticals)
def test_the_reason_names_the_greatest_part_and_what_shortens_it(snapshot: Snapshot, critical: Critical) -> None:
    reason = bound_elsewhere(replace(snapshot, critical=critical))
    assert (reason is not None) == (critical.elsewhere >= BOUND)
    if reason is not None:
        assert getattr(critical, str(reason.numbers["by"])) == max(getattr(critical, name) for name in CRITICAL_FIELDS)
        assert ";" in reason.text
    assert bound_elsewhere(snapshot) is None
