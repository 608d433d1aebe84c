"""The runner of trials: run or recall one, evaluate it, journal it, report it.

`tuning_run` and `policy_run` choose the next configuration. A trial is in the journal before any decision uses it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from autotrascale.domain.errors import EngineError
from autotrascale.domain.job import Job
from autotrascale.domain.trial import Trial, Verdict
from autotrascale.execute.engine import Engine
from autotrascale.tuning.trial_records import (
    Evaluation,
    JournalledTrial,
    PolicyStep,
    ReportProgress,
    SnapshotListener,
    TrialJournal,
    TrialPhase,
    TuningProgress,
    TuningSettings,
    judge_trial,
    read_latency,
)


@dataclass(frozen=True)
class BestSoFar:
    """The best configuration so far, for progress reports."""

    parallelism: Mapping[str, int] | None = None
    latency: float | None = None
    meets: bool = False
    trusted: bool = False
    score: float | None = None


class RunKnowledge(Protocol):
    """The knowledge that trials add to."""

    def score(self, parallelism: Mapping[str, int], latency: float | None) -> float | None:
        """Return the benefit score of a trial, or None while there is no floor to compare with."""
        ...

    def learn(self, done: JournalledTrial) -> None:
        """Learn from a trial that counts."""
        ...

    def best(self) -> BestSoFar: ...


class TrialRunner:
    """The trials of one run.

    Args:
        job: the job.
        engine: runs the trials.
        settings: budget of the run.
        knowledge: learns from each trial, new or recalled.
        report: receives the progress before and after each trial.
        clock: seconds, for the budget.
        journal: stores each trial.
        past: trials before a resumption, to be recalled first.
        seen: receives each snapshot.
    """

    def __init__(
        self,
        job: Job,
        engine: Engine,
        settings: TuningSettings,
        knowledge: RunKnowledge,
        *,
        report: ReportProgress = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
        journal: TrialJournal | None = None,
        past: Sequence[JournalledTrial] = (),
        seen: SnapshotListener = lambda _: None,
    ) -> None:
        self.job, self.engine, self.settings, self.knowledge = job, engine, settings, knowledge
        self.past = deque(past)  # not recalled yet
        self.evaluations: list[Evaluation] = []  # all that count so far
        self._report, self._clock, self._journal, self._seen = report, clock, journal, seen
        self._failures = 0
        self._seconds_before = sum(each.evaluation.seconds for each in past)
        self._began = clock()

    @property
    def spent(self) -> str | None:
        """The budget that is used up, as a stop reason; None: neither is. Recalling trials takes no time."""
        if len(self.evaluations) >= self.settings.total_trials:
            return "budget"
        most, used = self.settings.max_seconds, self._seconds_before + self._clock() - self._began
        return "wall-clock" if most is not None and not self.past and self.evaluations and used >= most else None

    @property
    def number(self) -> int:
        """The number of the next trial. Past trials keep theirs."""
        return len(self.evaluations) + len(self.past) + 1

    def recall(self) -> JournalledTrial:
        """Take the next past trial instead of a new one."""
        return self._count(self.past.popleft())

    def run(
        self, phase: TrialPhase, parallelism: Mapping[str, int], max_failures: int, step: PolicyStep | None = None
    ) -> JournalledTrial:
        """Run a trial. Raise `EngineError` at the last of `max_failures` failed trials in a row.

        `step`: the policy's decision that led to the trial.
        """
        self._report_progress(phase, parallelism, None)
        if self._journal is not None:
            self._journal.begin(self.number, phase, parallelism)
        began = self._clock()
        trial = judge_trial(self.job, self.engine.run(parallelism, self.job.source_rates))
        if trial.snapshot is not None:
            self._seen(trial.snapshot)
        done = JournalledTrial(self._evaluate(phase, trial, self._clock() - began), trial, step)
        if self._journal is not None:
            self._journal.done(done)
        self._count(done)
        self._report_progress(phase, parallelism, done.evaluation)
        self._failures = self._failures + 1 if trial.verdict is Verdict.FAILED else 0
        if self._failures >= max_failures:
            raise EngineError(f"{self._failures} trials in a row failed; the last: {trial.detail}")
        return done

    def check_any_success(self) -> None:
        """Raise `EngineError` if every trial failed."""
        if self.evaluations and all(each.verdict is Verdict.FAILED for each in self.evaluations):
            raise EngineError(f"every trial failed; the last: {self.evaluations[-1].detail}")

    def find_last(self, parallelism: Mapping[str, int]) -> Evaluation:
        """Return the last evaluation at `parallelism` that did not fail.

        A trial may run at another parallelism than asked for. If none ran at this one, all evaluations count.
        """
        same = [each for each in self.evaluations if dict(each.parallelism) == dict(parallelism)] or self.evaluations
        return next((each for each in reversed(same) if each.verdict is not Verdict.FAILED), same[-1])

    def _count(self, done: JournalledTrial) -> JournalledTrial:
        self.evaluations.append(done.evaluation)
        self.knowledge.learn(done)
        return done

    def _evaluate(self, phase: TrialPhase, trial: Trial, seconds: float) -> Evaluation:
        latency = read_latency(self.job, trial)
        return Evaluation(
            number=self.number,
            phase=phase,
            parallelism=dict(trial.parallelism),
            verdict=trial.verdict,
            latency_seconds=latency,
            throughput=None if trial.snapshot is None else trial.snapshot.throughput,
            seconds=seconds,
            score=self.knowledge.score(trial.parallelism, latency),
            detail=trial.detail,
            shortage=trial.shortage,
            critical=None if trial.snapshot is None else trial.snapshot.critical,
        )

    def _report_progress(self, phase: TrialPhase, parallelism: Mapping[str, int], done: Evaluation | None) -> None:
        best, left = self.knowledge.best(), self.settings.total_trials - len(self.evaluations)
        mean = sum(e.seconds for e in self.evaluations) / len(self.evaluations) if self.evaluations else None
        self._report(
            TuningProgress(
                phase,
                done.number if done else self.number,
                self.settings.total_trials,
                dict(parallelism),
                done,
                best.parallelism,
                best.latency,
                None if mean is None else mean * left,
                best.meets,
                best.trusted,
                best.score,
            )
        )
