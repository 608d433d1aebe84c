"""From one window of an application to the next: one action in flight, judged, kept or taken back.

    watching ──a policy answers──▶ asked ──(relaunched)──sizes are seen──▶ on trial ──▶ kept, or taken back ──▶ watching

    asked       the change was written down; whoever acts on it may take hours. Nothing else is asked meanwhile
    relaunched  it was us who acted: the program was started again with these sizes. One that did not come up with them
                was started with the old ones, and the change is taken back at once
    on trial    the windows after the change are compared with those before it
    L           load at which a value was tried: records a second
    together    what P6 and P7 would give back is one action, since it costs one relaunch (`actions.py`)

Where executors come and go with the load (`elastic`), slots are somebody else's to plan: what is judged and asked for
is the memory of an executor, and windows with more or fewer of the same size are of one kind.

No oscillation, by construction: a value that was too small at load L is not gone below again as long as the load of the
windows that speak for it is not below (1 − SAME) · L; a value that was taken back is not tried again until the load is
another by SAME. `step` is pure: state and window in, state and events out. The events make up the action log, and
`recalled` makes of them the state again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from autotrascale.domain import checks
from autotrascale.domain.decision import Reason
from autotrascale.domain.executor_window import MEMORY, ExecutorSizes, ExecutorWindow, Resource
from autotrascale.plan.control.observations.slow_services import ServiceLatencyHistory
from autotrascale.plan.executor_size.clamp_to_cluster import ClusterLimits, fit_to_cluster
from autotrascale.plan.executor_size.sage_policies import judge_sizes
from autotrascale.plan.executor_size.size_changes import (
    SAME_LOAD,
    STARTING_WINDOWS,
    SizeChange,
    average_load,
    find_harm,
    find_harmful_parts,
    is_more_memory,
    is_same_load,
)
from autotrascale.plan.executor_size.size_evidence import ExecutorSizeRules, SizeEvidence, SizeVerdict, WindowPeaks
from autotrascale.plan.formatting import format_amount, format_seconds

DAY_SECONDS = 86_400.0
MAX_WINDOWS = 288  # that are kept as they are; of all others their peaks


@dataclass(frozen=True)
class SizeChangeQuota:
    """How often sizes may be asked for: of one job in a day, and of all jobs of one controller in an hour. `patience`:
    after so long an action that nobody carried out is given up."""

    a_day: int = 6
    of_all_an_hour: int = 10
    patience_seconds: float = 7 * DAY_SECONDS

    def __post_init__(self) -> None:
        checks.count("a_day", self.a_day)
        checks.count("of_all_an_hour", self.of_all_an_hour)
        checks.positive("patience_seconds", self.patience_seconds)


@dataclass(frozen=True)
class TriedValue:
    """A value that was found wrong: too small, or worse than what was there before. Memory is of executors of so many
    cores, so many of them; cores and executors are slots, whichever way they are made."""

    resource: Resource
    sizes: ExecutorSizes
    load: float | None
    too_small: bool

    def value(self, now: ExecutorSizes, *, elastic: bool = False) -> int | None:
        """In the resource's own terms as sizes are now; None where it says nothing of them."""
        if self.resource in MEMORY:
            alike = self.sizes.cores == now.cores and (elastic or self.sizes.executors == now.executors)
            return self.sizes.of(self.resource) if alike else None
        other = now.executors if self.resource == "cores" else now.cores
        return self.sizes.slots // other if self.too_small else -(-self.sizes.slots // other)


