"""Laws of the scaling loss: the floor when k instances do less than k times the work."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.domain.snapshot import Snapshot
from autotrascale.plan.sizing.floor import compute_busy_share
from autotrascale.plan.sizing.scaling_loss import MOST_LOSS, MeasuredCapacity, Scaling, compute_scaled_floor, fit_loss
from autotrascale.plan.sizing.sizing import Sizing, size
from autotrascale.testing.chain_snapshots import chain_snapshot
from autotrascale.testing.strategies import executions, snapshots

losses = st.floats(0.0, MOST_LOSS)


@given(snapshots(bounded=True))
def test_without_a_loss_the_floor_is_unchanged(snapshot: Snapshot) -> None:
    try:
        usual = size(snapshot)
    except ValueError:  # bounds without a common number of workers
        return
    assert size(snapshot, scaling=dict.fromkeys(snapshot.operators, 0.0)) == usual


@given(
    executions,
    st.lists(st.tuples(st.floats(1e-3, 30.0), st.integers(1, 30), losses), min_size=1, max_size=4),
    st.floats(0.0, 0.5),
)
def test_the_floor_keeps_up_and_one_instance_less_does_not(
    execution: str, operators: list[tuple[float, int, float]], overhead: float
) -> None:
    loads, at, loss = (list(each) for each in zip(*operators, strict=True))
    scaling, upper = Scaling(tuple(at), tuple(loss)), [100_000] * len(loads)
    k = compute_scaled_floor(execution, loads, [1] * len(loads), upper, overhead, scaling)  # type: ignore[arg-type]

    def keeps_up(instances: list[int]) -> bool:
        share = compute_busy_share(execution, overhead, scaling.loads(loads, instances), instances)  # type: ignore[arg-type]
        return share <= 1 + 1e-8

    assert keeps_up(k)
    if execution == "shared":
        assert k[0] == 1 or not keeps_up([each - 1 for each in k])
        return
    for i, own in enumerate(k):
        less = [*k[:i], own - 1, *k[i + 1 :]]
        assert (
            own == 1
            or not keeps_up(less)
            or compute_busy_share(
                execution,
                overhead,
                scaling.loads(loads, less),
                less,  # type: ignore[arg-type]
            )
            > 1 - 1e-8
        )


@given(st.floats(0.01, 50.0), st.integers(1, 40), losses, losses)
def test_more_loss_raises_the_floor_of_a_growing_job_and_lowers_it_of_a_shrinking_job(
    load: float, at: int, one: float, other: float
) -> None:
    less, more = sorted((one, other))
    floors = [
        compute_scaled_floor("pipelined", [load], [1], [10**6], 0.0, Scaling((at,), (loss,)))[0]
        for loss in (less, more)
    ]
    assert floors[0] <= floors[1] if load > at else floors[0] >= floors[1]


@given(st.floats(1.0, 1e4), losses, st.lists(st.integers(1, 60), min_size=2, max_size=6, unique=True))
def test_the_fitted_loss_is_near_the_truth_and_never_above(capacity: float, loss: float, ks: list[int]) -> None:
    points = [MeasuredCapacity(k, capacity * k**-loss, 20.0) for k in ks]
    found = fit_loss(points)
    assert 0 <= found <= loss + 1e-9
    if max(ks) >= 8 * min(ks):
        assert found == pytest.approx(loss, abs=0.02)


@pytest.mark.parametrize(
    "points",
    [
        [],
        [MeasuredCapacity(4, 10.0)],
        [MeasuredCapacity(4, 10.0), MeasuredCapacity(4, 8.0)],
        [MeasuredCapacity(4, 10.0), MeasuredCapacity(8, 12.0)],
    ],
)
def test_one_parallelism_or_a_gain_gives_no_loss(points: list[MeasuredCapacity]) -> None:
    assert fit_loss(points) == 0.0


def test_a_floor_far_from_the_present_parallelism_includes_the_loss() -> None:
    snapshot = chain_snapshot({"source": 1, "map": 4}, {"source": 1000.0, "map": 10.0}, 120.0)
    plain, scaled = size(snapshot), size(snapshot, scaling={"map": 0.5})
    assert isinstance(plain, Sizing)
    assert isinstance(scaled, Sizing)
    assert plain.named_floor["map"] == 12
    assert scaled.named_floor["map"] == 36  # three times the work needs nine times the instances
