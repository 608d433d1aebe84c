"""`autotrascale run --program FOLDER` that waits in one phase of a relaunch until it is told to go on or is killed:

    python -m benchmarks.faults.relaunches.controller PHASE FOLDER JOB.yaml STORE

In the phase it creates the file `reached` in the program's folder. It goes on once the file `go` is there.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from autotrascale.execute.spark.common.launches import NextLaunch
from autotrascale.execute.spark.controller.agent_client import AgentClient
from autotrascale.execute.spark.controller.program_process import ProgramProcess
from autotrascale.execute.spark.protocol.agent_messages import StopForRelaunch, StoppedForRelaunch

WRITTEN, ASKED = "settings written", "asked to stop"
REACHED, GO = "reached", "go"


def main() -> None:
    from autotrascale.cli import main as command_line

    phase, folder, job, store = sys.argv[1:]
    write_next_launch, stop_for_relaunch = ProgramProcess.write_next_launch, AgentClient.stop_for_relaunch

    def wait() -> None:
        (Path(folder) / REACHED).touch()
        while not (Path(folder) / GO).exists():
            time.sleep(0.01)

    def write_and_wait(program: ProgramProcess, launch: NextLaunch) -> None:
        write_next_launch(program, launch)
        if phase == WRITTEN:
            wait()

    def report_and_stop(client: AgentClient, request: StopForRelaunch) -> StoppedForRelaunch:
        if phase == ASKED:
            (Path(folder) / REACHED).touch()
        return stop_for_relaunch(client, request)

    ProgramProcess.write_next_launch = write_and_wait  # type: ignore[method-assign]
    AgentClient.stop_for_relaunch = report_and_stop  # type: ignore[method-assign]
    command_line.main(["run", "--apply", "--program", folder, "--store", store, "--metrics", "none", job])


if __name__ == "__main__":
    main()
