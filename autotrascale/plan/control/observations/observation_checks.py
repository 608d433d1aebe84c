"""Can a look be believed? A table of checks: the first that objects makes the loop hold, and say why.

Every objection has the same code, `hold-unbelievable`, with `why` as its field. Nothing is learned from such a look.

Some checks compare a look with the last one that was believed. A job that really changed in a way that no job should
does not agree with it for ever: after `AGREEING` looks that agree with one another instead, they are believed.
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
SHORTEST = 0.1  # seconds: in less, nothing can be measured
SLACK = 1.25  # times the time that there was: batches reach over the edges of a window
FULLEST = 2.0  # times what the sources took in: windows of two counters do not begin at the same moment
SLOWEST, FASTEST = 1e-6, 1e15  # records/s, all sources together
MOST_INSTANCES = 1e6  # that an operator may seem to need
FAR = 10.0  # times the true rate of before
WAITING = 100.0  # times what was there to wait
UNEVEN = 0.5  # of what came and went: what a balance of records may be off by
AGREEING_OBSERVATIONS = 5  # looks

Check = Callable[[ObservationContext], str | None]


def check_observation(evidence: ObservationContext) -> tuple[ObservationHistory, Reason | None]:
    """Why this look cannot be believed, if so, and what the next one is compared with."""
    known = evidence.beliefs
    if reason := _objection(CHECKS, evidence):
        return replace(known, last=record_observation(evidence, known.last) or known.last), reason
    reason = _objection(COMPARISONS, evidence)
    if reason is None:
        seen = record_observation(evidence, known.believed)
        return ObservationHistory(seen, seen, still_waiting=least_backlog(evidence)), None
    with_last = replace(evidence, beliefs=ObservationHistory(believed=known.last))
    agreeing = known.agreeing + 1 if _objection(COMPARISONS, with_last) is None else 1
    seen = record_observation(evidence, None)
    if agreeing >= AGREEING_OBSERVATIONS:
        return ObservationHistory(seen, seen), None
    return replace(known, last=seen, agreeing=agreeing), reason


def _objection(checks: Checks, evidence: ObservationContext) -> Reason | None:
    for why, check in checks:
        if text := check(evidence):
            return Reason(HOLD_CODE, text, {"why": why})
    return None


def is_valid_parallelism(running: Mapping[str, int], topology: Topology | None) -> bool:
    """Whether this can be what runs."""
    named = topology is None or set(running) == set(topology)
    return named and all(isinstance(k, int) and not isinstance(k, bool) and k >= 1 for k in running.values())


# --- the checks: each gives a text where it objects -------------------------------------------------------------------


def _missing(evidence: ObservationContext) -> str | None:
    if evidence.look.snapshot is None:
        return f"nothing was measured: {evidence.look.detail or 'no reason was given'}"
    return None


def _clock(evidence: ObservationContext) -> str | None:
    at, measured_at = evidence.look.at, evidence.look.measured_at
    if not math.isfinite(at) or (measured_at is not None and not math.isfinite(measured_at)):
        return "the metrics have no time that is a number"
    return None


def _stale(evidence: ObservationContext) -> str | None:
    age = 0.0 if evidence.look.measured_at is None else evidence.look.at - evidence.look.measured_at
    if age <= evidence.stale_seconds:
        return None
    return f"the newest metric is {format_amount(age)} s old, the limit is {format_amount(evidence.stale_seconds)} s"


def _future(evidence: ObservationContext) -> str | None:
    ahead = 0.0 if evidence.look.measured_at is None else evidence.look.measured_at - evidence.look.at
    return (
        f"the newest metric is from {format_amount(ahead)} s ahead of the job's clock"
        if ahead > MAX_CLOCK_SKEW_SECONDS
        else None
    )


def _repeated(evidence: ObservationContext) -> str | None:
    """The same window again. Without a time to go by, or with a clock that went back, it is known by its numbers."""
    now, believed, last = record_observation(evidence, None), evidence.beliefs.believed, evidence.beliefs.last
    for before in (believed, last):
        if now is None or before is None:
            continue
        if before.measured_at is None or now.measured_at is None or before.at > now.at:
            same = now.counted == before.counted
        else:
            same = now.measured_at <= before.measured_at
        if same:
            return "the same window as before: nothing new was measured"
    return None


def _operators(evidence: ObservationContext) -> str | None:
    shot, topology = evidence.snapshot, evidence.topology
    if topology is None:
        return None
    if missing := [name for name in topology if name not in shot.operators]:
        return f"nothing was measured of {join_names(missing)}"
    if surplus := [name for name in shot.operators if name not in topology]:
        return f"{join_names(surplus)} is no operator of this job"
    for name, operator in topology.operators.items():
        if set(shot.operators[name].upstream) != set(operator.upstream):
            return f"{name} is measured as if it read from others than it does"
    return None


def _parallelism(evidence: ObservationContext) -> str | None:
    running, measured = evidence.look.running or {}, evidence.snapshot.parallelism
    if not is_valid_parallelism(running, evidence.topology):
        return "what is said to run is no parallelism of this job"
    if apart := [name for name, k in running.items() if measured.get(name) != k]:
        return f"{join_names(f'{n} runs with {running[n]} and was measured with {measured.get(n)}' for n in apart)}"
    return None


def _window(evidence: ObservationContext) -> str | None:
    seconds = evidence.snapshot.window_seconds
    return f"a window of {format_amount(seconds)} s is too short to say anything" if seconds < SHORTEST else None


def _rate(evidence: ObservationContext) -> str | None:
    rate = evidence.snapshot.target_rate
    if rate == 0 or SLOWEST <= rate <= FASTEST:
        return None
    return f"no job is offered {rate:.3g} records a second"


def _useful(evidence: ObservationContext) -> str | None:
    """No instance is useful for longer than the window lasts."""
    window = evidence.snapshot.window_seconds
    for name, metrics in evidence.snapshot.operators.items():
        useful = metrics.total.useful_seconds or 0.0
        longest = max((work.useful_seconds or 0.0 for work in metrics.instances), default=0.0)
        if useful > SLACK * metrics.parallelism * window or longest > SLACK * window:
            return (
                f"{name} was useful for {format_amount(useful)} s, and {metrics.parallelism} instances have "
                f"{format_amount(metrics.parallelism * window)} s in this window"
            )
    return None


def _throughput(evidence: ObservationContext) -> str | None:
    """The job carries what its sources take in."""
    shot = evidence.snapshot
    works = [shot.operators[name].total for name in shot.source_rates]
    if shot.throughput is None or any(work.records_in is None and work.records_out is None for work in works):
        return None
    taken = sum(max(work.records_in or 0.0, work.records_out or 0.0) for work in works) / shot.window_seconds
    if shot.throughput <= FULLEST * taken:
        return None
    return (
        f"{format_amount(shot.throughput)}/s are said to be carried, and the sources took in {format_amount(taken)}/s"
    )


def _sizes(evidence: ObservationContext) -> str | None:
    """A job that could only be sized with millions of instances was not measured."""
    try:
        sized = size(evidence.snapshot, evidence.target)
    except (InputError, OverflowError) as error:
        return f"what was measured cannot be sized: {error}"
    if not isinstance(sized, Sizing):
        return None  # the policy holds, and names what is missing
    for name, load in zip(sized.operators, sized.load, strict=True):
        if load is not None and load > MOST_INSTANCES:
            return f"{name} would need {load:.3g} instances"
    return None


def _true_rate(evidence: ObservationContext) -> str | None:
    """What an instance can do does not change by ten times from one look to the next."""
    known = evidence.beliefs.believed.capacity if evidence.beliefs.believed is not None else {}
    for name, rate in measure_capacity(evidence.snapshot).items():
        was = known.get(name, rate)
        if rate > FAR * was or was > FAR * rate:
            return f"{name} did {format_amount(rate)}/s for each instance, and {format_amount(was)}/s before"
    return None


def _latency(evidence: ObservationContext) -> str | None:
    """Little's law: for a mean latency L, L times the throughput must be in the job or wait in front of it."""
    shot = evidence.snapshot
    latency, throughput = shot.latency_seconds.of(evidence.target.statistic), shot.throughput
    if latency is None:
        return None
    if shot.backlog_records is None or throughput is None:  # nobody knows what waits: no longer than we watched
        longest = max(WAITING * shot.window_seconds, evidence.watched)
        return (
            None
            if latency <= longest
            else f"a latency of {format_amount(latency)} s is longer than the job was watched"
        )
    there = shot.backlog_records + max(throughput, shot.target_rate) * shot.window_seconds
    if latency * throughput <= WAITING * there:
        return None
    return f"a latency of {format_amount(latency)} s needs {format_amount(latency * throughput)} records, and {format_amount(there)} were there"


