"""A relaunch from its controller's side: what is written, when, and what the action log says of how it ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from autotrascale.analyze.executor_conf import ExecutorConf
from autotrascale.app.command_context import CommandContext
from autotrascale.app.console import OutputFormat
from autotrascale.app.executor_sizing import ExecutorSizing, LiveSizing
from autotrascale.app.metric_recording import NO_RECORDER
from autotrascale.app.relauncher import ProgramHost, Relauncher
from autotrascale.app.sizes_section import SizesSection, SizingSettings
from autotrascale.domain.decision import Reason
from autotrascale.domain.errors import EngineError
from autotrascale.domain.executor_window import ExecutorSizes
from autotrascale.execute.spark.common.program_folder import READY_FILE
from autotrascale.execute.spark.controller.adopted_application import AdoptedApplication
from autotrascale.execute.spark.controller.agent_client import AgentAwayError, AgentBrokenError
from autotrascale.execute.spark.controller.program_process import ProgramProcess
from autotrascale.execute.spark.protocol.agent_messages import StopForRelaunch, StoppedForRelaunch
from autotrascale.knowledge.decision_journal import size_action_log as action_log
from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.plan.executor_size.size_changes import SizeChange

NOW = 1_790_000_000.0
ASKED = SizeChange(
    1,
    "asked",
    NOW - 60,
    "P1",
    "heap",
    ExecutorSizes(512, 384, 1, 1),
    ExecutorSizes(768, 384, 1, 1),
    Reason("P1-heap", "collections"),
)
LARGER = {"spark.executor.memory": "768m", "spark.executor.memoryOverhead": "384m"}


@dataclass
class Driver:
    """It leaves when it is asked to, unless something is the matter."""

    folder: Path
    trouble: EngineError | None = None
    prepared: list[dict[str, Any]] = field(default_factory=list)
    brought: list[int] = field(default_factory=list)

    def stop_for_relaunch(self, wish: StopForRelaunch) -> StoppedForRelaunch:
        assert wish.finish_within > 0
        self.prepared.append(json.loads((self.folder / "next.json").read_text()))  # whole before anybody is asked
        if self.trouble is not None:
            raise self.trouble
        return StoppedForRelaunch(False, 0.3)

    def scale_to(self, executors: int) -> None:
        self.brought.append(executors)

    def lives_on(self, number: int, **said: Any) -> None:
        """As its keeper writes it."""
        (self.folder / "next.json").unlink(missing_ok=True)
        (self.folder / "launch.json").write_text(json.dumps({"number": number, "action": 1, **said}))

    def arrives(self, at: float) -> None:
        (self.folder / READY_FILE).write_text(json.dumps({"at": at}))


@dataclass
class Setting:
    driver: Driver
    program: ProgramProcess
    relaunching: Relauncher
    application: Any
    decisions: DecisionJournal
    said: list[str]
    held: list[str]  # why people want it left alone

    def turn(self) -> bool:
        return self.relaunching.relaunch_if_due(ProgramHost(self.program, cast(AdoptedApplication, self.application)))

    def log(self) -> list[str]:
        return [each.what for each in action_log.read_actions(self.decisions, "orders")]


@pytest.fixture
def decisions(tmp_path: Path) -> Iterator[DecisionJournal]:
    opened = DecisionJournal(tmp_path / "decisions.db")
    yield opened
    opened.close()


def setting(
    tmp_path: Path,
    decisions: DecisionJournal,
    *,
    section: SizesSection | None = None,
    master: str = "spark://h:7077",
    trouble: EngineError | None = None,
    elastic: bool = False,
    also: tuple[SizeChange, ...] = (),
) -> Setting:
    action_log.append_actions(decisions, "orders", [ASKED, *also])
    around = CommandContext(None, decisions, NO_RECORDER, OutputFormat.table, advise=False)
    said, held = list[str](), [""]
    sizes = LiveSizing(around, {}, said.append, can_relaunch=True)
    sizes.sizing = ExecutorSizing("orders", SizingSettings(), ExecutorConf(), decisions)
    driver = Driver(tmp_path, trouble)
    note = SimpleNamespace(began=0.0)
    program = ProgramProcess(tmp_path, cast(Any, note))
    relaunching = Relauncher(
        program, section or SizesSection(), sizes, said.append, wall=lambda: NOW, explain_hold=lambda: held[0]
    )
    use = SimpleNamespace(conf=ExecutorConf({"spark.master": master}))
    application = SimpleNamespace(
        client=driver, followed=SimpleNamespace(use=use), rescales=0, is_elastic=elastic, executors=3
    )
    return Setting(driver, program, relaunching, application, decisions, said, held)


def test_it_leaves_comes_up_and_is_in_the_log(tmp_path: Path, decisions: DecisionJournal) -> None:
    found = setting(tmp_path, decisions, elastic=True)
    assert found.turn()
    assert found.driver.prepared[0]["settings"] == LARGER
    assert found.driver.prepared[0]["action"] == 1
    assert found.relaunching.is_under_way()
    found.driver.lives_on(2, settings=LARGER, former={}, left_at=NOW - 20)
    assert found.relaunching.is_under_way()  # it has begun, and is not up
    found.driver.arrives(NOW - 8)
    assert not found.relaunching.is_under_way()
    assert not found.turn()
    assert found.log() == ["asked", "relaunched"]
    assert "12.00 s" in found.said[-1]
    assert found.driver.brought == [3]
    assert not found.turn()
    assert found.log() == ["asked", "relaunched"]


def test_one_that_does_not_come_up_is_taken_back_whoever_controls_it_then(
    tmp_path: Path, decisions: DecisionJournal
) -> None:
    found = setting(tmp_path, decisions)
    found.driver.lives_on(3, settings={}, why="it ended with exit code 1")
    assert not found.turn()  # somebody else had asked it to leave
    assert found.log() == ["asked", "taken-back"]
    assert "it ended with exit code 1" in found.said[-1]
    assert not found.driver.prepared


def test_outside_its_part_of_the_day_it_waits_and_says_so_once(tmp_path: Path, decisions: DecisionJournal) -> None:
    """Unless a query has stood still anyway."""
    import time

    hour = time.localtime(NOW).tm_hour
    between = f"{(hour + 2) % 24:02}:00-{(hour + 3) % 24:02}:00"
    found = setting(tmp_path, decisions, section=SizesSection(between=between))
    assert not found.turn()
    assert not found.turn()
    assert found.said == [f"sizes, P1: it waits for {between}"]
    found.application.rescales = 1
    assert found.turn()


@pytest.mark.parametrize(
    ("master", "trouble", "said"),
    [
        ("local[2]", None, "sizes: the driver runs all tasks"),
        ("yarn", EngineError("the program cannot be relaunched: query a reads from socket"), "reads from socket"),
    ],
)
def test_what_cannot_be_relaunched_is_said_once_and_goes_on(
    tmp_path: Path, decisions: DecisionJournal, master: str, trouble: EngineError | None, said: str
) -> None:
    found = setting(tmp_path, decisions, master=master, trouble=trouble)
    assert not found.turn()
    assert not found.turn()
    assert said in found.said[-1]
    assert found.said[-1].endswith("; set the sizes at the next start instead")
    assert not (tmp_path / "next.json").exists()
    assert not found.relaunching.is_under_way()
    assert found.log() == ["asked"]


@pytest.mark.parametrize("trouble", [AgentAwayError("no program answers"), AgentBrokenError("BrokenPipeError")])
def test_an_answer_that_is_lost_leaves_what_was_written(
    tmp_path: Path, decisions: DecisionJournal, trouble: EngineError
) -> None:
    found = setting(tmp_path, decisions, trouble=trouble)
    assert not found.turn()
    assert not found.turn()
    assert len(found.driver.prepared) == (1 if isinstance(trouble, AgentBrokenError) else 2)
    assert (tmp_path / "next.json").exists()  # the program may be leaving
    found.driver.lives_on(2, settings=LARGER, former={}, left_at=NOW)
    found.driver.arrives(NOW)
    assert not found.turn()
    assert found.log() == ["asked", "relaunched"]


def test_one_that_is_paused_is_left_alone_until_it_is_resumed(tmp_path: Path, decisions: DecisionJournal) -> None:
    found = setting(tmp_path, decisions)
    found.held[0] = "orders is paused"
    assert not found.turn()
    assert found.said == ["sizes, P1: orders is paused"]
    found.held[0] = ""
    assert found.turn()


def test_one_that_fails_after_it_was_thought_good_is_taken_back_all_the_same(
    tmp_path: Path, decisions: DecisionJournal
) -> None:
    """Its trial by its keeper is longer than its first windows; what was asked for meanwhile grew from what is gone."""
    kept = replace(ASKED, what="kept", at=NOW)
    more = replace(ASKED, number=2, at=NOW, before=ASKED.after, after=ExecutorSizes(1152, 384, 1, 1))
    found = setting(tmp_path, decisions, also=(kept, more))
    found.driver.lives_on(3, settings={}, why="it ended with exit code 52")
    assert not found.turn()
    assert not found.turn()
    assert [(each.number, each.what) for each in action_log.read_actions(found.decisions, "orders")] == [
        (1, "asked"),
        (1, "kept"),
        (2, "asked"),
        (1, "taken-back"),
        (2, "given-up"),
    ]


def test_what_one_life_refused_the_next_one_is_asked_again(tmp_path: Path, decisions: DecisionJournal) -> None:
    found = setting(tmp_path, decisions, trouble=EngineError("it has no query that runs"))
    assert not found.turn()
    found.driver.trouble = None
    assert not found.turn()
    found.driver.lives_on(2, settings={})  # its keeper had to start it again
    assert found.turn()
