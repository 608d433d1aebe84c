"""Checks that an observation can be trusted. The first check that objects makes the loop hold and learn nothing.

All objections have the code `hold-unbelievable`; the field `why` names the check.

`COMPARISONS` compare an observation with the last trusted one. A job may really change that much. Therefore
`AGREEING_OBSERVATIONS` in a row that agree with one another are trusted, although they contradict the past.

    symbol   meaning                                                     unit
    L        latency                                                     s
    X        throughput                                                  records/s
    λ        offered rate                                                records/s
    W        window                                                      s
    B, B'    backlog now, and at the last trusted observation            records

    X·W ≥ λ·W − B            what came in the window and was not carried waits    `_check_missing_backlog`
    B ≤ B' + λ·t − X·W       the backlog grows by new records alone               `_check_backlog_growth`
    L·X ≤ 100 (B + λ·W)      Little's law, with a wide margin                     `_check_latency`
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from autotrascale.domain.decision import Reason
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.topology import Topology
from autotrascale.plan.control.observations.observation_history import (
    MAX_CLOCK_SKEW_SECONDS,
    ObservationContext,
    ObservationHistory,
    ObservationRecord,
    measure_capacity,
    record_observation,
)
from autotrascale.plan.formatting import format_amount, join_names
from autotrascale.plan.sizing.sizing import Sizing, size

HOLD_CODE = "hold-unbelievable"
MIN_WINDOW_SECONDS = 0.1
MAX_USEFUL_SHARE = 1.25  # of the window: batches reach over its edges
MAX_THROUGHPUT_RATIO = 2.0  # throughput over records taken in: the two counters have different windows
MIN_RATE, MAX_RATE = 1e-6, 1e15  # records/s, all sources together
MAX_LOAD = 1e6  # instances that an operator may seem to need
MAX_CAPACITY_CHANGE = 10.0  # factor between two observations
MAX_LITTLE_RATIO = 100.0  # records that the latency implies over records that were there
MAX_IMBALANCE = 0.5  # of the records that came and went
AGREEING_OBSERVATIONS = 5

Check = Callable[[ObservationContext], str | None]
Checks = tuple[tuple[str, Check], ...]


def check_observation(context: ObservationContext) -> tuple[ObservationHistory, Reason | None]:
    """Return the history for the next observation, and why this one cannot be trusted, or None."""
    history = context.history
    if reason := _find_objection(CHECKS, context):
        return replace(history, last=record_observation(context, history.last) or history.last), reason
    reason = _find_objection(COMPARISONS, context)
    if reason is None:
        record = record_observation(context, history.trusted)
        return ObservationHistory(record, record, least_backlog=estimate_least_backlog(context)), None
    against_last = replace(context, history=ObservationHistory(trusted=history.last))
    agreeing = history.agreeing + 1 if _find_objection(COMPARISONS, against_last) is None else 1
    record = record_observation(context, None)
    if agreeing >= AGREEING_OBSERVATIONS:
        return ObservationHistory(record, record), None
    return replace(history, last=record, agreeing=agreeing), reason


def _find_objection(checks: Checks, context: ObservationContext) -> Reason | None:
    for why, check in checks:
        if text := check(context):
            return Reason(HOLD_CODE, f"On hold: {text}.", {"why": why})
    return None


def is_valid_parallelism(running: Mapping[str, int], topology: Topology | None) -> bool:
    """Return whether `running` has a whole number ≥ 1 for exactly the operators of `topology`."""
    has_operators = topology is None or set(running) == set(topology)
    return has_operators and all(isinstance(k, int) and not isinstance(k, bool) and k >= 1 for k in running.values())


# --- the checks: each returns a text if it objects --------------------------------------------------------------------


def _check_snapshot(context: ObservationContext) -> str | None:
    if context.observation.snapshot is None:
        return f"nothing was measured: {context.observation.detail or 'no cause was reported'}"
    return None


def _check_time(context: ObservationContext) -> str | None:
    at, measured_at = context.observation.at, context.observation.measured_at
    if not math.isfinite(at) or (measured_at is not None and not math.isfinite(measured_at)):
        return "the time of the metrics is not a number"
    return None


def _age_seconds(context: ObservationContext) -> float:
    measured_at = context.observation.measured_at
    return 0.0 if measured_at is None else context.observation.at - measured_at


def _check_age(context: ObservationContext) -> str | None:
    age, limit = _age_seconds(context), context.max_age_seconds
    return f"the metrics are {format_amount(age)} s old, the limit is {format_amount(limit)} s" if age > limit else None


def _check_future(context: ObservationContext) -> str | None:
    ahead = -_age_seconds(context)
    if ahead <= MAX_CLOCK_SKEW_SECONDS:
        return None
    return f"the metrics are {format_amount(ahead)} s ahead of the job's clock"


def _check_repetition(context: ObservationContext) -> str | None:
    """Object to the same window again. Without times that can be compared, equal numbers identify a window."""
    now, history = record_observation(context, None), context.history
    for before in (history.trusted, history.last):
        if now is None or before is None:
            continue
        if before.measured_at is None or now.measured_at is None or before.at > now.at:
            is_same = now.counted == before.counted
        else:
            is_same = now.measured_at <= before.measured_at
        if is_same:
            return "the metrics repeat the previous window"
    return None


def _check_operators(context: ObservationContext) -> str | None:
    snapshot, topology = context.snapshot, context.topology
    if topology is None:
        return None
    if missing := [name for name in topology if name not in snapshot.operators]:
        return f"nothing was measured of {join_names(missing)}"
    if surplus := [name for name in snapshot.operators if name not in topology]:
        return f"{join_names(surplus)} is not an operator of this job"
    for name, operator in topology.operators.items():
        if set(snapshot.operators[name].upstream) != set(operator.upstream):
            return f"the measured upstream operators of {name} differ from the topology"
    return None


def _check_parallelism(context: ObservationContext) -> str | None:
    running, measured = context.observation.running or {}, context.snapshot.parallelism
    if not is_valid_parallelism(running, context.topology):
        return "the reported parallelism is impossible for this job"
    differences = [
        f"{name} runs with {k} and was measured with {measured.get(name)}"
        for name, k in running.items()
        if measured.get(name) != k
    ]
    return join_names(differences) if differences else None


def _check_window(context: ObservationContext) -> str | None:
    seconds = context.snapshot.window_seconds
    return f"a window of {format_amount(seconds)} s is too short" if seconds < MIN_WINDOW_SECONDS else None


def _check_rate(context: ObservationContext) -> str | None:
    rate = context.snapshot.target_rate
    return None if rate == 0 or MIN_RATE <= rate <= MAX_RATE else f"a rate of {rate:.3g} records/s is impossible"


def _check_useful_time(context: ObservationContext) -> str | None:
    """Object to instances that are useful for longer than the window lasts."""
    window = context.snapshot.window_seconds
    for name, metrics in context.snapshot.operators.items():
        useful = metrics.total.useful_seconds or 0.0
        longest = max((work.useful_seconds or 0.0 for work in metrics.instances), default=0.0)
        available = metrics.parallelism * window
        if useful > MAX_USEFUL_SHARE * available or longest > MAX_USEFUL_SHARE * window:
            return (
                f"{name} was useful for {format_amount(useful)} s, but {metrics.parallelism} instances have "
                f"{format_amount(available)} s in this window"
            )
    return None


def _check_throughput(context: ObservationContext) -> str | None:
    """Object to a throughput far above the records that the sources took in."""
    snapshot = context.snapshot
    works = [snapshot.operators[name].total for name in snapshot.source_rates]
    if snapshot.throughput is None or any(work.records_in is None and work.records_out is None for work in works):
        return None
    taken_in = sum(max(work.records_in or 0.0, work.records_out or 0.0) for work in works) / snapshot.window_seconds
    if snapshot.throughput <= MAX_THROUGHPUT_RATIO * taken_in:
        return None
    return f"the throughput is {format_amount(snapshot.throughput)}/s, but sources took in {format_amount(taken_in)}/s"


def _check_load(context: ObservationContext) -> str | None:
    """Object to measurements that would need millions of instances."""
    try:
        sized = size(context.snapshot, context.target)
    except (InputError, OverflowError) as error:
        return f"the measurements cannot be sized: {error}"
    if not isinstance(sized, Sizing):
        return None  # the policy holds, and names the missing field
    for name, load in zip(sized.operators, sized.load, strict=True):
        if load is not None and load > MAX_LOAD:
            return f"{name} would need {load:.3g} instances"
    return None


def _check_latency(context: ObservationContext) -> str | None:
    """Object to a latency that contradicts Little's law: latency times throughput is the number of records in the job.

    Without a known backlog, object to a latency that is longer than the time under observation.
    """
    snapshot = context.snapshot
    latency, throughput = snapshot.latency_seconds.of(context.target.statistic), snapshot.throughput
    if latency is None:
        return None
    if snapshot.backlog_records is None or throughput is None:
        longest = max(MAX_LITTLE_RATIO * snapshot.window_seconds, context.watched_seconds)
        if latency <= longest:
            return None
        return f"a latency of {format_amount(latency)} s is longer than the job was observed"
    present = snapshot.backlog_records + max(throughput, snapshot.target_rate) * snapshot.window_seconds
    implied = latency * throughput
    if implied <= MAX_LITTLE_RATIO * present:
        return None
    return (
        f"a latency of {format_amount(latency)} s implies {format_amount(implied)} records in the job, "
        f"but there were {format_amount(present)}"
    )


def _check_missing_backlog(context: ObservationContext) -> str | None:
    """Object to a backlog below the records that came in this window and were not carried."""
    snapshot = context.snapshot
    backlog = snapshot.backlog_records
    if backlog is None or snapshot.throughput is None:
        return None
    came, went = snapshot.target_rate * snapshot.window_seconds, snapshot.throughput * snapshot.window_seconds
    if backlog >= came - went - _tolerance(snapshot, came, went):
        return None
    return (
        f"{format_amount(came)} records came in this window and {format_amount(went)} were carried, "
        f"but only {format_amount(backlog)} wait"
    )


def _check_capacity(context: ObservationContext) -> str | None:
    """Object to an operator whose capacity changed tenfold since the last trusted observation."""
    trusted = context.history.trusted
    known = trusted.capacity if trusted is not None else {}
    for name, rate in measure_capacity(context.snapshot).items():
        before = known.get(name, rate)
        if rate > MAX_CAPACITY_CHANGE * before or before > MAX_CAPACITY_CHANGE * rate:
            return f"an instance of {name} did {format_amount(rate)}/s, and {format_amount(before)}/s before"
    return None


def _check_backlog_growth(context: ObservationContext) -> str | None:
    """Object to a backlog above the previous backlog plus the records that came and were not carried."""
    snapshot, before = context.snapshot, context.history.trusted
    backlog = snapshot.backlog_records
    if backlog is None or snapshot.throughput is None or before is None or before.backlog is None:
        return None
    came = snapshot.target_rate * max(context.watched_seconds - before.backlog_at, snapshot.window_seconds)
    went = snapshot.throughput * snapshot.window_seconds
    if backlog <= before.backlog + came - went + _tolerance(snapshot, came, went):
        return None
    return (
        f"the backlog cannot grow from {format_amount(before.backlog)} to {format_amount(backlog)} records: "
        f"{format_amount(came)} came and {format_amount(went)} were carried"
    )


def _check_backlog_decline(context: ObservationContext) -> str | None:
    """Object to a backlog that fell faster than the instances can work."""
    snapshot, least = context.snapshot, estimate_least_backlog(context)
    if snapshot.backlog_records is None or snapshot.backlog_records >= least - snapshot.target_rate:
        return None
    trusted = context.history.trusted
    before = trusted.backlog if trusted is not None else None
    return (
        f"a backlog of {format_amount(before or 0.0)} records cannot fall below {format_amount(least)} "
        f"at this capacity, but {format_amount(snapshot.backlog_records)} are reported"
    )


def estimate_least_backlog(context: ObservationContext) -> float:
    """Return the least of the last known backlog, in records, that must still wait."""
    snapshot, before = context.snapshot, context.history.trusted
    if before is None or not before.backlog:
        return 0.0
    most = _max_throughput(snapshot, before)
    if most is None:
        return 0.0
    gap = context.observation.at - before.at
    seconds = max(context.watched_seconds - before.backlog_at, gap, snapshot.window_seconds)
    busy = seconds + (snapshot.batch_seconds or 0.0)  # a batch may have begun before the window
    came = min(before.rate, snapshot.target_rate) * seconds
    return max(0.0, before.backlog + came - MAX_USEFUL_SHARE * most * busy)


def _max_throughput(snapshot: Snapshot, before: ObservationRecord) -> float | None:
    """Return records/s at full speed, by the larger capacity of both observations: large batches are more efficient."""
    fastest = {name: max(rate, before.capacity.get(name, rate)) for name, rate in measure_capacity(snapshot).items()}
    sized = size(snapshot, capacity=fastest)
    if not isinstance(sized, Sizing) or sized.unmeasured:
        return None
    busy = sized.busy(tuple(snapshot.parallelism.values())) - sized.overhead
    return max(sized.rate / busy, snapshot.throughput or 0.0) if busy > 0 else None


def _tolerance(snapshot: Snapshot, came: float, went: float) -> float:
    """Return the records by which a balance may be off: counters of two places are not read at the same moment."""
    return 2 * MAX_IMBALANCE * min(came, went) + snapshot.target_rate


CHECKS: Checks = (
    ("missing", _check_snapshot),
    ("clock", _check_time),
    ("stale", _check_age),
    ("future", _check_future),
    ("repeated", _check_repetition),
    ("operators", _check_operators),
    ("parallelism", _check_parallelism),
    ("window", _check_window),
    ("rate", _check_rate),
    ("useful-time", _check_useful_time),
    ("throughput", _check_throughput),
    ("size", _check_load),
    ("latency", _check_latency),
    ("balance", _check_missing_backlog),
)
COMPARISONS: Checks = (
    ("true-rate", _check_capacity),
    ("balance", _check_backlog_growth),
    ("balance", _check_backlog_decline),
)
