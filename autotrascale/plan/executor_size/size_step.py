"""One step of executor sizing: from one window of an application to the next, with one change in flight.

    watching ──a policy answers──▶ asked ──(relaunched)──▶ seen: on trial ──▶ kept, or taken back ──▶ watching

    asked       the change is written down. It may take hours until it is carried out; nothing else is asked meanwhile
    relaunched  this controller started the program with the new sizes. If it does not come up, it is started with the
                old sizes, and the change is taken back at once
    on trial    the windows after the change are compared with those before it
    load        records/s at which a value was tried
    one change  P6 and P7 together, since both cost one relaunch (`size_changes.py`)

With `elastic`, executors come and go with the load, and another loop plans the slots. Then only the memory of an
executor is judged, and windows with other numbers of equal executors belong together.

The rules exclude oscillation. A value that was too small at a load is not gone below until the load of the evidence is
below (1 − SAME_LOAD) times that load. A value that was taken back is not tried again at the same load.

`judge_window` is pure: state and window in, state and actions out. The actions form the action log, from which
`restore_state` rebuilds the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from autotrascale.domain import checks
from autotrascale.domain.decision import Reason
from autotrascale.domain.executor_window import MEMORY, ExecutorSizes, ExecutorWindow, Resource
from autotrascale.plan.control.observations.slow_services import ServiceLatencyHistory
from autotrascale.plan.executor_size.clamp_to_cluster import ClusterLimits, fit_to_cluster
from autotrascale.plan.executor_size.judge_sizes import judge_sizes
from autotrascale.plan.executor_size.size_changes import (
    SAME_LOAD,
    STARTING_WINDOWS,
    SizeChange,
    average_load,
    find_harm,
    find_harmful_parts,
    is_same_load,
)
from autotrascale.plan.executor_size.size_evidence import ExecutorSizeRules, SizeEvidence, SizeVerdict, WindowPeaks
from autotrascale.plan.formatting import format_amount, format_seconds

DAY_SECONDS = 86_400.0
MAX_WINDOWS = 288  # kept; of earlier windows only the peaks are known
MAX_REQUEST_TIMES = 100


@dataclass(frozen=True)
class SizeChangeQuota:
    """Limits on requests for other sizes."""

    a_day: int = 6  # of one job
    of_all_an_hour: int = 10  # of all jobs of one controller
    patience_seconds: float = 7 * DAY_SECONDS  # then a change that was not carried out is given up

    def __post_init__(self) -> None:
        checks.count("a_day", self.a_day)
        checks.count("of_all_an_hour", self.of_all_an_hour)
        checks.positive("patience_seconds", self.patience_seconds)


@dataclass(frozen=True)
class TriedValue:
    """A value that was found wrong: too small, or worse than the value before."""

    resource: Resource
    sizes: ExecutorSizes
    load: float | None
    too_small: bool

    def convert(self, now: ExecutorSizes, *, elastic: bool = False) -> int | None:
        """Return the value for the present sizes, or None if it does not apply to them.

        Memory applies to executors of the same cores, and as many of them. Cores and executors are converted by slots.
        """
        if self.resource in MEMORY:
            is_alike = self.sizes.cores == now.cores and (elastic or self.sizes.executors == now.executors)
            return self.sizes.of(self.resource) if is_alike else None
        other = now.executors if self.resource == "cores" else now.cores
        return self.sizes.slots // other if self.too_small else -(-self.sizes.slots // other)


@dataclass(frozen=True)
class ExecutorSizeState:
    """The state between two windows."""

    windows: tuple[ExecutorWindow, ...] = ()  # the latest with the present sizes
    peaks: WindowPeaks = field(default_factory=WindowPeaks)  # of all windows with the present sizes
    seen: int = 0  # windows with the present sizes
    leaked: int = 0  # further windows for which a leak counts as found
    before: tuple[ExecutorWindow, ...] = ()  # windows with the previous sizes
    services: ServiceLatencyHistory = field(default_factory=ServiceLatencyHistory)
    in_flight: SizeChange | None = None
    tried: tuple[TriedValue, ...] = ()
    asked_at: tuple[float, ...] = ()  # Unix seconds
    number: int = 0  # of the last change
    elastic: bool = False

    def has_same_sizes(self, a: ExecutorSizes, b: ExecutorSizes) -> bool:
        return a == (replace(b, executors=a.executors) if self.elastic else b)


def judge_window(
    rules: ExecutorSizeRules,
    limits: ClusterLimits,
    quota: SizeChangeQuota,
    state: ExecutorSizeState,
    window: ExecutorWindow,
    services: dict[str, float] | None = None,
    others: Sequence[float] = (),
) -> tuple[ExecutorSizeState, SizeVerdict | None, tuple[SizeChange, ...]]:
    """Return the next state, the verdict on the sizes, and the actions that follow from one more window.

    The verdict is None while a change is in flight: the judged sizes are about to go.

    Args:
        rules: thresholds of the policies.
        limits: of the cluster.
        quota: limits on requests.
        state: the state so far.
        window: the window.
        services: latency in seconds of watched services.
        others: when other jobs of this controller asked for other sizes last, in Unix seconds.
    """
    state = _add_window(state, window, services or {})
    if state.in_flight is not None:
        return _follow_change(rules, quota, state, window)
    verdict, after = _find_possible_change(rules, limits, state)
    if verdict.fault == "leak":
        state = replace(state, leaked=rules.recent)
    if after is None or verdict.resource is None:
        return state, verdict, ()
    now = window.began + window.seconds
    if (reason := _check_quota(quota, state, now, others)) is not None:
        return state, _hold(verdict, reason), ()
    load = average_load(state.windows[-rules.recent :])
    change = SizeChange(
        state.number + 1, "asked", now, verdict.policy, verdict.resource, window.sizes, after, verdict.reason, load
    )
    return _ask(state, change), verdict, (change,)


def _find_possible_change(
    rules: ExecutorSizeRules, limits: ClusterLimits, state: ExecutorSizeState
) -> tuple[SizeVerdict, ExecutorSizes | None]:
    """Return the verdict and the sizes to ask for, if any.

    If one resource cannot be lowered, the next policy may lower another. If one cannot be raised, later policies, which
    rely on it, are not asked.
    """
    evidence = _collect_evidence(rules, state)
    verdict, first = judge_sizes(rules, evidence), None
    while verdict.resource is not None:
        after = _find_sizes(rules, limits, state, verdict)
        if not isinstance(after, Reason):
            return _combine_memory(rules, limits, state, verdict, after)
        first = first or _hold(verdict, after)
        if verdict.up:
            break
        verdict = judge_sizes(rules, evidence, beyond=verdict.policy)
    return first or verdict, None


def _combine_memory(
    rules: ExecutorSizeRules, limits: ClusterLimits, state: ExecutorSizeState, heap: SizeVerdict, after: ExecutorSizes
) -> tuple[SizeVerdict, ExecutorSizes]:
    """Add to P6 what P7 would give back beside the smaller heap. If either was too small before, each goes alone."""
    if heap.policy != "P6" or _limit_by_tried(rules, state, heap) != heap.wanted:
        return heap, after
    window = state.windows[-1]
    smaller = replace(window, sizes=replace(after, overhead_mb=window.sizes.overhead_mb))
    then = replace(state, windows=(*state.windows[:-1], smaller))
    overhead = judge_sizes(rules, _collect_evidence(rules, then), beyond="P6")
    if overhead.policy != "P7" or _limit_by_tried(rules, then, overhead) != overhead.wanted:
        return heap, after
    both = _find_sizes(rules, limits, then, overhead)
    if isinstance(both, Reason):
        return heap, after
    numbers = {**heap.reason.numbers, **overhead.reason.numbers, "wanted_mb": heap.wanted + overhead.wanted}
    reason = Reason("P6-P7-memory", f"{heap.reason.text} {overhead.reason.text}", numbers)
    return replace(heap, policy="P6+P7", reason=reason), both


def _find_sizes(
    rules: ExecutorSizeRules, limits: ClusterLimits, state: ExecutorSizeState, verdict: SizeVerdict
) -> ExecutorSizes | Reason:
    """Return the possible sizes for a verdict, or why there is no change."""
    assert verdict.resource is not None
    wanted = _limit_by_tried(rules, state, verdict)
    if isinstance(wanted, Reason):
        return wanted
    sizes = state.windows[-1].sizes
    after = fit_to_cluster(sizes, verdict.resource, wanted, limits)
    if isinstance(after, Reason):
        return after
    if state.elastic and (after.cores, after.executors) != (sizes.cores, sizes.executors):
        text = "No change: no host has enough memory, and the number of slots is planned by the load."
        return Reason("hold-limit", text)
    now, then = sizes.of(verdict.resource), after.of(verdict.resource)
    if not verdict.up and then > (1 - rules.worth) * now:
        return Reason("hold-limit", f"No change: {format_amount(then)} is the minimum, which is not worth a restart.")
    return after


def add_windows(state: ExecutorSizeState, windows: Iterable[ExecutorWindow]) -> ExecutorSizeState:
    """Add windows that were judged before, as evidence."""
    for window in windows:
        state = _add_window(state, window, {})
    return state


def record_relaunch(
    state: ExecutorSizeState, launch: int, standstill_seconds: float, at: float
) -> tuple[ExecutorSizeState, tuple[SizeChange, ...]]:
    """Record that the program runs again with the sizes in flight. Nothing happens if there are none, or twice."""
    change = state.in_flight
    if change is None or change.what != "asked":
        return state, ()
    text = (
        f"Relaunched from its checkpoint as launch {launch}, with {format_seconds(standstill_seconds)} of standstill."
    )
    reason = Reason("relaunched", text, {"launch": launch, "standstill_seconds": standstill_seconds})
    change = replace(change, what="relaunched", at=at, reason=reason)
    return replace(state, in_flight=change), (change,)


def record_failed_relaunch(
    state: ExecutorSizeState, launch: int, cause: str, at: float, change: SizeChange | None = None
) -> tuple[ExecutorSizeState, tuple[SizeChange, ...]]:
    """Record that the program was started with the old sizes again.

    Args:
        state: the state so far.
        launch: number of the launch with the old sizes.
        cause: why the program could not run with the new sizes.
        at: Unix seconds.
        change: the failed change; default: the change in flight. A later change in flight is given up with it.
    """
    in_flight = state.in_flight
    change = change or in_flight
    if change is None:
        return state, ()
    reason = Reason("worse-start", f"Taken back: {cause}. Launch {launch} has the old sizes.", {"launch": launch})
    taken_back = replace(
        change, what="taken-back", at=at, reason=reason, load=average_load(state.before or state.windows)
    )
    actions: tuple[SizeChange, ...] = (taken_back,)
    if in_flight is not None and in_flight.number != change.number:
        reason = Reason("given-up", "Given up: the sizes before it were taken back.")
        actions = (taken_back, replace(in_flight, what="given-up", at=at, reason=reason))
    return replace(_learn_from_end(state, taken_back), in_flight=None), actions


def restore_state(actions: Iterable[SizeChange], *, elastic: bool = False) -> ExecutorSizeState:
    """Return the state that the action log implies. Windows are measured anew."""
    state = ExecutorSizeState(elastic=elastic)
    for action in actions:
        if action.what == "asked":
            state = _ask(state, action)
        elif action.what in ("relaunched", "seen"):
            state = replace(state, in_flight=action)
        else:
            state = replace(_learn_from_end(state, action), in_flight=None)
    return state


def _add_window(state: ExecutorSizeState, window: ExecutorWindow, services: dict[str, float]) -> ExecutorSizeState:
    is_same = not state.windows or state.has_same_sizes(state.windows[-1].sizes, window.sizes)
    seen = state.seen if is_same else 0
    # As in the control loop, services are recorded with the newest backlog.
    backlog = max(window.behind) if window.behind else None
    return replace(
        state,
        windows=(*state.windows[-MAX_WINDOWS + 1 :], window) if is_same else (window,),
        peaks=(state.peaks if is_same else WindowPeaks()).add(window, starting=seen < STARTING_WINDOWS),
        seen=seen + 1,
        leaked=max(0, state.leaked - 1) if is_same else 0,
        before=state.before if is_same else state.windows,
        services=state.services.add(backlog, services),
    )


def _collect_evidence(rules: ExecutorSizeRules, state: ExecutorSizeState) -> SizeEvidence:
    load = average_load(state.windows[-rules.recent :])
    raised = [each for each in state.tried if each.too_small and each.resource in MEMORY]
    return SizeEvidence(
        state.windows,
        state.peaks,
        state.services,
        sum(is_same_load(each.load, load) for each in raised),
        leaked=state.leaked > 0,
        elastic=state.elastic,
        before=state.before,
    )


def _follow_change(
    rules: ExecutorSizeRules, quota: SizeChangeQuota, state: ExecutorSizeState, window: ExecutorWindow
) -> tuple[ExecutorSizeState, SizeVerdict | None, tuple[SizeChange, ...]]:
    change, now = state.in_flight, window.began + window.seconds
    assert change is not None
    if not state.has_same_sizes(window.sizes, change.after):
        if change.what == "seen" or now - change.at > quota.patience_seconds:
            cause = "other sizes were set" if change.what == "seen" else "it was not carried out"
            ended = replace(change, what="given-up", at=now, reason=Reason("given-up", f"Given up: {cause}."))
            return replace(state, in_flight=None), None, (ended,)
        return state, None, ()
    actions: tuple[SizeChange, ...] = ()
    if change.what != "seen":
        change = replace(change, what="seen", at=now, reason=Reason("seen", "Executors of the new size are running."))
        state, actions = replace(state, in_flight=change), (change,)
    harm = find_harm(rules, change, state.before, state.windows)
    if harm is None and state.seen < rules.recent + (1 if change.is_more_memory else STARTING_WINDOWS):
        return state, None, actions
    if harm is None or change.policy == "back":
        kept = replace(change, what="kept", at=now, reason=Reason("kept", "Kept: the job does no worse than before."))
        return replace(_learn_from_end(state, kept), in_flight=None), None, (*actions, kept)
    taken_back = replace(change, what="taken-back", at=now, reason=harm, load=average_load(state.windows))
    state = replace(_learn_from_end(state, taken_back), in_flight=None)
    back = SizeChange(
        state.number + 1, "asked", now, "back", change.resource, change.after, change.before, harm, taken_back.load
    )
    return _ask(state, back), None, (*actions, taken_back, back)


def _ask(state: ExecutorSizeState, change: SizeChange) -> ExecutorSizeState:
    """Put a change in flight. A raise shows that its old value was too small at this load."""
    is_raise = change.up and change.policy != "back"
    tried = (TriedValue(change.resource, change.before, change.load, too_small=True),) if is_raise else ()
    return replace(
        state,
        in_flight=change,
        number=change.number,
        asked_at=(*state.asked_at, change.at)[-MAX_REQUEST_TIMES:],
        tried=(*state.tried, *tried),
    )


def _learn_from_end(state: ExecutorSizeState, change: SizeChange) -> ExecutorSizeState:
    if change.what != "taken-back":
        return state
    parts = find_harmful_parts(change)
    tried = [TriedValue(each, change.after, change.load, too_small=not change.up) for each in parts]
    return replace(state, tried=(*state.tried, *tried))


def _limit_by_tried(rules: ExecutorSizeRules, state: ExecutorSizeState, verdict: SizeVerdict) -> int | Reason:
    """Return the wanted value, limited by values that were found wrong, or why there is no change."""
    assert verdict.resource is not None
    resource, wanted = verdict.resource, verdict.wanted
    sizes = state.windows[-1].sizes
    now = sizes.of(resource)
    related = {resource} if resource in MEMORY else {"cores", "executors"}
    tried = [replace(each, resource=resource) for each in state.tried if each.resource in related]
    converted = [(each.convert(sizes, elastic=state.elastic), each) for each in tried]
    known = [(value, each) for value, each in converted if value is not None]
    if verdict.up:
        load = average_load(state.windows[-rules.recent :])
        if any(not each.too_small and value <= wanted and is_same_load(each.load, load) for value, each in known):
            text = f"No change: {format_amount(wanted)} was tried at this load and taken back."
            return Reason("hold-tried", text, {"wanted": wanted})
        return wanted
    peak_rate = state.peaks.rate
    too_small = [
        value
        for value, each in known
        if each.too_small and (each.load is None or peak_rate > (1 - SAME_LOAD) * each.load)
    ]
    floor = max(too_small, default=0)
    if too_small and wanted <= floor:
        step = 1 if resource in ("cores", "executors") else max(1, round((rules.margin - 1) * floor))
        wanted = floor + step
    if wanted > (1 - rules.worth) * now:
        text = f"No change: {format_amount(floor)} was too small at such a load, and more is not worth a restart."
        return Reason("hold-too-small", text, {"too_small": floor, "now": now})
    return wanted


def _check_quota(
    quota: SizeChangeQuota, state: ExecutorSizeState, now: float, others: Sequence[float]
) -> Reason | None:
    own = sum(now - at < DAY_SECONDS for at in state.asked_at)
    if own >= quota.a_day:
        text = f"It must wait: {own} changes of this job within a day are the limit."
        return Reason("hold-quota", text, {"changes": own})
    of_all = sum(now - at < 3600 for at in (*state.asked_at, *others))
    if of_all >= quota.of_all_an_hour:
        text = f"It must wait: {of_all} changes of all jobs within an hour are the limit."
        return Reason("hold-quota", text, {"changes": of_all})
    return None


def _hold(verdict: SizeVerdict, reason: Reason) -> SizeVerdict:
    """Return the verdict without a change, with both reasons."""
    text = f"{verdict.reason.text} {reason.text}"
    return SizeVerdict(verdict.fault, Reason(reason.code, text, {**verdict.reason.numbers, **reason.numbers}))
