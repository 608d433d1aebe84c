"""Windows of archives: the same as in memory wherever blocks are cut, the same on Spark, and damaged logs."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from autotrascale.analyze.critical import window_blocks
from autotrascale.analyze.critical.activities import Activity, ActivityTrace, Kind, Message
from autotrascale.analyze.critical.edge_files import EdgeFiles, quote_for_path, write_edges
from autotrascale.analyze.critical.edge_table import edges_to_table, table_to_edges
from autotrascale.analyze.critical.edges import make_edges
from autotrascale.analyze.critical.gaps import fill_gaps
from autotrascale.analyze.critical.measured_paths import MeasuredPaths, measure_paths
from autotrascale.analyze.critical.participation_table import measure_windows
from autotrascale.analyze.critical.window_blocks import find_blocks, measure_block
from autotrascale.analyze.log_tasks import run_on
from autotrascale.domain.critical_path_report import SUMMARIES, CriticalPathReport, average_reports
from autotrascale.monitor.eventlog.damage import Damage
from autotrascale.monitor.eventlog.log_files import find_logs

LOGS = Path(__file__).parent.parent / "logs"
MIDNIGHT = 1_800_057_600_000.0  # 2027-01-16


def day_and_night(batches: int = 40) -> ActivityTrace:
    """A driver and two slots, from before midnight until after it."""
    activities, messages = [], []
    for n in range(batches):
        at = MIDNIGHT + (n - batches // 2) * 1000
        activities += [
            Activity("driver", at, at + 200, Kind.planning),
            Activity("driver", at + 200, at + 900, Kind.waiting),
            Activity("driver", at + 900, at + 1000, Kind.commit),
        ]
        for slot, ms in (("slot 0", 300.0 + n), ("slot 1", 650.0)):
            activities.append(Activity(slot, at + 220, at + 220 + ms, Kind.processing, "count", int(slot[-1])))
            messages.append(Message("driver", at + 200, slot, at + 220, Kind.scheduling, "count"))
            messages.append(Message(slot, at + 220 + ms, "driver", at + 900, Kind.scheduling, "count"))
    return ActivityTrace(tuple(activities), tuple(messages))


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    found, names = make_edges(day_and_night())
    with EdgeFiles(str(tmp_path / "edges" / "application=app"), 0) as files:
        files.write("counts/words", fill_gaps(found), names)
    return tmp_path / "edges"


def in_memory(seconds: float) -> list[CriticalPathReport]:
    found, names = make_edges(day_and_night())
    return measure_windows(fill_gaps(found), names, seconds, application="app", query="counts/words")


@pytest.mark.parametrize("seconds", [1.0, 7.0, 100.0])
@pytest.mark.parametrize("rows", [50, 100_000])
def test_windows_are_the_same_however_blocks_are_cut(
    edges: Path, tmp_path: Path, seconds: float, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window_blocks, "_BLOCK_EDGES", rows)
    assert len(list(edges.rglob("*.parquet"))) == 2  # one for each day
    check_measured(measure_paths(str(edges), str(tmp_path / "parts"), seconds), seconds, tmp_path)


@pytest.mark.spark
def test_windows_are_the_same_on_spark(spark: SparkSession, edges: Path, tmp_path: Path) -> None:
    check_measured(measure_paths(str(edges), str(tmp_path / "parts"), 4.0, run_on(spark)), 4.0, tmp_path)


def check_measured(paths: MeasuredPaths, seconds: float, folder: Path) -> None:
    expected = in_memory(seconds)
    (one,) = paths.reports()
    check_alike([one], [average_reports(expected)])
    check_alike(list(paths.windows()), expected)
    check_alike(list(paths.windows("counts/words")), expected)
    assert list(paths.windows("other")) == []
    check_alike(paths.newest(one, 3), expected[-3:])
    for _ in range(2):  # again: a day is replaced, not doubled
        paths.write(str(folder / "out"))
    rows = ds.dataset(folder / "out", partitioning="hive").to_table()
    assert len(rows) == sum(len(paths._read(block)) for block in paths.blocks)
    if seconds < 100:
        assert sorted(path.name for path in (folder / "out").glob("application=app/query=*/day=*")) == [
            "day=2027-01-15",
            "day=2027-01-16",
        ]


def test_a_long_edge_in_short_windows_comes_block_by_block(tmp_path: Path) -> None:
    """An hour of planning, by the millisecond: as many windows as a block may have, each of them whole."""
    trace = ActivityTrace((Activity("driver", MIDNIGHT, MIDNIGHT + 3_600_000, Kind.planning),), ())
    found, names = make_edges(trace)
    with EdgeFiles(str(tmp_path / "application=app"), 0) as files:
        files.write("slow", fill_gaps(found), names)
    blocks = find_blocks(str(tmp_path), 0.001)
    assert [(block.first, block.last) for block in blocks[1:]] == [
        (block.last, min(block.last + 20_000, blocks[-1].last)) for block in blocks[:-1]
    ]
    parts = measure_block(blocks[0], 1000)
    assert parts["summary"].to_pylist().count("kinds") == 20_000


def check_alike(found: list[CriticalPathReport], expected: list[CriticalPathReport]) -> None:
    """Compare windows up to rounding of sums and the order of equal parts."""
    for one, other in zip(found, expected, strict=True):
        assert numbers(one) == pytest.approx(numbers(other))


def numbers(one: CriticalPathReport) -> dict[Any, float]:
    parts: dict[Any, float] = {
        (name, part.name, part.other, part.instance, said): getattr(part, said)
        for name in SUMMARIES
        for part in getattr(one, name)
        for said in ("participation", "busy_seconds", "instances")
    }
    whole = {name: getattr(one, name) for name in ("started_ms", "seconds", "waiting", "uncovered")}
    return {**parts, **whole, **{(each.change, each.of): each.at_best for each in one.what_ifs}}


def test_a_table_keeps_all_columns_of_edges() -> None:
    edges, names = make_edges(day_and_night(3))
    again, names_again = table_to_edges(edges_to_table(edges, names))
    assert [names_again.timelines[n] for n in again.source] == [names.timelines[n] for n in edges.source]
    for each in fields(edges):
        if each.name not in ("source", "target", "operator"):
            assert np.array_equal(getattr(again, each.name), getattr(edges, each.name))


def test_names_that_are_no_names_of_files() -> None:
    assert quote_for_path("a/b=c d") == "a%2Fb%3Dc%20d"
    long = [quote_for_path("é" * 300 + end) for end in ("x", "y")]
    assert max(map(len, long)) < 250
    assert long[0] != long[1]


def test_a_batch_of_an_impossible_time_is_left_out_and_counted(tmp_path: Path) -> None:
    with pa.input_stream(str(next(LOGS.glob("plain/*.zstd"))), compression="zstd") as stream:
        text = stream.read()
    (tmp_path / "log").write_bytes(
        text.replace(b'"timestamp":"2026-11-18T09:13:02', b'"timestamp":"1026-11-18T09:13:02')
    )
    (damage,) = write(tmp_path / "log", tmp_path / "edges")
    assert damage.lines == 1
    assert all(block.first > 0 for block in find_blocks(str(tmp_path / "edges"), 10.0))


def test_the_whole_lines_of_a_damaged_log_are_used(tmp_path: Path) -> None:
    whole = next(LOGS.glob("plain/*.zstd")).read_bytes()
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "broken.zstd").write_bytes(whole[: len(whole) // 2])
    with pa.input_stream(str(next(LOGS.glob("plain/*.zstd"))), compression="zstd") as stream:
        (logs / "lines").write_bytes(b'{"Event":"SparkListenerTaskEnd","Stage ID":\n' + stream.read())
    stream_end, bad_line = write(logs, tmp_path / "edges")
    assert "the part before is used" in stream_end.problem
    assert (bad_line.lines, bad_line.first_line) == (1, 1)
    found = list(measure_paths(str(tmp_path / "edges"), str(tmp_path / "parts"), 10.0).windows())
    assert {one.application for one in found} >= {"lines"}
    for one in found:
        assert sum(part.participation for part in one.kinds) == pytest.approx(1)


def write(logs: Path, folder: Path) -> list[Damage]:
    return [damage for log in find_logs([str(logs)])[0] for damage in write_edges(str(folder), log)]
