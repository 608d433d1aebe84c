"""The verdict of a run: the chosen parallelism or the nearest miss, and advice."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest

from autotrascale.domain.job import Job
from autotrascale.domain.snapshot import CriticalShares
from autotrascale.domain.target import Target
from autotrascale.domain.topology import Topology
from autotrascale.domain.trial import Verdict
from autotrascale.plan.formatting import format_seconds
from autotrascale.testing.scripted_engine import ScriptedEngine
from autotrascale.tuning import Evaluation, Outcome, TuningSettings, tune
from autotrascale.views.verdict import format_excess, summarize_outcome

CHAIN = Topology.chain("source", "work")
JOB = Job("scripted", CHAIN, 8, {"source": 150.0}, Target(0.5))


def engine(**changes: object) -> ScriptedEngine:
    """Return an engine with the floor (2, 4), where the latency is 308 ms."""
    given = {"topology": CHAIN, "capacity": {"source": 100.0, "work": 40.0}, "p_max": 8}
    given["latency"] = lambda k: 0.05 + 0.9 / k["source"] / k["work"] ** 0.4
    return ScriptedEngine(**{**given, **changes})  # type: ignore[arg-type]


@cache
def outcome() -> Outcome:
    return tune(JOB, engine())


def test_a_target_that_is_met() -> None:
    text, k = summarize_outcome(outcome()), outcome().best.parallelism
    assert text.startswith("scripted (simulated) holds 500 ms at 150 records/s with ")
    assert (
        f"source {k['source']}, work {k['work']}. Measured {format_seconds(outcome().best.latency_seconds or 0)}"
        in text
    )
    assert "target met with probability " in text
    assert f"It uses {sum(k.values())} slots; P_max everywhere would use 16." in text
    assert "simulated" not in summarize_outcome(replace(outcome(), simulated=False))


def test_micro_batches_share_their_slots() -> None:
    model = outcome().model
    assert model is not None
    batches = replace(outcome(), model=replace(model, sizing=replace(model.sizing, execution="micro-batch")))
    k = outcome().best.parallelism
    assert f"uses {max(k.values())} slots" in summarize_outcome(batches)
    assert f"16 tasks per batch instead of {sum(k.values())}" in summarize_outcome(batches)


def test_a_cheaper_and_likely_configuration_is_named() -> None:
    readings = iter([0.48, 0.49, *[0.485] * 9])
    ran = engine(latency=lambda k: next(readings) if k["work"] == 4 else 0.3)
    text = summarize_outcome(tune(JOB, ran, TuningSettings(total_trials=4)))
    assert "Cheaper and likely, but not confirmed: source 2, work 4 measured 485 ms (2 times), target met" in text
    assert text.endswith("required 97%.")


def test_more_than_the_allowed_over_allocation_is_mentioned() -> None:
    ended = tune(replace(JOB, target=Target(0.25)), engine(), TuningSettings(over_allocation=0.02, total_trials=30))
    assert ended.stop_reason == "rule-unsatisfiable"
    text = summarize_outcome(ended)
    assert "Within over_allocation 0.02 no configuration is likely to meet the target; " in text
    assert re.search(r"needs \d\.\d\d\.", text)


@pytest.mark.parametrize(
    ("rate", "target", "trials", "says"),
    [
        (
            5000.0,
            0.5,
            20,
            "No trial sustained the rate; the nearest processed 320 records/s (6.4%) with source 8, work 8."
            " P_max everywhere would not sustain it. About 320 records/s can be sustained: lower the rate"
            " (--rate), or raise p_max. More instances than P_max are needed by source (its work"
            " keeps 50.0 busy), work (its work keeps 125.0 busy).",
        ),
        (
            150.0,
            0.5,
            1,
            "No trial sustained the rate; the nearest processed 40 records/s (26.7%) with source 1, work 1."
            " The budget of trials is used up. No trial sustained the rate yet: allow more trials"
            " (--total-trials).",
        ),
        (
            150.0,
            1e-3,
            8,
            "times the target, with source 8, work 8. The budget of trials is used up. At P_max already:"
            " source, work; raise p_max if there are more slots.",
        ),
        (150.0, 0.2, 3, "over the target, with source"),
    ],
)
def test_a_miss_names_the_nearest_trial_and_gives_advice(rate: float, target: float, trials: int, says: str) -> None:
    ended = tune(
        Job("scripted", CHAIN, 8, {"source": rate}, Target(target)), engine(), TuningSettings(total_trials=trials)
    )
    text = summarize_outcome(ended)
    assert text.startswith("scripted (simulated) does not hold ")
    assert says in text
    assert " holds " not in text


def test_the_nearest_miss_is_the_lowest_latency_and_not_the_best_score() -> None:
    ended = tune(replace(JOB, target=Target(0.09)), engine(), TuningSettings(total_trials=8))
    assert not ended.met_target
    assert ended.best.latency_seconds == min(e.latency_seconds for e in ended.evaluations if e.latency_seconds)


def test_within_the_target_but_not_confirmed_is_neither_success_nor_miss() -> None:
    ended = tune(JOB, engine(latency=lambda _: 0.499), TuningSettings(total_trials=5))
    text = summarize_outcome(ended)
    assert text.startswith("scripted (simulated) is not shown to hold 500 ms at 150 records/s. With source ")
    assert "measured 499 ms" in text
    assert "but the probability is " in text
    assert text.endswith("More trials would settle it (--total-trials).")


def test_the_fixed_time_of_a_batch_is_named_as_the_reason() -> None:
    sizing = outcome().sizing
    assert sizing is not None
    batches = replace(
        outcome(),
        met_target=False,
        stop_reason="target-out-of-reach",
        fixed_seconds=0.9,
        best=replace(outcome().best, latency_seconds=1.6),
        sizing=replace(sizing, execution="micro-batch", load=(0.0, 0.0)),
    )
    text = summarize_outcome(batches)
    assert "measured 1.60 s, 3.2 times the target, with source " in text
    assert "A batch takes 900 ms before its first record, so that no parallelism up to P_max gets below 1.35 s" in text
    assert "raise p_max" not in text


def test_no_metrics() -> None:
    blind = replace(outcome(), met_target=False, stop_reason="no-metrics")
    last = Evaluation(9, "floor", {"source": 1, "work": 1}, Verdict.CANNOT_KEEP_UP, None, None, 1.0, None, "silence")
    text = summarize_outcome(replace(blind, evaluations=(last,)))
    assert "No trial gave metrics for the sizing. The last trial reported: silence." in text


@pytest.mark.parametrize(
    ("latency", "text"),
    [(0.20001, "0.1% over the target"), (0.248, "24.0% over the target"), (0.5, "2.5 times the target")],
)
def test_formats_of_an_excess(latency: float, text: str) -> None:
    assert format_excess(latency, 0.2) == text


def test_a_critical_path_outside_parallelism_is_named_instead_of_p_max() -> None:
    """The critical path is named only if the target is missed."""
    text = "60% of a batch's critical path does not shrink with more instances; 55% is commits of state and logs."
    missed = tune(JOB, engine(latency=lambda _: 0.9), TuningSettings(total_trials=4))
    for one, bound, expected in (
        (missed, CriticalShares(driver=0.05, commits=0.55), True),
        (missed, CriticalShares(driver=0.05, commits=0.4), False),
        (outcome(), CriticalShares(driver=0.05, commits=0.55), False),
    ):
        told = summarize_outcome(replace(one, best=replace(one.best, critical=bound)))
        assert (text in told) is expected
        assert not (expected and "raise p_max" in told)
