"""Shortage of a machine from two readings of the kernel's counters."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from autotrascale.analyze.facts import BatchFact, TaskFact
from autotrascale.analyze.starvation import find_shortage, sum_held_seconds
from autotrascale.monitor.host_counters import HostReading

BEGIN = HostReading(at=100.0, cores=2, worked=50.0, stolen=5.0, crowded=10.0, waited=20.0, swapped_mb=7.0)
SECONDS = 20.0


def after(**more: float) -> HostReading:
    """Return a reading twenty seconds later with these increments. By default cores are half busy and nothing waits."""
    grown = {"worked": 20.0, "stolen": 0.0, "crowded": 2.0, "waited": 0.0, "swapped_mb": 0.0, **more}
    return replace(
        BEGIN, at=BEGIN.at + SECONDS, **{name: getattr(BEGIN, name) + value for name, value in grown.items()}
    )


def test_a_machine_with_room_is_short_of_nothing() -> None:
    assert find_shortage(BEGIN, after(), 100.0) is None


def test_slots_far_above_the_cores_where_tasks_compute() -> None:
    """Sixteen tasks, two cores: each stands in line for seven eighths of its time."""
    found = find_shortage(BEGIN, after(worked=40.0, waited=280.0, crowded=20.0), 16 * SECONDS)
    assert found is not None
    assert (found.cores, found.waiting, found.crowded) == (2, 0.875, 1.0)


def test_slots_far_above_the_cores_where_tasks_wait_for_services() -> None:
    """They hold their slots and want no core: that others on the machine stand in line now and then is no shortage."""
    assert find_shortage(BEGIN, after(worked=30.0, waited=20.0, crowded=19.9), 16 * SECONDS) is None


def test_stolen_and_swapped() -> None:
    stolen = find_shortage(BEGIN, after(worked=20.0, stolen=10.0), 100.0)
    assert stolen is not None
    assert stolen.stolen == 10 / 30
    swapped = find_shortage(BEGIN, after(swapped_mb=60.0), 100.0)
    assert swapped is not None
    assert swapped.swapped_mb == 3.0


def test_without_counts_of_threads_the_whole_machine_counts() -> None:
    """A kernel that does not count them, or a trial whose tasks are not known."""
    for begin, end, held in (
        (replace(BEGIN, waited=None), replace(after(crowded=19.0), waited=None), 100.0),
        (BEGIN, after(crowded=19.0, waited=100.0), None),
    ):
        found = find_shortage(begin, end, held)
        assert found is not None
        assert (found.waiting, found.crowded) == (None, 0.95)
        assert find_shortage(begin, replace(end, crowded=(begin.crowded or 0) + 10.0), held) is None


def test_without_readings_there_is_no_shortage() -> None:
    assert find_shortage(None, after(waited=1e6), 1.0) is None
    assert find_shortage(BEGIN, None, 1.0) is None
    assert find_shortage(BEGIN, BEGIN, 1.0) is None
    blind = replace(BEGIN, crowded=None, waited=None)
    assert find_shortage(blind, replace(after(), crowded=None, waited=None), 1.0) is None


MORE = st.floats(0.0, 1e4)


@given(
    worked=MORE,
    stolen=MORE,
    crowded=st.floats(0.0, SECONDS),
    waited=st.floats(-1e3, 1e4),
    swapped_mb=MORE,
    held=st.none() | st.floats(1e-3, 1e5),
)
def test_shares_are_shares_and_more_of_a_lack_is_no_less_of_one(
    worked: float, stolen: float, crowded: float, waited: float, swapped_mb: float, held: float | None
) -> None:
    """Threads that end take their waiting time with them, so a sum may shrink."""
    given = {"worked": worked, "stolen": stolen, "crowded": crowded, "waited": waited, "swapped_mb": swapped_mb}
    found = find_shortage(BEGIN, after(**given), held)
    if found is not None:
        assert 0.0 <= found.stolen <= 1.0
        assert 0.0 <= found.crowded <= 1.0 + 1e-9
        assert found.waiting is None or 0.0 <= found.waiting <= 1.0
        for lack in ("stolen", "waited", "swapped_mb"):
            assert (
                find_shortage(BEGIN, after(**{**given, lack: given[lack] * 2 + 1}), held) is not None
                or lack == "waited"
            )


def test_how_long_tasks_held_their_slots() -> None:
    def batch(*tasks: TaskFact) -> BatchFact:
        return BatchFact(1, "run", 0, 1.0, 10, tasks=tasks)

    assert sum_held_seconds([]) is None
    assert sum_held_seconds([batch(TaskFact(1, 0, 900, slot_ms=1000)), batch(TaskFact(2, 0, 500))]) == 1.5
    assert sum_held_seconds([batch(TaskFact(1, 0, None))]) is None
