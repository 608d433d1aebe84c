"""What is lost when something dies while a program is relaunched with other sizes of executors:
`python -m benchmarks.relaunch_kills`. Half a minute for each kill, on two cores.

A program runs on a standalone cluster on this machine, with a keeper, and a controller (`autotrascale run --apply
--program`) that finds another heap asked for in its action log and relaunches the program. In one phase or another of
that its driver, its JVM, its keeper, the controller or its executor is killed with SIGKILL. A controller is started
again, as whoever runs it would; nobody helps otherwise. Then one life must run, the action log must say what became of
the action, the counts must be what the input gives, and no process may be left.

    python -m benchmarks.relaunch_kills --kills 24 --seed 1
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from autotrascale.testing.standalone import standalone
from benchmarks.relaunches.fire import PHASES, VICTIMS, Fire, Kill, Outcome

_ONE_HOME = 8  # kills; then the program begins anew
# By then there is nobody of this name: the old one has ended, and the next one has not begun.
_NOBODY = {("ended", "driver"), ("ended", "JVM"), ("ended", "executor"), ("begun", "driver"), ("begun", "executor")}


def all_kills() -> list[Kill]:
    return [Kill(phase, victim) for phase in PHASES for victim in VICTIMS if (phase, victim) not in _NOBODY]


def drawn(count: int, seed: int) -> list[Kill]:
    """As evenly as it goes, in an order of chance."""
    chance, kills = random.Random(seed), list[Kill]()
    while len(kills) < count:
        kills += chance.sample(all_kills(), len(all_kills()))
    return kills[:count]


def series(kills: list[Kill], work: Path, seed: int) -> Iterator[Outcome]:
    """One after the other, several of one program."""
    chance = random.Random(seed)
    for number in range(0, len(kills), _ONE_HOME):
        folder = work / str(number)
        with (
            standalone(folder / "cluster", cores=1, memory="1500m") as cluster,
            Fire(cluster, folder / "job", chance) as at,
        ):
            if not at.up():
                yield Outcome(Kill("starting", "nobody"), down=True)
                continue
            for kill in kills[number : number + _ONE_HOME]:
                outcome = at.under_fire(kill)
                yield outcome
                if not outcome.right:
                    break  # what comes after would show it again
            if left := at.close():
                yield Outcome(Kill("closing", "nobody"), left=left)


def figures(outcomes: list[Outcome], seed: int) -> dict[str, object]:
    met = [each for each in outcomes if each.killed]
    return {
        "seed": seed,
        "kills": len(met),
        "phase_not_met": len(outcomes) - len(met),
        "down": sum(each.down for each in outcomes),
        "two_lives": sum(each.lives > 1 for each in outcomes),
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
    parser.add_argument("--after", type=int, default=0, help="go on after so many kills of an earlier run")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # and takes all that it started along
    outcomes = list[Outcome]()
    with tempfile.TemporaryDirectory(prefix="relaunch-kills-", ignore_cleanup_errors=True) as work:
        for outcome in series(drawn(given.after + given.kills, given.seed)[given.after :], Path(work), given.seed):
            outcomes.append(outcome)
            print(f"{time.strftime('%H:%M:%S')} {'right' if outcome.right else 'WRONG'} {outcome}", file=sys.stderr,
                  flush=True)  # fmt: skip
    print(json.dumps(figures(outcomes, given.seed), indent=2))


if __name__ == "__main__":
    main()
