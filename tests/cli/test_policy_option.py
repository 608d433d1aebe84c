"""`--policy` and the job file's `policy:`, from the command line to the journal and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from autotrascale.app.job_file import read_job_file
from autotrascale.cli import main
from autotrascale.execute.simulator.engine import SimulatorEngine
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.run_history import find_run, read_opening
from autotrascale.plan.policies.registry import OURS, PolicyChoice, known
from tests.knowledge.mlflow_stores import CONTENT


def run(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main.main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


def job_file(folder: Path, name: str, **changes: Any) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump({**CONTENT, "job": name, **changes}, sort_keys=False))
    return path


def test_a_run_that_follows_a_policy_is_interrupted_gone_on_with_and_explained(
    store: MlflowStore, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dhalion, which remembers: the whole run, and the one that was stopped after each of two trials, end alike."""
    path = job_file(tmp_path, name, policy="dhalion", policy_options={"scale_down": 0.7})
    assert run("tune", path, "--store", "none", "--format", "json") in (0, 3)
    whole = json.loads(capsys.readouterr().out)
    assert whole["policy"] == "dhalion"
    assert whole["evaluations"] > 3
    trial = SimulatorEngine.run

    def stopping(self: SimulatorEngine, *given: object) -> object:
        if self.runs in (1, 3) and self.runs not in stopped:
            stopped.append(self.runs)
            raise KeyboardInterrupt
        return trial(self, *given)  # type: ignore[arg-type]

    stopped: list[int] = []
    monkeypatch.setattr(SimulatorEngine, "run", stopping)
    assert run("tune", path) == 130
    capsys.readouterr()
    assert run("explain", name) == 0
    assert "dhalion" in capsys.readouterr().out
    assert run("runs", "resume", name) == 130
    capsys.readouterr()
    assert run("runs", "resume", name, "--format", "json") in (0, 3)
    resumed = json.loads(capsys.readouterr().out)
    assert {**resumed, "run_id": None} == whole
    opening = read_opening(store, find_run(store, name).info.run_id)
    assert opening.policy == PolicyChoice("dhalion", {"scale_down": 0.7})
    assert run("explain", name, "--plots") == 0
    assert "dhalion" in capsys.readouterr().out
    assert run("runs", "show", name) == 0
    assert "seed 8, policy dhalion" in capsys.readouterr().out
    assert run("runs", "show", name, "--format", "json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["policy"]["options"] == {"scale_down": 0.7}
    assert [each["asked"] is None for each in shown["trials"]][:2] == [True, False]
    assert all(each["memory"]["rates"] for each in shown["trials"][1:])


def test_the_command_line_goes_before_the_file(tmp_path: Path) -> None:
    path = job_file(tmp_path, "j", policy="threshold", policy_options={"cap": 9}, manager={"quota": 12})
    file = read_job_file(path)
    assert file.choose_policy(None) == PolicyChoice("threshold", {"cap": 9, "slots": 12})
    assert file.choose_policy("ds2") == PolicyChoice("ds2", {"slots": 12})
    assert file.choose_policy(OURS) == PolicyChoice()
    assert read_job_file(job_file(tmp_path, "j")).choose_policy(None) == PolicyChoice()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"policy": "magic"}, f"policy: is not known (seen: 'magic'); use one of {', '.join(known())}"),
        (
            {"policy": "ds2", "policy_options": {"speed": 3}},
            "policy ds2: speed: is not an option of this policy; use slots",
        ),
        (
            {"policy": "threshold", "policy_options": {"speed": 3}},
            "policy threshold: speed: is not an option of this policy; use scale_in, scale_out, cap, slots",
        ),
        (
            {"policy": "dhalion", "policy_options": {"slots": 0}},
            "policy dhalion: slots: must be at least 1 (seen: 0); give 1 or more",
        ),
        (
            {"policy_options": {"slots": 4}},
            "policy_options: are for other policies than autrascale (seen: 'slots');"
            " set alpha and over_allocation under tuning",
        ),
        ({"policy": "drs-true", "policy_options": {"rates": [1]}}, "policy_options.rates"),
    ],
)
def test_a_policy_that_cannot_be_is_one_line(
    changes: dict[str, Any], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = job_file(tmp_path, "j", **changes)
    for verb in ("tune", "autoscale"):
        assert run(verb, path, "--store", "none") == 1
        error = capsys.readouterr().err
        assert says in error
        assert error.startswith(f"autotrascale: {path}: ")
        assert error.count("\n") == 1


def test_an_unknown_policy_of_the_command_line_lists_those_that_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = job_file(tmp_path, "j")
    for verb in ("tune", "autoscale"):
        assert run(verb, path, "--store", "none", "--policy", "magic") == 1
        error = capsys.readouterr().err
        assert error.startswith("autotrascale: policy: ")
        assert error.endswith(f"(seen: 'magic'); use one of {', '.join(known())}\n")
    assert run("tune", path, "--store", "none", "--policy", "ds2", "--save-model", tmp_path / "m.json") == 1
    assert "--save-model: " in capsys.readouterr().err
    assert run("tune", path, "--store", "none", "--policy", "ds2", "--warm-start", "rate-3") == 1
    assert "--warm-start: " in capsys.readouterr().err


@pytest.mark.parametrize("policy", known())
def test_every_policy_decides_the_same_by_its_name_in_the_file_and_on_the_command_line(
    policy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named, unnamed = (
        job_file(tmp_path / where, "j", **changes)
        for where, changes in (("named", {"policy": policy}), ("unnamed", {}))
    )
    for verb, options in (("tune", ("--total-trials", "4")), ("autoscale", ("--for", "600"))):
        usual = ("--store", "none", "--format", "json", *options)
        assert run(verb, named, *usual) in (0, 3)
        by_file = capsys.readouterr().out
        assert run(verb, unnamed, *usual, "--policy", policy) in (0, 3)
        assert capsys.readouterr().out == by_file
        if verb == "tune":
            assert json.loads(by_file)["policy"] == policy
        else:
            assert len(by_file.splitlines()) > 2


def test_a_loop_goes_by_the_policy_of_its_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = job_file(tmp_path, "j", policy="none")
    assert run("autoscale", path, "--for", "600", "--store", "none", "--format", "json") in (0, 3)
    entries = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {each["action"] for each in entries} <= {"stay", "start"}
    assert run("autoscale", path, "--for", "600", "--store", "none", "--policy", OURS, "--format", "json") in (0, 3)
    codes = {reason["code"] for line in capsys.readouterr().out.splitlines() for reason in json.loads(line)["reasons"]}
    assert "static" not in codes
