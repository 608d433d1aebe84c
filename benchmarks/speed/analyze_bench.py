"""Speed and memory of reading event logs into snapshots: `python -m benchmarks.speed.analyze_bench [--events N]`.

The logs are generated: N task ends of some 3 KB each, less than real ones, in rolling zstd logs with everything else
that is read of their batches. Every count is known. Four archives are read in this process:

    small       20,000 task ends of one application
    one_plain   N/10 task ends of one application, as plain text
    one         N task ends of one application, in batches of 50 tasks
    one_wide    N task ends of one application, in batches of 800 tasks: some 200 a stage, as Spark has by default

`many` has N task ends of 40 applications. It is read in this process, and on PySpark with a task for each log. Speed is
given for each second, and for each second of CPU time of this process, its JVM and the Python workers together. Beside
it stands `json.loads` on the same lines.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

from autotrascale.analyze.archive.measure_log import Measuring
from autotrascale.analyze.archive.measured_archive import MeasuredArchive, measure_archive
from autotrascale.analyze.log_tasks import RunAll, run_here, run_on, workspace
from autotrascale.execute.spark.controller.local_session import local_session
from autotrascale.monitor.eventlog.log_files import find_logs

OPERATORS = {"source": 8, "parse": 12, "count": 20, "sink": 10}
WIDER = 16  # times as many tasks in the batches of a large job: some 200 a stage, as Spark has by default
PART_EVENTS = 20_000  # task events in one file of a rolling log: 60 MB of text
BATCH_MS = 1000
_STREAMING = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
_ACCUMULATORS = (
    *("data size", "shuffle bytes written", "shuffle records written", "shuffle write time", "duration", "duration"),
    *("data sent to Python workers", "data returned from Python workers", "number of output rows"),
)


@dataclass
class Made:
    """The contents of a generated archive: every count is known."""

    operators: Mapping[str, int]
    events: int = 0
    batches: int = 0
    files: int = 0
    text_bytes: int = 0
    records_in: Counter[str] = field(default_factory=Counter)
    records_out: Counter[str] = field(default_factory=Counter)
    useful_ms: Counter[str] = field(default_factory=Counter)

    @property
    def tasks(self) -> int:
        """The number of tasks of a batch."""
        return sum(self.operators.values())


def make_archive(
    folder: Path, events: int, *, wider: int = 1, applications: int = 4, seed: int = 0, compress: bool = True
) -> Made:
    """Write an archive and return its contents.

    Args:
        folder: folder of the logs.
        events: task ends of all applications; each application has at least one batch.
        wider: factor for the tasks of each operator.
        applications: number of logs.
        seed: seed of the random counts.
        compress: write zstd instead of plain text.
    """
    made = Made({name: wider * k for name, k in OPERATORS.items()})
    batches = max(1, events // made.tasks // applications)
    for number in range(applications):
        log = _Log(folder, f"app-{number}", random.Random(seed * 1000 + number), compress, made)
        log.write(batches)
    return made


class _Log:
    """The log of one application. Each operator passes its input on; the parser passes on twice its input."""

    def __init__(self, folder: Path, name: str, chance: random.Random, compress: bool, made: Made) -> None:
        self._folder = folder / f"eventlog_v2_{name}"
        self._folder.mkdir(parents=True)
        self._name, self._chance, self._compress, self._made = name, chance, compress, made

    def write(self, batches: int) -> None:
        in_part = max(1, PART_EVENTS // self._made.tasks)
        for part, first in enumerate(range(0, batches, in_part), start=1):
            lines = [line for batch in range(first, min(first + in_part, batches)) for line in self._batch(batch)]
            self._save(part, (self._head() if part == 1 else []) + lines)

    def _save(self, part: int, lines: list[str]) -> None:
        text = "".join(lines).encode()
        self._made.files += 1
        self._made.text_bytes += len(text)
        path = self._folder / f"events_{part}_{self._name}"
        if self._compress:
            with pa.CompressedOutputStream(pa.OSFile(f"{path}.zstd", "wb"), "zstd") as stream:
                stream.write(text)
        else:
            path.write_bytes(text)

    def _head(self) -> list[str]:
        cores = {"Timestamp": 0, "Executor ID": "1", "Executor Info": {"Host": "h", "Total Cores": 64}}
        return [
            _event("SparkListenerLogStart", {"Spark Version": "4.3.0"}),
            _event("SparkListenerExecutorAdded", cores),
            _event("SparkListenerApplicationStart", {"App Name": self._name, "App ID": self._name, "Timestamp": 0}),
        ]

    def _batch(self, batch: int) -> Iterator[str]:
        self._made.batches += 1
        counts = {name: [self._chance.randrange(50, 150) for _ in range(k)] for name, k in self._made.operators.items()}
        marks = _marks(sum(counts["source"]))
        yield _event("org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart", _execution(batch))
        yield _event("SparkListenerJobStart", _job(self._name, batch))
        at = batch * BATCH_MS
        for place, (name, k) in enumerate(self._made.operators.items()):
            stage = 4 * batch + place
            yield from (self._task(stage, index, name, counts[name][index]) for index in range(k))
            begin = at + 100 + 200 * place
            info = {"Stage ID": stage, "Number of Tasks": k, "Submission Time": begin, "Completion Time": begin + 200}
            yield _event("SparkListenerStageCompleted", {"Stage Info": {**info, "Details": "x" * 2000}})
            self._made.records_out[name] += marks[name]
        for name, upstream in zip(OPERATORS, ("source", *OPERATORS), strict=False):
            self._made.records_in[name] += marks[upstream]
        yield _event(_STREAMING, {"progress": _progress(self._name, batch, marks)})

    def _task(self, stage: int, index: int, name: str, records: int) -> str:
        run, deserialise, serialise, wait = (self._chance.randrange(n) for n in (400, 9, 3, 5))
        self._made.events += 1
        self._made.useful_ms[name] += max(0, run + deserialise + serialise - wait)
        return _TASK % (stage, index, deserialise, run, run * 900_000, run // 50, serialise, wait, records, records)


def _marks(records: int) -> dict[str, int]:
    return {"source": records, "parse": 2 * records, "count": records // 2, "sink": records // 2}


def _event(name: str, rest: Mapping[str, Any]) -> str:
    return json.dumps({"Event": name, **rest}, separators=(",", ":")) + "\n"


def _task_template() -> str:
    """Return a task's end as Spark 4.3 writes it, with `%d` where numbers differ."""
    spare = dict.fromkeys(
        ("JVMHeapMemory", "JVMOffHeapMemory", "OnHeapExecutionMemory", "OffHeapExecutionMemory", "DirectPoolMemory"), 0
    )
    memory = {f"{name}{n}": 0 for n in ("", "2", "3", "4") for name in spare}
    accumulables = [
        {"ID": i, "Name": name, "Update": "1000", "Value": "1000", "Internal": True, "Count Failed Values": True}
        for i, name in enumerate(_ACCUMULATORS, start=323)
    ]
    push = ("Corrupt Merged Block Chunks", "Merged Fetch Fallback Count", "Merged Remote Blocks Fetched")
    read_ = {
        "Remote Blocks Fetched": 0,
        "Local Blocks Fetched": 2,
        "Fetch Wait Time": "%d",
        "Remote Bytes Read": 0,
        "Local Bytes Read": 9,
        "Total Records Read": "%d",
        "Push Based Shuffle": dict.fromkeys(push, 0),
    }
    info = {
        "Task ID": 7,
        "Index": "%d",
        "Attempt": 0,
        "Partition ID": 0,
        "Launch Time": 1794988841739,
        "Executor ID": "1",
        "Host": "192.0.2.2",
        "Locality": "PROCESS_LOCAL",
        "Speculative": False,
        "Getting Result Time": 0,
        "Finish Time": 1794988843826,
        "Failed": False,
        "Killed": False,
        "Accumulables": accumulables,
    }
    metrics = {
        "Executor Deserialize Time": "%d",
        "Executor Deserialize CPU Time": 29094841,
        "Executor Run Time": "%d",
        "Executor CPU Time": "%d",
        "Peak Execution Memory": 0,
        "Result Size": 17446,
        "JVM GC Time": "%d",
        "Result Serialization Time": "%d",
        "Memory Bytes Spilled": 0,
        "Disk Bytes Spilled": 0,
        "Shuffle Read Metrics": read_,
        "Shuffle Write Metrics": {
            "Shuffle Bytes Written": 662,
            "Shuffle Write Time": 9,
            "Shuffle Records Written": "%d",
        },
        "Input Metrics": {"Bytes Read": 0, "Records Read": 0},
        "Output Metrics": {"Bytes Written": 0, "Records Written": 0},
        "Updated Blocks": [],
    }
    task = {
        "Stage ID": "%d",
        "Stage Attempt ID": 0,
        "Task Type": "ShuffleMapTask",
        "Task End Reason": {"Reason": "Success"},
        "Task Info": info,
        "Task Executor Metrics": memory,
        "Task Metrics": metrics,
    }
    return _event("SparkListenerTaskEnd", task).replace('"%d"', "%d")


