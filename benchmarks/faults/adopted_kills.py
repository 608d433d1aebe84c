"""Count lost and doubled records when a program is killed while its query is rescaled. Takes minutes on two cores.

A program of the gallery is asked to rescale its query. In a phase of the rescale all its processes are killed with
SIGKILL. The same command is started again without any repair, and killed again. The last launch runs to the end, and
its results are compared with the expected results. With `--rescale overlap` a second query takes over, and the phases
are the phases of a take-over. Then only programs whose queries can be overlapped are used, and the last launch is the
script without AuTraScale.

    python -m benchmarks.faults.adopted_kills --launches 8 --seed 1
    python -m benchmarks.faults.adopted_kills --launches 8 --seed 1 --rescale overlap
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from autotrascale.execute.spark.common.program_environment import ProgramOptions
from autotrascale.execute.spark.controller.agent_client import AgentClient
from autotrascale.execute.spark.controller.program_command import parse_command
from autotrascale.execute.spark.controller.program_process import ProgramProcess
from autotrascale.execute.spark.controller.supervisor import shell_exit_code
from autotrascale.execute.spark.driver_agent.checkpoint_folder import parse_planned_batch
from autotrascale.execute.spark.protocol.agent_address import connect
from autotrascale.execute.spark.protocol.agent_messages import CODEC, AdoptedQuery, RescaleQuery
from autotrascale.execute.spark.protocol.channel import Channel
from autotrascale.plan.migration.rescale_mode import RescaleMode as How
from benchmarks.workloads.gallery import PHASES, Balances, ClicksAndViews, Exhibit, Readings, TwoReports

MOMENTS = ("finishing", "moving", "moved", "any")
OVERLAP_MOMENTS = ("copied", "moved beside", "numbered", "handed over", "any")
KINDS: dict[How, tuple[type[Exhibit], ...]] = {
    "in-place": (Readings, Balances, ClicksAndViews),
    "overlap": (Balances, TwoReports),
}
_SECONDS = 300.0
_SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
}


@dataclass(frozen=True)
class Outcome:
    """Result of a program. `kills`: moments that were met; else the rescale was over. SIGTERM ends the last launch."""

    program: str
    kills: tuple[str, ...]
    lost: int
    doubled: int
    exit_code: int | None


def kill_repeatedly(
    exhibit: Exhibit, moments: Sequence[str], seed: int, java: str = "-XX:TieredStopAtLevel=1", how: How = "in-place"
) -> Outcome:
    """Run a launch for each moment, kill it then, and run a last launch."""
    chance, met = random.Random(seed), list[str]()
    exhibit.feed(0)
    for number, moment in enumerate(moments):
        program = _start(exhibit, number, java, how)
        try:
            with program.client(_SECONDS) as client:
                query = _await_query(client, program)
            if number == 0:
                exhibit.feed(1)
            wanted = 2 + query.partitions % 3
            _send_request(program.folder, RescaleQuery(query.id, wanted))
            if _await_moment(moment, exhibit, wanted, chance, _folder(query)):
                met.append(moment)
        finally:
            program.kill()
    for phase in range(2 if moments else 1, PHASES):
        exhibit.feed(phase)
    code = _run_last_launch(exhibit, len(moments), java, how)
    found, expected = exhibit.found(), exhibit.expected()
    return Outcome(exhibit.program, tuple(met), (expected - found).total(), (found - expected).total(), code)


def _run_last_launch(exhibit: Exhibit, number: int, java: str, how: How) -> int | None:
    """Run until the results are complete, and return the exit code."""

    def await_all(ended: Callable[[], int | None]) -> None:
        until = time.monotonic() + _SECONDS
        while exhibit.found() != exhibit.expected() and time.monotonic() < until and ended() is None:
            time.sleep(0.1)

    if how == "overlap":
        with subprocess.Popen([sys.executable, *exhibit.command], env=_environment(java, 2)) as bare:
            await_all(bare.poll)
            bare.terminate()
            return shell_exit_code(bare.wait(_SECONDS))
    program = _start(exhibit, number, java, how)
    try:
        await_all(program.exit_code)
        program.send_signal(signal.SIGTERM)
        return program.wait(_SECONDS)
    finally:
        program.kill()


def _start(exhibit: Exhibit, number: int, java: str, how: How) -> ProgramProcess:
    slots = 2 if how == "in-place" else 8  # for both queries
    return ProgramProcess.start(
        parse_command(exhibit.command),
        exhibit.folder / f"launch-{number}",
        ProgramOptions(apply=True, rescale=how),
        environment=_environment(java, slots),
    )


def _environment(java: str, slots: int) -> dict[str, str]:
    settings = {**_SETTINGS, "spark.driver.extraJavaOptions": java}
    submit = " ".join(f"--conf '{name}={value}'" for name, value in settings.items())
    return {**os.environ, "PYSPARK_SUBMIT_ARGS": f"--master local[{slots}] {submit} pyspark-shell"}


def _await_query(client: AgentClient, program: ProgramProcess) -> AdoptedQuery:
    """Return the program's query once it has committed a batch."""
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until and program.exit_code() is None:
        queries = client.queries()
        if queries and queries[0].stateful and _newest(_folder(queries[0]))[1] >= 0:
            return queries[0]
        time.sleep(0.1)
    raise RuntimeError(f"{program.record.command[-3:]} did not come up")


