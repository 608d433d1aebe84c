"""Lost and doubled records when a process dies during a rescale. Takes hours on two cores.

kills     the driver, its JVM, an executor or the controller (the process that asked for the rescale) is killed in each
          phase of a rescale of a stateless, a stateful and a two-state job. The job must run again without help; only
          a dead controller is started again. Then the results are compared with the input. A job that is not up after
          five starts counts as down for good.
rescales  one job with 100,000 keys of state is rescaled again and again, and its counts are compared.

    python -m benchmarks.faults.kill_bench --kills 40 --rescales 10 --seed 1
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autotrascale.testing.standalone_cluster import conf, standalone
from benchmarks.faults.kills.archive import JAVA, quick_java
from benchmarks.faults.kills.run import PHASES, VICTIMS, WITHOUT_STATE, Fire, Kill, Outcome

JOBS = ("stateless", "stateful", "two-states")
_KILLS_PER_HOME = 8  # then the job begins anew
_TRIES = 3  # to reach a phase
_KEYS = 100_000


def all_kills() -> list[Kill]:
    """Return each combination of job, phase and victim."""
    return [
        Kill(job, phase, victim)
        for job in JOBS
        for phase in (WITHOUT_STATE if job == "stateless" else PHASES)
        for victim in VICTIMS
        if not (victim == "executor" and phase == "coming back")  # the loss of an executor does not bring the job down
    ]


def draw_kills(count: int, seed: int) -> list[Kill]:
    """Return `count` kills, evenly distributed, in random order."""
    chance, kills = random.Random(seed), list[Kill]()
    while len(kills) < count:
        kills += chance.sample(all_kills(), len(all_kills()))
    return kills[:count]


def series(kills: list[Kill], work: Path, seed: int, java: str = JAVA) -> Iterator[Outcome]:
    """Carry out the kills of a job one after the other in one home; kills of executors run on a cluster."""
    chance = random.Random(seed)
    batches: dict[tuple[str, bool], list[list[Kill]]] = defaultdict(list)
    for kill in kills:
        group = batches[kill.job, kill.victim == "executor"]
        if not group or len(group[-1]) == _KILLS_PER_HOME:
            group.append([])
        group[-1].append(kill)
    homes = [(key, batch) for key, group in batches.items() for batch in group]
    chance.shuffle(homes)
    for number, ((job, on_cluster), batch) in enumerate(homes):
        with fire(job, work / f"{number}", chance, java, on_cluster=on_cluster) as at:
            yield from at_one_home(at, batch)


def at_one_home(fire: Fire, kills: list[Kill]) -> Iterator[Outcome]:
    if (first := fire.up()).running is None:
        yield Outcome(Kill(fire.job_name, "starting", "none"), down=True, detail=first.detail)
        return
    for kill in kills:
        for _ in range(_TRIES):
            outcome = fire.rescale_under_fire(kill)
            if not outcome.missed or outcome.down:
                break
        yield outcome
        if outcome.down or outcome.lost or outcome.doubled:
            break  # later kills would show the same fault
    if left := fire.close():
        yield Outcome(Kill(fire.job_name, "closing", "none"), left=left)


@contextmanager
def fire(job: str, folder: Path, chance: random.Random, java: str, *, on_cluster: bool) -> Iterator[Fire]:
    folder.mkdir(parents=True)
    if not on_cluster:
        at = Fire(job, folder / "job", chance, java=java)
        try:
            yield at
        finally:
            at.close()
        return
    with standalone(folder / "cluster") as on:
        at = Fire(job, folder / "job", chance, on.url, conf(2, "600m"), java, executors=on.executors)
        try:
            yield at
        finally:
            at.close()


def rescales(times: int, work: Path, seed: int, until: float, java: str) -> dict[str, object]:
    """Fill the state with the first file, and then rescale and compare again and again.

    A rescale that fails on a busy machine and goes back does not count.
    """
    work.mkdir(parents=True)
    at = Fire("keyed", work / "job", random.Random(seed), java=java, first=_KEYS)
    total = Outcome(Kill("keyed", "", "none"), down=at.up().running is None)
    seconds, phases, failed = list[float](), defaultdict[str, list[float]](list), list[str]()
    while len(seconds) < times and time.time() < until and not total.down:
        up = at.rescale()
        total.down, total.detail = up.running is None, up.detail
        if up.detail:
            failed.append(up.detail)
            continue
        seconds.append(up.standstill)
        for phase, took in up.phases.items():
            phases[phase].append(took)
        if len(seconds) % 5 == 0 or len(seconds) == times:
            at.check(total)
            say(f"{len(seconds)} rescales, {total.records} records, lost {total.lost}, doubled {total.doubled}")
            if total.lost or total.doubled:
                break
    left = at.close()
    return {
        "rescales": len(seconds),
        "failed_and_went_back": len(failed),
        "keys": min(total.records, _KEYS),
        "records": total.records,
        "lost": total.lost,
        "doubled": total.doubled,
        "down": total.down,
        "processes_left": left,
        "standstill_seconds": {"median": _round(statistics.median(seconds)), "most": _round(max(seconds))},
        "phases": {phase: _round(statistics.median(took)) for phase, took in phases.items()},
        "why_failed": sorted(set(failed)),
    }


def table(outcomes: list[Outcome]) -> dict[str, object]:
    """Return totals, and the same by phase, job and victim."""
    return {
        **_sums(outcomes),
        "by_phase": {phase: _sums([o for o in outcomes if o.kill.phase == phase]) for phase in PHASES},
        "by_job": {job: _sums([o for o in outcomes if o.kill.job == job]) for job in JOBS},
        "by_victim": {victim: _sums([o for o in outcomes if o.kill.victim == victim]) for victim in VICTIMS},
        "faults": [
            {
                "kill": vars(o.kill),
                "lost": o.lost,
                "doubled": o.doubled,
                "down": o.down,
                "left": o.left,
                "why": o.detail,
            }
            for o in outcomes
            if o.down or o.lost or o.doubled or o.left
        ],
    }


def _sums(outcomes: list[Outcome]) -> dict[str, object]:
    seconds = [o.seconds for o in outcomes if o.kills]
    return {
        "kills": sum(o.kills for o in outcomes),
        "down_for_good": sum(o.down for o in outcomes),
        "lost": sum(o.lost for o in outcomes),
        "doubled": sum(o.doubled for o in outcomes),
        "processes_left": sum(o.left for o in outcomes),
        "phase_not_met": sum(o.missed for o in outcomes),
        "median_seconds": _round(statistics.median(seconds)) if seconds else None,
    }


def figures(kills: int = 200, times: int = 50, seed: int = 0, until: float = math.inf) -> dict[str, object]:
    """Return the results as JSON data. `until` is the Unix time at which the benchmark stops."""
    found: dict[str, object] = {"seed": seed, "cores": os.cpu_count()}
    with (
        tempfile.TemporaryDirectory(prefix="kill-bench-", ignore_cleanup_errors=True) as folder,
        quick_java(Path(folder, "java")) as java,
    ):
        if times:
            found["rescales"] = rescales(times, Path(folder, "rescales"), seed, until, java)
            say(json.dumps(found["rescales"]))
        outcomes: list[Outcome] = []
        for outcome in series(draw_kills(kills, seed), Path(folder), seed, java):
            outcomes.append(outcome)
            say(_format_line(outcome, sum(each.kills for each in outcomes)))
            if sum(each.kills for each in outcomes) >= kills or time.time() > until:
                break
        found["kills"] = table(outcomes)
    return {**found, "goal": "200 kills: none down for good, nothing lost, nothing doubled, no process left"}


def _format_line(outcome: Outcome, total: int) -> str:
    kill = outcome.kill
    faults = {"down": outcome.down, "lost": outcome.lost, "doubled": outcome.doubled, "left": outcome.left}
    bad = ", ".join(f"{name} {value}" for name, value in faults.items() if value) or "exact"
    what = f"{kill.job}, {kill.victim}, {kill.phase}"
    met = "not met" if outcome.missed else f"{outcome.kills} kills"
    why = f": {outcome.detail}" if outcome.detail and (outcome.down or outcome.lost or outcome.doubled) else ""
    return f"{total:4d} {what}: {met}, {outcome.records} records, {bad}, {outcome.seconds:.0f} s{why}"


def _round(seconds: float) -> float:
    return round(seconds, 1)


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--rescales", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, help="stop after this time")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # also ends all child processes
    until = time.time() + 60 * arguments.minutes if arguments.minutes else math.inf
    print(json.dumps(figures(arguments.kills, arguments.rescales, arguments.seed, until), indent=2))


if __name__ == "__main__":
    main()
