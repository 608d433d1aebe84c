"""An application that is started again with other sizes of executors, when sizes are asked for and it is the moment.

    write the settings of the next life ──▶ stop between two batches, and end ──▶ the next life is started
        ──▶ its first batches are done: relaunched           ──▶ the windows after it say whether it does worse
        ──▶ it fails or does not come up: it is started with the settings of before: taken back

That is done by a program's driver and its keeper, or by us for a job of ours (`execute/spark/sized.py`). What became of
it is read from what they wrote down, so any controller that comes later knows it too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from autotrascale.analyze.executor_conf import ExecutorConf
from autotrascale.app.console import note
from autotrascale.app.executor_sizing import ExecutorSizing, LiveSizing, list_changed_settings
from autotrascale.app.sizes_section import SizesSection
from autotrascale.domain.errors import EngineError, InputError
from autotrascale.execute.spark.common.launches import Launch, NextLaunch
from autotrascale.execute.spark.controller.adopted_application import AdoptedApplication
from autotrascale.execute.spark.controller.agent_client import AgentAwayError, AgentBrokenError
from autotrascale.execute.spark.controller.program_process import ProgramProcess
from autotrascale.execute.spark.protocol.agent_messages import StopForRelaunch, StoppedForRelaunch
from autotrascale.plan.executor_size.relaunch import RelaunchMoment, explain_wait
from autotrascale.plan.formatting import format_seconds as in_words
from autotrascale.plan.formatting import join_names

UP_SECONDS = 300.0  # from a start to the first batches, on a busy cluster
TRIAL_SECONDS = 600.0  # after them, in which the keeper starts it with the sizes of before should it fail
UNKNOWN_OUTCOME = (AgentAwayError, AgentBrokenError)  # what became of what was asked for
FINISH_SECONDS = 120.0  # for the batches in flight


class LaunchView(Protocol):
    """What is known of an application's present life, also when nobody answers for it."""

    @property
    def life(self) -> Launch: ...

    def arrived(self) -> float | None:
        """When its first batches were done, if it replaced another."""
        ...


class StopResult(Protocol):
    """`cut_off`: a batch, which runs again; `finish_seconds` until all had ended."""

    @property
    def cut_off(self) -> bool: ...
    @property
    def finish_seconds(self) -> float: ...


class RelaunchHost(Protocol):
    """What is started again: a program that is adopted, or a job of ours."""

    @property
    def conf(self) -> ExecutorConf: ...

    @property
    def moves(self) -> int:
        """How often something of it has stood still since its state was moved."""
        ...

    @property
    def executors(self) -> int:
        """That it has, where they come and go with the load; else 0."""
        ...

    def relaunch(self, following: NextLaunch) -> StopResult:
        """Raises `EngineError` or `InputError` where it is refused, and one of `UNKNOWN` where nobody knows."""
        ...

    def scale_to(self, executors: int) -> None: ...


@dataclass(frozen=True)
class ProgramHost:
    """A program of somebody else's, and what of it runs now."""

    program: ProgramProcess
    application: AdoptedApplication

    @property
    def conf(self) -> ExecutorConf:
        return self.application.watched.use.conf

    @property
    def moves(self) -> int:
        return self.application.moves

    @property
    def executors(self) -> int:
        return self.application.executors if self.application.elastic else 0

    def relaunch(self, following: NextLaunch) -> StoppedForRelaunch:
        self.program.prepare(following)
        try:
            return self.application.client.leave(StopForRelaunch(FINISH_SECONDS))
        except UNKNOWN_OUTCOME:  # it may have heard: its folder says what comes of it
            raise
        except EngineError:
            self.program.withdraw()
            raise

    def scale_to(self, executors: int) -> None:
        self.application.client.scale_to(executors)


