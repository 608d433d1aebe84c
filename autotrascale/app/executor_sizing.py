"""Windows of an application through the policies, beside its action log: what `sizes` says of a log, and `run` of a
program while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from autotrascale.analyze.executor_conf import ExecutorConf
from autotrascale.analyze.executor_usage import ExecutorUsage
from autotrascale.app.console import note
from autotrascale.app.sizes_section import HOUR, SizingSettings
from autotrascale.domain.executor_window import ExecutorSizes, ExecutorWindow
from autotrascale.knowledge.decision_journal import size_action_log as action_log
from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.monitor.service_latency import Service, ServiceLatencies
from autotrascale.plan.control.observations.slow_services import ServiceLatencyHistory
from autotrascale.plan.executor_size import size_step
from autotrascale.plan.executor_size.clamp_to_cluster import ClusterLimits
from autotrascale.plan.executor_size.relaunch import choose_settings
from autotrascale.plan.executor_size.size_changes import SizeChange
from autotrascale.plan.executor_size.size_evidence import SizeVerdict
from autotrascale.plan.executor_size.size_step import ExecutorSizeState
from autotrascale.views import executor_size_text as sizes_in_words

if TYPE_CHECKING:
    from autotrascale.app.loop_session import CommandContext


@dataclass(frozen=True)
class SizingStatus:
    """What an application has, what is thought of it, and all that was ever done. `verdict` is None while an action is
    in flight."""

    application: str
    sizes: ExecutorSizes
    last: ExecutorWindow
    windows: int
    verdict: SizeVerdict | None
    in_flight: SizeChange | None
    history: tuple[SizeChange, ...]
    services: ServiceLatencyHistory = field(default_factory=ServiceLatencyHistory)


class ExecutorSizing:
    """Of one application. `decisions`: where its action log is kept; None keeps none."""

    def __init__(
        self, application: str, how: SizingSettings, decisions: DecisionJournal | None, *, elastic: bool = False
    ) -> None:
        self.application, self.how, self._decisions = application, how, decisions
        self.history = list(action_log.read_actions(decisions, application) if decisions is not None else ())
        self._state: ExecutorSizeState = size_step.restore_state(self.history, elastic=elastic)
        self._known_until = max((action.at for action in self.history), default=0.0)
        self._windows = 0
        self.verdict: SizeVerdict | None = None

    def saw(self, window: ExecutorWindow, services: Mapping[str, float] | None = None) -> tuple[SizeChange, ...]:
        """What follows from one more window; it is in the action log when this returns. Windows that the log already
        has answers to are evidence, no more."""
        self._windows += 1
        ended = window.began + window.seconds
        if ended <= self._known_until:
            self._state = size_step.add_windows(self._state, [window])
            return ()
        others: tuple[float, ...] = ()
        if self._decisions is not None:
            others = action_log.requests_of_other_applications(self._decisions, self.application, ended - HOUR)
        how = self.how
        self._state, self.verdict, actions = size_step.judge_window(
            how.rules, how.limits, how.quota, self._state, window, dict(services or {}), others
        )
        return self._kept(actions)

    @property
    def in_flight(self) -> SizeChange | None:
        return self._state.in_flight

    def relaunched(self, life: int, standstill_seconds: float, at: float) -> tuple[SizeChange, ...]:
        self._state, actions = size_step.record_relaunch(self._state, life, standstill_seconds, at)
        return self._kept(actions)

    def went_back(self, action: int, life: int, why: str, at: float) -> tuple[SizeChange, ...]:
        """Also from what was thought good: it is on trial for longer than its first windows."""
        last = next((each for each in reversed(self.history) if each.number == action), None)
        if last is None or last.what in ("taken-back", "given-up"):
            return ()
        self._state, actions = size_step.record_failed_relaunch(self._state, life, why, at, last)
        return self._kept(actions)

    def _kept(self, actions: tuple[SizeChange, ...]) -> tuple[SizeChange, ...]:
        if actions:
            if self._decisions is not None:
                action_log.append_actions(self._decisions, self.application, actions)
            self.history += actions
        return actions

    def standing(self) -> SizingStatus | None:
        """None before the first window."""
        windows = self._state.windows
        if not windows:
            return None
        return SizingStatus(
            self.application,
            windows[-1].sizes,
            windows[-1],
            self._windows,
            self.verdict,
            self._state.in_flight,
            tuple(self.history),
            self._state.services,
        )


class LiveSizing:
    """Of a program that runs: its windows as they are over, judged, kept as metrics, and what follows from them said
    with the settings to paste. Nothing is changed here: `relaunching.py` does, where it may (`acts`)."""

    def __init__(
        self,
        around: CommandContext,
        services: Mapping[str, Service],
        tell: Callable[[str], None] = note,
        how: SizingSettings | None = None,
        *,
        acts: bool = False,
        setting: Callable[[str], str] = str,
    ) -> None:
        """`setting`: where somebody writes one of Spark's names down, if it is not on a command line."""
        self._around, self._tell, self._how, self._acts = around, tell, how or SizingSettings(), acts
        self._setting = setting
        self._latencies = ServiceLatencies(services, around.meter.store, tell)
        self.sizing: ExecutorSizing | None = None

    def saw(self, use: ExecutorUsage, *, elastic: bool = False) -> None:
        """`elastic`: its executors come and go with the load."""
        for window in use.windows(self._how.window_seconds):
            if self.sizing is None or self.sizing.application != window.application:
                how = replace(self._how, limits=limit_executors(self._how.limits, use.conf))
                self.sizing = ExecutorSizing(window.application, how, self._around.decisions, elastic=elastic)
                for needed in sizes_in_words.find_missing_settings(window, use.conf.local):
                    self._tell(f"{needed.name}={needed.value} is not set: {needed.why}")
            self._around.meter.keep_windows([window])
            services = self._latencies.during([(window.began, window.began + window.seconds)])[0]
            for action in self.sizing.saw(window, services):
                self.say(action, use.conf)

    def say(self, action: SizeChange, conf: ExecutorConf) -> None:
        self._tell(f"sizes, {action.policy}: {action.what}: {action.reason.text}")
        if action.what == "asked":
            changed = list_changed_settings(action.before, action.after, conf)
            pasted = " ".join(f"{self._setting(name)}={value}" for name, value in changed.items())
            when = "by a relaunch" if self._acts else "at its next start"
            self._tell(f"  {when}, from the same checkpoint: {pasted}")


def list_changed_settings(before: ExecutorSizes, after: ExecutorSizes, conf: ExecutorConf) -> dict[str, str]:
    """The settings of Spark's that make the one the other."""
    return choose_settings(before, after, conf.said.get("spark.master", ""), conf.apart_mb)


def limit_executors(limits: ClusterLimits, conf: ExecutorConf) -> ClusterLimits:
    """A driver that is the executor is one."""
    return replace(limits, most_executors=1) if conf.local else limits


def judge_windows(
    application: str,
    windows: Sequence[ExecutorWindow],
    how: SizingSettings,
    decisions: DecisionJournal | None,
    services: Sequence[Mapping[str, float]] = (),
) -> SizingStatus | None:
    """All windows of an application, one after the other; `services`: the latency of each at each of them."""
    sizing = ExecutorSizing(application, how, decisions)
    for number, window in enumerate(windows):
        sizing.saw(window, services[number] if services else None)
    return sizing.standing()