@dataclass(frozen=True)
class ExecutorSizeState:
    """The latest `windows` since the sizes last changed and the `peaks` of all of them; `before` are some of those that
    came before the change on trial. `seen`: how many there are; for `leaked` more windows it is known that one
    was named."""

    windows: tuple[ExecutorWindow, ...] = ()
    peaks: WindowPeaks = field(default_factory=WindowPeaks)
    seen: int = 0
    leaked: int = 0
    before: tuple[ExecutorWindow, ...] = ()
    services: ServiceLatencyHistory = field(default_factory=ServiceLatencyHistory)
    in_flight: SizeChange | None = None
    bounds: tuple[TriedValue, ...] = ()
    asked_at: tuple[float, ...] = ()
    number: int = 0
    elastic: bool = False

    def alike(self, a: ExecutorSizes, b: ExecutorSizes) -> bool:
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
    """`others`: when the other jobs of this controller last had something asked for. The verdict is None while an
    action is in flight: nothing is judged that will not be there tomorrow."""
    state = _seeing(state, window, services or {})
    if state.in_flight is not None:
        return _following(rules, quota, state, window)
    verdict, after = _possible(rules, limits, state)
    if verdict.fault == "leak":
        state = replace(state, leaked=rules.recent)
    if after is None or verdict.resource is None:
        return state, verdict, ()
    now = window.began + window.seconds
    if (reason := _over_quota(quota, state, now, others)) is not None:
        return state, _held(verdict, reason), ()
    action = SizeChange(
        state.number + 1,
        "asked",
        now,
        verdict.policy,
        verdict.resource,
        window.sizes,
        after,
        verdict.reason,
        average_load(state.windows[-rules.recent :]),
    )
    return _asking(state, action), verdict, (action,)


def _possible(
    rules: ExecutorSizeRules, limits: ClusterLimits, state: ExecutorSizeState
) -> tuple[SizeVerdict, ExecutorSizes | None]:
    """What is judged and the sizes to ask for, if any. What cannot be given back of one thing keeps nothing of the
    others from being given back; what cannot be raised does, as those after it rely on it."""
    evidence = _evidence(rules, state)
    verdict, first = judge_sizes(rules, evidence), None
    while verdict.resource is not None:
        after = _change(rules, limits, state, verdict)
        if not isinstance(after, Reason):
            return _together(rules, limits, state, verdict, after)
        first = first or _held(verdict, after)
        if verdict.up:
            break
        verdict = judge_sizes(rules, evidence, beyond=verdict.policy)
    return first or verdict, None


def _together(
    rules: ExecutorSizeRules, limits: ClusterLimits, state: ExecutorSizeState, heap: SizeVerdict, after: ExecutorSizes
) -> tuple[SizeVerdict, ExecutorSizes]:
    """With what P7 would give back beside the smaller heap. Where something of either was too small already, each goes
    alone: it is tried with care."""
    if heap.policy != "P6" or _wished(rules, state, heap) != heap.wanted:
        return heap, after
    window = state.windows[-1]
    smaller = replace(window, sizes=replace(after, overhead_mb=window.sizes.overhead_mb))
    then = replace(state, windows=(*state.windows[:-1], smaller))
    beside = judge_sizes(rules, _evidence(rules, then), beyond="P6")
    if beside.policy != "P7" or _wished(rules, then, beside) != beside.wanted:
        return heap, after
    both = _change(rules, limits, then, beside)
    if isinstance(both, Reason):
        return heap, after
    numbers = {**heap.reason.numbers, **beside.reason.numbers, "wanted_mb": heap.wanted + beside.wanted}
    reason = Reason("P6-P7-memory", f"{heap.reason.text}; {beside.reason.text}", numbers)
    return replace(heap, policy="P6+P7", reason=reason), both


def _change(
    rules: ExecutorSizeRules, limits: ClusterLimits, state: ExecutorSizeState, verdict: SizeVerdict
) -> ExecutorSizes | Reason:
    assert verdict.resource is not None
    wished = _wished(rules, state, verdict)
    if isinstance(wished, Reason):
        return wished
    sizes = state.windows[-1].sizes
    after = fit_to_cluster(sizes, verdict.resource, wished, limits)
    if isinstance(after, Reason):
        return after
    if state.elastic and (after.cores, after.executors) != (sizes.cores, sizes.executors):
        text = "no host has room for it, and how many slots there are is planned by the load"
        return Reason("hold-limit", text)
    now, then = sizes.of(verdict.resource), after.of(verdict.resource)
    if not verdict.up and then > (1 - rules.worth) * now:
        return Reason("hold-limit", f"{format_amount(then)} is the least that there can be, and not worth a restart")
    return after


def add_windows(state: ExecutorSizeState, windows: Iterable[ExecutorWindow]) -> ExecutorSizeState:
    """Windows that were judged already, as evidence."""
    for window in windows:
        state = _seeing(state, window, {})
    return state


