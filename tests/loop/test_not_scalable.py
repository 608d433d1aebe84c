"""A job that is long for something else than a lack of instances gets no more of them, and is told what would help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotrascale.domain.observation import Observation
from autotrascale.domain.snapshot import CRITICAL_FIELDS, CriticalShares, Snapshot
from autotrascale.loop import Loop, LoopCollaborators
from autotrascale.plan.control.observations.not_scalable import MIN_UNSCALABLE_SHARE, check_critical_path
from autotrascale.testing.strategies import snapshots
from tests.loop.scripts import RULES, START, Diary, live

EVERY_LOOK = range(1, 1000)
TOO_MUCH = 400.0  # records/s, that eight instances carry and three do not
criticals = st.builds(CriticalShares, *(st.floats(0, 1) for _ in CRITICAL_FIELDS), st.sampled_from(("", "work")))


def showing(critical: CriticalShares | None) -> Callable[[Observation], Observation]:
    def change(look: Observation) -> Observation:
        return look if look.snapshot is None else replace(look, snapshot=replace(look.snapshot, critical=critical))

    return change


def ran(critical: CriticalShares | None) -> tuple[list[int], set[str]]:
    """The instances of `work` that each look of a quarter of an hour asked for, and the codes of all reasons."""
    job = live(lambda _: TOO_MUCH, looks=dict.fromkeys(EVERY_LOOK, showing(critical)))
    diary = Diary()
    Loop(job, RULES, initial=START, around=LoopCollaborators(listener=diary)).run(900)
    return [entry.wanted["work"] for entry in diary.entries], diary.codes


@pytest.fixture(scope="module")
def without() -> tuple[list[int], set[str]]:
    wanted, codes = ran(None)
    assert max(wanted) > START["work"], "it lacks instances, as far as anybody knows"
    return wanted, codes


@settings(deadline=None, max_examples=25)
@given(critical=criticals)
def test_no_instance_is_added_where_they_divide_less_than_half(
    without: tuple[list[int], set[str]], critical: CriticalShares
) -> None:
    wanted, codes = ran(critical)
    if critical.elsewhere >= MIN_UNSCALABLE_SHARE:
        assert max(wanted) <= START["work"]
        assert "hold-critical" in codes
    else:
        assert (wanted, codes) == without


@given(snapshots(), criticals)
def test_the_reason_names_the_greatest_part_and_what_shortens_it(snapshot: Snapshot, critical: CriticalShares) -> None:
    reason = check_critical_path(replace(snapshot, critical=critical))
    assert (reason is not None) == (critical.elsewhere >= MIN_UNSCALABLE_SHARE)
    if reason is not None:
        assert getattr(critical, str(reason.numbers["by"])) == max(getattr(critical, name) for name in CRITICAL_FIELDS)
        assert "What helps: " in reason.text
    assert check_critical_path(snapshot) is None
