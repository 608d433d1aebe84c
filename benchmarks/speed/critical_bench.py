"""Speed of critical path analysis: `python -m benchmarks.speed.critical_bench [--activities N]`.

The traces are generated, of jobs with 16 slots. In each second one batch runs, in which every slot runs 20 tasks of 8
activities; messages launch and report each task. N activities and messages of several applications lie in files of
edges. Spark measures them in windows of one second and of ten seconds. It measures N/10 of them too, so that the
growing cost can be separated from Spark's fixed cost. N/10 are also measured in this process. Speed is given for each
second of CPU time of this process, its JVM and the Python workers together.

`critical_plain` makes the same two passes in plain Python over some of the same windows, with a dictionary of vertices
and integers of any length. Both results must agree. Listing the paths is impossible: a window has some 10^20 paths.

The time for one second of such a trace by itself, as in a running job, is the median of many tries.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from autotrascale.analyze.critical.activities import Kind
from autotrascale.analyze.critical.edge_files import EdgeFiles
from autotrascale.analyze.critical.edges import KINDS, NONE, Edges, Names, cut_into_windows
from autotrascale.analyze.critical.graph import build_graph
from autotrascale.analyze.critical.measured_paths import measure_paths
from autotrascale.analyze.critical.participation_table import measure_parts
from autotrascale.analyze.critical.paths import compute_levels
from autotrascale.analyze.critical.summaries import measure_shares, summarise_edges
from autotrascale.analyze.log_tasks import RunAll, run_here, run_on
from autotrascale.execute.spark.controller.local_session import local_session
from benchmarks.speed.analyze_bench import Watch
from benchmarks.speed.critical_plain import participation

SLOTS, TASKS, SECOND = 16, 20, 1_000_000  # tasks of a slot in a second; ticks
APPLICATIONS = 4
BEGAN = 1_795_000_000 * SECOND
_OF_A_TASK = (
    *(Kind.scheduling, Kind.deserialising, Kind.python, Kind.state_load),
    *(Kind.processing, Kind.state_commit, Kind.shuffle_write, Kind.serialising),
)
_OF_A_BATCH = (Kind.offsets, Kind.log, Kind.planning, Kind.scheduling, Kind.commit)
OPERATORS = ("parse", "count", "join", "sink")
A_SECOND = SLOTS * TASKS * (len(_OF_A_TASK) + 2) + len(_OF_A_BATCH)
NAMES = Names(("driver", *(f"executor {n // 4} slot {n % 4}" for n in range(SLOTS))), OPERATORS)
_ROUND = 3600  # seconds that are made at a time


def made(seconds: int, began: int = BEGAN, seed: int = 0) -> Edges:
    """Return whole seconds of a trace, from its beginning on."""
    chance = np.random.default_rng(seed)
    parts = len(_OF_A_TASK)
    batches = began + np.arange(seconds)[:, None] * SECOND
    columns: list[tuple[Any, ...]] = []
    operator = np.arange(TASKS) * len(OPERATORS) // TASKS
    for slot in range(1, SLOTS + 1):  # a task begins where the one before it ends
        within = chance.integers(160_000, 940_000, size=(seconds, TASKS * parts + 1))
        times = batches + np.sort(within, axis=1)
        begins, ends = times[:, :-1].reshape(-1, TASKS, parts), times[:, 1:].reshape(-1, TASKS, parts)
        kinds = [KINDS.index(kind) for kind in _OF_A_TASK]
        first, last = begins[:, :, 0], ends[:, :, -1]
        columns += [
            (slot, slot, begins, ends, kinds, operator[:, None], slot - 1, False),
            (0, slot, first - 500, first, KINDS.index(Kind.scheduling), operator, NONE, True),
            (slot, 0, last, last + 300, KINDS.index(Kind.scheduling), operator, NONE, True),
        ]
    bounds = np.array([0, 40_000, 80_000, 150_000, 950_000, SECOND])
    kinds = [KINDS.index(kind) for kind in _OF_A_BATCH]
    columns.append((0, 0, batches + bounds[:-1], batches + bounds[1:], kinds, NONE, NONE, False))
    rows = [np.broadcast_arrays(*column) for column in columns]
    source, target, start, end, kind, of, instance, message = (
        np.concatenate([np.ravel(row[n]) for row in rows]).astype(np.int64) for n in range(8)
    )
    window = np.zeros_like(source)
    edges = Edges(source, target, start, end, kind, of, instance, message.astype(bool), window)
    return edges.taken((edges.end > edges.start) | edges.message)


def make_archive(folder: Path, activities: int) -> int:
    """Write the edges of an archive, and return their number."""
    seconds = math.ceil(activities / A_SECOND / APPLICATIONS)
    count = 0
    for number in range(APPLICATIONS):
        with EdgeFiles(str(folder / f"application=app-{number}"), number) as files:
            for first in range(0, seconds, _ROUND):
                edges = made(min(_ROUND, seconds - first), BEGAN + first * SECOND, number * 1000 + first)
                files.write("words", edges, NAMES)
                count += len(edges)
    return count


def measure(folder: Path, activities: int, seconds: float, run_all: RunAll = run_here) -> dict[str, Any]:
    """Measure all windows of the edges below `folder`, and check that the shares of each window sum to one."""
    parts = f"{folder}-parts"
    with Watch() as watch:
        paths = measure_paths(str(folder), parts, seconds, run_all)
    sums = [sum(part.participation for part in window.kinds) for window in paths.windows()]
    shutil.rmtree(parts)
    return {
        "activities": activities,
        "windows": len(sums),
        "blocks": len(paths.blocks),
        "activities_per_cpu_second": round(activities / watch.cpu),
        "seconds": round(watch.wall, 1),
        "cpu_seconds": round(watch.cpu, 1),
        "peak_rss_mb": round(watch.peak_mb),
        "each_sums_to_one": all(abs(one - 1) < 1e-9 for one in sums),
    }


def one_second(tries: int = 41) -> dict[str, Any]:
    """Return the time for one window by itself, from edges to all its parts."""
    edges = made(tries)
    alone = [
        edges.taken((edges.start < at + SECOND) & (edges.end > at))
        for at in range(BEGAN, BEGAN + tries * SECOND, SECOND)
    ]
    walls, cpus = [], []
    for some in alone:
        wall, cpu = time.perf_counter(), time.process_time()
        measure_parts(cut_into_windows(some, SECOND), NAMES, SECOND)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return {
        "activities": round(statistics.median(map(len, alone))),
        "seconds": round(statistics.median(walls), 4),
        "cpu_seconds": round(statistics.median(cpus), 4),
        "slowest_seconds": round(max(walls), 4),
    }


def beside_plain_python(tries: int = 5) -> dict[str, Any]:
    """Return the speed of both ways over the same windows, and the speed with all summaries."""
    edges = cut_into_windows(made(tries), SECOND)
    began = time.process_time()
    graph = build_graph(edges, SECOND)
    result = measure_shares(edges, graph, compute_levels(graph.vertices, graph.source, graph.target))
    kinds = summarise_edges(edges, result)["kinds"]
    took = time.process_time() - began
    began = time.process_time()
    measure_parts(edges, NAMES, SECOND)
    whole_took = time.process_time() - began
    began = time.process_time()
    plain = {int(window): participation(edges.taken(edges.window == window), SECOND) for window in graph.windows}
    plain_took = time.process_time() - began
    rows = zip(kinds.window.tolist(), kinds.first.tolist(), kinds.participation.tolist(), strict=True)
    return {
        "activities": len(edges),
        "ours_per_cpu_second": round(len(edges) / took),
        "plain_python_per_cpu_second": round(len(edges) / plain_took),
        "times_as_fast": round(plain_took / took, 1),
        "with_all_summaries_and_what_ifs_per_cpu_second": round(len(edges) / whole_took),
        "differ_by_at_most": max(abs(share - plain[window][0][KINDS[kind].value]) for window, kind, share in rows),
        "paths_of_a_window": f"10^{math.floor(math.log10(min(paths for _, paths in plain.values())))}",
    }


def figures(activities: int = 5_000_000, memory: str = "1g", cores: str = "*") -> dict[str, object]:
    """Return the measurements as JSON-able values."""
    base = Path(tempfile.mkdtemp(prefix="autotrascale-bench-"))
    results: dict[str, Any] = {}
    try:
        one_second(3)  # loads code at its first use
        results["one_second_of_16_slots"] = one_second()
        results["beside_plain_python"] = beside_plain_python()
        counts = {
            part: make_archive(base / part, many) for part, many in (("tenth", activities // 10), ("whole", activities))
        }
        results["tenth_in_this_process"] = measure(base / "tenth", counts["tenth"], 1.0)
        with Watch() as start, local_session(memory, cores) as spark:
            start.stop()
            results["tenth"] = measure(base / "tenth", counts["tenth"], 1.0, run_on(spark))
            results["whole"] = measure(base / "whole", counts["whole"], 1.0, run_on(spark))
            results["whole_by_ten_seconds"] = measure(base / "whole", counts["whole"], 10.0, run_on(spark))
    finally:
        shutil.rmtree(base, ignore_errors=True)
    return {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "driver_memory": memory,
        "start_cpu_seconds": round(start.cpu, 1),
        **results,
        "goals": {"activities_per_cpu_second": 100_000, "one_second_of_16_slots_seconds": 0.2},
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--activities", type=int, default=5_000_000, help="of the whole archive")
    parser.add_argument("--memory", default="1g", help="the JVM's heap")
    parser.add_argument("--cores", default="*", help="that Spark uses")
    chosen = parser.parse_args()
    print(json.dumps(figures(chosen.activities, chosen.memory, chosen.cores), indent=2))
