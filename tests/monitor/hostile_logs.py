"""Hostile event logs, and the memory that reading one takes, in a process of its own.

python -m tests.monitor.hostile_logs archive|live FOLDER
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path

import zstandard

START = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
PROGRESS = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
RUN = "6c1b2c9e-0000-0000-0000-000000000000"
LONG = 15 << 20  # nearly as long as a line may be
MB = 1 << 20

Lines = Callable[[int], Iterator[bytes]]


def _line(event: str, **fields: object) -> bytes:
    return json.dumps({"Event": event, **fields}, separators=(",", ":")).encode() + b"\n"


def _filled(before: bytes, unit: bytes, after: bytes, length: int = LONG) -> bytes:
    """Return one line with a list of as many units as fit."""
    count = (length - len(before) - len(after)) // (len(unit) + 1)
    return before + b",".join(repeat(unit, count)) + after + b"\n"


def _one_line(size: int) -> Iterator[bytes]:
    yield from repeat(b"x" * MB, 8 * size)


def _short_lines(size: int) -> Iterator[bytes]:
    yield from repeat(b'{"Event":"Nothing"}\n' * 50_000, 8 * size)


def _rdds(size: int) -> Iterator[bytes]:
    before = b'{"Event":"SparkListenerJobStart","Job ID":1,"Stage Infos":[{"Stage ID":1,"Stage Name":"x","RDD Info":['
    yield from repeat(_filled(before, b'{"RDD ID":1,"Name":""}', b"]}]}"), size)


def _parents(size: int) -> Iterator[bytes]:
    before = b'{"Event":"SparkListenerJobStart","Job ID":1,"Stage Infos":[{"Stage ID":1,"Stage Name":"x","RDD Info":[],'
    yield from repeat(_filled(before + b'"Parent IDs":[', b"1000", b"]}]}"), size)


def _nodes(size: int) -> Iterator[bytes]:
    before = (
        f'{{"Event":"{START}","executionId":1,"sparkPlanInfo":{{"nodeName":"","simpleString":"","children":['.encode()
    )
    yield from repeat(_filled(before, b'{"nodeName":"","simpleString":"","children":[]}', b"]}}"), size)


def _offsets(unit: bytes) -> Lines:
    before = (
        f'{{"Event":"{PROGRESS}","progress":{{"runId":"{RUN}","batchId":1,"timestamp":"2026-01-01T00:00:00Z","sources":['
        '{"numInputRows":1,"endOffset":['
    ).encode()
    return lambda size: repeat(_filled(before, unit, b"]}]}}"), size)


def _marks(size: int) -> Iterator[bytes]:
    for _ in range(size):
        observed = {f"op:{i:06}" + "x" * 30: {"count": 1} for i in range(150_000)}
        progress = {
            "runId": RUN,
            "batchId": 1,
            "timestamp": "2026-01-01T00:00:00Z",
            "sources": [],
            "durationMs": {"addBatch": 1, "triggerExecution": 2},
            "observedMetrics": observed,
        }
        yield _line(PROGRESS, progress=progress)


def _plan(number: int, characters: int) -> bytes:
    leaf = {"nodeName": "Exchange", "simpleString": f"Exchange {number} [plan_id={number}]", "children": []}
    middle = [{"nodeName": "n" * 50, "simpleString": "x" * 900, "children": []} for _ in range(characters // 1000)]
    root = {"nodeName": f"Root {number}", "simpleString": "", "children": [*middle, leaf]}
    return _line(START, executionId=number, sparkPlanInfo=root)


def _job(number: int, rdds: int = 100) -> bytes:
    infos = [{"RDD ID": i, "Name": f"{number} " + "x" * 100} for i in range(rdds)]
    stage = {"Stage ID": number, "Stage Name": "s", "RDD Info": infos, "Parent IDs": []}
    known = {"spark.jobGroup.id": RUN, "streaming.sql.batchId": str(number), "spark.sql.execution.id": str(number)}
    return _line(
        "SparkListenerJobStart", **{"Job ID": number, "Submission Time": 1, "Stage Infos": [stage], "Properties": known}
    )


def _batches_that_never_end(size: int) -> Iterator[bytes]:
    for number in range(size * 400):
        yield _plan(number, 30_000)
        yield _job(number)


def _different_plans(size: int) -> Iterator[bytes]:
    for number in range(size * 30):
        yield _plan(number, 700_000)


def _tasks_of_one_batch(size: int) -> Iterator[bytes]:
    yield _plan(1, 1000)
    yield _job(1)
    did = {"Executor Run Time": 1, "Executor Deserialize Time": 1, "Result Serialization Time": 1, "JVM GC Time": 0}
    task = _line(
        "SparkListenerTaskEnd",
        **{"Stage ID": 1, "Task End Reason": {"Reason": "Success"}, "Task Info": {"Index": 1}, "Task Metrics": did},
    )
    yield from repeat(task * 1000, size * 60)


def _deep(size: int) -> Iterator[bytes]:
    for _ in range(size):
        yield b'{"Event":"SparkListenerJobStart","Job ID":' + b"[" * (LONG - 100) + b"\n"
        yield b'{"Event":"SparkListenerTaskEnd","x":' + b'{"x":' * (LONG // 8) + b"\n"


def _wide_text(size: int) -> Iterator[bytes]:
    """Characters that take four bytes of memory, and six or twelve in the line."""
    name = b"\\ud83d\\ude00" * 100_000 + b"x" * (LONG // 2)
    yield from repeat(b'{"Event":"SparkListenerApplicationStart","App Name":"' + name + b'"}\n', size)


# By name; each makes its text for a size, of which 10 is what the benchmark takes.
ZOO: dict[str, Lines] = {
    "one line": _one_line,
    "short lines": _short_lines,
    "a job of RDDs": _rdds,
    "a job of parents": _parents,
    "a plan of nodes": _nodes,
    "offsets of lists": _offsets(b"[]"),
    "offsets of mappings": _offsets(b"{}"),
    "offsets of texts": _offsets(b'"ab"'),
    "marks": _marks,
    "batches that never end": _batches_that_never_end,
    "different plans": _different_plans,
    "tasks of one batch": _tasks_of_one_batch,
    "nested deeply": _deep,
    "wide text": _wide_text,
}


def write_compressed(lines: Iterator[bytes], path: Path) -> int:
    with zstandard.ZstdCompressor().stream_writer(path.open("wb")) as stream:
        for line in lines:
            stream.write(line)
    return path.stat().st_size


def write_plain(lines: Iterator[bytes], folder: Path) -> int:
    """Write the lines as a running job does."""
    path = folder / "eventlog_v2_app" / "events_1_app"
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        for line in lines:
            file.write(line)
        file.write(b"\n")
    return path.stat().st_size


def measured(reader: str, folder: Path) -> dict[str, object]:
    """Return the results and the memory of reading, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", __name__, reader, str(folder)], capture_output=True, text=True, check=True
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


