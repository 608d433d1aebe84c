from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from autotrascale.domain.job import Job
from autotrascale.domain.target import Target
from autotrascale.domain.topology import Topology
from autotrascale.domain.trial import Verdict
from autotrascale.testing.scripted_engine import ScriptedEngine
from autotrascale.tuning import Evaluation, Outcome, Tuning, tune
from autotrascale.views.explanation import seconds, slots, summary, why

CHAIN = Topology.chain("source", "work")
JOB = Job("scripted", CHAIN, 8, {"source": 150.0}, Target(0.5))


def engine() -> ScriptedEngine:
    """The floor is (2, 4), and 0.5 s take one instance of `work` more."""
    return ScriptedEngine(CHAIN, {"source": 100.0, "work": 40.0}, lambda k: 0.05 + 0.9 / k["source"] / k["work"] ** 0.4,
                          p_max=8)  # fmt: skip


@cache
def outcome() -> Outcome:
    return tune(JOB, engine())


def test_every_operator_is_explained_with_its_floor_and_its_load() -> None:
    answers = why(outcome())
    assert [(w.operator, w.k, w.floor) for w in answers] == [
        (name, outcome().best.parallelism[name], outcome().floor[name]) for name in CHAIN
    ]
    assert answers[0].load == pytest.approx(1.5)
    assert answers[1].load == pytest.approx(3.75)
    for answer in answers:
        assert (
            f"the floor that holds the rate is {answer.floor} (its load is {answer.load:.1f} instances" in answer.text
        )


def test_an_operator_that_is_hardly_busy_is_told_as_such() -> None:
    sizing = outcome().sizing
    assert sizing is not None
    idle = replace(outcome(), sizing=replace(sizing, load=(0.004, 3.75)))
    said = why(idle)[0].text
    assert "(its work would keep one instance busy for 0.4% of the time)" in said
    assert "load is 0.0" not in said


def test_neighbours_are_what_was_measured_where_it_was_and_what_the_model_expects_elsewhere() -> None:
    for answer in why(outcome()):
        assert f"{answer.k + 1} " in answer.text
        assert "for one instance more" in answer.text
        if answer.k > answer.floor:
            assert f"with {answer.k - 1} " in answer.text
        else:
            assert "latency asks for no more" in answer.text
    texts = " ".join(answer.text for answer in why(outcome()))
    assert "the model expects" in texts


def test_a_neighbour_that_was_run_is_quoted_and_its_miss_said() -> None:
    best = outcome().best.parallelism
    more = {**best, "work": best["work"] + 1}
    run = Evaluation(99, "search", more, Verdict.STABLE, 0.62, 150.0, 1.0, 0.5)
    said = why(replace(outcome(), evaluations=(*outcome().evaluations, run)))[1].text
    assert f"{more['work']} it took 620 ms when run, beyond the target of 500 ms, for one instance more" in said
    fell = replace(run, verdict=Verdict.CANNOT_KEEP_UP, latency_seconds=None)
    said = why(replace(outcome(), evaluations=(*outcome().evaluations, fell)))[1].text
    assert f"{more['work']} it cannot keep up when run" in said


def test_at_p_max_nothing_above_is_spoken_of() -> None:
    full = Job("scripted", CHAIN, 4, {"source": 150.0}, Target(2.0))
    answers = why(tune(full, engine(), Tuning(initial={"source": 2, "work": 4})))
    assert "for one instance more" in answers[0].text
    assert "for one instance more" not in answers[1].text


def test_the_summary_of_a_target_that_is_held() -> None:
    text = summary(outcome())
    k = outcome().best.parallelism
    assert text.startswith("scripted (simulated) holds 500 ms at 150 records/s with ")
    assert f"source {k['source']}, work {k['work']}: measured {seconds(outcome().best.latency_seconds or 0)}" in text
    used = sum(k.values())
    assert f"on {used} slots instead of 16, {1 - used / 16:.0%} fewer at P_max everywhere." in text
    assert "simulated" not in summary(replace(outcome(), simulated=False))


def test_micro_batches_share_their_slots() -> None:
    model = outcome().model
    assert model is not None
    batches = replace(outcome(), model=replace(model, sizing=replace(model.sizing, execution="micro-batch")))
    k = outcome().best.parallelism
    assert f"on {max(k.values())} slots instead of 8" in summary(batches)
    assert f"{sum(k.values())} tasks a batch instead of 16" in summary(batches)
    assert slots({"a": 2, "b": 5}, "micro-batch") == 5
    assert slots({"a": 2, "b": 5}, "pipelined") == slots({"a": 2, "b": 5}, None) == 7


@pytest.mark.parametrize(
    ("rate", "target", "trials", "says"),
    [
        (5000.0, 0.5, 20, "no parallelism up to P_max carried the rate, the best reached 320 records/s"),
        (150.0, 0.5, 1, "none of the 1 trials of the budget was good enough to accept"),
        (150.0, 1e-3, 3, "none of the 3 trials of the budget was good enough to accept"),
    ],
)
def test_the_summary_says_why_not(rate: float, target: float, trials: int, says: str) -> None:
    job = Job("scripted", CHAIN, 8, {"source": rate}, Target(target))
    ended = tune(job, engine(), Tuning(total_trials=trials))
    assert summary(ended).startswith("scripted (simulated) does not hold ")
    assert summary(ended).endswith(f": {says}.")
    assert len(why(ended)) == 2


def test_nothing_measured_at_all() -> None:
    broken = engine()
    broken.surprises = dict.fromkeys(range(1, 9), "no worker came up")
    ended = tune(JOB, broken)
    assert summary(ended).endswith("no trial gave metrics to size it by, the last said: no worker came up.")
    assert [answer.load for answer in why(ended)] == [None, None]


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
def test_seconds_as_people_read_them(value: float, text: str) -> None:
    assert seconds(value) == text
