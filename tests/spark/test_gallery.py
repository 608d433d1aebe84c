"""Programs that know nothing of us, each rescaled twice while it works, and what they give compared with an oracle."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from autotrascale.execute.spark.adopted.client import Client
from autotrascale.execute.spark.adopted.command import understood
from autotrascale.execute.spark.adopted.messages import AdoptedQuery, Rescale
from autotrascale.execute.spark.adopted.program import Program
from benchmarks.gallery import EXHIBITS, PHASES, Exhibit, FirstSeen
from tests.spark.conftest import BRISK

pytestmark = pytest.mark.spark

RUNNER = Path(__file__).with_name("gallery_runner.py")
PARTITIONS = (2, 3, 1)  # at the start, after the first rescale, after the second
_PATIENCE = 40.0


@dataclass
class Gallery:
    folder: Path
    program: Program
    client: Client
    exhibits: list[Exhibit]
    seen: set[str]

    def queries(self, number: int) -> list[AdoptedQuery]:
        """Those of this exhibit, once all of them run."""
        wanted = self.exhibits[number].queries
        until = time.monotonic() + _PATIENCE
        while True:
            fresh = [query for query in self.client.queries() if query.id not in self.seen]
            if len(fresh) == wanted:
                return fresh
            assert time.monotonic() < until
            assert self.program.exit_code() is None
            time.sleep(0.05)


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
    # As a shell with our environment has it: spark-submit looks for its Python there.
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = understood([*words, str(RUNNER), str(folder / "plan.json")])
    program = Program.start(command, folder / "p", apply=True, environment=environment)
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
            answer = gallery.client.rescale(Rescale(query.id, PARTITIONS[phase]))
            assert (answer.done, answer.partitions, answer.detail) == (True, PARTITIONS[phase], "")
            assert not answer.cut_off
        exhibit.feed(phase)
    await_results(exhibit)
    after = [query for query in gallery.client.queries() if query.id in {before.id for before in queries}]
    assert [(query.partitions, len(query.runs), query.active) for query in after] == [(1, 3, True)] * exhibit.queries
    (gallery.folder / f"stop-{number}").touch()


def test_the_exit_code_is_the_programs_own(gallery: Gallery) -> None:
    assert gallery.program.wait(_PATIENCE) == 5


def await_results(exhibit: Exhibit) -> None:
    until = time.monotonic() + _PATIENCE
    while exhibit.found() != exhibit.expected() and time.monotonic() < until:
        time.sleep(0.1)
    assert exhibit.found() == exhibit.expected()
