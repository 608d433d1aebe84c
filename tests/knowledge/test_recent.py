"""The journal as pages read it agrees with the journal as it is replayed, from whichever entry on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from autotrascale.domain.snapshot import Critical
from autotrascale.execute.simulator.schedules import Steps
from autotrascale.knowledge.decisions import recent
from autotrascale.knowledge.decisions.journal import FINISHED, PART, Decisions
from autotrascale.plan.control.step import LookTaken
from autotrascale.testing.seeded import CLICKS, CLICKS_JOB, KNOBS, Kept, kept
from tests.knowledge.told_critical import kept_critical

LOOKS = PART + 40  # more than one part of looks, so that some begin within one


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    decisions = Decisions(tmp_path_factory.mktemp("recent") / "decisions.db")
    hours = LOOKS * KNOBS.interval_seconds / 3600
    rates = Steps((0.0, 1800.0, 3 * 3600.0), (4000.0, 15000.0, 6000.0))
    made = kept(decisions, CLICKS, CLICKS_JOB, rates, hours, advise=True)
    yield made
    made.end()
    decisions.close()


def test_entries_come_with_the_moment_at_which_they_were_written(one: Kept) -> None:
    decisions, id = one.session.decisions, one.session.id
    whole = decisions.entries(id)
    found = recent.entries(decisions, id, 10_000)
    assert [each.entry for each in found] == whole
    assert [each.at for each in found] == sorted(each.at for each in found)
    middle = found[len(found) // 2].number
    assert recent.entries(decisions, id, 10_000, middle) == found[len(found) // 2 + 1 :]
    assert recent.entries(decisions, id, 7) == found[-7:]
    (mark,) = recent.marks(decisions)
    assert (mark.id, mark.job, mark.ended) == (id, "clicks", None)
    assert mark.written >= found[-1].at


@pytest.mark.parametrize("after", [-1, 0, 5, PART - 1, PART, PART + 7, LOOKS + 100])
def test_what_was_measured_is_that_of_the_looks(one: Kept, after: int) -> None:
    decisions, id = one.session.decisions, one.session.id
    looks = {
        number: event.look.snapshot.throughput
        for number, event, _ in decisions.looks(id, -1)
        if number > after and isinstance(event, LookTaken) and event.look.snapshot is not None
    }
    found = recent.measured(decisions, id, after)
    assert {n: each.throughput for n, each in found.items()} == {n: t for n, t in looks.items() if t is not None}


def test_critical_paths_are_those_of_the_looks(tmp_path: Path) -> None:
    told = [None, Critical(driver=0.25, straggler=0.5, operator="count"), Critical(), None, Critical(commits=1.0)]
    decisions = Decisions(tmp_path / "decisions.db")
    session = kept_critical(decisions, told)
    found = recent.measured(decisions, session.id, -1)
    assert [each.critical for each in found.values()] == told
    text = json.dumps({"look": {"look": {"snapshot": {"critical": {"driver": "much"}}}}})
    assert recent._told(text) == recent.Measured()
    session.end(FINISHED)
    decisions.close()


def test_the_last_snapshot_is_that_of_the_last_look_that_measured(one: Kept) -> None:
    decisions, id = one.session.decisions, one.session.id
    events = [event for _, event, _ in decisions.looks(id, -1)]
    shots = [each.look.snapshot for each in events if isinstance(each, LookTaken) and each.look.snapshot is not None]
    assert recent.last_snapshot(decisions, id, one.loop.state.number) == shots[-1]
    assert recent.last_snapshot(decisions, "no such session", 10) is None


def test_advice_that_is_repeated_is_told_once_as_of_its_beginning(one: Kept) -> None:
    decisions, id = one.session.decisions, one.session.id
    acted = [each for each in decisions.entries(id) if each["action"] != "stay"]
    changes = recent.changes(decisions, id, 1000)
    assert 0 < len(changes) < len(acted)
    first = [
        now
        for before, now in zip([None, *acted], acted, strict=False)
        if before is None or (before["action"], before["wanted"]) != (now["action"], now["wanted"])
    ]
    assert [each.entry for each in changes] == first[::-1]
    assert recent.changes(decisions, id, 2) == changes[:2]


def test_what_is_not_there_is_nothing(tmp_path: Path) -> None:
    decisions = Decisions(tmp_path / "none" / "decisions.db")
    assert recent.marks(decisions) == []
    assert recent.entries(decisions, "a", 5) == []
    assert recent.measured(decisions, "a", 0) == {}
    assert recent.changes(decisions, "a", 5) == []
    assert not (tmp_path / "none").exists()
