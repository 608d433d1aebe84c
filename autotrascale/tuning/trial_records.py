"""The records of a tuning run: its settings, trials, progress and outcome."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from autotrascale.domain import checks
from autotrascale.domain.decision import Decision, Reason
from autotrascale.domain.errors import InputError
from autotrascale.domain.job import Job
from autotrascale.domain.snapshot import CriticalShares, Snapshot
from autotrascale.domain.trial import MachinePressure, Trial, Verdict
from autotrascale.plan.policies.registry import OURS
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

    alpha: float = 0.5  # weight of latency against resources in the score
    over_allocation: float = 0.5  # share of the floor that the stop rule allows on top of it
    total_trials: int = 20  # most trials
    max_seconds: float | None = None  # no trial begins after so many seconds; time before a resumption counts
    seed: int = 0  # seed of the search and of a simulated job
    initial: Mapping[str, int] = field(default_factory=dict)  # start of the floor search; default: all minima
    noise: float = 0.05  # relative noise of one latency reading
    confidence: float = 0.97  # probability of meeting the target that an accepted configuration needs
    windows: int = WINDOWS  # maximum of measurements of one configuration before it is accepted; 1: never again
    faithful: bool = False  # run the paper's algorithms step by step

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
    """The evaluation of one trial, for display."""

    number: int
    phase: TrialPhase
    parallelism: Mapping[str, int]
    verdict: Verdict
    latency_seconds: float | None
    throughput: float | None
    seconds: float
    score: float | None = None  # None until the floor is known, which scores are relative to
    detail: str = ""
    shortage: MachinePressure | None = None  # of the machine during the trial
    critical: CriticalShares | None = None  # shares of the critical path that parallelism does not divide


@dataclass(frozen=True)
class PolicyStep:
    """A policy's decision and its memory after it. `decision` is None before the first question."""

    decision: Decision | None
    memory: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class JournalledTrial:
    """A trial with its evaluation: all data that a resumed run needs.

    `step` is the policy's decision that led to the trial, if the run follows a policy.
    """

    evaluation: Evaluation
    trial: Trial
    step: PolicyStep | None = None


class TrialJournal(Protocol):
    """The journal of a run's trials."""

    def begin(self, number: int, phase: TrialPhase, parallelism: Mapping[str, int]) -> None:
        """Record that a trial is about to run. Raise if this run may not continue."""
        ...

    def done(self, trial: JournalledTrial) -> None:
        """Store a finished trial. It is durable on return."""
        ...


@dataclass(frozen=True)
class TuningProgress:
    """The progress of a run, reported before each trial (`done` is None) and after it."""

    phase: TrialPhase
    number: int
    total: int
    parallelism: Mapping[str, int]
    done: Evaluation | None
    best: Mapping[str, int] | None
    best_latency: float | None
    seconds_left: float | None  # at most, if each trial of the budget takes as long as the mean so far
    best_meets: bool = False  # the measured latency is within the target
    best_trusted: bool = False  # … and likely enough to stay within it
    best_score: float | None = None


@dataclass(frozen=True)
class Outcome:
    """The outcome of a tuning run.

    Args:
        job: the job with its target and rate.
        simulated: whether figures are simulated.
        floor: the least parallelism that holds the rate.
        sizing: the sizing above the floor, if measurements allow one.
        best: the answer; the nearest miss unless `met_target`.
        met_target: `best` can be trusted to meet the target, with probability `confidence` if the search knows one.
        stop_reason: why the run ended.
        evaluations: all trials.
        model: the benefit model; None without a trial that holds the rate.
        remarks: remarks of the study, such as models that were left out.
        confidence: see `met_target`.
        floor_holds: the floor was seen or computed to hold the rate; otherwise it is the nearest that was found.
        fixed_seconds: the least cost of a batch beside its operators, which no parallelism shortens.
        slowdown: how much slower instances were when there were more of them.
        policy: the policy that was asked.
        policy_reasons: the last reasons of another policy, for each operator and for the whole job.
    """

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
    policy_reasons: tuple[Reason, ...] = ()

    @property
    def concluded(self) -> bool:
        """True if further trials cannot change the outcome: it was accepted, or the policy wants no other."""
        return self.stop_reason == "target-met" or self.stop_reason.startswith("policy-")

    @property
    def least_latency(self) -> float | None:
        return compute_least_latency(self.sizing, self.fixed_seconds)


ReportProgress = Callable[[TuningProgress], None]
SnapshotListener = Callable[[Snapshot], None]


def judge_trial(job: Job, trial: Trial) -> Trial:
    """Return the trial with its final verdict: a steady job that carries too little of the rate cannot keep up.

    Its sources bring less than the asked rate, or records are held back.
    """
    throughput = None if trial.snapshot is None else trial.snapshot.throughput
    least = job.rate * (1 - job.target.throughput_tolerance)
    if trial.verdict is not Verdict.STABLE or throughput is None or throughput >= least:
        return trial
    detail = f"steady, but only {throughput / job.rate:.1%} of the asked rate came through"
    return replace(trial, verdict=Verdict.CANNOT_KEEP_UP, detail=detail)


def read_latency(job: Job, trial: Trial) -> float | None:
    """Return the latency of the target's statistic in seconds; None unless the trial is stable.

    Raise `InputError` if the engine does not measure this statistic.
    """
    if trial.verdict is not Verdict.STABLE or trial.snapshot is None:
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
    """Return the latency in seconds at P_max everywhere, for a job in micro-batches with known loads; else None.

    `fixed`: the cost of a batch beside its operators, in seconds.
    """
    if sizing is None or fixed is None or None in sizing.load:
        return None
    least = compute_batch_latency(compute_batch_seconds(fixed, [load or 0.0 for load in sizing.load], sizing.upper))
    return least if least < math.inf else None


def lower_fixed_seconds(known: float | None, snapshot: Snapshot) -> float | None:
    """Return the smaller of `known` and the snapshot's cost of a batch beside its operators, in seconds."""
    if snapshot.execution != "micro-batch" or snapshot.batch_seconds is None or snapshot.overhead_share is None:
        return known
    fixed = snapshot.overhead_share * snapshot.batch_seconds
    return fixed if known is None else min(known, fixed)
