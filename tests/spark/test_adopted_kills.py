"""A program is killed while its state moves, and started again by the same command.

`benchmarks/faults/adopted_kills.py` does it for longer.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.faults.adopted_kills import kill_repeatedly
from benchmarks.workloads.gallery import Balances, Readings
from tests.spark.conftest import BRISK


@pytest.mark.spark
def test_a_program_killed_while_its_state_moves_continues_from_there(tmp_path: Path) -> None:
    outcome = kill_repeatedly(Readings(tmp_path / "x", 7), ["moving"], 7, BRISK)
    assert outcome.kills == ("moving",)
    assert (outcome.lost, outcome.doubled) == (0, 0)
    assert outcome.exit_code == 143


@pytest.mark.spark
def test_a_program_killed_during_a_take_over_continues_from_one_of_the_queries(tmp_path: Path) -> None:
    outcome = kill_repeatedly(Balances(tmp_path / "x", 7), ["numbered"], 7, BRISK, "overlap")
    assert outcome.kills == ("numbered",)
    assert (outcome.lost, outcome.doubled) == (0, 0)
    assert outcome.exit_code == 143