def record_relaunch(
    state: ExecutorSizeState, life: int, standstill_seconds: float, at: float
) -> tuple[ExecutorSizeState, tuple[SizeChange, ...]]:
    """The program runs again with the sizes that are in flight. Nothing where none are, or that is known."""
    action = state.in_flight
    if action is None or action.what != "asked":
        return state, ()
    text = f"relaunched from its checkpoint as life {life}; it stood still for {format_seconds(standstill_seconds)}"
    reason = Reason("relaunched", text, {"life": life, "standstill_seconds": standstill_seconds})
    action = replace(action, what="relaunched", at=at, reason=reason)
    return replace(state, in_flight=action), (action,)


def record_failed_relaunch(
    state: ExecutorSizeState, life: int, why: str, at: float, action: SizeChange | None = None
) -> tuple[ExecutorSizeState, tuple[SizeChange, ...]]:
    """The program did not do with the sizes that are in flight, or with those of an earlier `action`, and was started
    with the old ones again. What grew from them has nothing left to grow from."""
    flying = state.in_flight
    action = action or flying
    if action is None:
        return state, ()
    text = f"{why}: started again with the sizes of before, as life {life}"
    reason = Reason("worse-start", text, {"life": life})
    taken = replace(action, what="taken-back", at=at, reason=reason, load=average_load(state.before or state.windows))
    said: tuple[SizeChange, ...] = (taken,)
    if flying is not None and flying.number != action.number:
        gone = Reason("given-up", "the sizes that it grew from were taken back")
        said = (taken, replace(flying, what="given-up", at=at, reason=gone))
    return replace(_ended(state, taken), in_flight=None), said


def restore_state(actions: Iterable[SizeChange], *, elastic: bool = False) -> ExecutorSizeState:
    """What the action log says of the past; windows are measured again."""
    state = ExecutorSizeState(elastic=elastic)
    for action in actions:
        if action.what == "asked":
            state = _asking(state, action)
        elif action.what in ("relaunched", "seen"):
            state = replace(state, in_flight=action)
        else:
            state = replace(_ended(state, action), in_flight=None)
    return state


def _seeing(state: ExecutorSizeState, window: ExecutorWindow, services: dict[str, float]) -> ExecutorSizeState:
    same = not state.windows or state.alike(state.windows[-1].sizes, window.sizes)
    windows = (*state.windows[-MAX_WINDOWS + 1 :], window) if same else (window,)
    seen = state.seen if same else 0
    peaks = (state.peaks if same else WindowPeaks()).adding(window, starting=seen < STARTING_WINDOWS)
    before = state.before if same else state.windows
    # Services are told of with the newest backlog, as in the control loop.
    backlog = max(window.behind) if window.behind else None
    return replace(
        state,
        windows=windows,
        peaks=peaks,
        seen=seen + 1,
        leaked=max(0, state.leaked - 1) if same else 0,
        before=before,
        services=state.services.adding(backlog, services),
    )


def _evidence(rules: ExecutorSizeRules, state: ExecutorSizeState) -> SizeEvidence:
    raised = [bound for bound in state.bounds if bound.too_small and bound.resource in MEMORY]
    load = average_load(state.windows[-rules.recent :])
    count = sum(is_same_load(bound.load, load) for bound in raised)
    return SizeEvidence(
        state.windows,
        state.peaks,
        state.services,
        count,
        leaked=state.leaked > 0,
        elastic=state.elastic,
        before=state.before,
    )


def _following(
    rules: ExecutorSizeRules, quota: SizeChangeQuota, state: ExecutorSizeState, window: ExecutorWindow
) -> tuple[ExecutorSizeState, SizeVerdict | None, tuple[SizeChange, ...]]:
    action, now = state.in_flight, window.began + window.seconds
    assert action is not None
    if not state.alike(window.sizes, action.after):
        if action.what == "seen" or now - action.at > quota.patience_seconds:
            how = "somebody set other sizes" if action.what == "seen" else "nobody carried it out"
            ended = replace(action, what="given-up", at=now, reason=Reason("given-up", how))
            return replace(state, in_flight=None), None, (ended,)
        return state, None, ()
    said: tuple[SizeChange, ...] = ()
    if action.what != "seen":
        action = replace(action, what="seen", at=now, reason=Reason("seen", "executors of the new size are there"))
        state, said = replace(state, in_flight=action), (action,)
    found = find_harm(rules, action, state.before, state.windows)
    if found is None and state.seen < rules.recent + (1 if is_more_memory(action) else STARTING_WINDOWS):
        return state, None, said
    if found is None or action.policy == "back":
        reason = Reason("kept", "it does no worse than before")
        kept = replace(action, what="kept", at=now, reason=reason)
        return replace(_ended(state, kept), in_flight=None), None, (*said, kept)
    taken = replace(action, what="taken-back", at=now, reason=found, load=average_load(state.windows))
    state = replace(_ended(state, taken), in_flight=None)
    back = SizeChange(
        state.number + 1, "asked", now, "back", action.resource, action.after, action.before, found, taken.load
    )
    return _asking(state, back), None, (*said, taken, back)


