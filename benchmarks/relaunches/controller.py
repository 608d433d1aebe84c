"""`autotrascale run --program FOLDER`, as anybody would start it, which stops in one phase of a relaunch until it is
told to go on, or is killed there:

    python -m benchmarks.relaunches.controller PHASE FOLDER JOB.yaml STORE

It makes `reached` in the folder of the program when it is in the phase, and goes on when `go` is there.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from autotrascale.execute.spark.adopted.client import Client
from autotrascale.execute.spark.adopted.messages import Leave, Left
from autotrascale.execute.spark.adopted.program import Program
from autotrascale.execute.spark.lives import Next

WRITTEN, ASKED = "settings written", "asked to leave"
REACHED, GO = "reached", "go"


def main() -> None:
    from autotrascale.service import cli as command_line

    phase, folder, job, store = sys.argv[1:]
    prepare, leave = Program.prepare, Client.leave

    def wait() -> None:
        (Path(folder) / REACHED).touch()
        while not (Path(folder) / GO).exists():
            time.sleep(0.01)

    def prepared(program: Program, following: Next) -> None:
        prepare(program, following)
        if phase == WRITTEN:
            wait()

    def left(client: Client, wish: Leave) -> Left:
        if phase == ASKED:
            (Path(folder) / REACHED).touch()
        return leave(client, wish)

    Program.prepare, Client.leave = prepared, left  # type: ignore[method-assign]
    command_line.main(["run", "--apply", "--program", folder, "--store", store, "--metrics", "none", job])


if __name__ == "__main__":
    main()
