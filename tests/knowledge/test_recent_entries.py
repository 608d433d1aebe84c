"""The journal as pages read it agrees with the journal as it is replayed, from whichever entry on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from autotrascale.domain.snapshot import CriticalShares
from autotrascale.execute.simulator.rate_functions import SteppedRate
from autotrascale.knowledge.decision_journal import recent_entries
from autotrascale.knowledge.decision_journal.journal import FINISHED, DecisionJournal
from autotrascale.knowledge.decision_journal.replay import read_events
from autotrascale.knowledge.decision_journal.session_writer import EVENTS_PER_PART
from autotrascale.plan.control.events import ObservationTaken
from benchmarks.workloads.seeded_store import CLICKS, CLICKS_JOB, KNOBS, ScaledJob, scale_job
from tests.knowledge.told_critical import kept_critical

LOOKS = EVENTS_PER_PART + 40  # more than one part of looks, so that some begin within one


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScaledJob]:
    decisions = DecisionJournal(tmp_path_factory.mktemp("recent") / "decisions.db")
    hours = LOOKS * KNOBS.interval_seconds / 3600
    rates = SteppedRate((0.0, 1800.0, 3 * 3600.0), (4000.0, 15000.0, 6000.0))
    made = scale_job(decisions, CLICKS, CLICKS_JOB, rates, hours, advise=True)
    yield made
    made.end()
    decisions.close()


def test_entries_have_the_time_of_writing(one: ScaledJob) -> None:
    decisions, id = one.session.decisions, one.session.id
    whole = decisions.entries(id)
    found = recent_entries.read_entries(decisions, id, 10_000)
    assert [each.entry for each in found] == whole
    assert [each.at for each in found] == sorted(each.at for each in found)
    middle = found[len(found) // 2].number
    assert recent_entries.read_entries(decisions, id, 10_000, middle) == found[len(found) // 2 + 1 :]
    assert recent_entries.read_entries(decisions, id, 7) == found[-7:]
    (mark,) = decisions.marks()
    assert (mark.id, mark.job, mark.ended) == (id, "clicks", None)
    assert mark.written >= found[-1].at


@pytest.mark.parametrize("after", [-1, 0, 5, EVENTS_PER_PART - 1, EVENTS_PER_PART, EVENTS_PER_PART + 7, LOOKS + 100])
def test_measurements_equal_the_observations(one: ScaledJob, after: int) -> None:
    decisions, id = one.session.decisions, one.session.id
    looks = {
        number: event.observation.snapshot.throughput
        for number, event, _ in read_events(decisions, id, -1)
        if number > after and isinstance(event, ObservationTaken) and event.observation.snapshot is not None
    }
    found = recent_entries.read_measurements(decisions, id, after)
    assert {n: each.throughput for n, each in found.items()} == {n: t for n, t in looks.items() if t is not None}


def test_critical_paths_equal_the_observations(tmp_path: Path) -> None:
    told = [
        None,
        CriticalShares(driver=0.25, straggler=0.5, operator="count"),
        CriticalShares(),
        None,
        CriticalShares(commits=1.0),
    ]
    decisions = DecisionJournal(tmp_path / "decisions.db")
    session = kept_critical(decisions, told)
    found = recent_entries.read_measurements(decisions, session.id, -1)
    assert [each.critical for each in found.values()] == told
    text = json.dumps({"look": {"observation": {"snapshot": {"critical": {"driver": "much"}}}}})
    assert recent_entries._parse_measurement(text) == recent_entries.RecordedMeasurement()
    session.end(FINISHED)
    decisions.close()


def test_the_last_snapshot_is_found(one: ScaledJob) -> None:
    decisions, id = one.session.decisions, one.session.id
    events = [event for _, event, _ in read_events(decisions, id, -1)]
    shots = [
        each.observation.snapshot
        for each in events
        if isinstance(each, ObservationTaken) and each.observation.snapshot is not None
    ]
    assert recent_entries.read_last_snapshot(decisions, id, one.loop.state.number) == shots[-1]
    assert recent_entries.read_last_snapshot(decisions, "no such session", 10) is None


def test_repeated_advice_counts_once_with_its_first_time(one: ScaledJob) -> None:
    decisions, id = one.session.decisions, one.session.id
    acted = [each for each in decisions.entries(id) if each["action"] != "stay"]
    changes = recent_entries.read_changes(decisions, id, 1000)
    assert 0 < len(changes) < len(acted)
    first = [
        now
        for before, now in zip([None, *acted], acted, strict=False)
        if before is None or (before["action"], before["wanted"]) != (now["action"], now["wanted"])
    ]
    assert [each.entry for each in changes] == first[::-1]
    assert recent_entries.read_changes(decisions, id, 2) == changes[:2]


def test_an_empty_journal_has_no_entries(tmp_path: Path) -> None:
    decisions = DecisionJournal(tmp_path / "none" / "decisions.db")
    assert decisions.marks() == []
    assert recent_entries.read_entries(decisions, "a", 5) == []
    assert recent_entries.read_measurements(decisions, "a", 0) == {}
    assert recent_entries.read_changes(decisions, "a", 5) == []
    assert not (tmp_path / "none").exists()