class Relauncher:
    def __init__(
        self,
        lives: LaunchView,
        section: SizesSection,
        sizes: LiveSizing,
        tell: Callable[[str], None] = note,
        wall: Callable[[], float] = time.time,
        held: Callable[[], str] = str,
    ) -> None:
        """`held`: why people want it left alone, if they do."""
        self._lives, self._section, self._sizes, self._tell, self._wall = lives, section, sizes, tell, wall
        self._held = held
        self._left: int | None = None  # the life that was asked to leave
        self._executors = 0  # that it had then
        self._moves = 0
        self._refused: set[tuple[int, int]] = set()  # actions, by which life
        self._told = ""

    def under_way(self) -> bool:
        """Its next life has not come up: nobody is there to be asked, or knows what to answer."""
        if self._left is None:
            return False
        life = self._lives.life
        return life.number == self._left or self._is_coming(life)

    def follow(self, host: RelaunchHost) -> None:
        """What became of the last relaunch, before a window is judged that comes after it."""
        if self._sizes.sizing is not None:
            self._follow(self._sizes.sizing, host)

    def turn(self, host: RelaunchHost) -> bool:
        """What became of the last relaunch is written down; whether there is another one now."""
        sizing = self._sizes.sizing
        just_moved, self._moves = host.moves > self._moves, host.moves
        if sizing is None:
            return False
        self._follow(sizing, host)
        action, wall = sizing.in_flight, self._wall()
        life = self._lives.life
        if action is None or (action.number, life.number) in self._refused:
            return False
        local = time.localtime(wall)
        now = RelaunchMoment(wall, 60 * local.tm_hour + local.tm_min, self._is_coming(life), just_moved)
        why = explain_wait(action, self._section.part_of_day, self._section.a_day, sizing.history, now) or self._held()
        if why:
            if action.what == "asked":
                self._tell_once(f"sizes, {action.policy}: {why}")
            return False
        return self._relaunch(sizing, host)

    def _relaunch(self, sizing: ExecutorSizing, host: RelaunchHost) -> bool:
        action, conf, life = sizing.in_flight, host.conf, self._lives.life
        assert action is not None
        changed = list_changed_settings(action.before, action.after, conf)
        if conf.local:
            return self._refuse(
                action.number, life, "its driver runs all tasks, and has its size from the command line"
            )
        self._executors = host.executors
        said = join_names([f"{name}={value}" for name, value in changed.items()])
        self._tell(f"sizes, {action.policy}: relaunching it from its checkpoint with {said}")
        try:
            left = host.relaunch(NextLaunch(action.number, {**life.settings, **changed}, UP_SECONDS, TRIAL_SECONDS))
        except UNKNOWN_OUTCOME as problem:
            if isinstance(problem, AgentBrokenError):  # it answers, and would go on to
                self._refused.add((action.number, life.number))
            self._tell(str(problem))
            return False
        except (EngineError, InputError) as problem:
            return self._refuse(action.number, life, str(problem))
        self._left, self._told = life.number, ""
        cut = "; a batch was cut off, and runs again" if left.cut_off else ""
        self._tell(f"  its batches ended within {in_words(left.finish_seconds)}{cut}")
        return True

    def _refuse(self, action: int, life: Launch, why: str) -> bool:
        self._refused.add((action, life.number))
        self._tell(f"sizes: {why}; set at its next start instead")
        return False

    def _follow(self, sizing: ExecutorSizing, host: RelaunchHost) -> None:
        life, arrived = self._lives.life, self._lives.arrived()
        if life.why:
            actions = sizing.went_back(life.action, life.number, life.why, self._wall())
        elif arrived is not None and sizing.in_flight is not None and life.action == sizing.in_flight.number:
            still = max(0.0, arrived - life.left_at) if life.left_at is not None else 0.0
            actions = sizing.relaunched(life.number, still, self._wall())
        else:
            return
        for each in actions:
            self._sizes.say(each, host.conf)
        if self._executors and actions:  # it began with as many as its settings say
            host.scale_to(self._executors)
            self._executors = 0

    def _is_coming(self, life: Launch) -> bool:
        return life.former is not None and self._lives.arrived() is None

    def _tell_once(self, line: str) -> None:
        if line != self._told:
            self._tell(line)
            self._told = line