_TASK = _task_template()


def _execution(batch: int) -> dict[str, Any]:
    tree: dict[str, Any] = {"nodeName": "MicroBatchScan", "simpleString": "MicroBatchScan", "children": []}
    for place, name in enumerate(OPERATORS):
        if place:
            text = f"Exchange hashpartitioning(x#1, 9), REPARTITION_BY_NUM, [plan_id={10 * batch + place}]"
            tree = {"nodeName": "Exchange", "simpleString": text, "children": [tree]}
        text = f"CollectMetrics op:{name}, [count(1) AS n#1L]"
        tree = {"nodeName": "CollectMetrics", "simpleString": text, "children": [tree]}
    return {"executionId": batch, "physicalPlanDescription": "x" * 4000, "sparkPlanInfo": tree}


def _job(name: str, batch: int) -> dict[str, Any]:
    stages = []
    for place in range(len(OPERATORS)):
        rdds = [_rdd(10 * place, "CollectMetrics", 0, "MapPartitionsRDD")]
        if place:
            rdds.append(_rdd(10 * place + 1, "Exchange", 10 * batch + place, "ShuffledRowRDD"))
        if place < len(OPERATORS) - 1:
            rdds.append(_rdd(10 * place + 2, "Exchange", 10 * batch + place + 1, "MapPartitionsRDD"))
        number = 4 * batch + place
        parents = [number - 1] if place else []
        stages.append({"Stage ID": number, "Stage Name": "start", "Parent IDs": parents, "RDD Info": rdds})
    known = {
        "streaming.sql.batchId": str(batch),
        "spark.sql.execution.id": str(batch),
        "spark.jobGroup.id": f"run-{name}",
    }
    return {"Job ID": batch, "Submission Time": batch * BATCH_MS, "Stage Infos": stages, "Properties": known}


