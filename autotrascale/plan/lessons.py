"""What the last rescale brought, compared with the last look before it, and what follows for the next decisions.

Each lesson is tied to the rate that the job did carry when it was learned. Once the world offers no more than that, the
lesson is forgotten: at such a rate nothing had gone wrong.
"""

from __future__ import annotations

from autotrascale.domain.decision import Number, Reason
from autotrascale.domain.snapshot import Snapshot
from autotrascale.plan.demand import measure_demand
from autotrascale.plan.floor import throughput_floor
from autotrascale.plan.guards import corrected
from autotrascale.plan.scene import Rejection, Scene
from autotrascale.plan.words import amount, moves, percent

# Overheads make capacity optimistic by some part of it. When a tenth of it is all that comes through, something else is
# wrong, and more instances are not the answer.
_LEAST_CORRECTION = 0.1


def learn(scene: Scene) -> tuple[Scene, list[Reason]]:
    """Forget what no longer holds, judge a rescale that was not judged yet, then look at the capacity correction."""
    scene = _forget(scene)
    reasons: list[Reason] = []
    if scene.state.unjudged is not None:
        scene, reasons = _judge(scene, scene.state.unjudged)
    if not scene.state.going_back:
        scene = _correct(scene)
    return scene, reasons


def _forget(scene: Scene) -> Scene:
    state, offered, achieved = scene.state, scene.snapshot.target_rate, scene.snapshot.throughput
    better = achieved is not None and achieved > state.stalled_at * (1 + scene.knobs.small_gain)
    uncorrected = offered <= state.corrected_at
    return scene.after(
        rejected=tuple(rejection for rejection in state.rejected if offered > rejection.carried),
        small_gains=0 if better or offered <= state.stalled_at else state.small_gains,
        correction=1.0 if uncorrected else state.correction,
        corrected_at=0.0 if uncorrected else state.corrected_at,
        ineffective={name: k for name, k in state.ineffective.items() if scene.running.get(name, 0) >= k},
    )


def _judge(scene: Scene, before: Snapshot) -> tuple[Scene, list[Reason]]:
    scene = scene.after(unjudged=None)
    if before.throughput is None or scene.snapshot.throughput is None:
        scene, reasons = _judge_capacity(scene, before)
        return scene, reasons + _not_judged(scene)
    if reason := _worse(scene, before, before.throughput, scene.snapshot.throughput):
        bad = Rejection(scene.running, scene.snapshot.throughput)
        return scene.after(rejected=(*scene.state.rejected, bad), requested=before.parallelism, going_back=True), [
            reason
        ]
    return _judge_capacity(_count_gain(scene, before, before.throughput, scene.snapshot.throughput), before)


def _not_judged(scene: Scene) -> list[Reason]:
    if scene.knobs.rollback_loss is None and scene.knobs.max_small_gains is None:
        return []
    return [Reason("not-judged", "the throughput is not known, so nobody can say what the last rescale brought")]


def _worse(scene: Scene, before: Snapshot, was: float, now: float) -> Reason | None:
    """Less throughput than before, and less than the world offers now: a lower rate alone is no loss."""
    loss = scene.knobs.rollback_loss
    if loss is None or now >= (1 - loss) * min(was, scene.snapshot.target_rate):
        return None
    change = moves(before.parallelism, scene.running)
    text = f"{change} took the throughput from {amount(was)} to {amount(now)}/s: going back"
    return Reason("rollback", text, {"before": was, "after": now, "loss": 1 - now / was, "limit": loss})


def _count_gain(scene: Scene, before: Snapshot, was: float, now: float) -> Scene:
    grew = sum(scene.running.values()) > sum(before.parallelism.values())
    if not grew or now >= scene.snapshot.target_rate:
        return scene
    if now >= was * (1 + scene.knobs.small_gain):
        return scene.after(small_gains=0)
    return scene.after(small_gains=scene.state.small_gains + 1, stalled_at=now)


def _judge_capacity(scene: Scene, before: Snapshot) -> tuple[Scene, list[Reason]]:
    """Ineffective scaling: capacity added over capacity expected, for each operator that grew."""
    least = scene.knobs.min_effectiveness
    if least is None:
        return scene, []
    ineffective, reasons = dict(scene.state.ineffective), []
    was = measure_demand(before).capacity
    for name, k in scene.running.items():
        one_before, one_now, k_before = was[name], scene.demand.capacity[name], before.parallelism[name]
        if k <= k_before or one_before is None or one_now is None:
            continue
        expected, added = (k - k_before) * one_before, k * one_now - k_before * one_before
        ineffective.pop(name, None)
        if added < least * expected:
            ineffective[name] = k
            text = (
                f"{name}: {k_before} → {k} added {amount(added)}/s of capacity, "
                f"{percent(max(0.0, added / expected))} of the {amount(expected)}/s expected"
            )
            numbers: dict[str, Number] = {"operator": name, "added": added, "expected": expected, "least": least}
            reasons.append(Reason("ineffective-scaling", text, numbers))
    return scene.after(ineffective=ineffective), reasons


def _correct(scene: Scene) -> Scene:
    """Target rate ratio: enough instances by every measurement, and yet the rate is not reached. Then the measured
    capacity is optimistic by achieved/target, and is divided by it until the world offers no more than was achieved."""
    limit, achieved, offered = scene.knobs.target_rate_ratio, scene.snapshot.throughput, scene.snapshot.target_rate
    if limit is None or not achieved or achieved >= limit * offered:
        return scene
    shown, _ = corrected(scene, scene.snapshot)
    demand = measure_demand(shown)
    if demand.gaps:
        return scene
    floor = throughput_floor(demand, shown)
    enough = all(k <= scene.running[name] for name, k in floor.parallelism.items())
    if not enough or not floor.reachable:
        return scene
    factor = max(_LEAST_CORRECTION, scene.state.correction * achieved / offered)
    return scene.after(correction=factor, corrected_at=achieved)
