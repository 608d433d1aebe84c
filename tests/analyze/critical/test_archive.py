"""Windows of archives on Spark: the same as in one process, wherever blocks are cut; recorded logs; damage told."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from autotrascale.analyze.critical import archive
from autotrascale.analyze.critical.activities import Activity, ActivityTrace, Kind, Message
from autotrascale.analyze.critical.archive import analysed, blocks_of, groups_below, parts_of_block
from autotrascale.analyze.critical.edge_table import edges_to_table, table_to_edges
from autotrascale.analyze.critical.edges import make_edges
from autotrascale.analyze.critical.gaps import fill_gaps
from autotrascale.analyze.critical.overall import newest, overall, windows, write
from autotrascale.analyze.critical.participation_table import measure_windows, read_participations
from autotrascale.analyze.critical.staging import Files, in_path, stage_log
from autotrascale.domain.critical_path_report import SUMMARIES, CriticalPathReport, average_reports
from autotrascale.monitor.eventlog.damage import Report
from autotrascale.monitor.eventlog.log_files import find_files

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
def staged(tmp_path: Path) -> Path:
    edges, names = make_edges(day_and_night())
    with Files(str(tmp_path / "application=app"), 0) as files:
        files.write("counts/words", fill_gaps(edges), names)
    return tmp_path


def here(seconds: float) -> list[CriticalPathReport]:
    edges, names = make_edges(day_and_night())
    return measure_windows(fill_gaps(edges), names, seconds, application="app", query="counts/words")


@pytest.mark.parametrize("seconds", [1.0, 7.0, 100.0])
@pytest.mark.parametrize("rows", [50, 100_000])
def test_windows_are_the_same_however_blocks_are_cut(
    staged: Path, seconds: float, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "_BLOCK", rows)
    width = round(seconds * 1e6)
    ((of, groups),) = groups_below(str(staged)).items()
    assert len(list(staged.rglob("*.parquet"))) == 2  # a day each
    found = [
        one
        for block in blocks_of(*of, groups, width)
        for one in read_participations(parts_of_block(block, width).to_pylist())
    ]
    alike(found, here(seconds))


def test_a_long_edge_in_short_windows_comes_block_by_block(tmp_path: Path) -> None:
    """An hour of planning, by the millisecond: as many windows as a block may have, each of them whole."""
    trace = ActivityTrace((Activity("driver", MIDNIGHT, MIDNIGHT + 3_600_000, Kind.planning),), ())
    edges, names = make_edges(trace)
    with Files(str(tmp_path / "application=app"), 0) as files:
        files.write("slow", fill_gaps(edges), names)
    ((of, groups),) = groups_below(str(tmp_path)).items()
    blocks = list(blocks_of(*of, groups, 1000))
    assert [(block.first, block.last) for block in blocks[1:]] == [
        (block.last, min(block.last + 20_000, blocks[-1].last)) for block in blocks[:-1]
    ]
    parts = parts_of_block(blocks[0], 1000)
    assert parts["summary"].to_pylist().count("kinds") == 20_000


def alike(found: list[CriticalPathReport], expected: list[CriticalPathReport]) -> None:
    """But for the last digit of a sum, and what comes first of equals."""
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


def test_tables_keep_what_edges_are() -> None:
    edges, names = make_edges(day_and_night(3))
    again, names_again = table_to_edges(edges_to_table(edges, names))
    assert [names_again.timelines[n] for n in again.source] == [names.timelines[n] for n in edges.source]
    for each in fields(edges):
        if each.name not in ("source", "target", "operator"):
            assert np.array_equal(getattr(again, each.name), getattr(edges, each.name))


def test_names_that_are_no_names_of_files() -> None:
    assert in_path("a/b=c d") == "a%2Fb%3Dc%20d"
    long = [in_path("é" * 300 + end) for end in ("x", "y")]
    assert max(map(len, long)) < 250
    assert long[0] != long[1]


@pytest.mark.spark
def test_an_archive_on_spark(spark: SparkSession, staged: Path, tmp_path: Path) -> None:
    parts = analysed(spark, str(staged), 4.0).cache()
    (one,) = overall(parts)
    alike([one], [average_reports(here(4.0))])
    alike(list(windows(parts)), here(4.0))
    alike(newest(parts, one, 3), here(4.0)[-3:])
    write(parts, str(tmp_path / "out"))
    days = sorted(path.name for path in (tmp_path / "out").glob("application=app/query=*/day=*"))
    assert days == ["day=2027-01-15", "day=2027-01-16"]
    parts.unpersist()


def test_a_batch_of_no_possible_time_is_left_out_and_told(tmp_path: Path) -> None:
    with pa.input_stream(str(next(LOGS.glob("plain/*.zstd"))), compression="zstd") as stream:
        text = stream.read()
    log = tmp_path / "log"
    log.write_bytes(text.replace(b'"timestamp":"2026-11-18T09:13:02', b'"timestamp":"1026-11-18T09:13:02'))
    reports: list[Report] = []
    with Files(str(tmp_path / "edges/application=app"), 0) as files:
        stage_log(find_files([str(log)])[0], files, reports)
    assert [report.bad for report in reports] == [1]
    assert {group.begins > 0 for groups in groups_below(str(tmp_path / "edges")).values() for group in groups} == {True}


def test_damage_is_told_and_what_is_whole_is_used(tmp_path: Path) -> None:
    whole = next(LOGS.glob("plain/*.zstd")).read_bytes()
    (tmp_path / "broken.zstd").write_bytes(whole[: len(whole) // 2])
    with pa.input_stream(str(next(LOGS.glob("plain/*.zstd"))), compression="zstd") as stream:
        (tmp_path / "lines").write_bytes(b'{"Event":"SparkListenerTaskEnd","Stage ID":\n' + stream.read())
    reports: list[Report] = []
    with Files(str(tmp_path / "edges/application=app"), 0) as files:
        for file in find_files([str(tmp_path)])[0]:
            stage_log([file], files, reports)
    assert ["what comes before is used" in report.problem for report in reports] == [True, False]
    assert (reports[1].bad, reports[1].first_bad) == (1, 1)
    ((of, groups),) = groups_below(str(tmp_path / "edges")).items()
    found = [read_participations(parts_of_block(block, 10**7).to_pylist()) for block in blocks_of(*of, groups, 10**7)]
    for one in (one for some in found for one in some):
        assert sum(part.participation for part in one.kinds) == pytest.approx(1)
