"""Executors without a cluster: choice for release, messages, settings."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from autotrascale.execute.spark.clusters.elasticity_settings import (
    choose_elasticity_settings,
    explain_not_elastic,
    list_cautions,
)
from autotrascale.execute.spark.clusters.executor_control import ApplicationExecutors, parse_host
from autotrascale.execute.spark.clusters.registered_executors import ExecutorSet, RegisteredExecutor
from autotrascale.execute.spark.clusters.release_choice import choose_executors_to_release


@st.composite
def executors(draw: DrawFn) -> RegisteredExecutor:
    return RegisteredExecutor(
        id=str(draw(st.integers(0, 10_000))),
        host=draw(st.sampled_from(["", "a", "b", "c", "d"])),
        cores=draw(st.sampled_from([None, 1, 4])),
        slots=draw(st.sampled_from([None, 1, 2])),
        active_tasks=draw(st.sampled_from([None, 0, 0, 1, 3])),
        since=float(draw(st.integers(0, 5))),
        leaving_since=draw(st.sampled_from([None, None, None, 7.0])),
    )


fleets = st.lists(executors(), max_size=12, unique_by=lambda each: each.id)


@given(fleets, st.integers(-2, 14))
def test_the_requested_number_is_released_idle_executors_first(fleet: list[RegisteredExecutor], count: int) -> None:
    chosen = choose_executors_to_release(fleet, count)
    staying = {each.id: each for each in fleet if not each.leaving}
    assert len(chosen) == len(set(chosen)) == min(max(count, 0), len(staying))
    assert set(chosen) <= set(staying)
    kept = [each for name, each in staying.items() if name not in chosen]
    if any(staying[name].active_tasks != 0 for name in chosen):
        assert all(each.active_tasks != 0 for each in kept)


@given(fleets, st.integers(0, 12), st.randoms())
def test_the_choice_does_not_depend_on_the_order(fleet: list[RegisteredExecutor], count: int, chance: object) -> None:
    shuffled = list(fleet)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert choose_executors_to_release(fleet, count) == choose_executors_to_release(shuffled, count)


def fleet(*rows: tuple[str, str, int, float]) -> list[RegisteredExecutor]:
    return [RegisteredExecutor(name, host, 1, 1, tasks, since) for name, host, tasks, since in rows]


def test_a_worker_is_emptied_before_younger_executors_go() -> None:
    one_alone = fleet(("1", "a", 1, 1.0), ("2", "b", 1, 2.0), ("3", "b", 1, 3.0))
    assert choose_executors_to_release(one_alone, 1) == ("1",)
    assert choose_executors_to_release(one_alone[1:], 1) == ("3",)  # neither empties a worker: the youngest
    two_of_each = fleet(("1", "a", 1, 1.0), ("2", "b", 1, 2.0), ("3", "a", 1, 3.0), ("4", "b", 1, 2.5))
    assert set(choose_executors_to_release(two_of_each, 2)) == {"1", "3"}
    assert choose_executors_to_release(fleet(("1", "a", 0, 1.0), ("2", "b", 1, 2.0)), 1) == ("1",)


def executor_set(
    number: int, asked: int | None, waiting: float = 0.0, leaving_since: float | None = None
) -> ExecutorSet:
    own = [RegisteredExecutor(str(i), "a", 1, 1, 0, 0.0) for i in range(number)]
    gone = [] if leaving_since is None else [RegisteredExecutor("x", "a", 1, 1, 1, 0.0, leaving_since)]
    return ExecutorSet((*own, *gone), asked, waiting, now=100.0)


def test_missing_executors_are_reported_after_a_while() -> None:
    late = executor_set(3, asked=5, waiting=74.0)
    assert late.missing == 2
    assert "2 of 5 executors for 74.00 s" in late.explain_missing()
    assert executor_set(3, asked=5, waiting=5.0).explain_missing() == ""
    assert executor_set(3, asked=3, waiting=74.0).explain_missing() == ""
    assert executor_set(3, asked=None, waiting=74.0).explain_missing() == ""


def test_an_executor_that_still_runs_after_its_release_is_reported() -> None:
    stuck = executor_set(3, asked=3, leaving_since=20.0)
    assert len(stuck.staying) == 3
    assert "executor x still runs over 60.00 s" in stuck.explain_not_released()
    assert executor_set(3, asked=3, leaving_since=90.0).explain_not_released() == ""
    assert executor_set(3, asked=3).explain_not_released() == ""


CLUSTER = {"spark.master": "spark://h:7077", "spark.decommission.enabled": "true"}


@pytest.mark.parametrize(
    ("conf", "said"),
    [
        ({}, "runs all tasks inside the driver"),
        ({"spark.master": "local[4]"}, "local[4] runs all tasks inside the driver"),
        ({"spark.master": "local-cluster[2,1,1024]"}, "inside the driver"),
        ({**CLUSTER, "spark.dynamicAllocation.enabled": "True"}, "spark.dynamicAllocation.enabled is true"),
        ({"spark.master": "yarn"}, "spark.decommission.enabled is not true"),
        ({**CLUSTER, "spark.decommission.enabled": "false"}, "spark.decommission.enabled is not true"),
    ],
)
def test_the_reason_against_elastic_executors_is_one_line(conf: dict[str, str], said: str) -> None:
    reason = explain_not_elastic(conf)
    assert said in reason
    assert "\n" not in reason


@pytest.mark.parametrize("master", ["spark://h:7077", "yarn", "k8s://https://h:443"])
def test_our_settings_suffice(master: str) -> None:
    ours = {each.name: each.value for each in choose_elasticity_settings(master, (2, 6), 4)}
    assert explain_not_elastic({"spark.master": master, **ours}) == ""
    assert list_cautions({"spark.master": master, "spark.executor.cores": "4", **ours}, most=6) == ()
    assert all(each.why for each in choose_elasticity_settings(master, (2, 6), 4))
    assert len(ours) == len(choose_elasticity_settings(master, (2, 6), 4))
    bound = {"spark.cores.max": "24"} if master.startswith("spark") else {"spark.executor.instances": "2"}
    assert ours.items() >= bound.items()
    assert not {"spark.cores.max", "spark.executor.instances"} & {
        each.name for each in choose_elasticity_settings(master)
    }


def test_the_document_lists_the_settings() -> None:
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "clusters.md").read_text(encoding="utf-8")
    usual = choose_elasticity_settings("k8s://https://h:443")
    for each in usual:
        assert f"| `{each.name}` | {each.value} | {each.why} |" in text
    manifest = yaml.safe_load(text.partition("```yaml\n")[2].partition("```")[0])
    assert manifest["spec"]["sparkConf"] == {each.name: each.value for each in usual}
    assert all(f"`{name}`" in text for name in ("spark.cores.max", "spark.executor.instances"))


def test_a_master_without_executors_needs_no_settings() -> None:
    assert choose_elasticity_settings("local[4]", (1, 3), 1) == ()
    assert list_cautions({"spark.master": "local[4]"}) == ()


def test_obstacles_to_growth_are_reported() -> None:
    usual = {**CLUSTER, "spark.storage.decommission.enabled": "true", "spark.executor.cores": "2"}
    assert list_cautions({**usual, "spark.cores.max": "6"}, most=3) == ()
    (bound,) = list_cautions({**usual, "spark.cores.max": "6"}, most=5)
    assert "3 executors of 2 cores, not 5" in bound
    assert bound.endswith("set it to 10")
    (unset,) = list_cautions(usual)
    assert unset.startswith("spark.cores.max is not set")
    assert any("has no effect" in line for line in list_cautions({**usual, "spark.executor.instances": "2"}, most=3))
    assert any(
        line.startswith("spark.executor.cores is not set") and "free cores of a worker" in line
        for line in list_cautions(CLUSTER)
    )
    assert any(line.startswith("spark.storage.decommission.enabled is not true") for line in list_cautions(CLUSTER))


def test_a_client_of_spark_connect_has_no_executors_of_its_own() -> None:
    assert "Spark Connect" in ApplicationExecutors(SimpleNamespace()).explain_not_elastic()  # type: ignore[arg-type]


def test_a_host_is_known_before_its_port() -> None:
    assert [parse_host(each) for each in ("10.0.0.7:4040", "10.0.0.7", "worker", "[::1]:7", "[::1]")] == [
        "10.0.0.7",
        "10.0.0.7",
        "worker",
        "[::1]",
        "[::1]",
    ]
