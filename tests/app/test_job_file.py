from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from autotrascale.app.job_file import read_job_file
from autotrascale.domain.errors import InputError
from autotrascale.tuning import tune

BAD = json.loads((Path(__file__).parents[1] / "bad_input" / "jobs.json").read_text())
CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))

SMALL: dict[str, Any] = {
    "job": "small",
    "p_max": 9,
    "source_rates": {"source": 100.0},
    "operators": {"source": {}, "work": {"upstream": ["source"]}},
    "target": {"latency_seconds": 0.2},
    "tuning": {"total_trials": 4},
    "simulator": {"operators": {"source": {"service_seconds": 0.005}, "work": {"service_seconds": 0.015}}},
}


def spoilt(case: dict[str, Any]) -> str:
    if "text" in case:
        return str(case["text"])
    if "repeat" in case:
        before, piece, times, after = case["repeat"]
        return str(before + piece * times + after)
    data = {name: value for name, value in SMALL.items() if name not in case.get("drop", [])}
    if "operator" in case:
        data["operators"] = {**SMALL["operators"], "work": {**SMALL["operators"]["work"], **case["operator"]}}
    return yaml.safe_dump({**data, **case.get("set", {})}, sort_keys=False)


@pytest.mark.parametrize("case", BAD, ids=lambda case: case["name"])
def test_a_bad_job_file_is_refused_in_one_line_with_its_name(case: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(spoilt(case))
    with pytest.raises(InputError) as caught:
        read_job_file(path)
    said = str(caught.value)
    assert said.startswith(f"{path}:")
    assert all(token in said for token in case["says"])
    assert "\n" not in said


def write(tmp_path: Path, **changes: Any) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump({**SMALL, **changes}, sort_keys=False))
    return path


def test_a_job_file_is_a_job_and_an_engine(tmp_path: Path) -> None:
    file = read_job_file(write(tmp_path))
    assert file.choose_engine(None) == "simulator"
    job, engine = file.open_engine("simulator", seed=0)
    with engine:
        assert (job.name, job.rate, job.p_max, list(job.topology)) == ("small", 100.0, 9, ["source", "work"])
        assert engine.simulated
        assert len(tune(job, engine, file.tuning).evaluations) <= 4


def test_json_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    path.write_text(json.dumps(SMALL))
    assert read_job_file(path) == read_job_file(write(tmp_path))


def test_an_engine_that_the_file_does_not_describe(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_job_file(write(tmp_path)).choose_engine("spark")
    assert "spark: is a section that this job file does not have" in str(caught.value)
    assert "--engine simulator" in str(caught.value)


def test_a_rate_of_zero_is_nothing_to_tune(tmp_path: Path) -> None:
    job, engine = read_job_file(write(tmp_path, source_rates={"source": 0})).open_engine("simulator", seed=0)
    with engine, pytest.raises(InputError, match="source_rates: are all zero, so there is nothing to measure"):
        tune(job, engine)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_job_file(tmp_path / "none.yaml")


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_job_file_of_ours_is_read(path: Path) -> None:
    file = read_job_file(path)
    assert file.choose_engine(None) in ("spark", "simulator")
    assert path.stem.endswith("-simulated") == (file.spark is None)
