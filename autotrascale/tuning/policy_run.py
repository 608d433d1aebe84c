"""A tuning run that follows one of the policies: run, ask it for the next, until it wants no other.

The first trial runs what the job file begins with. The policy is asked once for each trial, and its answer is taken as
it is: no second look before it is believed, no search above it. What comes of it is where the policy ends, whether that
meets the target or not. Each trial is journalled with the answer that asked for it and with what the policy remembers
from then on; a run that is gone on with asks anew, and refuses to go on where the answers are others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from autotrascale.domain.decision import Reason
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Snapshot
from autotrascale.domain.trial import Verdict
from autotrascale.plan.policies import PolicyChoice, memory_of
from autotrascale.plan.policies.policy_walk import PolicyWalk
from autotrascale.plan.sizing.sizing import Sizing, size
from autotrascale.tuning.floor_search import choose_starting_point
from autotrascale.tuning.trial_records import Evaluation, JournalledTrial, Outcome, PolicyStep, measure_fixed_seconds
from autotrascale.tuning.trial_runner import BestSoFar, TrialRunner

# A trial is judged when the job is steady: the wait that a policy makes after each action is over by then.
IN_TRIALS: Mapping[str, Mapping[str, bool | int | float | str]] = {"dhalion": {"wait_windows": 0}}
FAILURES_IN_A_ROW = 2  # of the same configuration: a policy has nothing to be asked about


class PolicyRun:
    def __init__(self, trials: TrialRunner, choice: PolicyChoice) -> None:
        self.trials, self.choice = trials, choice
        options = {**IN_TRIALS.get(choice.name, {}), **choice.options}
        policy = PolicyChoice(choice.name, options).create(trials.job.target)
        self.walk = PolicyWalk(policy, choose_starting_point(trials.job, trials.settings.initial))
        self.snapshot: Snapshot | None = None
        self._fixed: float | None = None
        trials.best = self._best

    def go(self) -> Outcome:
        blind = 0  # trials in a row that say nothing
        while (k := self.walk.next) is not None and self.trials.spent is None and blind < FAILURES_IN_A_ROW:
            recalled, trial = bool(self.trials.past), self._trial(k).trial
            if trial.snapshot is not None and trial.verdict is not Verdict.FAILED:
                blind = 0
                self._tell(trial.snapshot)
            elif not recalled:
                blind += 1
        self.trials.check_anything_ran()
        return self._outcome(self._ended(blind))

    def _trial(self, k: Mapping[str, int]) -> JournalledTrial:
        step = PolicyStep(self.walk.decisions[-1] if self.walk.decisions else None, memory_of(self.walk.policy))
        if not self.trials.past:
            return self.trials.run("policy", k, FAILURES_IN_A_ROW, step)
        done = self.trials.recall()
        if done.step is None or _plain(done.step) != _plain(step):
            problem = f"was asked for otherwise than {self.choice.name} asks now"
            raise InputError(f"trial {done.evaluation.number}", problem, remedy="start a new run")
        return done

    def _tell(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        fixed = measure_fixed_seconds(snapshot)
        if fixed is not None:
            self._fixed = fixed if self._fixed is None else min(self._fixed, fixed)
        self.walk.tell(snapshot)

    def _ended(self, blind: int) -> str:
        if self.walk.ended is not None:
            return f"policy-{self.walk.ended}"
        return self.trials.spent or ("no-metrics" if blind else "budget")

    def _best(self) -> BestSoFar:
        within = [each for each in self.trials.evaluations if each.latency_seconds is not None]
        if not within:
            return BestSoFar()
        best = min(within, key=self._miss)
        meets = self._meets(best)  # as measured: a policy does not doubt it
        return BestSoFar(best.parallelism, best.latency_seconds, meets=meets, trusted=meets)

    def _meets(self, evaluation: Evaluation) -> bool:
        latency = evaluation.latency_seconds
        return latency is not None and latency <= self.trials.job.target.latency_seconds

    def _miss(self, evaluation: Evaluation) -> tuple[bool, float, int]:
        """What meets the target first, and of that the cheapest; else what comes nearest."""
        latency, instances = evaluation.latency_seconds, sum(evaluation.parallelism.values())
        if self._meets(evaluation):
            return False, 0.0, instances
        return True, float("inf") if latency is None else latency, instances

    def _outcome(self, stop_reason: str) -> Outcome:
        """Where it stands; where it goes round, the best that it comes by."""
        job = self.trials.job
        stand = [self.trials.last_of(k) for k in self.walk.circle if self._ran(k)] or [self.trials.evaluations[-1]]
        best = min(stand, key=self._miss)
        sizing = self._sizing()
        floor = best.parallelism if sizing is None else job.topology.named(sizing.floor)
        return Outcome(
            job,
            self.trials.engine.simulated,
            dict(floor),
            sizing,
            best,
            self._meets(best),
            stop_reason,
            tuple(self.trials.evaluations),
            None,
            floor_holds=False,
            fixed_seconds=self._fixed,
            policy=self.choice.name,
            said=self._said(),
        )

    def _said(self) -> tuple[Reason, ...]:
        """What it said last, and before that of operators which it says nothing of any more."""
        said: list[Reason] = []
        for decision in reversed(self.walk.decisions):
            named = {each.numbers.get("operator") for each in said}
            last = not said
            said += [each for each in decision.reasons if last or each.numbers.get("operator") not in {None, *named}]
        return tuple(said)

    def _ran(self, k: Mapping[str, int]) -> bool:
        return any(dict(each.parallelism) == dict(k) for each in self.trials.evaluations)

    def _sizing(self) -> Sizing | None:
        if self.snapshot is None:
            return None
        sized = size(self.snapshot, self.trials.job.target)
        return sized if isinstance(sized, Sizing) else None


def _plain(step: PolicyStep) -> str:
    decision = None if step.decision is None else step.decision.as_dict()
    return json.dumps({"decision": decision, "memory": dict(step.memory)}, sort_keys=True)
