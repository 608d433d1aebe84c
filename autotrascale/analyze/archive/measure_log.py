"""The event log of one application → the snapshots of its windows, in one pass.

The operators of a run, the executors and the application's name are complete only at the end of the log. So windows are
kept in a temporary file until then. The meaning of the figures is in `analyze.metrics`, as for a running job. Tasks
come summed, in whole numbers, so the snapshots are the same to the last digit.
"""

from __future__ import annotations

import json
import pickle
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from tempfile import TemporaryFile
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from autotrascale.analyze import metrics
from autotrascale.analyze.archive.snapshot_form import SNAPSHOTS, snapshot_as_dict
from autotrascale.analyze.archive.windows import OperatorsSeen, RunWindow, RunWindows
from autotrascale.analyze.facts import BatchFact, Fact, QueryRunEnded
from autotrascale.analyze.joiner import BatchKey, Joiner
from autotrascale.analyze.progress_records import read_report
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.topology import Topology
from autotrascale.monitor.eventlog import events
from autotrascale.monitor.eventlog.archived_log import ArchivedLog
from autotrascale.monitor.eventlog.damage import Damage
from autotrascale.monitor.eventlog.decoding import decode_line_briefly
from autotrascale.monitor.eventlog.lines import LogText, blocks
from autotrascale.monitor.eventlog.log_files import LogFile, open_filesystem

ROW_GROUP = 64  # windows that are read back together
_MOST_TASKS = 2_000_000  # of open batches: some 600 MB


@dataclass(frozen=True)
class Measuring:
    """Settings of `measure_log`.

    `folder` takes the results. `seconds` is the length of a window, None for one window of each run. `job` restricts
    the results to one job. `p_max` bounds each operator, None takes the executors' slots. `reports` are progress
    records from outside the logs.
    """

    folder: str
    seconds: float | None = 60.0
    job: str = ""
    p_max: int | None = None
    reports: Mapping[BatchKey, events.ProgressRecord] = field(default_factory=dict)


@dataclass(frozen=True)
class MeasuredLog:
    """The file with a log's snapshots, its jobs, and the parts that could not be used.

    `unmeasured` counts the windows of each job without a snapshot.
    """

    path: str
    jobs: frozenset[str]
    unmeasured: Mapping[str, int]
    damages: tuple[Damage, ...]


def measure_log(measuring: Measuring, log: Sequence[LogFile]) -> MeasuredLog:
    """Write the snapshots of one log into a Parquet file. A second try writes the same file."""
    source = ArchivedLog(log, decode_line_briefly)
    joiner = Joiner(every_stage=True, batch_queries=True, reports=measuring.reports, most_tasks=_MOST_TASKS)
    system, folder = open_filesystem(measuring.folder)
    system.create_dir(folder)
    path = f"{folder}/{log[0].log}.parquet"
    jobs, unmeasured = set[str](), Counter[str]()
    with TemporaryFile() as file, pq.ParquetWriter(path, SNAPSHOTS, filesystem=system) as writer:
        spilled = cast("BinaryIO", file)
        topologies = _spill_windows(_read_facts(source, joiner), measuring.seconds, spilled)
        rows = _measure_rows(_load_windows(spilled), topologies, measuring, joiner, log[0], jobs, unmeasured)
        while group := list(islice(rows, ROW_GROUP)):
            writer.write_table(pa.Table.from_pylist(group, SNAPSHOTS))
    damages = [*source.damages]
    if joiner.given_up:
        problem = f"{joiner.given_up:,} batches or queries with too many open tasks or jobs: left out"
        damages.append(Damage(log[0].uri, problem))
    return MeasuredLog(path, frozenset(jobs), unmeasured, tuple(damages))


def is_progress_file(log: Sequence[LogFile]) -> bool:
    """Tell whether a log is a file of progress records. A rolling log never is."""
    if len(log) > 1 or log[0].part:
        return False
    first = next(blocks(LogText(log[0].uri)), [b""])[0]
    return first.startswith(events.ANY_PROGRESS)


