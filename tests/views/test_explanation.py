from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from autotrascale.domain.job import Job
from autotrascale.domain.target import Target
from autotrascale.domain.topology import Operator, Topology
from autotrascale.domain.trial import Verdict
from autotrascale.plan.formatting import format_seconds
from autotrascale.testing.scripted_engine import ScriptedEngine
from autotrascale.tuning import Evaluation, Outcome, TuningSettings, tune
from autotrascale.views.explanation import explain_operators, format_parallelism, format_probability, probability_met_at

CHAIN = Topology.chain("source", "work")
JOB = Job("scripted", CHAIN, 8, {"source": 150.0}, Target(0.28))


def engine() -> ScriptedEngine:
    """Return an engine with the floor (2, 4), where the latency is 308 ms."""
    return ScriptedEngine(
        CHAIN, {"source": 100.0, "work": 40.0}, lambda k: 0.05 + 0.9 / k["source"] / k["work"] ** 0.4, p_max=8
    )


@cache
def outcome() -> Outcome:
    return tune(JOB, engine())


def run_at(point: dict[str, int], latency: float | None, verdict: Verdict = Verdict.STABLE) -> Outcome:
    """Return the outcome with one more trial."""
    run = Evaluation(99, "search", point, verdict, latency, 150.0, 1.0, 0.5)
    return replace(outcome(), evaluations=(*outcome().evaluations, run))


def fewer(name: str, by: int = 1) -> dict[str, int]:
    best = dict(outcome().best.parallelism)
    return {**best, name: best[name] - by}


def above_its_floor() -> str:
    return next(w.operator for w in explain_operators(outcome()) if w.k > w.floor)


def test_every_operator_is_explained_with_its_floor_and_its_load() -> None:
    answers = explain_operators(outcome())
    assert [(w.operator, w.k, w.floor) for w in answers] == [
        (name, outcome().best.parallelism[name], outcome().floor[name]) for name in CHAIN
    ]
    assert answers[0].load == pytest.approx(1.5)
    assert answers[1].load == pytest.approx(3.75)
    for answer in answers:
        floor = f"the floor is {answer.floor}"
        assert answer.text.startswith(f"{floor}, because its work keeps {answer.load:.1f} instances busy")


def test_a_small_load_is_a_share_of_one_instance() -> None:
    sizing = outcome().sizing
    assert sizing is not None
    idle = replace(outcome(), sizing=replace(sizing, load=(0.004, 3.75)))
    assert "its work keeps one instance busy 0.4% of the time" in explain_operators(idle)[0].text


def test_below_the_floor_the_load_is_the_reason() -> None:
    at_the_floor = tune(replace(JOB, target=Target(2.0)), engine())
    assert dict(at_the_floor.best.parallelism) == {"source": 2, "work": 4}
    texts = [w.text for w in explain_operators(at_the_floor)]
    assert texts[0].endswith("with 1: the job would fall behind, because its instances would be busy 150% of the time")
    assert texts[1].endswith("with 3: the job would fall behind, because its instances would be busy 125% of the time")


def test_an_operator_at_its_minimum() -> None:
    bounded = Topology({"source": Operator(minimum=2), "work": Operator(("source",))})
    ran = ScriptedEngine(bounded, {"source": 1000.0, "work": 40.0}, lambda _: 0.1, p_max=8)
    assert explain_operators(tune(replace(JOB, topology=bounded), ran))[0].text.endswith("2 is the minimum")


def test_one_fewer_shows_the_measurement_if_there_is_one() -> None:
    name = above_its_floor()
    i, point = list(CHAIN).index(name), fewer(above_its_floor())
    said = explain_operators(run_at(point, 0.62))[i].text
    assert f"with {point[name]}: measured" in said
    assert "above the target of 280 ms" in said
    said = explain_operators(run_at(point, None, Verdict.CANNOT_KEEP_UP))[i].text
    assert said.endswith(f"with {point[name]}: the job fell behind")
    assert explain_operators(run_at(point, None, Verdict.FAILED))[i].text.endswith("the trial failed")


def test_one_fewer_within_the_target_but_not_confirmed() -> None:
    readings = iter([0.48, 0.49, 0.499, 0.499])
    ran = ScriptedEngine(
        CHAIN, {"source": 100.0, "work": 40.0}, lambda k: next(readings) if k["work"] == 4 else 0.3, p_max=8
    )
    ended = tune(replace(JOB, target=Target(0.5)), ran)
    best = {**ended.best.parallelism, "work": 5, "source": 2}
    said = explain_operators(replace(ended, best=replace(ended.best, parallelism=best)))[1].text
    assert "with 4: measured 492 ms (4 times), within the target, but not confirmed: probability" in said
    assert said.endswith("required 97%")


def test_one_fewer_without_a_trial_shows_the_prediction() -> None:
    ended = tune(replace(JOB, target=Target(0.16)), engine())
    best, ran = ended.best.parallelism, [dict(e.parallelism) for e in ended.evaluations]
    points = {name: {**best, name: k - 1} for name, k in best.items() if k > ended.floor[name]}
    unseen = {name: tuple(point.values()) for name, point in points.items() if point not in ran}
    assert unseen
    for answer in [each for each in explain_operators(ended) if each.operator in unseen]:
        chance = probability_met_at(ended, unseen[answer.operator])
        assert chance is not None
        assert f"(not run), target met with probability {format_probability(chance)}" in answer.text


def test_a_miss_explains_one_more_instance_and_the_maximum() -> None:
    missed = tune(replace(JOB, target=Target(0.1), p_max=5), engine(), TuningSettings(total_trials=5))
    assert not missed.met_target
    for answer in explain_operators(missed):
        at_most = answer.k == 5
        assert ("5 is the maximum (P_max)" in answer.text) == at_most
        assert at_most or f"with {answer.k + 1}: " in answer.text
        assert "required" not in answer.text


def test_the_papers_algorithms_have_no_probabilities() -> None:
    faithful = tune(JOB, engine(), TuningSettings(faithful=True))
    assert probability_met_at(faithful, (2, 4)) is None
    assert all(w.text for w in explain_operators(faithful))


def test_parallelism_is_shown_by_name() -> None:
    assert format_parallelism({"source": 2, "count": 14}) == "source 2, count 14"
    assert format_parallelism({f"o{i}": i for i in range(1, 10)}, 3) == "o1 1, o2 2, o3 3 and 6 more"


@pytest.mark.parametrize(
    ("chance", "text"), [(0.0, "under 1%"), (0.009, "under 1%"), (0.934, "93%"), (0.991, "99%"), (0.996, "over 99%")]
)
def test_no_probability_is_shown_as_certain(chance: float, text: str) -> None:
    assert format_probability(chance) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0004, "0.4 ms"),
        (0.0096, "9.6 ms"),
        (0.0276, "28 ms"),
        (0.172, "172 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.00 s"),
        (12.3, "12.30 s"),
    ],
)
def test_formats_of_seconds(value: float, text: str) -> None:
    assert format_seconds(value) == text
