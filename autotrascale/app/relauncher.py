"""Relaunch of an application with other executor sizes, when a size change is requested and the moment is right.

    write the next launch ──▶ stop between two batches, and end ──▶ start the next launch
        ──▶ first batches are done: relaunched ──▶ later windows show whether the sizes do harm
        ──▶ it fails or does not come up: start with the former settings: taken back

The driver and the supervisor of an adopted program carry this out; for an own job the controller does. Its result is
read from the notes that they leave, so that any later controller knows it too.
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
from autotrascale.plan.executor_size.size_changes import SizeChange
from autotrascale.plan.formatting import format_seconds, join_names

READY_SECONDS = 300.0  # deadline from a start to its first batches, on a busy cluster
TRIAL_SECONDS = 600.0  # after the first batches: a failure in this time restarts with the former sizes
FINISH_SECONDS = 120.0  # deadline for the batches in flight
UNKNOWN_OUTCOME = (AgentAwayError, AgentBrokenError)  # the driver may or may not have received the request


class LaunchView(Protocol):
    """The present launch of an application, known also while its driver does not answer."""

    @property
    def launch(self) -> Launch: ...

    def arrived(self) -> float | None:
        """Return the Unix time at which the first batches of a relaunch were done, or None."""
        ...


class StopResult(Protocol):
    """The end of the batches in flight: `cut_off` if one was stopped and runs again, after `finish_seconds`."""

    @property
    def cut_off(self) -> bool: ...
    @property
    def finish_seconds(self) -> float: ...


class RelaunchHost(Protocol):
    """The application to relaunch: an adopted program or an own job."""

    @property
    def conf(self) -> ExecutorConf: ...

    @property
    def moves(self) -> int:
        """Number of rescales so far that moved state."""
        ...

    @property
    def executors(self) -> int:
        """Number of executors if they come and go with the load, else 0."""
        ...

    def relaunch(self, following: NextLaunch) -> StopResult:
        """Stop the application for the launch `following`.

        Raises:
            EngineError, InputError: the request is refused.
            AgentAwayError, AgentBrokenError: the outcome is unknown.
        """
        ...

    def scale_to(self, executors: int) -> None: ...


@dataclass(frozen=True)
class ProgramHost:
    """An adopted program as the host of relaunches."""

    program: ProgramProcess
    application: AdoptedApplication

    @property
    def conf(self) -> ExecutorConf:
        return self.application.followed.use.conf

    @property
    def moves(self) -> int:
        return self.application.rescales

    @property
    def executors(self) -> int:
        return self.application.executors if self.application.is_elastic else 0

    def relaunch(self, following: NextLaunch) -> StoppedForRelaunch:
        self.program.write_next_launch(following)
        try:
            return self.application.client.stop_for_relaunch(StopForRelaunch(FINISH_SECONDS))
        except UNKNOWN_OUTCOME:  # the notes in the program's folder will show the outcome
            raise
        except EngineError:
            self.program.remove_next_launch()
            raise

    def scale_to(self, executors: int) -> None:
        self.application.client.scale_to(executors)


class Relauncher:
    """Decides when a requested size change is carried out, and follows the relaunch to its end."""

    def __init__(
        self,
        launches: LaunchView,
        section: SizesSection,
        sizes: LiveSizing,
        tell: Callable[[str], None] = note,
        wall: Callable[[], float] = time.time,
        explain_hold: Callable[[], str] = str,
    ) -> None:
        """Create a relauncher.

        Args:
            launches: the present launch of the application.
            section: settings of sizing.
            sizes: the sizing, whose requests are carried out.
            tell: prints a line.
            wall: returns Unix time.
            explain_hold: returns why the user wants no relaunch now, or "".
        """
        self._launches, self._section, self._sizes, self._tell, self._wall = launches, section, sizes, tell, wall
        self._explain_hold = explain_hold
        self._stopped_launch: int | None = None
        self._executors = 0  # when the launch was stopped
        self._moves = 0
        self._refused: set[tuple[int, int]] = set()  # numbers of action and launch
        self._last_line = ""

    def is_under_way(self) -> bool:
        """Return whether a relaunch has begun whose first batches are not done. The driver cannot be asked then."""
        if self._stopped_launch is None:
            return False
        launch = self._launches.launch
        return launch.number == self._stopped_launch or self._is_starting(launch)

    def record_result(self, host: RelaunchHost) -> None:
        """Record the result of the last relaunch, before a later window is judged."""
        if self._sizes.sizing is not None:
            self._record_result(self._sizes.sizing, host)

    def relaunch_if_due(self, host: RelaunchHost) -> bool:
        """Record the result of the last relaunch, and begin the next one if a change is requested and may begin now.

        Returns:
            Whether a relaunch has begun.
        """
        sizing = self._sizes.sizing
        just_moved, self._moves = host.moves > self._moves, host.moves
        if sizing is None:
            return False
        self._record_result(sizing, host)
        action, launch = sizing.in_flight, self._launches.launch
        if action is None or (action.number, launch.number) in self._refused:
            return False
        wall = self._wall()
        local = time.localtime(wall)
        moment = RelaunchMoment(wall, 60 * local.tm_hour + local.tm_min, self._is_starting(launch), just_moved)
        section = self._section
        reason = explain_wait(action, section.relaunch_window, section.a_day, sizing.history, moment)
        reason = reason or self._explain_hold()
        if reason:
            if action.what == "asked":
                self._tell_once(f"sizes, {action.policy}: {reason}")
            return False
        return self._relaunch(action, launch, host)

    def _relaunch(self, action: SizeChange, launch: Launch, host: RelaunchHost) -> bool:
        conf = host.conf
        changed = list_changed_settings(action.before, action.after, conf)
        if conf.local:
            reason = "the driver runs all tasks, and its size comes from the command line"
            return self._refuse(action, launch, reason)
        self._executors = host.executors
        settings = join_names([f"{name}={value}" for name, value in changed.items()])
        self._tell(f"sizes, {action.policy}: relaunching from the checkpoint with {settings}")
        try:
            stopped = host.relaunch(
                NextLaunch(action.number, {**launch.settings, **changed}, READY_SECONDS, TRIAL_SECONDS)
            )
        except UNKNOWN_OUTCOME as problem:
            if isinstance(problem, AgentBrokenError):  # the driver answers, so asking again would fail again
                self._refused.add((action.number, launch.number))
            self._tell(str(problem))
            return False
        except (EngineError, InputError) as problem:
            return self._refuse(action, launch, str(problem))
        self._stopped_launch, self._last_line = launch.number, ""
        cut_off = "; one batch was stopped and runs again" if stopped.cut_off else ""
        self._tell(f"  its batches ended within {format_seconds(stopped.finish_seconds)}{cut_off}")
        return True

    def _refuse(self, action: SizeChange, launch: Launch, reason: str) -> bool:
        self._refused.add((action.number, launch.number))
        self._tell(f"sizes: {reason}; set the sizes at the next start instead")
        return False

    def _record_result(self, sizing: ExecutorSizing, host: RelaunchHost) -> None:
        launch, arrived = self._launches.launch, self._launches.arrived()
        if launch.why:
            actions = sizing.record_failed_relaunch(launch.action, launch.number, launch.why, self._wall())
        elif arrived is not None and sizing.in_flight is not None and launch.action == sizing.in_flight.number:
            standstill_seconds = max(0.0, arrived - launch.left_at) if launch.left_at is not None else 0.0
            actions = sizing.record_relaunch(launch.number, standstill_seconds, self._wall())
        else:
            return
        for each in actions:
            self._sizes.print_action(each, host.conf)
        if self._executors and actions:  # the launch began with the number in its settings
            host.scale_to(self._executors)
            self._executors = 0

    def _is_starting(self, launch: Launch) -> bool:
        return launch.former is not None and self._launches.arrived() is None

    def _tell_once(self, line: str) -> None:
        if line != self._last_line:
            self._tell(line)
            self._last_line = line