def _folder(query: AdoptedQuery) -> Path:
    """Return the folder of the live checkpoint."""
    return Path(query.checkpoint.removeprefix("file:")).resolve()


def _send_request(folder: Path, request: RescaleQuery) -> None:
    channel = Channel(connect(folder), CODEC)
    channel.send(request)
    channel.close()


def _await_moment(moment: str, exhibit: Exhibit, wanted: int, chance: random.Random, live: Path) -> bool:
    """Wait for the moment, and return whether it came. `live`: checkpoint of the query before the request."""
    if moment == "finishing":
        return True
    if moment == "any":
        time.sleep(chance.uniform(0.0, 5.0))
        return True
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until:
        if moment in OVERLAP_MOMENTS:
            if _measure_overlap(live, wanted) >= OVERLAP_MOMENTS.index(moment):
                return True
            time.sleep(0.005)
            continue
        opened, committed, partitions = _newest(exhibit.checkpoint)
        if partitions == wanted:
            if moment == "moving":
                return opened > committed
            if opened == committed:
                return True
        time.sleep(0.005)
    return False


def _measure_overlap(live: Path, wanted: int) -> int:
    """Return how far the take-over has come, as an index of `OVERLAP_MOMENTS`."""
    with suppress(OSError):
        beside = [path for path in live.parent.iterdir() if path.is_dir() and not path.is_symlink() and path != live]
        if not live.exists() or live.parent.parent.joinpath(_name(live)).resolve() != live:
            return 3
        if len(beside) > 1:
            return 2
        if beside and _newest(beside[0])[2] == wanted:
            return 1
        return 0 if beside else -1
    return -1


def _name(live: Path) -> str:
    """Return the checkpoint name in the program's script."""
    return live.parent.name.removeprefix(".").removesuffix(".generations")


def _newest(checkpoint: Path) -> tuple[int, int, int]:
    """Return the newest planned batch, the newest committed batch, and the partitions of the planned batch."""
    with suppress(OSError, ValueError):
        opened, committed = (
            max((int(path.name) for path in (checkpoint / folder).iterdir() if path.name.isdecimal()), default=-1)
            for folder in ("offsets", "commits")
        )
        return (
            opened,
            committed,
            parse_planned_batch(opened, (checkpoint / "offsets" / str(opened)).read_text()).partitions,
        )
    return -1, -1, 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=int, default=4, help="killed launches of each program")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rescale", choices=list(KINDS), default="in-place")
    options = parser.parse_args()
    chance, outcomes = random.Random(options.seed), list[Outcome]()
    every = MOMENTS if options.rescale == "in-place" else OVERLAP_MOMENTS
    for number, kind in enumerate(KINDS[options.rescale]):
        with tempfile.TemporaryDirectory(prefix="adopted-kills-") as folder:
            moments, seed = [chance.choice(every) for _ in range(options.launches)], options.seed + number
            outcomes.append(kill_repeatedly(kind(Path(folder) / "x", seed), moments, seed, how=options.rescale))
            print(outcomes[-1], file=sys.stderr, flush=True)
    print(
        json.dumps(
            {
                "seed": options.seed,
                "kills": sum(len(outcome.kills) for outcome in outcomes),
                "lost": sum(outcome.lost for outcome in outcomes),
                "doubled": sum(outcome.doubled for outcome in outcomes),
            }
        )
    )


if __name__ == "__main__":
    main()
