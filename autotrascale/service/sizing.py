"""Windows of an application through the policies, beside its action log: what `sizes` says of a log, and `run` of a
program while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from autotrascale.analyze.executor_sizes import Conf
from autotrascale.analyze.executor_use import ExecutorUse
from autotrascale.domain.executor_window import ExecutorWindow, Sizes
from autotrascale.knowledge.decisions import sizes as action_log
from autotrascale.knowledge.decisions.journal import Decisions
from autotrascale.monitor.services import Latencies, Service
from autotrascale.plan.control.looks.signals import Services
from autotrascale.plan.executor_size import steps
from autotrascale.plan.executor_size.actions import Action
from autotrascale.plan.executor_size.evidence import Verdict
from autotrascale.plan.executor_size.fitting import Limits
from autotrascale.plan.executor_size.relaunch import settings
from autotrascale.plan.executor_size.steps import State
from autotrascale.service.output import note
from autotrascale.service.sizes_section import HOUR, How
from autotrascale.views import sizes as sizes_in_words

if TYPE_CHECKING:
    from autotrascale.service.keeping import Around


@dataclass(frozen=True)
class Standing:
    """What an application has, what is thought of it, and all that was ever done. `verdict` is None while an action is
    in flight."""

    application: str
    sizes: Sizes
    last: ExecutorWindow
    windows: int
    verdict: Verdict | None
    in_flight: Action | None
    history: tuple[Action, ...]
    services: Services = field(default_factory=Services)


class Sizing:
    """Of one application. `decisions`: where its action log is kept; None keeps none."""

    def __init__(self, application: str, how: How, decisions: Decisions | None, *, elastic: bool = False) -> None:
        self.application, self.how, self._decisions = application, how, decisions
        self.history = list(action_log.actions(decisions, application) if decisions is not None else ())
        self._state: State = steps.recalled(self.history, elastic=elastic)
        self._known_until = max((action.at for action in self.history), default=0.0)
        self._windows = 0
        self.verdict: Verdict | None = None

    def saw(self, window: ExecutorWindow, services: Mapping[str, float] | None = None) -> tuple[Action, ...]:
        """What follows from one more window; it is in the action log when this returns. Windows that the log already
        has answers to are evidence, no more."""
        self._windows += 1
        ended = window.began + window.seconds
        if ended <= self._known_until:
            self._state = steps.seeing(self._state, [window])
            return ()
        others: tuple[float, ...] = ()
        if self._decisions is not None:
            others = action_log.asked_by_others(self._decisions, self.application, ended - HOUR)
        how = self.how
        self._state, self.verdict, actions = steps.step(
            how.rules, how.limits, how.quota, self._state, window, dict(services or {}), others
        )
        return self._kept(actions)

    @property
    def in_flight(self) -> Action | None:
        return self._state.in_flight

    def relaunched(self, life: int, still_seconds: float, at: float) -> tuple[Action, ...]:
        self._state, actions = steps.relaunched(self._state, life, still_seconds, at)
        return self._kept(actions)

    def went_back(self, action: int, life: int, why: str, at: float) -> tuple[Action, ...]:
        """Also from what was thought good: it is on trial for longer than its first windows."""
        last = next((each for each in reversed(self.history) if each.number == action), None)
        if last is None or last.what in ("taken-back", "given-up"):
            return ()
        self._state, actions = steps.went_back(self._state, life, why, at, last)
        return self._kept(actions)

    def _kept(self, actions: tuple[Action, ...]) -> tuple[Action, ...]:
        if actions:
            if self._decisions is not None:
                action_log.append(self._decisions, self.application, actions)
            self.history += actions
        return actions

    def standing(self) -> Standing | None:
        """None before the first window."""
        windows = self._state.windows
        if not windows:
            return None
        return Standing(
            self.application,
            windows[-1].sizes,
            windows[-1],
            self._windows,
            self.verdict,
            self._state.in_flight,
            tuple(self.history),
            self._state.services,
        )


class WhileItRuns:
    """Of a program that runs: its windows as they are over, judged, kept as metrics, and what follows from them said
    with the settings to paste. Nothing is changed here: `relaunching.py` does, where it may (`acts`)."""

    def __init__(
        self,
        around: Around,
        services: Mapping[str, Service],
        tell: Callable[[str], None] = note,
        how: How | None = None,
        *,
        acts: bool = False,
        setting: Callable[[str], str] = str,
    ) -> None:
        """`setting`: where somebody writes one of Spark's names down, if it is not on a command line."""
        self._around, self._tell, self._how, self._acts = around, tell, how or How(), acts
        self._setting = setting
        self._latencies = Latencies(services, around.meter.store, tell)
        self.sizing: Sizing | None = None

    def saw(self, use: ExecutorUse, *, elastic: bool = False) -> None:
        """`elastic`: its executors come and go with the load."""
        for window in use.windows(self._how.window_seconds):
            if self.sizing is None or self.sizing.application != window.application:
                how = replace(self._how, limits=limits_of(self._how.limits, use.conf))
                self.sizing = Sizing(window.application, how, self._around.decisions, elastic=elastic)
                for needed in sizes_in_words.missing(window, use.conf.local):
                    self._tell(f"{needed.name}={needed.value} is not set: {needed.why}")
            self._around.meter.keep_windows([window])
            services = self._latencies.during([(window.began, window.began + window.seconds)])[0]
            for action in self.sizing.saw(window, services):
                self.say(action, use.conf)

    def say(self, action: Action, conf: Conf) -> None:
        self._tell(f"sizes, {action.policy}: {action.what}: {action.reason.text}")
        if action.what == "asked":
            changed = to_paste(action.before, action.after, conf)
            pasted = " ".join(f"{self._setting(name)}={value}" for name, value in changed.items())
            when = "by a relaunch" if self._acts else "at its next start"
            self._tell(f"  {when}, from the same checkpoint: {pasted}")


def to_paste(before: Sizes, after: Sizes, conf: Conf) -> dict[str, str]:
    """The settings of Spark's that make the one the other."""
    return settings(before, after, conf.said.get("spark.master", ""), conf.apart_mb)


def limits_of(limits: Limits, conf: Conf) -> Limits:
    """A driver that is the executor is one."""
    return replace(limits, most_executors=1) if conf.local else limits


def followed(
    application: str,
    windows: Sequence[ExecutorWindow],
    how: How,
    decisions: Decisions | None,
    services: Sequence[Mapping[str, float]] = (),
) -> Standing | None:
    """All windows of an application, one after the other; `services`: the latency of each at each of them."""
    sizing = Sizing(application, how, decisions)
    for number, window in enumerate(windows):
        sizing.saw(window, services[number] if services else None)
    return sizing.standing()
