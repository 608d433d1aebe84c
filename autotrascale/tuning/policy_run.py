"""A tuning run that follows another policy: run, ask the policy for the next parallelism, until it wants no other.

The first trial runs the configured start. The policy is asked once for each trial, and its answer is run as it is:
there is no second measurement and no search. The outcome is the policy's end, whether or not it meets the target.

Each trial is journalled with the decision that led to it and the policy's memory. A resumed run asks the policy again,
and refuses to continue if it decides otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from autotrascale.domain.decision import Reason
from autotrascale.domain.errors import InputError
from autotrascale.domain.job import Job
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.trial import Verdict
from autotrascale.plan.policies.base import memory_of
from autotrascale.plan.policies.policy_walk import PolicyWalk
from autotrascale.plan.policies.registry import PolicyChoice
from autotrascale.plan.sizing.sizing import Sizing, size
from autotrascale.tuning.floor_search import choose_starting_point
from autotrascale.tuning.trial_records import Evaluation, JournalledTrial, Outcome, PolicyStep, lower_fixed_seconds
from autotrascale.tuning.trial_runner import BestSoFar, TrialRunner

# A trial is judged once the job is steady, so the wait of a policy after each action is over.
OPTIONS_IN_TRIALS: Mapping[str, Mapping[str, bool | int | float | str]] = {"dhalion": {"wait_windows": 0}}
MAX_FAILURES_IN_A_ROW = 2  # of the same configuration: without a snapshot a policy cannot be asked


class PolicyKnowledge:
    """The trials of a run that follows a policy. A trial is as good as it was measured: policies do not doubt it."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.evaluations: list[Evaluation] = []

    def score(self, parallelism: Mapping[str, int], latency: float | None) -> None:
        """Return no score: there is no floor to compare with."""

    def learn(self, done: JournalledTrial) -> None:
        self.evaluations.append(done.evaluation)

    def best(self) -> BestSoFar:
        steady = [each for each in self.evaluations if each.latency_seconds is not None]
        if not steady:
            return BestSoFar()
        best = min(steady, key=self.rank)
        is_met = self.meets_target(best)
        return BestSoFar(best.parallelism, best.latency_seconds, meets=is_met, trusted=is_met)

    def meets_target(self, evaluation: Evaluation) -> bool:
        latency = evaluation.latency_seconds
        return latency is not None and latency <= self.job.target.latency_seconds

    def rank(self, evaluation: Evaluation) -> tuple[bool, float, int]:
        """Return a sort key: first the cheapest trial that meets the target, then the nearest miss."""
        latency, instances = evaluation.latency_seconds, sum(evaluation.parallelism.values())
        if self.meets_target(evaluation):
            return False, 0.0, instances
        return True, float("inf") if latency is None else latency, instances


class PolicyRun:
    """A tuning run that follows the policy of `choice`."""

    def __init__(self, trials: TrialRunner, knowledge: PolicyKnowledge, choice: PolicyChoice) -> None:
        self.trials, self.job, self.knowledge, self.choice = trials, trials.job, knowledge, choice
        options = {**OPTIONS_IN_TRIALS.get(choice.name, {}), **choice.options}
        policy = PolicyChoice(choice.name, options).create(self.job.target)
        self.walk = PolicyWalk(policy, choose_starting_point(self.job, trials.settings.initial))
        self.snapshot: Snapshot | None = None
        self._fixed_seconds: float | None = None

    def run(self) -> Outcome:
        failures = 0  # new trials in a row without a usable snapshot
        while (k := self.walk.next) is not None and self.trials.spent is None and failures < MAX_FAILURES_IN_A_ROW:
            is_recalled, trial = bool(self.trials.past), self._run_trial(k).trial
            if trial.snapshot is not None and trial.verdict is not Verdict.FAILED:
                failures = 0
                self.snapshot = trial.snapshot
                self._fixed_seconds = lower_fixed_seconds(self._fixed_seconds, trial.snapshot)
                self.walk.tell(trial.snapshot)
            elif not is_recalled:
                failures += 1
        self.trials.check_any_success()
        if self.walk.ended is not None:
            return self._make_outcome(f"policy-{self.walk.ended}")
        return self._make_outcome(self.trials.spent or ("no-metrics" if failures else "budget"))

    def _run_trial(self, k: Mapping[str, int]) -> JournalledTrial:
        """Run `k`, or recall a past trial. Raise `InputError` if the policy no longer asks for the past trial."""
        step = PolicyStep(self.walk.decisions[-1] if self.walk.decisions else None, memory_of(self.walk.policy))
        if not self.trials.past:
            return self.trials.run("policy", k, MAX_FAILURES_IN_A_ROW, step)
        done = self.trials.recall()
        if done.step is None or _dump_step(done.step) != _dump_step(step):
            problem = f"is not a trial that policy {self.choice.name} asks for now"
            raise InputError(f"trial {done.evaluation.number}", problem, remedy="start a new run")
        return done

    def _make_outcome(self, stop_reason: str) -> Outcome:
        """Return the policy's end as the outcome; if it goes round in a circle, the best trial of the circle."""
        at_end = [self.trials.find_last(k) for k in self.walk.circle if self._has_run(k)]
        best = min(at_end or [self.trials.evaluations[-1]], key=self.knowledge.rank)
        sized = None if self.snapshot is None else size(self.snapshot, self.job.target)
        sizing = sized if isinstance(sized, Sizing) else None
        return Outcome(
            job=self.job,
            simulated=self.trials.engine.simulated,
            floor=dict(best.parallelism if sizing is None else self.job.topology.named(sizing.floor)),
            sizing=sizing,
            best=best,
            met_target=self.knowledge.meets_target(best),
            stop_reason=stop_reason,
            evaluations=tuple(self.trials.evaluations),
            model=None,
            floor_holds=False,
            fixed_seconds=self._fixed_seconds,
            policy=self.choice.name,
            policy_reasons=self._collect_reasons(),
        )

    def _collect_reasons(self) -> tuple[Reason, ...]:
        """Return the last reasons, and earlier reasons for operators that the last decision does not mention."""
        reasons: list[Reason] = []
        for decision in reversed(self.walk.decisions):
            explained = {each.numbers.get("operator") for each in reasons}
            is_last = not reasons
            reasons += [
                each for each in decision.reasons if is_last or each.numbers.get("operator") not in {None, *explained}
            ]
        return tuple(reasons)

    def _has_run(self, k: Mapping[str, int]) -> bool:
        return any(dict(each.parallelism) == dict(k) for each in self.trials.evaluations)


def _dump_step(step: PolicyStep) -> str:
    decision = None if step.decision is None else step.decision.as_dict()
    return json.dumps({"decision": decision, "memory": dict(step.memory)}, sort_keys=True)
