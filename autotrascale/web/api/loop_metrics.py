"""The control loops that keep their journal beside this store: how each stood when it was last read, as health and as
figures for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from autotrascale.app.notifications import Notifier
from autotrascale.domain.errors import AuTraScaleError
from autotrascale.knowledge.decision_journal.journal import DAY_SECONDS, DecisionJournal
from autotrascale.knowledge.decision_journal.loop_status import LoopStatus, read_loop_statuses
from autotrascale.views.loop_events import LoopCondition
from autotrascale.web.api.prometheus import Gauge, LabelledValues
from autotrascale.web.api.schemas import MAX_OPERATORS, LoopHealth

REFRESH_SECONDS = 10.0
FORGOTTEN_SECONDS = 7 * DAY_SECONDS  # after so long without a word a loop whose process died is missed by nobody
QUIET_AFTER_SECONDS = 3600.0  # what happened so long before the server began is no news
MAX_LOOPS = 200  # that have figures: each has some twenty series, and two for each operator
_LONGEST = 120  # characters of a label

GaugeValue = Callable[[LoopStatus], float | None]
_OF_A_LOOP: Mapping[str, tuple[str, GaugeValue]] = {
    "loop_up": ("1 while the process of the loop lives.", lambda each: float(each.lives)),
    "loop_advises": ("1 where it only says what it would do.", lambda each: float(each.advises)),
    "loop_paused": ("1 while somebody has paused it.", lambda each: float(each.state == "paused")),
    "loop_pinned": ("1 while somebody has pinned operators.", lambda each: float(each.state == "pinned")),
    "loop_orders_waiting": ("Orders that it has not taken in yet.", lambda each: float(len(each.waiting))),
    "loop_job_up": ("0 while the job does not run.", lambda each: float(each.running is not None)),
    "loop_look_seconds_ago": ("Since it last looked.", lambda each: each.looked_seconds_ago),
    "loop_metrics_seconds_ago": ("Age of the newest metrics that it believed.", lambda each: each.measured_seconds_ago),
    "loop_decision_seconds_ago": ("Since it last could decide.", lambda each: each.decided_seconds_ago),
    "loop_holds_in_a_row": ("Looks up to now that could not be decided on.", lambda each: float(each.held_in_a_row)),
    "loop_looks": ("Looks of its session.", lambda each: float(each.looks)),
    "loop_rescales": ("Rescales of its session, those that failed too.", lambda each: float(each.rescales)),
    "loop_rate": ("Records per second that arrive.", lambda each: each.rate),
    "loop_backlog_records": ("Records that wait.", lambda each: each.backlog_records),
    "loop_latency_seconds": ("Latency, the statistic of the target.", lambda each: each.latency_seconds),
    "loop_target_seconds": ("The latency target.", lambda each: each.latency_target),
    "loop_target_met": (
        "1 while the last latency that was measured is within the target.",
        lambda each: None if each.target_met is None else float(each.target_met),
    ),
    "loop_within_target_ratio": ("Share of the measured time within the target.", lambda each: each.within_target),
    "loop_executors": ("Executors, of a program that is kept by them.", lambda each: _number(each.executors)),
}
_OF_THE_DEAD = frozenset(("loop_up", "loop_advises", "loop_look_seconds_ago"))  # nobody knows how their jobs are
_OF_AN_OPERATOR: Mapping[str, tuple[str, Callable[[LoopStatus], Mapping[str, int] | None]]] = {
    "loop_parallelism": ("Instances that run.", lambda each: each.running),
    "loop_recommended": ("Instances that the last decision wants.", lambda each: each.recommended),
}


class LoopMonitor:
    """What was read last: asking costs nothing, reading is for the thread that keeps up with the store."""

    def __init__(self, decisions: DecisionJournal | None) -> None:
        self.decisions = decisions
        self.statuses: tuple[LoopStatus, ...] = ()
        self.notifier: Notifier | None = None  # of this server, for what its loops may not live to tell
        self._began = False
        self._looked = -REFRESH_SECONDS

    def look(self) -> None:
        if self.decisions is None or time.monotonic() - self._looked < REFRESH_SECONDS:
            return
        self._looked = time.monotonic()
        try:
            self.statuses = tuple(each for each in read_loop_statuses(self.decisions, ended=False) if _is_missed(each))
        except AuTraScaleError:  # the journal is away: what was known of its loops is not known any more
            self.statuses = ()
            return
        if self.notifier is not None:
            for each in self._told():
                self.notifier.saw(_view(each), quiet=not self._began and each.looked_seconds_ago > QUIET_AFTER_SECONDS)
        self._began = True

    @property
    def now(self) -> tuple[LoopHealth, ...]:
        """Those that run."""
        return tuple(_health(each) for each in self.statuses if each.lives)

    def readings(self) -> Iterable[Gauge]:
        told = self._told()
        for name, (help_, value) in _OF_A_LOOP.items():
            known = [each for each in told if each.lives or name in _OF_THE_DEAD]
            yield name, help_, ("job",), {(_label(each.job),): value(each) for each in known}
        for name, (help_, numbers) in _OF_AN_OPERATOR.items():
            of_operators: LabelledValues = {
                (_label(each.job), _label(operator)): float(k)
                for each in told
                if each.lives
                for operator, k in list((numbers(each) or {}).items())[:MAX_OPERATORS]
            }
            yield name, help_, ("job", "operator"), of_operators
        yield (
            "loops_left_out",
            f"Loops beyond {MAX_LOOPS}, which have no figures.",
            (),
            {(): float(max(0, len({each.job for each in self.statuses}) - MAX_LOOPS))},
        )

    def _told(self) -> list[LoopStatus]:
        """One of each job: of one that acts and one that only advises the former, of both dead ones and live ones the
        latter."""
        best: dict[str, LoopStatus] = {}
        for each in sorted(self.statuses, key=lambda each: (not each.lives, each.advises)):
            best.setdefault(each.job, each)
        return [best[job] for job in sorted(best)][:MAX_LOOPS]


def _is_missed(each: LoopStatus) -> bool:
    return each.lives or each.looked_seconds_ago < FORGOTTEN_SECONDS


def _health(each: LoopStatus) -> LoopHealth:
    return LoopHealth(
        job=each.job,
        session=each.session,
        advises=each.advises,
        state=each.state,
        written_seconds_ago=each.looked_seconds_ago,
        measured_seconds_ago=each.measured_seconds_ago,
        decided_seconds_ago=each.decided_seconds_ago,
        looks=each.looks,
        held_in_a_row=each.held_in_a_row,
        holds_for=each.holds_for,
        target_met=each.target_met,
    )


def _view(each: LoopStatus) -> LoopCondition:
    held = (each.decided_seconds_ago or 0.0) if each.held_in_a_row else 0.0
    return LoopCondition(
        each.job,
        each.simulated,
        each.latency_target,
        each.running,
        each.latency_seconds,
        each.rescales,
        each.steadily_met,
        held,
        each.holds_for or "",
        each.down,
        not each.lives,
        tuple(each.last_reasons),
    )


def _label(text: str) -> str:
    return text[:_LONGEST]


def _number(count: int | None) -> float | None:
    return None if count is None else float(count)
