"""`autotrascale demo`: simulated at once; its files are those of the checkout, and it leaves alone what is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from autotrascale.app import demo, tuning_run
from autotrascale.app.job_file import read_job_file
from autotrascale.cli import main
from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.controller import preflight

ROOT = Path(__file__).parents[2]


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main.main(list(words))
    return int(ended.value.code or 0)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "find_spec", lambda _: None)  # a store is made in a second, and other tests do
    return tmp_path


@pytest.mark.parametrize("name", demo.JOB_FILES.values())
def test_its_jobs_are_those_of_the_checkout(name: str) -> None:
    """Comments differ: these are read by newcomers."""
    assert yaml.safe_load(demo.read_demo_file(name)) == yaml.safe_load((ROOT / "configs" / name).read_text())


def test_simulated_alone(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("demo", "--engine", "simulator", "--to", "there", "--format", "json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["folder"] == "there"
    (answer,) = said["runs"]
    assert (answer["simulated"], answer["met_target"]) == (True, True)
    assert [path.name for path in here.iterdir()] == ["there"]
    assert run("demo", "--engine", "simulator", "--to", "there") == 0  # its own files are no obstacle


def test_what_somebody_changed_is_left_as_it_is(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = here / "there" / "wordcount.yaml"
    path.parent.mkdir()
    path.write_text("mine")
    assert run("demo", "--engine", "simulator", "--to", "there") == 1
    assert "there/wordcount.yaml: has been changed" in capsys.readouterr().err
    assert path.read_text() == "mine"
    assert run("demo", "--engine", "simulator", "--to", "there/wordcount.yaml") == 1
    assert "there/wordcount.yaml: is not a folder" in capsys.readouterr().err


def test_where_there_is_a_spark_it_follows(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The order, and what each run is given; that the job itself runs on Spark is what `make demo` and others show."""
    asked: list[tuning_run.TuningRequest] = []
    real = tuning_run.start

    def start(each: tuning_run.TuningRequest, *rest: Any) -> tuning_run.TuningResult:
        asked.append(each)
        job = read_job_file(here / demo.FOLDER / "wordcount-simulated.yaml")
        return real(tuning_run.TuningRequest(job, each.path, "simulator", each.settings), *rest)

    monkeypatch.setattr(tuning_run, "start", start)
    monkeypatch.setattr(preflight, "check_machine", lambda _: None)
    assert run("demo") == 0
    assert [(each.engine, each.path.name) for each in asked] == [
        ("simulator", "wordcount-simulated.yaml"),
        ("spark", "wordcount.yaml"),
    ]
    spark = asked[1].file.spark
    assert spark is not None
    assert Path(spark.work_dir).is_relative_to(here / demo.FOLDER)
    assert "now on Spark" in capsys.readouterr().err


def test_a_spark_that_cannot_run_is_left_out_or_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none(_: object) -> None:
        raise EngineError("there is no Java: install Java 17 or newer, or set JAVA_HOME")

    monkeypatch.setattr(preflight, "check_machine", none)
    assert run("demo", "--engine", "spark") == 1
    assert capsys.readouterr().err.splitlines() == [
        "autotrascale: there is no Java: install Java 17 or newer, or set JAVA_HOME"
    ]
    assert not list(here.iterdir())
    assert run("demo") == 0
    assert "leaving out Spark: there is no Java" in capsys.readouterr().err
