"""Two processes that take one run at once, and a process that slept while its run was taken: nothing is done twice.

`python -m benchmarks.speed.journal_bench --kills 100` runs more rounds.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from autotrascale.knowledge.mlflow_store import MlflowStore
from tests.knowledge import kills, takers
from tests.knowledge.kills import Expected

ROUNDS = 2


@pytest.fixture(scope="module")
def expected(embedded: MlflowStore, tmp_path_factory: pytest.TempPathFactory) -> Expected:
    return kills.expected_run(embedded, tmp_path_factory.mktemp("expected"))


@pytest.mark.parametrize("number", range(ROUNDS))
def test_two_that_resume_a_killed_run_at_once_double_nothing(
    store: MlflowStore, tmp_path: Path, name: str, expected: Expected, number: int
) -> None:
    found = takers.resume_twice_at_once(store, tmp_path, expected, name, random.Random(number))
    assert found.killed
    assert found.doubled == 0
    assert found.went_on <= 1


@pytest.mark.parametrize("write", ["search measured, half kept", "search over"])
def test_a_process_that_slept_while_its_run_was_taken_stops_without_a_write(
    server: str, tmp_path: Path, name: str, expected: Expected, write: str
) -> None:
    """SIGSTOP before a write, until another process has waited for a lease, taken the run and ended it."""
    store = MlflowStore(server)  # a store that machines can share
    call = expected.write(*kills.BOUNDARIES[write])
    before, after, said = takers.wake_after_takeover(store, tmp_path, name, call)
    assert before == after
    assert said.startswith(f"job {name} was taken over by process ")
    kills.check_end(store, name, expected)
    assert "\n" not in said
