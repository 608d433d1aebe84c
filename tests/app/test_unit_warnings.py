"""What may be in another unit is asked about in one line, and what is usual is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from autotrascale.app import unit_warnings
from autotrascale.app.job_file import read_job_file
from autotrascale.cli import main
from tests.knowledge import mlflow_stores

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))
SPARK = {"spark": {"job": "shop:shop"}}


def of(folder: Path, **changed: Any) -> list[str]:
    return unit_warnings.find_unit_warnings(read_job_file(mlflow_stores.job_file(folder, **changed)))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_no_file_of_ours_is_questioned(path: Path) -> None:
    assert unit_warnings.find_unit_warnings(read_job_file(path)) == []


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"target": {"latency_seconds": 180}}, "target.latency_seconds is 180 seconds: were milliseconds meant?"),
        ({"target": {"latency_seconds": 30}}, "target.latency_seconds is 30 seconds"),
        ({"p_max": 1_000_000}, "p_max is 1,000,000 instances"),
        ({"source_rates": {"source": 5e9}}, "source_rates are 5,000,000,000 records/s"),
        ({"source_rates": {"source": 0.001}}, "source_rates are 0.001 records/s"),
        ({"tuning": {"max_seconds": 3_600_000}}, "tuning.max_seconds is 3.6e+06 seconds"),
        ({"manager": {"interval_seconds": 30_000}}, "manager.interval_seconds is 30000 seconds"),
        ({"manager": {"restart_seconds": 1e6, "catch_up_seconds": 60}}, "manager.restart_seconds is 1e+06 seconds"),
        ({"spark": {"job": "a:b", "window": {"window_seconds": 1e4}}}, "spark.window.window_seconds is 10000 seconds"),
        ({"spark": {"job": "a:b", "patience": {"start": 120_000}}}, "spark.patience.start is 120000 seconds"),
    ],
)
def test_what_looks_like_another_unit_is_asked_about(tmp_path: Path, changed: dict[str, Any], says: str) -> None:
    (asked,) = of(tmp_path, **changed)
    assert asked.startswith(says)
    assert "\n" not in asked


def test_a_service_time_in_microseconds(tmp_path: Path) -> None:
    simulator = {**mlflow_stores.CONTENT["simulator"]}
    simulator["operators"] = {**simulator["operators"], "count": {"service_seconds": 20}}
    assert "simulator.operators.count.service_seconds is 20 seconds" in of(tmp_path, simulator=simulator)[0]


def test_what_is_usual_is_not(tmp_path: Path) -> None:
    usual = {"target": {"latency_seconds": 20}, "p_max": 2000, "tuning": {"max_seconds": 86_400}}
    assert of(tmp_path, **usual, manager={"scale_down_delay_seconds": 3600, "interval_seconds": 600}) == []


def test_a_run_asks_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A target that any configuration meets is questioned again when the first latency is known."""
    path = mlflow_stores.job_file(tmp_path, target={"latency_seconds": 20})
    with pytest.raises(SystemExit) as ended:
        main.main(["tune", str(path), "--store", "none"])
    asked = [line for line in capsys.readouterr().err.splitlines() if line.startswith("question: ")]
    assert ended.value.code == 0
    assert len(asked) == 1
    assert asked[0].startswith(
        "question: target.latency_seconds is 20 seconds: were milliseconds meant? Then write 0.02."
    )
    assert "latency of 0.0" in asked[0]


def test_more_tasks_than_spark_has_room_for_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    content = {name: value for name, value in mlflow_stores.CONTENT.items() if name != "simulator"}
    path.write_text(yaml.safe_dump({**content, **SPARK, "p_max": 1_000_000}))
    with pytest.raises(ValueError, match="p_max: is above 100,000"):
        read_job_file(path)