def _archive(folder: Path) -> dict[str, object]:
    from autotrascale.analyze.archive.measure_log import Measuring
    from autotrascale.analyze.archive.measured_archive import measure_archive
    from autotrascale.monitor.eventlog.log_files import find_logs

    logs, unread = find_logs([str(folder)])
    with tempfile.TemporaryDirectory() as measured:
        archive = measure_archive(logs, Measuring(measured))
    damages = (*unread, *archive.damages)
    return {"said": [each.problem for each in damages], "damaged": sum(each.lines or 0 for each in damages)}


def _live(folder: Path) -> dict[str, object]:
    from autotrascale.analyze.live.query_run import FactStream
    from autotrascale.monitor.eventlog.follower import Follower

    damaged = {}
    for each in sorted(path.parent for path in folder.glob("**/eventlog_v2_app")):
        stream = FactStream(Follower(each, "app", consume=False))
        deque(stream.facts(), maxlen=100)
        damaged[each.name] = stream.damaged
    return {"damaged": damaged}


if __name__ == "__main__":
    found = {"archive": _archive, "live": _live}[sys.argv[1]](Path(sys.argv[2]))
    status = Path("/proc/self/status").read_text()  # of this program alone, where rusage begins with its parent's
    most = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) // 1024
    print(json.dumps({**found, "most_resident_mb": most}))
