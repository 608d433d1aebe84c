"""Programs that know nothing of us, each rescaled twice while it works, and what they give compared with an oracle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from autotrascale.execute.spark.controller.agent_client import AgentClient
from autotrascale.execute.spark.controller.program_process import ProgramProcess
from autotrascale.execute.spark.protocol.agent_address import connect
from autotrascale.execute.spark.protocol.agent_messages import CODEC, AdoptedQuery, RescaleQuery
from autotrascale.execute.spark.protocol.channel import Channel
from benchmarks.workloads.gallery import EXHIBITS, PHASES, Exhibit, FirstSeen
from tests.spark.conftest import BRISK

pytestmark = pytest.mark.spark

RUNNER = Path(__file__).with_name("gallery_runner.py")
PARTITIONS = (2, 3, 1)  # at the start, after the first rescale, after the second
_PATIENCE = 300.0  # for a busy machine


@dataclass
class Gallery:
    folder: Path
    program: ProgramProcess
    client: AgentClient
    exhibits: list[Exhibit]
    seen: set[str]

    def queries(self, number: int) -> list[AdoptedQuery]:
        """Return the queries of the program once all of them run."""
        found: list[AdoptedQuery] = []

        def all_run() -> bool:
            assert self.program.exit_code() is None
            found[:] = [query for query in self.client.queries() if query.id not in self.seen]
            return len(found) == self.exhibits[number].queries

        until(all_run)
        return found


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gallery]:
    folder = tmp_path_factory.mktemp("gallery")
    FirstSeen.warehouse = folder / "warehouse"
    exhibits = [kind(folder / str(number), number) for number, kind in enumerate(EXHIBITS)]
    (folder / "plan.json").write_text(json.dumps([exhibit.command for exhibit in exhibits]))
    settings = {
        "spark.sql.shuffle.partitions": PARTITIONS[0],
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": FirstSeen.warehouse,
        "spark.sql.session.timeZone": "UTC",
        "spark.pyspark.python": sys.executable,
    }
    words = [
        str(Path(sys.executable).with_name("spark-submit")),
        "--master",
        "local[2]",
        "--driver-java-options",
        BRISK,
    ]
    words += [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    words += [str(RUNNER), str(folder / "plan.json")]
    program = start_by_a_controller_that_dies(words, folder / "p")
    try:
        with program.client(_PATIENCE) as client:
            yield Gallery(folder, program, client, exhibits, set())
    finally:
        program.kill()


@pytest.mark.parametrize("number", range(len(EXHIBITS)), ids=[kind.program for kind in EXHIBITS])
def test_a_program_is_rescaled_twice_and_gives_what_its_input_must_give(gallery: Gallery, number: int) -> None:
    exhibit = gallery.exhibits[number]
    exhibit.feed(0)
    queries = gallery.queries(number)
    gallery.seen |= {query.id for query in queries}
    for phase in range(1, PHASES):
        for query in queries:
            if phase == 1 and number % 2:
                rescaled_by_one_who_dies(gallery, query, PARTITIONS[phase])
                continue
            answer = gallery.client.rescale(RescaleQuery(query.id, PARTITIONS[phase]))
            assert (answer.done, answer.partitions, answer.detail) == (True, PARTITIONS[phase], "")
            assert not answer.cut_off
        exhibit.feed(phase)
    await_results(exhibit)
    after = [query for query in gallery.client.queries() if query.id in {before.id for before in queries}]
    assert [(query.partitions, len(query.runs), query.active) for query in after] == [(1, 3, True)] * exhibit.queries
    (gallery.folder / f"stop-{number}").touch()


def test_the_exit_code_is_the_programs_own(gallery: Gallery) -> None:
    assert gallery.program.wait(_PATIENCE) == 5


def start_by_a_controller_that_dies(words: list[str], folder: Path) -> ProgramProcess:
    """Start a program by a controller that is killed as soon as the program runs."""
    starting = """
import json, sys
from pathlib import Path
from autotrascale.execute.spark.common.program_environment import ProgramOptions
from autotrascale.execute.spark.controller.program_command import parse_command
from autotrascale.execute.spark.controller.program_process import ProgramProcess
program = ProgramProcess.start(parse_command(json.loads(sys.argv[1])), Path(sys.argv[2]), ProgramOptions(apply=True))
program.wait()
"""
    # As a shell with our environment has it: spark-submit looks for its Python there.
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = [sys.executable, "-c", starting, json.dumps(words), str(folder)]
    controller = subprocess.Popen(command, env=environment)
    until(lambda: (folder / "program.json").exists())
    controller.kill()
    controller.wait()
    return ProgramProcess.find(folder)


def rescaled_by_one_who_dies(gallery: Gallery, query: AdoptedQuery, partitions: int) -> None:
    """Rescale by a controller that ends before the answer."""
    channel = Channel(connect(gallery.folder / "p"), CODEC)
    channel.send(RescaleQuery(query.id, partitions))
    channel.close()

    def there() -> bool:
        now = {other.id: other for other in gallery.client.queries()}[query.id]
        return len(now.runs) > len(query.runs) and not now.is_rescaling

    until(there)


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def await_results(exhibit: Exhibit) -> None:
    end = time.monotonic() + _PATIENCE
    while exhibit.found() != exhibit.expected() and time.monotonic() < end:
        time.sleep(0.1)
    assert exhibit.found() == exhibit.expected()