def read_progress_file(log: Sequence[LogFile]) -> tuple[dict[BatchKey, events.ProgressRecord], list[Damage]]:
    """Return the records of batches that ran, and the damages of the file. The newest of several records counts."""
    found: dict[BatchKey, tuple[int, events.ProgressRecord]] = {}

    def take(event: object) -> None:
        if isinstance(event, events.QueryProgress):
            report = read_report(event.progress)
            key, before = (report.run, report.batch), found.get((report.run, report.batch))
            if report.executed and (before is None or before[0] <= report.started_ms):
                found[key] = report.started_ms, event.progress

    source = ArchivedLog(log)
    for _ in source.read(take):
        pass
    return {key: progress for key, (_, progress) in found.items()}, source.damages


def _read_facts(source: ArchivedLog, joiner: Joiner) -> Iterator[Fact]:
    yield from source.read(joiner.take)
    yield from joiner.finish()


def _spill_windows(facts: Iterable[Fact], seconds: float | None, file: BinaryIO) -> dict[str, Topology]:
    """Write the windows of all runs into `file`, and return the operators of each run."""
    runs: dict[str, RunWindows] = {}
    operators: dict[str, OperatorsSeen] = defaultdict(OperatorsSeen)

    def spill(windows: Iterable[RunWindow]) -> None:
        for window in windows:
            pickle.dump(window, file)

    for fact in facts:
        if isinstance(fact, BatchFact) and fact.stages:
            operators[fact.run].add(fact)
            spill(runs.setdefault(fact.run, RunWindows(fact.run, seconds)).add(fact))
        elif isinstance(fact, QueryRunEnded) and fact.run in runs:
            spill(runs.pop(fact.run).finish())
    for run in runs.values():
        spill(run.finish())
    file.seek(0)
    return {run: seen.topology() for run, seen in operators.items()}


def _load_windows(file: BinaryIO) -> Iterator[RunWindow]:
    while True:
        try:
            yield pickle.load(file)
        except EOFError:
            return


def _measure_rows(
    windows: Iterable[RunWindow],
    topologies: Mapping[str, Topology],
    measuring: Measuring,
    joiner: Joiner,
    log: LogFile,
    jobs: set[str],
    unmeasured: Counter[str],
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the wanted windows. Add the names of all jobs, and count the windows without a snapshot."""
    slots = joiner.stays.most_slots() or 1
    for window in windows:
        is_stream = metrics.is_stream(window.batches)
        if joiner.has_streams and not is_stream:
            continue  # a query that is no stream counts only in a log without streams
        job = window.name or joiner.application or log.log_name
        jobs.add(job)
        if measuring.job and job != measuring.job:
            continue
        snapshot = measure_window_snapshot(window, job, topologies[window.run], slots, measuring.p_max)
        if snapshot is None:
            unmeasured[job] += 1
        yield {
            "job": job,
            "day": datetime.fromtimestamp(window.started_ms / 1000, UTC).strftime("%Y-%m-%d"),
            "run": window.run if is_stream else f"{window.run}-{log.log}",
            "window": window.number,
            "started_ms": window.started_ms,
            "batches": len(window.batches),
            "snapshot": None if snapshot is None else json.dumps(snapshot_as_dict(snapshot), allow_nan=False),
        }


def measure_window_snapshot(
    window: RunWindow, job: str, topology: Topology, slots: int, p_max: int | None
) -> Snapshot | None:
    """Return the window's snapshot.

    None where nothing says what its sources offered, as in early versions of Spark. Without `p_max`, each operator is
    bounded by `slots`, or by the most tasks of a stage where these run in waves.
    """
    batches, marked = window.measured_batches(), any(batch.marked for batch in window.batches)
    rates = metrics.measure_source_rates(topology, batches, marked=marked)
    if rates is None:
        return None
    bound = p_max or max(slots, *(stage.tasks for batch in batches for stage in batch.stages))
    try:
        snapshot = metrics.take_snapshot(job, topology, bound, rates, batches, marked=marked)
    except InputError as error:
        raise error.with_prefix(f"job {job}, run {window.run}: ") from None
    if metrics.is_stream(batches):
        return snapshot
    return replace(snapshot, throughput=snapshot.target_rate)  # a query is offered exactly what it takes