def _surplus(evidence: ObservationContext) -> str | None:
    """What came in the window and was not carried waits: at least that much."""
    shot = evidence.snapshot
    if shot.backlog_records is None or shot.throughput is None:
        return None
    came, went = shot.target_rate * shot.window_seconds, shot.throughput * shot.window_seconds
    if shot.backlog_records >= came - went - _inexact(shot, came, went):
        return None
    return (
        f"{format_amount(came)} came in this window and {format_amount(went)} were carried, and only "
        f"{format_amount(shot.backlog_records)} wait"
    )


def _balance(evidence: ObservationContext) -> str | None:
    """What waits has waited before, or has come since and was not carried: at most that much."""
    shot, before = evidence.snapshot, evidence.beliefs.believed
    if shot.backlog_records is None or shot.throughput is None or before is None or before.backlog is None:
        return None
    came = shot.target_rate * max(evidence.watched - before.backlog_at, shot.window_seconds)
    went = shot.throughput * shot.window_seconds
    if shot.backlog_records <= before.backlog + came - went + _inexact(shot, came, went):
        return None
    return (
        f"a backlog of {format_amount(before.backlog)} cannot become {format_amount(shot.backlog_records)} when {format_amount(came)} "
        f"came and {format_amount(went)} were carried"
    )


