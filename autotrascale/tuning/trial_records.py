"""What a tuning run is given, and what it tells of: its settings, its trials, where it stands, what came of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from autotrascale.domain import checks
from autotrascale.domain.decision import Decision, Reason
from autotrascale.domain.errors import InputError
from autotrascale.domain.job import Job
from autotrascale.domain.snapshot import CriticalShares, Snapshot
from autotrascale.domain.trial import MachinePressure, Trial, Verdict
from autotrascale.plan.policies import OURS
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.plan.search.search import WINDOWS
from autotrascale.plan.search.study_runs import MIN_LATENCY
from autotrascale.plan.sizing.floor import compute_batch_latency, compute_batch_seconds
from autotrascale.plan.sizing.sizing import Sizing
from autotrascale.plan.sizing.slowdown import Slowdown

TrialPhase = Literal["floor", "search", "confirm", "policy"]


@dataclass(frozen=True)
class TuningSettings:
    """The `tuning:` section of a job file."""

    alpha: float = 0.5
    over_allocation: float = 0.5
    total_trials: int = 20
    max_seconds: float | None = None  # no trial begins after so long; trials of an earlier sitting count too
    seed: int = 0
    initial: Mapping[str, int] = field(default_factory=dict)  # where the floor is looked for from; else all minima
    noise: float = 0.05
    confidence: float = 0.97
    windows: int = WINDOWS  # looks at one configuration before any is accepted; 1: never look twice
    faithful: bool = False  # the paper's algorithms, step by step

    def __post_init__(self) -> None:
        checks.share("alpha", self.alpha)
        checks.non_negative("over_allocation", self.over_allocation)
        checks.count("total_trials", self.total_trials)
        if self.max_seconds is not None:
            checks.positive("max_seconds", self.max_seconds)
        checks.count("seed", self.seed, least=0)
        checks.positive("noise", self.noise)
        checks.share("noise", self.noise)
        checks.share("confidence", self.confidence)
        checks.count("windows", self.windows)


@dataclass(frozen=True)
class Evaluation:
    """One trial as the user is told of it."""

    number: int
    phase: TrialPhase
    parallelism: Mapping[str, int]
    verdict: Verdict
    latency_seconds: float | None
    throughput: float | None
    seconds: float
    score: float | None = None  # None while the floor is looked for: scores are relative to it
    detail: str = ""
    shortage: MachinePressure | None = None  # of the machine, while it ran
    critical: CriticalShares | None = None  # what more instances would not shorten, where that was measured


@dataclass(frozen=True)
class PolicyStep:
    """What a policy answered, and what it remembers from then on. No decision: it was not asked yet."""

    decision: Decision | None
    memory: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class JournalledTrial:
    """An evaluation and the trial it was read from: all that going on after it takes. `step`: the policy's that asked
    for it, where the run follows one."""

    evaluation: Evaluation
    trial: Trial
    step: PolicyStep | None = None


class TrialJournal(Protocol):
    def begin(self, number: int, phase: TrialPhase, parallelism: Mapping[str, int]) -> None:
        """A trial is about to run. Raises when this run may not go on."""
        ...

    def done(self, trial: JournalledTrial) -> None:
        """It was measured. When this returns, it is kept."""
        ...


@dataclass(frozen=True)
class TuningProgress:
    """Where a run stands, said before each trial (`done` is None) and after it."""

    phase: TrialPhase
    number: int
    total: int
    parallelism: Mapping[str, int]
    done: Evaluation | None
    best: Mapping[str, int] | None
    best_latency: float | None
    seconds_left: float | None  # at most: every trial of the budget, as long as those so far
    best_meets: bool = False  # within the target as measured
    best_trusted: bool = False  # … and likely enough to be so again
    best_score: float | None = None


@dataclass(frozen=True)
class Outcome:
    """`met_target`: `best` can be trusted to meet the target, with at least the probability `confidence` where the
    search knows one. Else `best` is the nearest miss. `floor_holds`: the floor was seen or computed to hold the rate;
    else it is the nearest that was found. `fixed_seconds`: the least that a batch was seen to take beside the work of
    its operators, which no parallelism can shorten. `slowdown`: how much slower instances
    were where there were more of them. `policy` is who was asked what to run; `said`, of another
    policy than ours, what it last said of each operator and of the whole."""

    job: Job
    simulated: bool
    floor: Mapping[str, int]
    sizing: Sizing | None
    best: Evaluation
    met_target: bool
    stop_reason: str
    evaluations: tuple[Evaluation, ...]
    model: BenefitModel | None
    remarks: tuple[str, ...] = ()
    confidence: float = 0.97
    floor_holds: bool = True
    fixed_seconds: float | None = None
    slowdown: Slowdown | None = None
    policy: str = OURS
    said: tuple[Reason, ...] = ()

    @property
    def concluded(self) -> bool:
        """Whether more trials could not have changed what came of it: it was accepted, or the policy wants no other."""
        return self.stop_reason == "target-met" or self.stop_reason.startswith("policy-")

    @property
    def least_latency(self) -> float | None:
        return compute_least_latency(self.sizing, self.fixed_seconds)


ReportProgress = Callable[[TuningProgress], None]
SnapshotListener = Callable[[Snapshot], None]


def judge_trial(job: Job, trial: Trial) -> tuple[Verdict, str]:
    """The verdict that counts everywhere. A steady job that lets too little through does not hold the rate: its source
    brings less than it was asked for, or something holds records back."""
    throughput = None if trial.snapshot is None else trial.snapshot.throughput
    least = job.rate * (1 - job.target.throughput_tolerance)
    if trial.verdict is Verdict.STABLE and throughput is not None and throughput < least:
        return (Verdict.CANNOT_KEEP_UP, f"steady, but only {throughput / job.rate:.1%} of the asked rate came through")
    return trial.verdict, trial.detail


def read_latency(job: Job, trial: Trial) -> float | None:
    """Of a trial that holds the rate: the others have no steady value."""
    if judge_trial(job, trial)[0] is not Verdict.STABLE or trial.snapshot is None:
        return None
    latency = trial.snapshot.latency_seconds.of(job.target.statistic)
    if latency is None:
        raise InputError(
            "target.statistic",
            "is not measured by this engine",
            seen=job.target.statistic,
            remedy="aim at another statistic",
        )
    return max(latency, MIN_LATENCY)


def compute_least_latency(sizing: Sizing | None, fixed: float | None) -> float | None:
    """Of a job in micro-batches, with P_max everywhere: what a batch costs beside its operators, and waiting for it."""
    if sizing is None or fixed is None or None in sizing.load:
        return None
    least = compute_batch_latency(compute_batch_seconds(fixed, [load or 0.0 for load in sizing.load], sizing.upper))
    return least if least < math.inf else None


def measure_fixed_seconds(snapshot: Snapshot) -> float | None:
    """What a micro-batch takes in which no operator is busy."""
    if snapshot.execution != "micro-batch" or snapshot.batch_seconds is None or snapshot.overhead_share is None:
        return None
    return snapshot.overhead_share * snapshot.batch_seconds
