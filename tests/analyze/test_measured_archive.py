"""Archives of recorded logs: exact counts, the same figures as the tuning loop, and damaged logs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from log_reading import batches as facts
from log_reading import measure
from pyspark.sql import SparkSession
from record import BATCHES, LOGS, PARALLELISM, ROWS, TOPOLOGY

from autotrascale.analyze import metrics
from autotrascale.analyze.archive.measured_archive import MeasuredArchive
from autotrascale.analyze.archive.snapshot_form import MeasuredSnapshot, snapshot_as_dict
from autotrascale.analyze.facts import BatchFact
from autotrascale.analyze.log_tasks import needs_spark, run_on
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.monitor.eventlog.log_files import LogFile
from autotrascale.validation import validate


@pytest.fixture(scope="module")
def damaged(lines: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory) -> MeasuredArchive:
    """Many logs, all of the same recording and each with a fault of its own, read together. The job names the fault."""
    folder = tmp_path_factory.mktemp("damaged")
    logs = folder / "logs"
    logs.mkdir()
    for name, fault in FAULTS.items():
        # Each log gets its own run: Spark gives every run another number.
        text = "".join(fault(lines["marked"])).replace('"name":"counting"', f'"name":"{name}"')
        run = next(json.loads(line)["runId"] for line in lines["marked"] if "QueryStartedEvent" in line)
        write_log(logs, name, text.replace(run, f"run-{name}").splitlines(keepends=True))
    original = next(LOGS.glob("plain/*.zstd")).read_bytes()
    (logs / "broken.zstd").write_bytes(original[: len(original) // 2])
    (logs / "old.lz4").write_bytes(b"x")
    (logs / "empty").write_text("")
    return measure(logs, folder / "measured")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[MeasuredSnapshot]]:
    """The recorded logs in one window for each run, by job."""
    by_job: dict[str, list[MeasuredSnapshot]] = {}
    for one in measure(LOGS, tmp_path_factory.mktemp("whole")).snapshots():
        by_job.setdefault(one.snapshot.job, []).append(one)
    return by_job


@pytest.fixture(scope="module")
def survivors(damaged: MeasuredArchive) -> dict[str, MeasuredSnapshot]:
    return {one.snapshot.job: one for one in damaged.snapshots()}


def write_log(folder: Path, name: str, lines: list[str]) -> None:
    match name:
        case "rolling" | "hole":
            parts = folder / f"eventlog_v2_app-{name}"
            parts.mkdir(parents=True)
            third = len(lines) // 3
            for at, part in enumerate((lines[:third], lines[third : 2 * third], lines[2 * third :])):
                if name == "rolling" or at != 1:
                    (parts / f"events_{at + 9}_app-{name}").write_text("".join(part))
        case "beside":
            within = [line for line in lines if "QueryProgressEvent" not in line]
            told = [json.loads(line)["progress"] for line in lines if "QueryProgressEvent" in line]
            records = [json.dumps(record, separators=(",", ":")) + "\n" for record in told]
            (folder / "beside.inprogress").write_text("".join(within))
            (folder / "progress.jsonl").write_text("".join(records) + "{}\n")
        case _:
            (folder / name).write_text("".join(lines))


def broken_lines(lines: Sequence[str]) -> list[str]:
    """Half a line at its end as in a crash, one in its midst, a number beyond all, and words that are no event."""
    task = next(at for at, line in enumerate(lines) if "SparkListenerTaskEnd" in line)
    glued = lines[task][:300] + lines[task]
    huge = lines[task].replace('"Executor Run Time":', f'"Executor Run Time":{2**64}')
    return ["hello\n", *lines[:task], glued, huge, *lines[task + 1 :], '{"Event":"SparkListenerTaskEnd","Stage']


def other_version(lines: Sequence[str]) -> list[str]:
    changed = []
    for line in lines:
        event = json.loads(line)
        if event["Event"] == "SparkListenerTaskEnd":
            event["Task Info"]["Moon Phase"] = {"new": [1]}
            del event["Task Metrics"]["Output Metrics"], event["Task Executor Metrics"]
        event["Era"] = "later"
        changed.append(json.dumps(event, separators=(",", ":")) + "\n")
    return [*changed, '{"Event":"SparkListenerMoonRise","of":"a later version"}\n']


FAULTS: dict[str, Callable[[Sequence[str]], Sequence[str]]] = {
    "lines": broken_lines,
    "half": lambda lines: lines[: len(lines) // 2],
    "version": other_version,
    "beside": list,
    "rolling": list,
    "hole": list,
}


MARKED = (("counting", "marked"), ("filtered", "filters"))
"""Jobs whose operators are marked in the one way and the other, and their logs."""


def of_the_loop(
    batches: Sequence[BatchFact], job: str = "counting", rates: Mapping[str, float] | None = None
) -> Snapshot:
    rates = rates or metrics.measure_source_rates(TOPOLOGY, batches) or {}
    return metrics.take_snapshot(job, TOPOLOGY, 4, rates, batches)


def check_equal(found: Snapshot, expected: Snapshot) -> None:
    """To the last digit; taken apart, so that a failure says where."""
    assert flat(snapshot_as_dict(found)) == flat(snapshot_as_dict(expected))


def flat(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict | list) and value:
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        return {name: leaf for key, part in parts for name, leaf in flat(part, f"{path}.{key}").items()}
    return {path: value}


@pytest.mark.parametrize(("job", "log"), MARKED)
def test_an_archive_has_the_snapshot_of_the_tuning_loop(
    whole: dict[str, list[MeasuredSnapshot]], lines: dict[str, list[str]], job: str, log: str
) -> None:
    (one,) = whole[job]
    check_equal(one.snapshot, of_the_loop(facts(lines[log]), job))


def test_each_window_has_the_snapshot_of_its_batches(lines: dict[str, list[str]], tmp_path: Path) -> None:
    """The offered rate is an input of the loop, so it is handed over."""
    batches = facts(lines["marked"])
    found = list(measure(LOGS, tmp_path, 2.0, job="counting").snapshots())
    assert len(found) > 1
    assert sum(one.batches for one in found) == len(batches)
    for at, one in enumerate(found):
        until = found[at + 1].started_ms if at + 1 < len(found) else float("inf")
        inside = [batch for batch in batches if one.started_ms <= batch.started_ms < until]
        check_equal(one.snapshot, of_the_loop(inside, rates=one.snapshot.source_rates))


@pytest.mark.parametrize("job", dict(MARKED))
def test_counts_are_exact(whole: dict[str, list[MeasuredSnapshot]], job: str) -> None:
    (one,) = whole[job]
    shot = one.snapshot
    totals = {name: (op.total.records_in, op.total.records_out) for name, op in shot.operators.items()}
    records = ROWS * BATCHES
    assert shot.parallelism == PARALLELISM
    assert totals["numbers"] == (records, records)
    assert totals["pairs"] == (records, 2 * records)
    assert totals["count"][0] == 2 * records
    assert totals["sink"][0] == totals["count"][1]
    assert [name for name, op in shot.operators.items() if op.stateful] == ["count"]
    assert shot.topology.operators["sink"].upstream == ("count",)
    assert shot.p_max == 4


def test_a_stream_without_marks_has_its_stages_as_operators(whole: dict[str, list[MeasuredSnapshot]]) -> None:
    (one,) = whole["plain"]
    source, count = one.snapshot.operators.values()
    assert source.total.records_in == ROWS * BATCHES
    assert count.stateful
    assert count.total.records_in == source.total.records_out
    assert one.snapshot.throughput is not None
    assert list(one.snapshot.operators) == ["read rate per micro batch", "count by expression"]


def test_an_application_without_streams_has_its_queries(whole: dict[str, list[MeasuredSnapshot]]) -> None:
    query, rdds = whole["queries"]
    source, keys = query.snapshot.operators.values()
    assert source.total.records_in is not None
    assert keys.total.records_out == 7
    assert keys.upstream == tuple(query.snapshot.operators)[:1]
    mapped, reduced = rdds.snapshot.operators.values()
    assert mapped.total.records_out == reduced.total.records_in  # Python's pickled bundles, not its pairs
    assert (mapped.parallelism, reduced.parallelism) == (3, 2)


def test_every_window_is_valid_input_of_a_policy(tmp_path: Path) -> None:
    archive = measure(LOGS, tmp_path, 2.0)
    found, newest = list(archive.snapshots()), archive.newest()
    assert [one.started_ms for one in found] == sorted(one.started_ms for one in found)
    assert {one.snapshot.job for one in newest} == {"counting", "filtered", "plain", "queries"}
    assert newest[-1].started_ms == max(one.started_ms for one in found)
    for one in found:
        assert validate(json.loads(json.dumps(snapshot_as_dict(one.snapshot))), Snapshot, place="here") == one.snapshot
    assert archive.jobs == ["counting", "filtered", "plain", "queries"]
    assert archive.damages == ()


def test_tables_by_job_and_day_hold_the_snapshots(tmp_path: Path) -> None:
    archive = measure(LOGS, tmp_path / "measured")
    archive.write(str(tmp_path / "out"))
    archive.write(str(tmp_path / "out"))  # again: a day is replaced, not doubled
    assert len(list(tmp_path.glob("out/snapshots/job=counting/day=*/*.parquet"))) == 1
    tables = {name: read_table(tmp_path / "out" / name) for name in ("snapshots", "operators", "instances")}
    kept = {row["job"]: row for row in tables["snapshots"]}
    pairs = validate(json.loads(kept["counting"]["snapshot"]), Snapshot, place="here").operators["pairs"]
    (by_operator,) = (row for row in tables["operators"] if (row["job"], row["operator"]) == ("counting", "pairs"))
    works = [row for row in tables["instances"] if (row["job"], row["operator"]) == ("counting", "pairs")]
    assert by_operator["selectivity"] == 2.0
    assert by_operator["records_in"] == sum(row["records_in"] for row in works) == pairs.total.records_in
    assert sorted(row["useful_seconds"] for row in works) == sorted(w.useful_seconds or 0 for w in pairs.instances)


def read_table(folder: Path) -> list[dict[str, Any]]:
    table = ds.dataset(folder, partitioning="hive").to_table()
    return [dict(row) for row in table.to_pylist()]


def test_the_readable_part_of_a_damaged_log_is_used(
    survivors: dict[str, MeasuredSnapshot], lines: dict[str, list[str]]
) -> None:
    numbers = survivors["lines"].snapshot.operators["numbers"].total
    assert numbers.records_in == ROWS * BATCHES  # the marks know
    assert numbers.useful_seconds is not None
    assert numbers.useful_seconds < (of_the_loop(facts(lines["marked"])).operators["numbers"].total.useful_seconds or 0)


def test_a_log_cut_off_in_the_middle_has_the_batches_before(
    survivors: dict[str, MeasuredSnapshot], lines: dict[str, list[str]]
) -> None:
    check_equal(survivors["half"].snapshot, of_the_loop(facts(FAULTS["half"](lines["marked"])), "half"))


@pytest.mark.parametrize("job", ["version", "beside", "rolling"])
def test_other_versions_progress_files_and_rolling_logs_say_the_same(
    survivors: dict[str, MeasuredSnapshot], lines: dict[str, list[str]], job: str
) -> None:
    check_equal(survivors[job].snapshot, of_the_loop(facts(lines["marked"]), job))


def test_every_damage_is_counted_and_named(damaged: MeasuredArchive) -> None:
    told = {Path(damage.file).name: damage for damage in damaged.damages}
    assert told.keys() == {"lines", "progress.jsonl", "broken.zstd", "old.lz4", "events_11_app-hole"}
    assert (told["lines"].lines, told["lines"].first_line) == (4, 1)
    assert (told["progress.jsonl"].lines, told["progress.jsonl"].first_line) == (1, BATCHES + 1)
    assert "ends in mid-stream" in told["broken.zstd"].problem
    assert "which only Spark itself can read" in told["old.lz4"].problem
    assert "a part that is missing (part 10)" in told["events_11_app-hole"].problem


def test_a_rolling_log_with_a_hole_has_the_batches_on_either_side(survivors: dict[str, MeasuredSnapshot]) -> None:
    assert 0 < survivors["hole"].batches < BATCHES
    assert survivors["rolling"].batches == BATCHES


def test_a_folder_without_logs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no readable event log"):
        measure(tmp_path, tmp_path / "measured")


@pytest.mark.spark
def test_spark_gives_the_same_snapshots(spark: SparkSession, tmp_path: Path) -> None:
    here, there = measure(LOGS, tmp_path / "here", 2.0), measure(LOGS, tmp_path / "there", 2.0, run_all=run_on(spark))
    assert list(there.snapshots()) == list(here.snapshots())
    assert (there.jobs, there.unmeasured, there.damages) == (here.jobs, here.unmeasured, here.damages)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [((1, 1), False), ((1 << 40,), False), ((1 << 30, 1), True), ((1 << 26, 1 << 20), True), ((1 << 20,) * 20, False)],
)
def test_spark_is_started_for_several_logs_with_much_text(sizes: tuple[int, ...], expected: bool) -> None:
    logs = [
        [LogFile(f"app-{log}{'.zstd' if size < 1 << 30 else ''}", size, log, "app")] for log, size in enumerate(sizes)
    ]
    assert needs_spark(logs) == expected
    assert needs_spark(logs, splits_logs=True) == (expected or sizes == (1 << 40,))