def _worked_off(evidence: ObservationContext) -> str | None:
    """What waited and could not be carried since still waits."""
    shot, least = evidence.snapshot, least_backlog(evidence)
    if shot.backlog_records is None or shot.backlog_records >= least - shot.target_rate:
        return None
    before = evidence.beliefs.believed.backlog if evidence.beliefs.believed is not None else None
    return (
        f"of a backlog of {format_amount(before or 0.0)} at least {format_amount(least)} must be left by what the instances can "
        f"do, and {format_amount(shot.backlog_records)} are said to wait"
    )


def least_backlog(evidence: ObservationContext) -> float:
    """What is left at least of the backlog that was known last."""
    shot, before = evidence.snapshot, evidence.beliefs.believed
    most = None if before is None or not before.backlog else _most_carried(shot, before)
    if before is None or not before.backlog or most is None:
        return 0.0
    seconds = max(evidence.watched - before.backlog_at, evidence.look.at - before.at, shot.window_seconds)
    busy = seconds + (shot.batch_seconds or 0.0)  # a batch may have begun before the window
    return max(0.0, before.backlog + min(before.rate, shot.target_rate) * seconds - SLACK * most * busy)


def _most_carried(shot: Snapshot, before: ObservationRecord) -> float | None:
    """Records per second at full speed, by what instances did in this look or, where that was more, in the one before:
    in large batches they do more."""
    fastest = {name: max(rate, before.capacity.get(name, rate)) for name, rate in measure_capacity(shot).items()}
    sized = size(shot, capacity=fastest)
    if not isinstance(sized, Sizing) or sized.unmeasured:
        return None
    busy = sized.busy(tuple(shot.parallelism.values())) - sized.overhead
    return max(sized.rate / busy, shot.throughput or 0.0) if busy > 0 else None


def _inexact(shot: Snapshot, came: float, went: float) -> float:
    """Counters of two places are not read at the same moment, and batches reach over the edges of a window."""
    return 2 * UNEVEN * min(came, went) + shot.target_rate


Checks = tuple[tuple[str, Check], ...]
CHECKS: Checks = (
    ("missing", _missing),
    ("clock", _clock),
    ("stale", _stale),
    ("future", _future),
    ("repeated", _repeated),
    ("operators", _operators),
    ("parallelism", _parallelism),
    ("window", _window),
    ("rate", _rate),
    ("useful-time", _useful),
    ("throughput", _throughput),
    ("size", _sizes),
    ("latency", _latency),
    ("balance", _surplus),
)
COMPARISONS: Checks = (("true-rate", _true_rate), ("balance", _balance), ("balance", _worked_off))
