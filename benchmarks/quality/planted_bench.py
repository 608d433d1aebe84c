"""The share of planted bottlenecks that critical paths find. Ten minutes; other load on the machine does no harm.

    python -m benchmarks.quality.planted_bench

Queries on real Spark, each with one slow part (`planted/queries.py`), with their usual event logs. Each batch is a
window. In each window the parts of a summary are ranked in three ways, and the planted part must come first:

    participation  critical participation
    busy           the time for which the part was under way: a profile
    utilisation    the share of the window for which the part's timelines were busy, weighted by their time

`not_divided` is the share of a batch that more instances cannot shorten, as decisions use it. `following` is the cost
of following a log, as `autotrascale critical --follow` does: CPU time of the follower over the time of the batches.

`--logs FOLDER` analyses the event logs of an earlier run with `--keep FOLDER`. `--sample FILE` keeps two random batches
of each plant for the tests.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import zstandard

from autotrascale.analyze.critical.activities import Activity, Kind
from autotrascale.analyze.critical.bottleneck_shares import measure_batch_participation, summarise_critical
from autotrascale.analyze.critical.driver_phases import DRIVER
from autotrascale.analyze.critical.spark_trace import trace_batch
from autotrascale.analyze.facts import BatchFact
from autotrascale.analyze.live.application import FollowedApplication
from autotrascale.analyze.live.critical_windows import CriticalWindows
from autotrascale.domain.critical_path_report import CriticalPathReport
from autotrascale.monitor.eventlog.follower import Follower
from benchmarks.quality.planted.queries import PLANTS, Plant
from benchmarks.quality.planted.runs import SLOWED, WARM_UP_BATCHES, run_plants

GOAL = 0.95
_PIECE = 40  # lines of a log in one piece
Ranking = list[str]


def figures(logs: Path) -> dict[str, Any]:
    """Return the figures of the event logs in a folder."""
    batches = _batches(logs)
    found: dict[str, Any] = {}
    firsts: dict[str, list[bool]] = defaultdict(list)
    for plant in PLANTS:
        rankings = [rank_parts(plant, batch) for batch in batches.get(plant.name, ())]
        planted = [_planted(plant, batch) for batch in batches.get(plant.name, ())]
        if not rankings:
            continue
        ways = list(rankings[0])
        hits = {way: [each[way][0] == name for each, name in zip(rankings, planted, strict=True)] for way in ways}
        for way in ways:
            firsts[way] += hits[way]
        found[plant.name] = {
            "windows": len(rankings),
            "batch_seconds": round(median(batch.seconds for batch in batches[plant.name]), 2),
            "first": {way: sum(each) for way, each in hits.items()},
            "instead": {way: _instead(rankings, hits[way], way) for way in ways},
            "not_divided": _not_divided(batches[plant.name]),
        }
    shares = {way: round(sum(each) / len(each), 3) for way, each in firsts.items()}
    return {
        "windows": len(firsts["participation"]),
        "first_share": shares,
        "goal": GOAL,
        "plants": found,
        "following": _following(logs),
        "load_average": os.getloadavg()[0],
    }


def _not_divided(batches: Sequence[BatchFact]) -> dict[str, Any]:
    """Return the share of each batch that more instances cannot shorten: least, median and most."""
    found = [
        summarise_critical(window) for batch in batches if (window := measure_batch_participation(batch)) is not None
    ]
    each = sorted(one.elsewhere for one in found)
    most = Counter(one.most for one in found)
    return {"least": round(each[0], 2), "median": round(median(each), 2), "most": round(each[-1], 2), "by": dict(most)}


def rank_parts(plant: Plant, batch: BatchFact) -> dict[str, Ranking]:
    """Return the parts of the plant's summary in each of the three ways, the greatest first."""
    whole = trace_batch(batch)
    window = measure_batch_participation(batch)
    assert window is not None  # the batch took time
    of = _naming(plant)
    busy: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for each in whole.activities:
        if each.kind is not Kind.waiting and (name := of(each)) is not None:
            busy[name][each.timeline] += (each.end_ms - each.start_ms) / 1000
    worth = {
        "participation": _participations(plant, window),
        "busy": {name: sum(by.values()) for name, by in busy.items()},
        "utilisation": {name: _utilisation(by.values(), batch.seconds) for name, by in busy.items()},
    }
    return {way: sorted(parts, key=lambda name: (-parts[name], name)) for way, parts in worth.items()}


def _participations(plant: Plant, window: CriticalPathReport) -> dict[str, float]:
    if plant.summary == "executors":
        found: dict[str, float] = defaultdict(float)
        for part in window.timelines:
            found[_executor(part.name)] += part.participation
        return found
    parts = [part for part in getattr(window, plant.summary) if part.name != Kind.waiting]
    return {
        part.name if part.instance is None else f"{part.name} {part.instance}": part.participation for part in parts
    }


