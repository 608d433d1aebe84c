"""A program that is started again with other sizes of executors, when sizes are asked for and it is the moment.

    write the settings of the next life ──▶ ask the driver to leave ──▶ its keeper starts the next life
        ──▶ its first batches are done: relaunched           ──▶ the windows after it say whether it does worse
        ──▶ it fails or does not come up: the keeper starts it with the settings of before: taken back

What became of a relaunch is read from the program's folder, so any controller that comes later knows it too.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.adopted.application import AdoptedApplication
from autotrascale.execute.spark.adopted.client import AgentAwayError
from autotrascale.execute.spark.adopted.messages import Leave
from autotrascale.execute.spark.adopted.program import Program
from autotrascale.execute.spark.lives import Life, Next
from autotrascale.plan.executor_size.relaunch import Now, why_not_now
from autotrascale.plan.words import listing
from autotrascale.plan.words import seconds as in_words
from autotrascale.service.output import note
from autotrascale.service.sizes_section import SizesSection
from autotrascale.service.sizing import Sizing, WhileItRuns, to_paste

UP_SECONDS = 300.0  # from a start to the first batches, on a busy cluster
TRIAL_SECONDS = 600.0  # after them, in which the keeper starts it with the sizes of before should it fail
FINISH_SECONDS = 120.0  # for the batches in flight


class Relaunching:
    def __init__(
        self, program: Program, section: SizesSection, sizes: WhileItRuns, tell: Callable[[str], None] = note,
        wall: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self._program, self._section, self._sizes, self._tell, self._wall = program, section, sizes, tell, wall
        self._left: int | None = None  # the life that was asked to leave
        self._executors = 0  # that it had then
        self._moves = 0
        self._refused: set[int] = set()  # actions
        self._told = ""

    def under_way(self) -> bool:
        """Its next life has not come up: nobody is there to be asked, or knows what to answer."""
        if self._left is None:
            return False
        life = self._program.life
        return life.number == self._left or _is_coming(self._program, life)

    def turn(self, application: AdoptedApplication) -> bool:
        """What became of the last relaunch is written down; whether there is another one now."""
        sizing = self._sizes.sizing
        just_moved, self._moves = application.moves > self._moves, application.moves
        if sizing is None:
            return False
        self._follow(sizing, application)
        action, wall = sizing.in_flight, self._wall()
        if action is None or action.number in self._refused:
            return False
        local, life = time.localtime(wall), self._program.life
        now = Now(wall, 60 * local.tm_hour + local.tm_min, _is_coming(self._program, life), just_moved)
        why = why_not_now(action, self._section.part_of_day, self._section.a_day, sizing.history, now)
        if why:
            if action.what == "asked":
                self._tell_once(f"sizes, {action.policy}: {why}")
            return False
        return self._relaunch(sizing, application)

    def _relaunch(self, sizing: Sizing, application: AdoptedApplication) -> bool:
        action, conf, life = sizing.in_flight, application.watched.use.conf, self._program.life
        assert action is not None
        changed = to_paste(action.before, action.after, conf)
        if conf.local:
            return self._refuse(action.number, "its driver runs all tasks, and has its size from the command line")
        self._executors = application.executors if application.elastic else 0
        self._program.prepare(Next(action.number, {**life.settings, **changed}, UP_SECONDS, TRIAL_SECONDS))
        said = listing([f"{name}={value}" for name, value in changed.items()])
        self._tell(f"sizes, {action.policy}: relaunching it from its checkpoint with {said}")
        try:
            left = application.client.leave(Leave(FINISH_SECONDS))
        except AgentAwayError as problem:  # it may have heard: its folder says what comes of it
            self._tell(str(problem))
            return False
        except EngineError as problem:
            self._program.withdraw()
            return self._refuse(action.number, str(problem))
        self._left, self._told = life.number, ""
        cut = "; a batch was cut off, and runs again" if left.cut_off else ""
        self._tell(f"  its batches ended within {in_words(left.finish_seconds)}{cut}")
        return True

    def _refuse(self, action: int, why: str) -> bool:
        self._refused.add(action)
        self._tell(f"sizes: {why}; set at its next start instead")
        return False

    def _follow(self, sizing: Sizing, application: AdoptedApplication) -> None:
        life, arrived, action = self._program.life, self._program.arrived(), sizing.in_flight
        if action is None or life.action != action.number:
            return
        if life.why:
            actions = sizing.went_back(life.number, life.why, self._wall())
        elif arrived is not None:
            still = max(0.0, arrived - life.left_at) if life.left_at is not None else 0.0
            actions = sizing.relaunched(life.number, still, self._wall())
        else:
            return
        for each in actions:
            self._sizes.say(each, application.watched.use.conf)
        if self._executors and actions:  # it began with as many as its settings say
            application.client.bring_to(self._executors)
            self._executors = 0

    def _tell_once(self, line: str) -> None:
        if line != self._told:
            self._tell(line)
            self._told = line


def _is_coming(program: Program, life: Life) -> bool:
    return life.former is not None and program.arrived() is None
