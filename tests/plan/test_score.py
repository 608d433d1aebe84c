from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.domain.errors import InputError
from autotrascale.plan.search.score import Benefit
from autotrascale.testing.strategies import benefits, latencies, points_above

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "benefit.json").read_text())


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_the_papers_tables_follow_from_eq_4(case: dict[str, Any]) -> None:
    benefit = Benefit(tuple(case["floor"]), case["latency_target"], case["alpha"], case["over_allocation"])
    assert float(benefit.score(case["k"], case["latency"])) == pytest.approx(case["score"], abs=6e-5)
    assert benefit.satisfied(case["k"], case["latency"]) == case["satisfied"]


def test_the_papers_threshold_of_0_9_is_a_ratio_of_one() -> None:
    """The mean of k'/k may be one half: 0.8 + 0.2 / 2."""
    assert Benefit((1,), 1.0, alpha=0.8, over_allocation=1.0).threshold == pytest.approx(0.9)


@given(benefits(), st.data())
def test_the_score_lies_in_zero_to_one(benefit: Benefit, data: st.DataObject) -> None:
    k = data.draw(points_above(benefit.floor))
    score = float(benefit.score(k, data.draw(latencies)))
    assert 0 < score <= 1


@given(benefits(), latencies)
def test_the_floor_at_the_target_scores_one(benefit: Benefit, latency: float) -> None:
    at_most = min(latency, benefit.latency_target)
    assert float(benefit.score(benefit.floor, at_most)) == pytest.approx(1.0)
    assert benefit.satisfied(benefit.floor, at_most)


@given(benefits(), latencies, latencies, st.data())
def test_a_slower_run_never_scores_more(benefit: Benefit, one: float, other: float, data: st.DataObject) -> None:
    k = data.draw(points_above(benefit.floor))
    fast, slow = sorted((one, other))
    assert benefit.score(k, slow) <= benefit.score(k, fast)
    assert benefit.score(k, math.inf) <= benefit.score(k, slow)


@given(benefits(), latencies, st.data())
def test_one_instance_more_never_scores_more(benefit: Benefit, latency: float, data: st.DataObject) -> None:
    k = data.draw(points_above(benefit.floor))
    i = data.draw(st.integers(0, len(k) - 1))
    more = (*k[:i], k[i] + 1, *k[i + 1 :])
    assert benefit.score(more, latency) <= benefit.score(k, latency)


@given(benefits(), latencies, st.data())
def test_the_stop_rule_checks_latency_and_threshold(benefit: Benefit, latency: float, data: st.DataObject) -> None:
    k = data.draw(points_above(benefit.floor))
    score = float(benefit.score(k, latency))
    if abs(score - benefit.threshold) > 1e-6:
        assert benefit.satisfied(k, latency) == (latency <= benefit.latency_target and score >= benefit.threshold)


@given(benefits(), st.data())
def test_within_the_latency_the_rule_bounds_resources_for_every_alpha(benefit: Benefit, data: st.DataObject) -> None:
    """Eq. 9 minus the latency term of Eq. 4 is mean(k'/k) ≥ 1/(1+w), which is Eq. 8."""
    k = data.draw(points_above(benefit.floor))
    spare = float(benefit.resources(k)) - 1 / (1 + benefit.over_allocation)
    if benefit.alpha < 0.99 and abs(spare) > 1e-6:
        assert benefit.satisfied(k, benefit.latency_target) == (spare > 0)


def test_a_configuration_exactly_on_the_rule_meets_it() -> None:
    """k'/k of 2/3 in every order of the sum, with w = 1/2."""
    for n in range(1, 12):
        benefit = Benefit((2,) * n, latency_target=0.1, over_allocation=0.5)
        assert benefit.satisfied((3,) * n, 0.1)
        assert not benefit.satisfied((3,) * n, math.nextafter(0.1, 1))


@given(benefits(), st.data())
def test_rows_score_as_they_do_one_by_one(benefit: Benefit, data: st.DataObject) -> None:
    ks = [data.draw(points_above(benefit.floor)) for _ in range(3)]
    times = [data.draw(latencies) for _ in ks]
    together = benefit.score(ks, times)
    assert together.tolist() == pytest.approx([float(benefit.score(k, t)) for k, t in zip(ks, times, strict=True)])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"floor": ()}, "floor: is empty"),
        ({"floor": (0,)}, "floor[0]: must be at least 1"),
        ({"floor": (1, True)}, "floor[1]: must be a whole number"),
        ({"latency_target": 0}, "latency_target: must be above zero"),
        ({"latency_target": math.nan}, "latency_target: must be finite"),
        ({"latency_target": True}, "latency_target: must be a number"),
        ({"latency_target": "0.1"}, "latency_target: must be a number"),
        ({"alpha": 1.01}, "alpha: must lie between 0 and 1"),
        ({"alpha": math.nan}, "alpha: must be finite"),
        ({"over_allocation": -0.1}, "over_allocation: must not be negative"),
        ({"over_allocation": math.inf}, "over_allocation: must be finite"),
    ],
)
def test_invalid_score_parameters_are_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as caught:
        Benefit(**{"floor": (1, 2), "latency_target": 0.1, **change})
    assert str(caught.value).startswith(says)


def test_numpy_numbers_become_plain_numbers() -> None:
    """JSON cannot write float32."""
    benefit = Benefit((np.int64(2),), np.float32(0.5), np.float64(0.25), np.int64(1))  # type: ignore[arg-type]
    assert [type(x) for x in (benefit.floor[0], benefit.latency_target, benefit.alpha, benefit.over_allocation)] == [
        int,
        float,
        float,
        float,
    ]