def _naming(plant: Plant) -> Callable[[Activity], str | None]:
    """Return a function from an activity to its part in the plant's summary."""
    match plant.summary:
        case "operators":
            return lambda each: each.operator
        case "instances":
            return lambda each: None if each.instance is None else f"{each.operator} {each.instance}"
        case "executors":
            return lambda each: _executor(each.timeline)
        case _:
            return lambda each: str(each.kind)


def _planted(plant: Plant, batch: BatchFact) -> str:
    if plant.summary == "executors":
        return f"executor {SLOWED}"
    if plant.summary != "instances":
        return plant.found_as
    stages = {stage.stage for stage in batch.stages if stage.operator == plant.found_as}
    hottest = max((task for task in batch.tasks if task.stage in stages), key=lambda task: task.read or 0)
    return f"{plant.found_as} {hottest.index}"


def _executor(timeline: str) -> str:
    return timeline if timeline == DRIVER else timeline.partition(" slot ")[0]


def _utilisation(busy: Any, seconds: float) -> float:
    each = list(busy)
    return sum(one * one for one in each) / sum(each) / seconds if sum(each) else 0.0


def _instead(rankings: Sequence[Mapping[str, Ranking]], hits: Sequence[bool], way: str) -> dict[str, int]:
    """Count the parts that came first instead of the planted one."""
    found: dict[str, int] = defaultdict(int)
    for each, hit in zip(rankings, hits, strict=True):
        if not hit:
            found[each[way][0]] += 1
    return dict(found)


def _following(logs: Path) -> dict[str, Any]:
    """Measure the cost of following all logs, each given in pieces as it grew, in windows of ten seconds."""
    windows, seconds, batches = 0, 0.0, 0
    for folder in logs.glob("eventlog_v2_*"):
        application = folder.name.removeprefix("eventlog_v2_")
        lines = (folder / f"events_1_{application}").read_bytes().splitlines(keepends=True)
        with tempfile.TemporaryDirectory() as growing:
            (Path(growing) / folder.name).mkdir()
            followed = CriticalWindows(Follower(Path(growing), application, consume=False), application, 10.0)
            with (Path(growing) / folder.name / f"events_1_{application}").open("ab", buffering=0) as log:
                for at in range(0, len(lines), _PIECE):
                    log.write(b"".join(lines[at : at + _PIECE]))
                    began = time.process_time()
                    windows += len(followed.poll())
                    seconds += time.process_time() - began
        batches += sum(line.startswith(b'{"Event":"org') and b"QueryProgressEvent" in line for line in lines)
    took = sum(batch.seconds for each in _batches(logs, warming=0).values() for batch in each)
    return {
        "windows": windows,
        "batches": batches,
        "cpu_ms_a_batch": round(1000 * seconds / batches, 1) if batches else None,
        "share_of_batch_time": round(seconds / took, 5) if took else None,
    }


def _sample(logs: Path) -> bytes:
    """Return two batches of each plant in the form that `tests/analyze/test_planted.py` reads."""
    chance, batches = random.Random(19), _batches(logs)
    drawn = {plant.name: chance.sample(batches[plant.name], 2) for plant in PLANTS if plant.name in batches}
    kept = {name: [replace(batch, offsets=(), newest=(), states=()) for batch in each] for name, each in drawn.items()}
    return zstandard.compress(msgspec.json.encode(kept))


def read_sample(packed: bytes) -> dict[str, list[BatchFact]]:
    return msgspec.json.decode(zstandard.decompress(packed), type=dict[str, list[BatchFact]])


def is_planted_first(plant: Plant, batch: BatchFact) -> dict[str, bool]:
    """Return for each of the three ways whether the planted part comes first."""
    return {way: ranking[0] == _planted(plant, batch) for way, ranking in rank_parts(plant, batch).items()}


def _batches(logs: Path, warming: int = WARM_UP_BATCHES) -> dict[str, list[BatchFact]]:
    """Return the batches after warm-up, by the name of the query."""
    found = {}
    for folder in sorted(logs.glob("eventlog_v2_*")):
        told = FollowedApplication(Follower(logs, folder.name.removeprefix("eventlog_v2_"), consume=False))
        told.poll()
        found |= {each.name: each.batches[warming:] for each in told.runs.values()}
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=12, help="of each plant")
    parser.add_argument("--plants", default=",".join(plant.name for plant in PLANTS))
    parser.add_argument("--keep", type=Path, help="where the event logs shall stay")
    parser.add_argument("--logs", type=Path, help="event logs of a run that was kept")
    parser.add_argument("--sample", type=Path, help="where two batches of each plant are written")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="planted-bench-") as own:
        folder = asked.keep or Path(own)
        if asked.logs is None:
            run_plants(asked.plants.split(","), asked.batches, folder.absolute())
        logs = asked.logs or folder / "events"
        if asked.sample is not None:
            asked.sample.write_bytes(_sample(logs))
        print(json.dumps(figures(logs), indent=2))


if __name__ == "__main__":
    main()
