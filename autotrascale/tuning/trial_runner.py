"""One trial after the other: run or recalled, read, journalled, told of. What to run next is for others to say (`run`,
`policy_run`); each trial is in the journal before anything is decided from it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

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

Score = Callable[[Mapping[str, int], float | None], float | None]
Kept = Callable[[JournalledTrial], None]


@dataclass(frozen=True)
class BestSoFar:
    """So far, for those who read along."""

    parallelism: Mapping[str, int] | None = None
    latency: float | None = None
    meets: bool = False
    trusted: bool = False
    score: float | None = None


class TrialRunner:
    """`past` are the trials of an earlier sitting that were not recalled yet, `evaluations` all that count so far."""

    def __init__(
        self,
        job: Job,
        engine: Engine,
        settings: TuningSettings,
        report: ReportProgress,
        clock: Callable[[], float],
        journal: TrialJournal | None,
        past: Sequence[JournalledTrial],
        seen: SnapshotListener,
    ) -> None:
        self.job, self.engine, self.settings = job, engine, settings
        self.report, self.clock, self.journal, self.seen = report, clock, journal, seen
        self.past = deque(past)
        self.evaluations: list[Evaluation] = []
        self.kept: Kept = lambda _: None  # told of each trial that counts
        self.score: Score = lambda _, __: None
        self.best: Callable[[], BestSoFar] = BestSoFar
        self._failures = 0
        self._before = sum(each.evaluation.seconds for each in past)
        self._began = clock()

    @property
    def spent(self) -> str | None:
        """Which budget is used up. Trials of the journal are paid for: recalling them takes none of the time."""
        if len(self.evaluations) >= self.settings.total_trials:
            return "budget"
        most, used = self.settings.max_seconds, self._before + self.clock() - self._began
        return "wall-clock" if most is not None and not self.past and self.evaluations and used >= most else None

    def recall(self) -> JournalledTrial:
        """A trial of the journal instead of a new one."""
        return self._keep(self.past.popleft())

    def run(
        self, phase: TrialPhase, parallelism: Mapping[str, int], most_failures: int, step: PolicyStep | None = None
    ) -> JournalledTrial:
        """`step`: the policy's, that asked for it."""
        self._say(phase, parallelism, None)
        if self.journal is not None:
            self.journal.begin(self.number, phase, parallelism)
        began = self.clock()
        trial = self.engine.run(parallelism, self.job.source_rates)
        if trial.snapshot is not None:
            self.seen(trial.snapshot)
        done = JournalledTrial(self._read(phase, trial, self.clock() - began), trial, step)
        if self.journal is not None:
            self.journal.done(done)
        self._keep(done)
        self._say(phase, parallelism, done.evaluation)
        self._failures = self._failures + 1 if trial.verdict is Verdict.FAILED else 0
        if self._failures >= most_failures:
            raise EngineError(f"{self._failures} trials in a row failed, the last one so: {trial.detail}")
        return done

    def check_anything_ran(self) -> None:
        """A run of failures alone has nothing to answer."""
        if self.evaluations and all(each.verdict is Verdict.FAILED for each in self.evaluations):
            raise EngineError(f"every trial failed, the last one so: {self.evaluations[-1].detail}")

    def last_of(self, parallelism: Mapping[str, int]) -> Evaluation:
        """What ran may differ from what was asked for, so that nothing was asked for under this parallelism."""
        same = [each for each in self.evaluations if dict(each.parallelism) == dict(parallelism)] or self.evaluations
        return next((each for each in reversed(same) if each.verdict is not Verdict.FAILED), same[-1])

    @property
    def number(self) -> int:
        """Of the next trial. Those of the journal keep theirs, those not yet recalled included."""
        return len(self.evaluations) + len(self.past) + 1

    def _keep(self, done: JournalledTrial) -> JournalledTrial:
        self.evaluations.append(done.evaluation)
        self.kept(done)
        return done

    def _read(self, phase: TrialPhase, trial: Trial, seconds: float) -> Evaluation:
        verdict, detail = judge_trial(self.job, trial)
        latency = read_latency(self.job, trial)
        return Evaluation(
            number=self.number,
            phase=phase,
            parallelism=dict(trial.parallelism),
            verdict=verdict,
            latency_seconds=latency,
            throughput=None if trial.snapshot is None else trial.snapshot.throughput,
            seconds=seconds,
            score=self.score(trial.parallelism, latency),
            detail=detail,
            shortage=trial.shortage,
            critical=None if trial.snapshot is None else trial.snapshot.critical,
        )

    def _say(self, phase: TrialPhase, parallelism: Mapping[str, int], done: Evaluation | None) -> None:
        best, left = self.best(), self.settings.total_trials - len(self.evaluations)
        mean = sum(e.seconds for e in self.evaluations) / len(self.evaluations) if self.evaluations else None
        self.report(
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
