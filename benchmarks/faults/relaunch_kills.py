"""Count lost and doubled records when a process is killed while a program is relaunched with other executor sizes.

A program runs on a standalone cluster on this machine, with a supervisor and a controller (`autotrascale run --apply
--program`). The controller finds a request for another heap in its action log and relaunches the program. In a phase
of the relaunch, the driver, its JVM, the supervisor, the controller or the executor is killed with SIGKILL. Only a
killed controller is started again by the benchmark. Then exactly one launch must run, the action log must have the
result, the counts must match the input, and no process may be left. A kill takes about 30 s on two cores.

With `--ours` a Flow job with two states is relaunched; its driver, the driver's JVM, its controller or the executor is
killed.

    python -m benchmarks.faults.relaunch_kills --kills 24 --seed 1
    python -m benchmarks.faults.relaunch_kills --kills 24 --seed 1 --ours
"""

from __future__ import annotations

import argparse
import json
import math
import random
import signal
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

from autotrascale.testing.standalone_cluster import conf, standalone
from benchmarks.faults.kills.run import RELAUNCH_PHASES
from benchmarks.faults.kills.run import VICTIMS as OURS
from benchmarks.faults.kills.run import Fire as FireOnOurs
from benchmarks.faults.kills.run import Kill as KillOfOurs
from benchmarks.faults.kills.run import Outcome as OfOurs
from benchmarks.faults.relaunches.fire import PHASES, VICTIMS, Fire, Kill, Outcome

_Outcome = TypeVar("_Outcome", Outcome, OfOurs)
_ONE_HOME = 8  # kills; then the program begins anew
# No such process exists in this phase: the former has ended, and the next has not begun.
_NO_VICTIM = {("ended", "driver"), ("ended", "JVM"), ("ended", "executor"), ("begun", "driver"), ("begun", "executor")}


def all_kills() -> list[Kill]:
    return [Kill(phase, victim) for phase in PHASES for victim in VICTIMS if (phase, victim) not in _NO_VICTIM]


def draw_kills(count: int, seed: int) -> list[Kill]:
    """Draw kills in random order, each phase and victim about equally often."""
    chance, kills = random.Random(seed), list[Kill]()
    while len(kills) < count:
        kills += chance.sample(all_kills(), len(all_kills()))
    return kills[:count]


def series(kills: list[Kill], work: Path, seed: int) -> Generator[Outcome, None, None]:
    """Run the kills one after the other, several on the same program."""
    chance = random.Random(seed)
    for number in range(0, len(kills), _ONE_HOME):
        folder = work / str(number)
        with (
            standalone(folder / "cluster", cores=1, memory="1500m") as cluster,
            Fire(cluster, folder / "job", chance) as at,
        ):
            if not at.up():
                yield Outcome(Kill("starting", "none"), down=True)
                continue
            for kill in kills[number : number + _ONE_HOME]:
                outcome = at.under_fire(kill)
                yield outcome
                if not outcome.right:
                    break  # later kills would show the same fault
            if left := at.close():
                yield Outcome(Kill("closing", "none"), left=left)


def kills_of_ours(count: int, seed: int) -> list[KillOfOurs]:
    every = [KillOfOurs("two-states", phase, victim) for phase in RELAUNCH_PHASES for victim in OURS]
    no_victim = [each for each in every if each.victim == "executor" and each.phase in ("begun", "going back")]
    chance, kills = random.Random(seed), list[KillOfOurs]()
    while len(kills) < count:
        kills += chance.sample([each for each in every if each not in no_victim], len(every) - len(no_victim))
    return kills[:count]


def series_of_ours(kills: list[KillOfOurs], work: Path, seed: int) -> Generator[OfOurs, None, None]:
    chance = random.Random(seed)
    for number in range(0, len(kills), _ONE_HOME):
        folder = work / str(number)
        with standalone(folder / "cluster", cores=2, memory="1500m") as cluster:
            settings = {**conf(2, "512m"), "spark.cores.max": "2"}
            at = FireOnOurs(
                "two-states", folder / "job", chance, cluster.url, settings, executors=cluster.executors, sized=True
            )
            try:
                if (first := at.up()).running is None:
                    yield OfOurs(KillOfOurs("two-states", "starting", "none"), down=True, detail=first.detail)
                    continue
                for kill in kills[number : number + _ONE_HOME]:
                    outcome = at.relaunch_under_fire(kill)
                    yield outcome
                    if outcome.down or outcome.lost or outcome.doubled:
                        break
            finally:
                left = at.close()
            if left:
                yield OfOurs(KillOfOurs("two-states", "closing", "none"), left=left)


def figures_of_ours(outcomes: list[OfOurs], seed: int) -> dict[str, object]:
    return {
        "seed": seed,
        "kills": sum(each.kills for each in outcomes),
        "phase_not_met": sum(each.missed for each in outcomes),
        "down": sum(each.down for each in outcomes),
        "lost": sum(each.lost for each in outcomes),
        "doubled": sum(each.doubled for each in outcomes),
        "processes_left": sum(each.left for each in outcomes),
        "each": [[each.kill.phase, each.kill.victim, each.records, each.detail] for each in outcomes],
    }


def figures(outcomes: list[Outcome], seed: int) -> dict[str, object]:
    met = [each for each in outcomes if each.killed]
    return {
        "seed": seed,
        "kills": len(met),
        "phase_not_met": len(outcomes) - len(met),
        "down": sum(each.down for each in outcomes),
        "two_launches": sum(each.launches_at_once > 1 for each in outcomes),
        "lost": sum(each.lost for each in outcomes),
        "doubled": sum(each.doubled for each in outcomes),
        "processes_left": sum(each.left for each in outcomes),
        "not_in_the_log": sum(each.became not in ("kept", "taken-back") for each in met),
        "became": {what: sum(each.became == what for each in met) for what in ("kept", "taken-back", "given-up")},
        "by_victim": {victim: sum(each.kill.victim == victim for each in met) for victim in VICTIMS},
        "by_phase": {phase: sum(each.kill.phase == phase for each in met) for phase in PHASES},
        "each": [[each.kill.phase, each.kill.victim, each.became, each.why] for each in met],
        "faults": [asdict(each) for each in outcomes if not each.right],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--after", type=int, default=0, help="skip the first kills, which an earlier run has done")
    parser.add_argument("--ours", action="store_true")
    parser.add_argument("--minutes", type=float, help="stop after this time")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # so that all child processes are ended
    count, seed = given.after + given.kills, given.seed
    until = math.inf if given.minutes is None else time.time() + 60 * given.minutes
    with tempfile.TemporaryDirectory(prefix="relaunch-kills-", ignore_cleanup_errors=True) as work:
        if given.ours:
            ours = series_of_ours(kills_of_ours(count, seed)[given.after :], Path(work), seed)
            found = figures_of_ours(list(_log(ours, until)), seed)
        else:
            found = figures(list(_log(series(draw_kills(count, seed)[given.after :], Path(work), seed), until)), seed)
    print(json.dumps(found, indent=2))


def _log(outcomes: Generator[_Outcome, None, None], until: float) -> Iterator[_Outcome]:
    with closing(outcomes):
        for outcome in outcomes:
            print(f"{time.strftime('%H:%M:%S')} {outcome}", file=sys.stderr, flush=True)
            yield outcome
            if time.time() > until:
                return


if __name__ == "__main__":
    main()
