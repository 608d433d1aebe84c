"""A tuning process killed with signal 9, at every boundary of its run and at any moment: nothing measured is lost.

More kills than a test run has time for: `python -m benchmarks.speed.journal_bench --kills 100`.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from autotrascale.knowledge import run_history
from autotrascale.knowledge.mlflow_store import MlflowStore
from tests.knowledge.kills import BOUNDARIES, Expected, expected_run, kill_and_resume

RANDOM_KILLS = 3


@pytest.fixture(scope="module")
def expected(common_store: MlflowStore, tmp_path_factory: pytest.TempPathFactory) -> Expected:
    return expected_run(common_store, tmp_path_factory.mktemp("expected"))


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_a_kill_at_a_boundary_loses_nothing(
    common_store: MlflowStore, tmp_path: Path, expected: Expected, boundary: str
) -> None:
    call = expected.write(*BOUNDARIES[boundary])
    kill_and_resume(common_store, tmp_path, expected, f"killed {boundary}", call=call)


@pytest.mark.parametrize("number", range(RANDOM_KILLS))
def test_a_kill_at_any_moment_loses_nothing(
    common_store: MlflowStore, tmp_path: Path, expected: Expected, number: int
) -> None:
    moment = expected.moment(random.Random(number))
    kill_and_resume(common_store, tmp_path, expected, f"killed at random {number}", moment=moment)


def test_no_run_is_left_running(common_store: MlflowStore) -> None:
    """After all that."""
    assert {each.state for each in run_history.list_runs(common_store, limit=200)} <= {
        "finished",
        "interrupted",
        "failed",
    }
    running = common_store.client.search_runs(common_store.experiments(), "attributes.status = 'RUNNING'")
    assert running == []
