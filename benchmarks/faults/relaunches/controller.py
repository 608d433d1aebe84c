"""`autotrascale run --program FOLDER`, as anybody would start it, which stops in one phase of a relaunch until it is
told to go on, or is killed there:

    python -m benchmarks.faults.relaunches.controller PHASE FOLDER JOB.yaml STORE

It makes `reached` in the folder of the program when it is in the phase, and goes on when `go` is there.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from autotrascale.execute.spark.common.launches import NextLaunch
from autotrascale.execute.spark.controller.agent_client import AgentClient
from autotrascale.execute.spark.controller.program_process import ProgramProcess
from autotrascale.execute.spark.protocol.agent_messages import StopForRelaunch, StoppedForRelaunch

WRITTEN, ASKED = "settings written", "asked to leave"
REACHED, GO = "reached", "go"


def main() -> None:
    from autotrascale.cli import main as command_line

    phase, folder, job, store = sys.argv[1:]
    prepare, leave = ProgramProcess.prepare, AgentClient.leave

    def wait() -> None:
        (Path(folder) / REACHED).touch()
        while not (Path(folder) / GO).exists():
            time.sleep(0.01)

    def prepared(program: ProgramProcess, following: NextLaunch) -> None:
        prepare(program, following)
        if phase == WRITTEN:
            wait()

    def left(client: AgentClient, wish: StopForRelaunch) -> StoppedForRelaunch:
        if phase == ASKED:
            (Path(folder) / REACHED).touch()
        return leave(client, wish)

    ProgramProcess.prepare, AgentClient.leave = prepared, left  # type: ignore[method-assign]
    command_line.main(["run", "--apply", "--program", folder, "--store", store, "--metrics", "none", job])


if __name__ == "__main__":
    main()
