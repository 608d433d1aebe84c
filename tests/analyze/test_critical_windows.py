"""Windows of a growing log equal the windows of the whole log."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from log_reading import batches, read_lines

from autotrascale.analyze.critical.edges import make_edges
from autotrascale.analyze.critical.gaps import fill_gaps
from autotrascale.analyze.critical.participation_table import measure_windows
from autotrascale.analyze.critical.spark_trace import trace_batches
from autotrascale.analyze.joiner import Joiner
from autotrascale.analyze.live.critical_windows import CriticalWindows
from autotrascale.domain.critical_path_report import CriticalPathReport
from autotrascale.monitor.eventlog.follower import Follower

LINES = read_lines(Path(__file__).parent / "logs" / "marked")


def whole(seconds: float) -> list[CriticalPathReport]:
    edges, names = make_edges(trace_batches(batches(LINES, Joiner(every_stage=True))))
    return measure_windows(fill_gaps(edges), names, seconds, application="app", query="counting")


@pytest.mark.parametrize("seconds", [2.0, 7.0])
@settings(deadline=None, max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(every=st.integers(20, 120))
def test_each_window_is_returned_once_and_equals_the_window_of_the_whole_log(
    tmp_path: Path, seconds: float, every: int
) -> None:
    told = followed(tmp_path / f"{seconds}-{every}", seconds, every)
    expected = whole(seconds)
    assert [each.started_ms for each in told] == [each.started_ms for each in expected]
    for one, other in zip(told, expected, strict=True):
        # A wait between two batches is only known as one when the second is there.
        assert one.kinds == other.kinds
        assert one.operators == other.operators
        assert {part.name: part.participation for part in one.timelines} == {
            part.name: part.participation for part in other.timelines
        }


def followed(folder: Path, seconds: float, every: int) -> list[CriticalPathReport]:
    """So many lines at a time."""
    folder = folder / "eventlog_v2_app"
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "events_1_app"
    log.write_bytes(b"")
    windows = CriticalWindows(Follower(folder.parent, "app", consume=False), "app", seconds)
    told = []
    for at in range(0, len(LINES), every):
        with log.open("ab") as file:
            file.writelines(line if line.endswith(b"\n") else line + b"\n" for line in LINES[at : at + every])
        told += windows.poll()
    return told + windows.poll()
