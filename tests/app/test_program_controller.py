"""The controller of a program, where something is the matter: the program goes on, and what it is is said once."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from autotrascale.app import stores
from autotrascale.app.command_context import CommandContext
from autotrascale.app.console import OutputFormat
from autotrascale.app.controlled_query import ControlledQuery
from autotrascale.app.metric_recording import NO_RECORDER
from autotrascale.app.program_controller import ProgramController
from autotrascale.app.program_file import ExecutorBounds, ProgramFile, ProgramSettings, read_program_file
from autotrascale.cli import main
from autotrascale.domain.errors import AuTraScaleError, EngineError, JobBusyError
from autotrascale.domain.target import Target
from autotrascale.execute.spark.controller.agent_client import AgentAwayError
from autotrascale.execute.spark.controller.program_process import ProgramProcess
from autotrascale.execute.spark.protocol.agent_messages import AdoptedQuery, ApplicationInfo, ExecutorCounts
from autotrascale.knowledge.mlflow_store import MlflowStore

FILE = ProgramFile("shops", ProgramSettings(ExecutorBounds(3)), Target(5.0))
AROUND = CommandContext(None, None, NO_RECORDER, OutputFormat.table, advise=True)
TURNS = 100


@dataclass
class Driver:
    """Its program ends after so many glances."""

    event_log: str
    left: int = TURNS
    away: bool = False
    names: tuple[str, ...] = ("totals",)

    def client(self, seconds: float) -> Driver:  # noqa: ARG002 - as a program has it
        return self

    def exit_code(self) -> int | None:
        self.left -= 1
        return 0 if self.left < 0 else None

    def application(self) -> ApplicationInfo:
        if self.away:
            raise AgentAwayError("no agent answers in /run")
        return ApplicationInfo(1, "app-1", "shops", "local[2]", "4.3.0", self.event_log, 2)

    def executors(self) -> ExecutorCounts:
        return ExecutorCounts(not_elastic="master local[2] runs all tasks inside the driver")

    def queries(self) -> tuple[AdoptedQuery, ...]:
        return tuple(
            AdoptedQuery(f"q-{name}", "run", ("run",), name, "/checkpoint", 4, True, True, False) for name in self.names
        )

    def close(self) -> None:
        """Nothing is open."""


def kept(driver: Driver, file: ProgramFile = FILE, around: CommandContext = AROUND) -> ProgramController:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    controller = ProgramController(cast(ProgramProcess, driver), file, around, clock=lambda: now[0], sleep=sleep)
    controller.run()
    assert driver.left < 0  # to its end
    return controller


@pytest.mark.parametrize("log", ["", "hdfs:///logs"])
def test_a_log_that_cannot_be_read_is_said_once(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    kept(Driver(log))
    assert capsys.readouterr().err.count("writes no event log on this machine, so it cannot be measured") == 1


@pytest.mark.parametrize(
    "trouble", [JobBusyError("job shops.totals", "is being autoscaled already"), EngineError("Spark did not answer")]
)
def test_a_query_that_cannot_be_kept_is_tried_again_now_and_then(
    trouble: AuTraScaleError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried = list[float]()

    def turn(_: Any, now: float) -> None:
        tried.append(now)
        raise trouble

    monkeypatch.setattr(ControlledQuery, "step", turn)
    kept(Driver(tmp_path.as_uri()))
    assert 2 <= len(tried) <= TURNS / 10
    assert capsys.readouterr().err.count(str(trouble)) == 1


def test_a_driver_that_hangs_is_said_and_one_that_just_ends_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    kept(Driver("", left=10, away=True))
    assert "no agent answers" not in capsys.readouterr().err
    kept(Driver("", away=True))
    assert capsys.readouterr().err.count("no agent answers") == 1


@pytest.mark.parametrize("turns", [TURNS, 200, 10])
def test_a_query_that_the_file_names_and_the_program_has_not_is_said_once(
    turns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a minute, or when the program ends: it may have started it late. Those that there are go on."""
    aimed = list[Target | None]()

    def turn(query: ControlledQuery, _: float) -> None:
        aimed.append(query.target)

    monkeypatch.setattr(ControlledQuery, "step", turn)
    kept(
        Driver(tmp_path.as_uri(), left=turns),
        FILE.with_target(Target(2.0), "totals").with_target(Target(1.0), "orders"),
    )
    said = capsys.readouterr().err
    assert said.count("queries.orders: ") == 1
    assert set(aimed) == {Target(2.0)}


@pytest.mark.parametrize("form", OutputFormat)
def test_several_queries_of_a_program_are_summed_up_in_one_sentence(
    form: OutputFormat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And `explain` says it again, by the program's name."""
    monkeypatch.setattr(ControlledQuery, "step", lambda *_: None)

    def advise(query: ControlledQuery) -> Any:
        then = SimpleNamespace(executors=2 if query.name == "orders" else 1)
        return SimpleNamespace(advice=SimpleNamespace(then=then), target_held=False)

    monkeypatch.setattr(ControlledQuery, "advise", advise)
    store = stores.open_decisions(MlflowStore(f"sqlite:///{tmp_path}/mlflow.db"))
    around = replace(AROUND, form=form, decisions=store)
    file = replace(FILE, program=replace(FILE.program, price=0.12))
    kept(Driver(tmp_path.as_uri(), names=("orders", "clicks")), file, around)
    said = capsys.readouterr().out
    summary = json.loads(said)["summary"] if form is OutputFormat.json else said.strip()
    assert all(token in summary for token in ("3 executors of 2 cores", "0.36 $", "0.12 $", "orders 2, clicks 1"))
    kept(Driver(tmp_path.as_uri()), file, around)
    assert capsys.readouterr().out == ""  # of one query its own advice says all
    assert store is not None
    store.close()
    with pytest.raises(SystemExit) as ended:
        main.main(["explain", "shops", "--store", f"sqlite:///{tmp_path}/mlflow.db", "--format", form.value])
    assert not ended.value.code
    again = capsys.readouterr().out
    if form is OutputFormat.json:
        assert json.loads(again) == json.loads(said)
    else:
        assert again.startswith(said)
        assert "clicks alone: autotrascale explain shops.clicks\n" in again


def test_what_was_learned_is_written_for_each_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def turn(query: ControlledQuery, _: float) -> None:
        query.target = Target(3.0)

    monkeypatch.setattr(ControlledQuery, "step", turn)
    bare = ProgramFile("shops", FILE.program)
    for file, learned in ((bare, bare.with_target(Target(3.0))), (FILE, FILE)):
        controller = kept(Driver(tmp_path.as_uri()), file)
        controller.write_job(tmp_path / "shops.yaml")
        assert read_program_file(tmp_path / "shops.yaml") == learned
