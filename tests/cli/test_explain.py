"""`autotrascale explain RUN`: the answer that `tune` gave, from the journal alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autotrascale.app.plot_sets import RUN_PLOTS
from autotrascale.cli import main
from autotrascale.execute.simulator.engine import SimulatorEngine
from tests.knowledge.mlflow_stores import job_file


def run(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main.main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


@pytest.mark.usefixtures("store")
def test_a_finished_run_is_explained_as_it_was(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = job_file(tmp_path, name)
    assert run("tune", path) == 0
    said = capsys.readouterr().out
    path.unlink()
    assert run("explain", name) == 0
    out, err = capsys.readouterr()
    assert out == said + f"  cold start: {name} has no model yet\n"
    assert err == ""
    assert run("explain", name, "--format", "json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert [each["operator"] for each in answer["operators"]] == ["source", "count"]
    assert all(each["text"] in said for each in answer["operators"])
    assert answer["summary"] in said
    assert (answer["state"], answer["stop_reason"], answer["met_target"]) == ("finished", "target-met", True)
    assert run("explain", name, "--plots") == 0
    drawn = capsys.readouterr().out.removeprefix(out)
    assert all(title in drawn for name, title in RUN_PLOTS if name != "batch")
    assert "Expected latency: count" in drawn
    assert run("explain", name, "--plots", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out) == answer


@pytest.mark.usefixtures("store")
def test_an_unfinished_run_is_explained_so_far(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = SimulatorEngine.run

    def stopping(self: SimulatorEngine, *given: object) -> object:
        if self.runs == 3:
            raise KeyboardInterrupt
        return trial(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(SimulatorEngine, "run", stopping)
    assert run("tune", job_file(tmp_path, name)) == 130
    capsys.readouterr()
    assert run("explain", name) == 0
    out = capsys.readouterr().out
    assert "is interrupted: the answer after 3 trials, which may change" in out
    assert "the floor is " in out