def _rdd(number: int, scope: str, plan_id: int, name: str) -> dict[str, Any]:
    told = json.dumps({"id": f"spark_plan_{plan_id}", "name": scope})
    return {"RDD ID": number, "Name": name, "Scope": told, "Callsite": "start", "Number of Partitions": 9}


def _progress(name: str, batch: int, marks: Mapping[str, int]) -> dict[str, Any]:
    at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(1_800_000_000 + batch * BATCH_MS // 1000))
    observed = {
        f"op:{operator}": {"values": [n], "schema": {"type": "struct", "fields": [{"name": "n", "type": "long"}]}}
        for operator, n in marks.items()
    }
    source = {"description": "made", "numInputRows": marks["source"], "inputRowsPerSecond": float(marks["source"])}
    return {
        "id": name,
        "runId": f"run-{name}",
        "name": name,
        "timestamp": at,
        "batchId": batch,
        "batchDuration": 1000,
        "durationMs": {"addBatch": 900, "triggerExecution": 1000},
        "sources": [source],
        "observedMetrics": observed,
    }


class Watch:
    """CPU seconds and peak memory of this process and its children, within a `with` block.

    The CPU time of each process is read twice a second, because the time of a worker that ended is lost otherwise.
    """

    def __init__(self) -> None:
        self._process, self._stop = psutil.Process(), threading.Event()
        self._used: dict[psutil.Process, float] = {}
        self.wall, self.peak_mb = 0.0, 0.0

    @property
    def cpu(self) -> float:
        return sum(self._used.values()) - self._before

    def __enter__(self) -> Watch:
        self._look()
        self._began, self._before = time.perf_counter(), sum(self._used.values())
        self._thread = threading.Thread(target=self._keep_looking, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self._stop.is_set():
            return
        self._stop.set()
        self._thread.join()
        self._look()
        self.wall = time.perf_counter() - self._began

    def _keep_looking(self) -> None:
        while not self._stop.wait(0.5):
            self._look()

    def _look(self) -> None:
        memory = 0
        for process in [self._process, *self._process.children(recursive=True)]:
            with suppress(psutil.Error):  # gone meanwhile
                times = process.cpu_times()
                self._used[process] = times.user + times.system
                memory += int(process.memory_info().rss)
        self.peak_mb = max(self.peak_mb, memory / 2**20)


def json_loads_per_cpu_second(folder: Path, lines: int = 30_000) -> float:
    """Return the speed of `json.loads` over task events of the same archive."""
    file = next(folder.rglob("events_1_*"))
    with pa.input_stream(str(file), compression="zstd" if file.suffix == ".zstd" else None) as stream:
        texts = [line for line in stream.read().splitlines() if line.startswith(b'{"Event":"SparkListenerTaskEnd"')]
    texts = list(islice(texts, lines))
    began = time.process_time()
    for text in texts:
        json.loads(text)
    return len(texts) / (time.process_time() - began)


def count_totals(archive: MeasuredArchive) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Return records in, records out and useful milliseconds of all snapshots, by operator."""
    records_in, records_out, useful_ms = Counter[str](), Counter[str](), Counter[str]()
    for one in archive.snapshots():
        for name, operator in one.snapshot.operators.items():
            records_in[name] += round(operator.total.records_in or 0)
            records_out[name] += round(operator.total.records_out or 0)
            useful_ms[name] += round(1000 * (operator.total.useful_seconds or 0))
    return records_in, records_out, useful_ms


def measure(folder: Path, made: Made, run_all: RunAll = run_here) -> dict[str, Any]:
    """Read an archive and check every count."""
    with workspace() as results, Watch() as watch:
        archive = measure_archive(find_logs([str(folder)])[0], Measuring(results), run_all)
        found = count_totals(archive)
    return {
        "task_events": made.events,
        "batches": made.batches,
        "text_mb": round(made.text_bytes / 1e6, 1),
        "task_events_per_second": round(made.events / watch.wall),
        "task_events_per_cpu_second": round(made.events / watch.cpu),
        "seconds": round(watch.wall, 1),
        "cpu_seconds": round(watch.cpu, 1),
        "peak_rss_mb": round(watch.peak_mb),
        "exact": found == (made.records_in, made.records_out, made.useful_ms),
    }


def figures(events: int = 100_000, memory: str = "1g", cores: str = "*") -> dict[str, object]:
    """Return the measurements as JSON-able values."""
    base = Path(tempfile.mkdtemp(prefix="autotrascale-bench-"))
    shapes: dict[str, dict[str, Any]] = {
        "small": {"events": min(events, 20_000)},
        "one_plain": {"events": events // 10, "compress": False},
        "one": {"events": events},
        "one_wide": {"events": events, "wider": WIDER},
    }
    results: dict[str, dict[str, Any]] = {}
    try:
        for name, shape in shapes.items():
            made = make_archive(base / name, applications=1, **shape)
            results[name] = measure(base / name, made)
            if name == "one_wide":
                results[name]["json_loads_per_cpu_second"] = round(json_loads_per_cpu_second(base / name))
            shutil.rmtree(base / name)
        made = make_archive(base / "many", events, applications=40)
        results["many"] = measure(base / "many", made)
        with Watch() as start, local_session(memory, cores) as spark:
            start.stop()
            results["many_on_spark"] = measure(base / "many", made, run_on(spark))
    finally:
        shutil.rmtree(base, ignore_errors=True)
    return {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "driver_memory": memory,
        "cores_used": cores,
        "bytes_per_task_event": len(_TASK),
        "spark_start_seconds": round(start.wall, 1),
        "spark_start_cpu_seconds": round(start.cpu, 1),
        **results,
        "goals": {"task_events_per_cpu_second": {"one": 60_000, "one_wide": 100_000}},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--events", type=int, default=100_000, help="task events of the whole archive")
    parser.add_argument("--memory", default="1g", help="the JVM's heap")
    parser.add_argument("--cores", default="*", help="that Spark uses")
    chosen = parser.parse_args()
    print(json.dumps(figures(chosen.events, chosen.memory, chosen.cores), indent=2))