def _asking(state: ExecutorSizeState, action: SizeChange) -> ExecutorSizeState:
    """What it grows from was too small at this load. Of what is taken back, that was said already."""
    grows = action.up and action.policy != "back"
    found = (TriedValue(action.resource, action.before, action.load, too_small=True),) if grows else ()
    return replace(
        state,
        in_flight=action,
        number=action.number,
        asked_at=(*state.asked_at, action.at)[-100:],
        bounds=(*state.bounds, *found),
    )


def _ended(state: ExecutorSizeState, action: SizeChange) -> ExecutorSizeState:
    if action.what != "taken-back":
        return state
    found = [
        TriedValue(each, action.after, action.load, too_small=not action.up) for each in find_harmful_parts(action)
    ]
    return replace(state, bounds=(*state.bounds, *found))


def _wished(rules: ExecutorSizeRules, state: ExecutorSizeState, verdict: SizeVerdict) -> int | Reason:
    """What a policy wants, held to what is known of the values below and above it."""
    assert verdict.resource is not None
    sizes, wanted = state.windows[-1].sizes, verdict.wanted
    now = sizes.of(verdict.resource)
    alike = {verdict.resource} if verdict.resource in MEMORY else {"cores", "executors"}
    found = [bound for bound in state.bounds if bound.resource in alike]
    named = [replace(bound, resource=verdict.resource) for bound in found]
    mine = [(bound.value(sizes, elastic=state.elastic), bound) for bound in named]
    if verdict.up:
        load = average_load(state.windows[-rules.recent :])
        if any(
            v is not None and not bound.too_small and v <= wanted and is_same_load(bound.load, load)
            for v, bound in mine
        ):
            text = f"{format_amount(wanted)} was tried at this load and taken back: not again until the load is another"
            return Reason("hold-tried", text, {"wanted": wanted})
        return wanted
    most = state.peaks.rate
    small = [
        v for v, b in mine if v is not None and b.too_small and (b.load is None or most > (1 - SAME_LOAD) * b.load)
    ]
    floor = max(small, default=0)
    if small and wanted <= floor:
        more = 1 if verdict.resource in ("cores", "executors") else max(1, round((rules.margin - 1) * floor))
        wanted = floor + more
    if wanted > (1 - rules.worth) * now:
        text = f"{format_amount(floor)} was too small at such a load, and so much more is not worth a restart"
        return Reason("hold-too-small", text, {"too_small": floor, "now": now})
    return wanted


def _over_quota(quota: SizeChangeQuota, state: ExecutorSizeState, now: float, others: Sequence[float]) -> Reason | None:
    mine = sum(now - at < DAY_SECONDS for at in state.asked_at)
    if mine >= quota.a_day:
        return Reason(
            "hold-quota", f"its sizes were changed {mine} times within a day: no more today", {"changes": mine}
        )
    all_of_them = sum(now - at < 3600 for at in (*state.asked_at, *others))
    if all_of_them >= quota.of_all_an_hour:
        text = f"{all_of_them} changes of sizes were asked for within an hour, of all jobs: the next one waits"
        return Reason("hold-quota", text, {"changes": all_of_them})
    return None


def _held(verdict: SizeVerdict, reason: Reason) -> SizeVerdict:
    text = f"{verdict.reason.text}; {reason.text}"
    return SizeVerdict(verdict.fault, Reason(reason.code, text, {**verdict.reason.numbers, **reason.numbers}))
