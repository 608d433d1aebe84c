"""Kill processes of a program, or of a Flow job, while it is relaunched with executors of another size.

More of it than a test run has time for: `python -m benchmarks.faults.relaunch_kills`.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from autotrascale.testing.standalone_cluster import conf, standalone
from benchmarks.faults.kills.run import RELAUNCH_PHASES
from benchmarks.faults.kills.run import VICTIMS as OURS
from benchmarks.faults.kills.run import Fire as FireOnOurs
from benchmarks.faults.kills.run import Kill as KillOfOurs
from benchmarks.faults.relaunch_kills import all_kills, draw_kills, kills_of_ours
from benchmarks.faults.relaunches.fire import PHASES, VICTIMS, Fire, Kill
from benchmarks.faults.relaunches.program import KEYS, ROWS, lost_and_doubled


@pytest.mark.spark
@pytest.mark.parametrize(("kill", "became"), [(Kill("stopped", "supervisor"), "kept")])
def test_a_program_whose_supervisor_is_killed_between_two_launches_has_one_launch_afterwards(
    tmp_path: Path, kill: Kill, became: str
) -> None:
    with (
        standalone(tmp_path / "cluster", cores=1, memory="1500m") as cluster,
        Fire(cluster, tmp_path / "job", random.Random(3)) as fire,
    ):
        assert fire.up()
        outcome = fire.under_fire(kill)
        assert outcome.killed
        assert outcome.right, outcome
        assert outcome.became == became
        assert fire.close() == 0


@pytest.mark.spark
def test_a_job_of_ours_whose_controller_is_killed_goes_on_with_the_sizes_that_were_written(tmp_path: Path) -> None:
    with standalone(tmp_path / "cluster", cores=2, memory="1500m") as cluster:
        of_one = {**conf(2, "512m"), "spark.cores.max": "2"}
        fire = FireOnOurs(
            "two-states",
            tmp_path / "job",
            random.Random(3),
            cluster.url,
            of_one,
            executors=cluster.executors,
            sized=True,
        )
        try:
            assert fire.up().running is not None
            outcome = fire.relaunch_under_fire(KillOfOurs("two-states", "settings written", "controller"))
            assert (outcome.kills, outcome.down, outcome.detail) == (1, False, "")
            assert outcome.records > 0
            assert (outcome.lost, outcome.doubled, outcome.left) == (0, 0, 0)
        finally:
            assert fire.close() == 0


def test_the_bench_kills_everybody_everywhere() -> None:
    kills, ours = draw_kills(len(all_kills()), seed=1), kills_of_ours(22, seed=1)
    assert {each.victim for each in kills} == set(VICTIMS)
    assert {each.phase for each in kills} == set(PHASES)
    assert {each.victim for each in ours} == set(OURS)
    assert {each.phase for each in ours} == set(RELAUNCH_PHASES)
    assert draw_kills(30, seed=1) == draw_kills(30, seed=1) != draw_kills(30, seed=2)


@pytest.mark.parametrize(
    ("change", "lost", "doubled"), [("none", 0, 0), ("a batch is gone", ROWS, 0), ("fewer", 1, 0), ("more", 0, 1)]
)
def test_a_loss_or_a_double_would_be_noticed(tmp_path: Path, change: str, lost: int, doubled: int) -> None:
    batches = 5
    for number in range(batches):
        upto = ROWS * (number + 1)
        rows = [[key, len(range(key, upto, KEYS))] for key in range(KEYS)]
        if number == batches - 1 and change in ("fewer", "more"):
            rows[0][1] += 1 if change == "more" else -1
        if not (number == 2 and change == "a batch is gone"):
            (tmp_path / f"{number}.json").write_text(json.dumps(rows))
    assert lost_and_doubled(tmp_path) == (lost, doubled)
