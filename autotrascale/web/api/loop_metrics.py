"""Control loops as health reports and as gauges for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from autotrascale.knowledge.decision_journal.loop_status import JournaledLoop, LoopStatus, choose_loops
from autotrascale.web.api.prometheus import Gauge, LabelledValues
from autotrascale.web.api.schemas import MAX_OPERATORS, LoopHealth

MAX_LOOPS = 200  # with gauges: each has about twenty series, and two for each operator
_MAX_LABEL_LENGTH = 120

GaugeValue = Callable[[LoopStatus], float | None]
_LOOP_GAUGES: Mapping[str, tuple[str, GaugeValue]] = {
    "loop_up": ("1 while the process of the loop runs.", lambda each: float(each.lives)),
    "loop_advises": ("1 if the loop only advises.", lambda each: float(each.advises)),
    "loop_paused": ("1 while the loop is paused.", lambda each: float(each.state == "paused")),
    "loop_pinned": ("1 while operators are pinned.", lambda each: float(each.state == "pinned")),
    "loop_orders_waiting": ("Commands that the loop has not read yet.", lambda each: float(len(each.waiting))),
    "loop_job_up": ("0 while the job is down.", lambda each: float(each.running is not None)),
    "loop_look_seconds_ago": ("Age of the last observation.", lambda each: each.looked_seconds_ago),
    "loop_metrics_seconds_ago": (
        "Age of the newest metrics that passed the checks.",
        lambda each: each.measured_seconds_ago,
    ),
    "loop_decision_seconds_ago": ("Time since the last decision.", lambda each: each.decided_seconds_ago),
    "loop_holds_in_a_row": (
        "Observations since the last decision, none of which allowed a decision.",
        lambda each: float(each.held_in_a_row),
    ),
    "loop_looks": ("Observations in the session.", lambda each: float(each.looks)),
    "loop_rescales": ("Rescales in the session, failed ones included.", lambda each: float(each.rescales)),
    "loop_rate": ("Records per second that arrive.", lambda each: each.rate),
    "loop_backlog_records": ("Records that wait.", lambda each: each.backlog_records),
    "loop_latency_seconds": ("Latency, as the statistic of the target.", lambda each: each.latency_seconds),
    "loop_target_seconds": ("The latency target.", lambda each: each.latency_target),
    "loop_target_met": (
        "1 while the last measured latency is within the target.",
        lambda each: None if each.target_met is None else float(each.target_met),
    ),
    "loop_within_target_ratio": ("Share of the measured time within the target.", lambda each: each.within_target),
    "loop_executors": (
        "Executors of a program whose instances are executors.",
        lambda each: None if each.executors is None else float(each.executors),
    ),
}
_KNOWN_WHEN_DEAD = frozenset(("loop_up", "loop_advises", "loop_look_seconds_ago"))
_OPERATOR_GAUGES: Mapping[str, tuple[str, Callable[[LoopStatus], Mapping[str, int] | None]]] = {
    "loop_parallelism": ("Instances that run.", lambda each: each.running),
    "loop_recommended": ("Instances that the last decision wants.", lambda each: each.recommended),
}


def collect_loop_gauges(loops: Iterable[JournaledLoop]) -> Iterator[Gauge]:
    """Yield the gauges of one loop per job. A loop whose process died has only the gauges that are still known."""
    chosen = choose_loops(loops)
    shown = [loop.status() for loop in list(chosen.values())[:MAX_LOOPS]]
    for name, (help_, value) in _LOOP_GAUGES.items():
        known = [each for each in shown if each.lives or name in _KNOWN_WHEN_DEAD]
        yield name, help_, ("job",), {(_label(each.job),): value(each) for each in known}
    for name, (help_, instances) in _OPERATOR_GAUGES.items():
        by_operator: LabelledValues = {
            (_label(each.job), _label(operator)): float(k)
            for each in shown
            if each.lives
            for operator, k in list((instances(each) or {}).items())[:MAX_OPERATORS]
        }
        yield name, help_, ("job", "operator"), by_operator
    left_out: LabelledValues = {(): float(max(0, len(chosen) - MAX_LOOPS))}
    yield "loops_left_out", f"Loops beyond {MAX_LOOPS}, which have no gauges.", (), left_out


def list_loop_health(loops: Iterable[JournaledLoop]) -> list[LoopHealth]:
    """Return the health of the loops that run."""
    return [_health(loop.status()) for loop in loops if loop.is_alive]


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


def _label(text: str) -> str:
    return text[:_MAX_LABEL_LENGTH]
