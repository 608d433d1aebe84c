"""Executor sizing: judge windows of an application one by one, and keep its action log.

The verb `sizes` judges the windows of an event log. `run` and `autoscale` judge the windows of a running application.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from autotrascale.analyze.executor_conf import ExecutorConf
from autotrascale.analyze.executor_usage import ExecutorUsage
from autotrascale.app.console import note
from autotrascale.app.sizes_section import HOUR_SECONDS, SizingSettings
from autotrascale.domain.errors import InputError
from autotrascale.domain.executor_window import ExecutorSizes, ExecutorWindow
from autotrascale.knowledge.decision_journal import size_action_log as action_log
from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.monitor.service_latency import Service, ServiceLatencies
from autotrascale.plan.control.observations.slow_services import ServiceLatencyHistory
from autotrascale.plan.executor_size import size_step
from autotrascale.plan.executor_size.relaunch import choose_settings
from autotrascale.plan.executor_size.size_changes import SizeChange
from autotrascale.plan.executor_size.size_evidence import SizeVerdict
from autotrascale.plan.executor_size.size_step import ExecutorSizeState
from autotrascale.plan.formatting import join_names
from autotrascale.views.executor_size_text import find_missing_settings

if TYPE_CHECKING:
    from autotrascale.analyze.executor_windows import ApplicationWindows
    from autotrascale.app.command_context import CommandContext
    from autotrascale.app.metric_recording import MetricRecorder


@dataclass(frozen=True)
class SizingStatus:
    """Sizes of an application, the verdict on them, and its action log.

    Args:
        application: name of the application.
        sizes: sizes in the last window.
        last_window: the last window.
        window_count: number of windows that were judged.
        verdict: the verdict on the sizes; None while a change is in flight.
        in_flight: the change that was requested and is not judged yet.
        history: all actions, the oldest first.
        changed_settings: Spark settings that carry out the change in flight; empty if they are in force.
        services: latencies of the watched services.
    """

    application: str
    sizes: ExecutorSizes
    last_window: ExecutorWindow
    window_count: int
    verdict: SizeVerdict | None
    in_flight: SizeChange | None
    history: tuple[SizeChange, ...]
    changed_settings: Mapping[str, str]
    services: ServiceLatencyHistory = field(default_factory=ServiceLatencyHistory)


class ExecutorSizing:
    """State of sizing for one application."""

    def __init__(
        self,
        application: str,
        settings: SizingSettings,
        conf: ExecutorConf,
        decisions: DecisionJournal | None = None,
        *,
        elastic: bool = False,
    ) -> None:
        """Restore the state from the action log.

        Args:
            application: name of the application.
            settings: rules, limits and quota.
            conf: Spark configuration of the application.
            decisions: journal that holds the action log; None keeps no log.
            elastic: whether executors come and go with the load.
        """
        # In local mode the driver is the only executor.
        limits = replace(settings.limits, most_executors=1) if conf.local else settings.limits
        self.application, self._settings, self._decisions = application, replace(settings, limits=limits), decisions
        self.history = list(action_log.read_actions(decisions, application) if decisions is not None else ())
        self._state: ExecutorSizeState = size_step.restore_state(self.history, elastic=elastic)
        self._known_until = max((action.at for action in self.history), default=0.0)
        self._window_count = 0
        self._verdict: SizeVerdict | None = None

    @property
    def in_flight(self) -> SizeChange | None:
        """The change that was requested and is not judged yet."""
        return self._state.in_flight

    def observe(self, window: ExecutorWindow, services: Mapping[str, float] | None = None) -> tuple[SizeChange, ...]:
        """Judge one more window and return the actions that follow, which are in the action log then.

        A window older than the action log is evidence only. `services` are latencies in seconds by service.
        """
        self._window_count += 1
        ended = window.began + window.seconds
        if ended <= self._known_until:
            self._state = size_step.add_windows(self._state, [window])
            return ()
        others: tuple[float, ...] = ()
        if self._decisions is not None:
            others = action_log.requests_of_other_applications(self._decisions, self.application, ended - HOUR_SECONDS)
        settings = self._settings
        self._state, self._verdict, actions = size_step.judge_window(
            settings.rules, settings.limits, settings.quota, self._state, window, dict(services or {}), others
        )
        return self._log(actions)

    def record_relaunch(self, launch: int, standstill_seconds: float, at: float) -> tuple[SizeChange, ...]:
        """Record that launch number `launch` runs with the new sizes since Unix time `at`."""
        self._state, actions = size_step.record_relaunch(self._state, launch, standstill_seconds, at)
        return self._log(actions)

    def record_failed_relaunch(self, action: int, launch: int, reason: str, at: float) -> tuple[SizeChange, ...]:
        """Record that launch number `launch` runs with the former sizes again.

        A launch is on trial for longer than its first windows, so an action that was judged good may still fail.
        """
        last = next((each for each in reversed(self.history) if each.number == action), None)
        if last is None or last.what in ("taken-back", "given-up"):
            return ()
        self._state, actions = size_step.record_failed_relaunch(self._state, launch, reason, at, last)
        return self._log(actions)

    def status(self, conf: ExecutorConf) -> SizingStatus | None:
        """Return the status, or None before the first window."""
        windows, in_flight = self._state.windows, self._state.in_flight
        if not windows:
            return None
        sizes = windows[-1].sizes
        return SizingStatus(
            self.application,
            sizes,
            windows[-1],
            self._window_count,
            self._verdict,
            in_flight,
            tuple(self.history),
            {} if in_flight is None else list_changed_settings(sizes, in_flight.after, conf),
            self._state.services,
        )

    def _log(self, actions: tuple[SizeChange, ...]) -> tuple[SizeChange, ...]:
        if actions:
            if self._decisions is not None:
                action_log.append_actions(self._decisions, self.application, actions)
            self.history += actions
        return actions


class LiveSizing:
    """Sizing of a running application: judges and records its windows, and prints what to set.

    It changes nothing. `Relauncher` carries out the changes where that is allowed.
    """

    def __init__(
        self,
        context: CommandContext,
        services: Mapping[str, Service],
        tell: Callable[[str], None] = note,
        settings: SizingSettings | None = None,
        *,
        can_relaunch: bool = False,
        to_key: Callable[[str], str] = str,
    ) -> None:
        """Create the sizing.

        Args:
            context: stores of the command.
            services: external services whose latency is watched, by name.
            tell: prints a line.
            settings: rules, limits, quota and window length.
            can_relaunch: whether changes are carried out by a relaunch.
            to_key: returns the place in which the user writes a Spark setting.
        """
        self._context, self._tell, self._can_relaunch = context, tell, can_relaunch
        self._settings, self._to_key = settings or SizingSettings(), to_key
        self._latencies = ServiceLatencies(services, context.recorder.store, tell)
        self.sizing: ExecutorSizing | None = None

    def observe(self, use: ExecutorUsage, *, elastic: bool = False) -> None:
        """Judge the windows that ended. `elastic`: whether executors come and go with the load."""
        for window in use.windows(self._settings.window_seconds):
            if self.sizing is None or self.sizing.application != window.application:
                self.sizing = ExecutorSizing(
                    window.application, self._settings, use.conf, self._context.decisions, elastic=elastic
                )
                for setting in find_missing_settings(window, use.conf.local):
                    self._tell(f"{setting.name}={setting.value} is not set: {setting.why}")
            self._context.recorder.record_windows([window])
            services = self._latencies.during([(window.began, window.began + window.seconds)])[0]
            for action in self.sizing.observe(window, services):
                self.print_action(action, use.conf)

    def print_action(self, action: SizeChange, conf: ExecutorConf) -> None:
        """Print an action with its reason, and the settings that carry it out."""
        self._tell(f"sizes, {action.policy}: {action.what}: {action.reason.text}")
        if action.what == "asked":
            settings = list_changed_settings(action.before, action.after, conf)
            text = " ".join(f"{self._to_key(name)}={value}" for name, value in settings.items())
            when = "by a relaunch" if self._can_relaunch else "at its next start"
            self._tell(f"  {when}, from the same checkpoint: {text}")


def list_changed_settings(before: ExecutorSizes, after: ExecutorSizes, conf: ExecutorConf) -> dict[str, str]:
    """Return the Spark settings that change `before` into `after`."""
    return choose_settings(before, after, conf.settings.get("spark.master", ""), conf.apart_mb)


def size_event_logs(
    paths: Sequence[str],
    settings: SizingSettings,
    services: Mapping[str, Service],
    decisions: DecisionJournal | None,
    recorder: MetricRecorder,
) -> Iterator[SizingStatus]:
    """Yield the status of each application in event logs, after judging its windows.

    Args:
        paths: event logs, or folders of them.
        settings: rules, limits, quota and window length.
        services: external services whose latency is watched, by name.
        decisions: journal that holds action logs; None keeps no log.
        recorder: where to record the windows.

    Raises:
        InputError: the logs hold no full window.
    """
    launches = _read_event_logs(paths, settings.window_seconds)
    for launch in launches:
        recorder.record_windows(launch.windows)
    latencies = ServiceLatencies(services, recorder.store, note)
    for name in dict.fromkeys(launch.application for launch in launches):
        own = [launch for launch in launches if launch.application == name]
        windows, conf = [window for launch in own for window in launch.windows], own[-1].conf
        measured = latencies.during([(window.began, window.began + window.seconds) for window in windows])
        sizing = ExecutorSizing(name, settings, conf, decisions)
        for window, latency in zip(windows, measured, strict=True):
            sizing.observe(window, latency)
        status = sizing.status(conf)
        if status is not None:
            for setting in find_missing_settings(status.last_window, conf.local):
                note(f"{name}: {setting.name}={setting.value} is not set: {setting.why}")
            yield status


def _read_event_logs(paths: Sequence[str], window_seconds: float) -> list[ApplicationWindows]:
    from autotrascale.analyze.executor_windows import read_executor_windows

    launches, damages = read_executor_windows(list(paths), window_seconds)
    for damage in damages:
        note(str(damage))
    if not launches:
        raise InputError(
            ", ".join(paths),
            f"holds no window of {window_seconds:g} s with running executors",
            remedy="give the whole log of an application, or a shorter --window",
        )
    return launches


def read_history(decisions: DecisionJournal, application: str) -> tuple[SizeChange, ...]:
    """Return the action log of an application.

    Raises:
        InputError: the application has none; the error names those that have.
    """
    actions = action_log.read_actions(decisions, application)
    if not actions:
        known = action_log.list_applications(decisions)
        raise InputError(
            "LOG",
            "is neither a file nor an application with an action log",
            seen=application,
            remedy=f"use one of {join_names(known)}" if known else "give an event log first: autotrascale sizes LOG",
        )
    return actions
