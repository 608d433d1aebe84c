"""Tuning runs that follow a policy: what they do, that they go on where they were, and what they say."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from autotrascale.app.job_file import read_job_file
from autotrascale.domain.decision import Decision
from autotrascale.domain.errors import EngineError, InputError
from autotrascale.domain.job import Job
from autotrascale.domain.snapshot import Snapshot
from autotrascale.execute.simulator.engine import SimulatorEngine
from autotrascale.knowledge.run_json import outcome_from_json, outcome_to_json, trial_from_json, trial_to_json
from autotrascale.plan.policies import registry
from autotrascale.plan.policies.registry import OURS, PolicyChoice, known
from autotrascale.tuning import JournalledTrial, Outcome, TuningSettings, tune
from autotrascale.views.explanation import explain_operators
from autotrascale.views.verdict import summarize_outcome

CONFIGS = Path(__file__).parents[1] / "configs"
RIVALS = tuple(name for name in known() if name != OURS)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    with threadpool_limits(1):
        yield


class Kept:
    """A journal, by way of text."""

    def __init__(self) -> None:
        self.trials: list[JournalledTrial] = []

    def begin(self, number: int, phase: str, parallelism: Mapping[str, int]) -> None:
        assert number == len(self.trials) + 1
        assert phase == "policy"
        assert parallelism

    def done(self, trial: JournalledTrial) -> None:
        text = json.dumps(trial_to_json(trial), allow_nan=False)
        self.trials.append(trial_from_json(json.loads(text), "trial"))


def opened(config: str, seed: int, rate: float = 1.0) -> tuple[Job, SimulatorEngine]:
    job, engine = read_job_file(CONFIGS / config).open_engine("simulator", seed)
    assert isinstance(engine, SimulatorEngine)
    return job.at_rate(rate * job.rate), engine


def tuned(
    name: str,
    config: str = "wordcount-simulated.yaml",
    *,
    seed: int = 0,
    rate: float = 1.0,
    trials: int = 12,
    journal: Kept | None = None,
    past: list[JournalledTrial] | None = None,
    initial: Mapping[str, int] | None = None,
    **options: int,
) -> Outcome:
    job, engine = opened(config, seed, rate)
    engine.runs = len(past or ())
    given_ = TuningSettings(total_trials=trials, seed=seed, initial=initial or {})
    return tune(job, engine, given_, journal=journal, past=past or (), policy=PolicyChoice(name, options))


@settings(max_examples=40)
@given(
    st.sampled_from(RIVALS),
    st.sampled_from(("wordcount-simulated.yaml", "stalled-wordcount-simulated.yaml")),
    st.integers(0, 9),
    st.floats(0.2, 1.2),
    st.integers(1, 8),
    st.integers(0, 12),
)
def test_a_run_goes_on_after_any_of_its_trials_as_if_it_had_not_stopped(
    name: str, config: str, seed: int, rate: float, trials: int, after: int
) -> None:
    journal = Kept()
    whole = tuned(name, config, seed=seed, rate=rate, trials=trials, journal=journal)
    resumed = tuned(name, config, seed=seed, rate=rate, trials=trials, past=journal.trials[:after])
    assert [replace(each, seconds=0.0) for each in resumed.evaluations] == [
        replace(each, seconds=0.0) for each in whole.evaluations
    ]
    again = tuned(name, config, seed=seed, rate=rate, trials=trials, past=journal.trials)
    assert again == replace(whole, evaluations=again.evaluations, best=again.best)
    assert again.best.number == whole.best.number
    upper = whole.job.topology.named(whole.job.upper)
    for each in whole.evaluations:
        assert all(1 <= k <= upper[operator] for operator, k in each.parallelism.items())
    assert len(whole.evaluations) <= trials
    assert whole.met_target == (
        whole.best.latency_seconds is not None and whole.best.latency_seconds <= whole.job.target.latency_seconds
    )
    text = json.dumps(outcome_to_json(whole), allow_nan=False)
    assert outcome_from_json(json.loads(text), whole.evaluations, "outcome") == whole
    assert summarize_outcome(whole).startswith(f"{whole.job.name} (simulated) ")
    assert all(each.text for each in explain_operators(whole))


def test_nothing_is_decided_by_none() -> None:
    outcome = tuned("none", initial={"count": 30})
    assert [dict(each.parallelism) for each in outcome.evaluations] == [
        {"source": 1, "flatmap": 1, "count": 30, "sink": 1}
    ]
    assert outcome.stop_reason == "policy-settled"
    assert outcome.policy == "none"


def test_ds2_steps_to_its_floor_and_says_why_in_numbers() -> None:
    outcome = tuned("ds2")
    assert outcome.stop_reason == "policy-settled"
    assert dict(outcome.best.parallelism) == {"source": 3, "flatmap": 4, "count": 11, "sink": 10}
    assert all(each in explain_operators(outcome)[2].text for each in ("1,050,000/s", "96,880/s", "10.8 → 11"))
    said = summarize_outcome(outcome)
    for shown in ("180 ms", "350,000 records/s", "ds2", "3 trials", "343,584", "98.2%"):
        assert shown in said


def test_dhalion_goes_one_operator_at_a_time_without_waiting_twice() -> None:
    outcome = tuned("dhalion", trials=30)
    assert outcome.stop_reason == "policy-settled"
    ran = [tuple(each.parallelism.values()) for each in outcome.evaluations]
    assert all(sum(a != b for a, b in zip(before, after, strict=True)) == 1 for before, after in pairwise(ran))
    assert ran[-1] == (3, 4, 12, 10)
    assert all(each in explain_operators(outcome)[3].text for each in ("294 ms", "7 → 10"))


def test_slots_bound_a_run() -> None:
    for name in RIVALS:
        outcome = tuned(name, trials=6, slots=20)
        assert all(sum(each.parallelism.values()) <= 20 for each in outcome.evaluations)


def test_where_a_policy_goes_round_the_best_of_the_circle_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = [{"source": 4, "flatmap": 4, "count": 14, "sink": 14}, {"source": 4, "flatmap": 4, "count": 5, "sink": 14}]

    class Restless:
        name = "ds2"

        def decide(self, snapshot: Snapshot) -> Decision:
            wanted = ends[snapshot.parallelism["count"] == 14]
            return Decision.between(self.name, snapshot.parallelism, wanted)

    monkeypatch.setattr(registry.PolicyChoice, "create", lambda *_: Restless())
    outcome = tuned("ds2")
    assert outcome.stop_reason == "policy-repeats"
    assert outcome.best.parallelism["count"] == 14
    assert outcome.met_target
    assert len(outcome.evaluations) == 3  # all ones, then each end once
    assert "after 3 trials" in summarize_outcome(outcome)


def test_a_journal_of_other_answers_is_not_gone_on_with() -> None:
    journal = Kept()
    tuned("ds2", journal=journal)
    with pytest.raises(InputError) as caught:
        tuned("threshold", past=journal.trials)
    assert str(caught.value).startswith("trial 2: ")
    assert "threshold" in str(caught.value)


def test_an_engine_that_breaks_twice_at_one_configuration_is_an_error() -> None:
    from autotrascale.testing.scripted_engine import ScriptedEngine

    job, _ = opened("wordcount-simulated.yaml", 0)
    capacity = dict.fromkeys(job.topology, 1e6)
    broken = ScriptedEngine(job.topology, capacity, p_max=40, surprises={1: "no room", 2: "no room"})
    with pytest.raises(EngineError, match=r"2 trials in a row failed.*no room"):
        tune(job, broken, policy=PolicyChoice("ds2"))
    once = ScriptedEngine(job.topology, capacity, p_max=40, surprises={1: "no room"})
    outcome = tune(job, once, policy=PolicyChoice("ds2"))
    assert once.asked[0] == once.asked[1]
    assert outcome.stop_reason == "policy-settled"
