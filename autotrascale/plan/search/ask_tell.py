"""A tuning study at one input rate: ask for a configuration, run it, tell the measurement (Algorithms 1 and 2).

    study = AskTellStudy(floor=(3, 4, 12, 10), p_max=40, latency_target=0.18, seed=0)
    while not study.finished:
        k = study.ask()
        study.tell(k, latency=measure(k))
    study.best

The state of a study is the runs told and nothing else: the same tells lead to the same answers, also after a restart.
A `Searcher` chooses the next configuration and decides when a run is accepted: `search.Search` is the default,
`paper_algorithms` follows the paper step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, overload

import numpy as np

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError, StudyError
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.plan.search.lattice import Lattice, Point
from autotrascale.plan.search.paper_algorithms import Algorithm1, Algorithm2
from autotrascale.plan.search.score import Benefit
from autotrascale.plan.search.search import Search
from autotrascale.plan.search.study_runs import Best, Run, WindowMeasurement, make_run
from autotrascale.plan.sizing.sizing import Sizing


class Searcher(Protocol):
    """Chooses runs and judges them. The answers depend on the runs and the generator alone."""

    def propose(self, runs: Sequence[Run], rng: np.random.Generator) -> Point | None:
        """Return the next configuration, which is none of the runs; None when no configuration is left."""
        ...

    def predict_run(self, runs: Sequence[Run], k: Point) -> Run:
        """Return the expected result of `k`, which is still running."""
        ...

    def find_accepted(self, runs: Sequence[Run]) -> Run | None:
        """Return the run that ends the search, or None."""
        ...

    def rank(self, runs: Sequence[Run]) -> list[Run]:
        """Return the runs, best first."""
        ...

    def find_nearest(self, runs: Sequence[Run]) -> Run:
        """Return the run to use if the search had to stop before a run is accepted."""
        ...

    def estimate_probability(self, runs: Sequence[Run], run: Run) -> float | None:
        """Return the probability that the true latency of `run` meets the target; None when it is not modelled."""
        ...

    def find_unsure(self, runs: Sequence[Run], propose_next: Callable[[], Point | None]) -> Run | None:
        """Return a run that another window may get accepted, or None. `propose_next` gives the alternative."""
        ...

    def find_cheaper(self, runs: Sequence[Run], rng: np.random.Generator) -> Point | None:
        """Return a configuration with fewer instances than the accepted run that one window may confirm, or None."""
        ...

    def is_rule_hopeless(self, runs: Sequence[Run]) -> bool:
        """Return whether a run beyond the stop rule meets the target and nothing inside the rule is likely to."""
        ...

    def model(self, runs: Sequence[Run], rate: float) -> BenefitModel:
        """Return the benefit model of the runs at `rate` records per second."""
        ...

    def remarks(self, runs: Sequence[Run]) -> list[str]:
        """Return messages for the user, such as a source model that was left out and why."""
        ...


@dataclass(frozen=True)
class SearchSettings:
    """Rarely used settings of a study.

    Args:
        noise: relative error of one latency reading, in (0, 1], default 0.05.
        confidence: probability of meeting the target that a run needs to be accepted, in [0, 1], default 0.97.
        throughput_target: records per second; a run that carries less counts as failed. Default: no such check.
        uniform_samples: uniform samples M of the paper's bootstrap set, used by `faithful` studies only, default 6.
    """

    noise: float = 0.05
    confidence: float = 0.97
    throughput_target: float | None = None
    uniform_samples: int = 6

    def __post_init__(self) -> None:
        checks.positive("noise", self.noise)
        checks.share("noise", self.noise)
        checks.share("confidence", self.confidence)
        checks.optional(checks.non_negative, "throughput_target", self.throughput_target)


class AskTellStudy:
    """The ask-and-tell part of `autotrascale.Study`, which documents all arguments."""

    def __init__(
        self,
        floor: Sequence[int],
        p_max: int | Sequence[int],
        latency_target: float,
        alpha: float = 0.5,
        over_allocation: float = 0.5,
        seed: int = 0,
        *,
        source: BenefitModel | Sequence[BenefitModel] | None = None,
        sizing: Sizing | None = None,
        max_runs: int = 40,
        faithful: bool = False,
        settings: SearchSettings | None = None,
    ) -> None:
        settings = settings or SearchSettings()
        self.lattice = Lattice.between(floor, p_max)
        self.benefit = Benefit(self.lattice.lower, latency_target, alpha, over_allocation)
        checks.count("max_runs", max_runs)
        checks.count("seed", seed, least=0)
        self.max_runs, self.seed, self.throughput_target = max_runs, seed, settings.throughput_target
        self.confidence = settings.confidence
        sources = _check_sources(source, len(self.lattice.lower))
        self._searcher: Searcher
        if not faithful:
            self._searcher = Search(
                self.lattice, self.benefit, sources, sizing=sizing, noise=settings.noise, confidence=settings.confidence
            )
        elif sources:
            self._searcher = Algorithm2(self.lattice, self.benefit, sources[0], settings.uniform_samples)
        else:
            self._searcher = Algorithm1(self.lattice, self.benefit, settings.uniform_samples)
        self._runs: dict[Point, Run] = {}
        self._proposal_after: tuple[tuple[Run, ...], Point | None] | None = None
        self._cheaper_after: tuple[tuple[Run, ...], Point | None] | None = None
        self._runs_when_accepted: int | None = None

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(floor={self.lattice.lower}, p_max={self.lattice.upper}, "
            f"latency_target={self.benefit.latency_target:g}, alpha={self.benefit.alpha:g}, "
            f"over_allocation={self.benefit.over_allocation:g}, seed={self.seed}, "
            f"runs={len(self._runs)}, max_runs={self.max_runs})"
        )

    @overload
    def ask(self, n: None = None, *, running: Sequence[Sequence[int]] = ()) -> Point: ...

    @overload
    def ask(self, n: int, *, running: Sequence[Sequence[int]] = ()) -> tuple[Point, ...]: ...

    def ask(self, n: int | None = None, *, running: Sequence[Sequence[int]] = ()) -> Point | tuple[Point, ...]:
        """Return the configuration to run next: instances of each operator, inside [floor, p_max].

        A configuration that was told is never returned again. A finished study may be asked for more runs, which may
        find a better configuration.

        Args:
            n: return a tuple of up to `n` configurations to run side by side; default: return one configuration.
                Tell their results in any order.
            running: configurations that run already and are not told yet, default none.

        Raises:
            StudyError: every configuration has been run or is running.
        """
        if n is not None:
            checks.count("n", n)
        waiting = [self.lattice.check(k) for k in running]
        proposed: list[Point] = []
        while len(proposed) < (n or 1):
            if (k := self._propose(self._runs_with_predicted([*waiting, *proposed]))) is None:
                break
            proposed.append(k)
        if not proposed:
            raise StudyError(f"all {self.lattice.size} configurations have been run or are running; see `best`")
        return proposed[0] if n is None else tuple(proposed)

    def _propose(self, runs: tuple[Run, ...]) -> Point | None:
        if self._proposal_after is None or self._proposal_after[0] != runs:
            self._proposal_after = runs, self._searcher.propose(runs, np.random.default_rng([self.seed, len(runs)]))
        return self._proposal_after[1]

    def _runs_with_predicted(self, waiting: Sequence[Point]) -> tuple[Run, ...]:
        runs = list(self.runs)
        for k in waiting:
            if k not in self._runs:
                runs.append(self._searcher.predict_run(runs, k))
        return tuple(runs)

    def tell(
        self,
        k: Sequence[int],
        latency: float | None = None,
        *,
        throughput: float | None = None,
        failed: bool = False,
        sizing: Sizing | None = None,
    ) -> None:
        """Add the measurement of one window at `k`. A second window at the same `k` is averaged with the first.

        Args:
            k: instances of each operator, inside [floor, p_max].
            latency: mean record latency in seconds; required unless `failed`.
            throughput: records per second that the run carried; default: not known.
            failed: the run broke or fell behind, default False.
            sizing: loads that this window measured; default: not measured.

        Raises:
            InputError: `k` is outside the bounds, or `latency` is missing or not a positive number.
        """
        point = self.lattice.check(k)
        if sizing is not None and len(sizing.operators) != len(point):
            remedy = f"this study has {len(point)}: give the measurement of the same job"
            raise InputError("sizing", f"is of {len(sizing.operators)} operators", seen=sizing.operators, remedy=remedy)
        run = make_run(point, latency, throughput, failed, WindowMeasurement.of(sizing))
        if self._falls_behind(run):
            run = replace(run, latency=None)
        before = self._runs.get(point)
        self._runs[point] = run if before is None else before.again(run)
        if self._runs_when_accepted is None and self._searcher.find_accepted(self.runs) is not None:
            self._runs_when_accepted = len(self._runs)

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs told, in the order of their first tell."""
        return tuple(self._runs.values())

    @property
    def finished(self) -> bool:
        """True when the search may stop; `stop_reason` says why."""
        return self.stop_reason is not None

    @property
    def stop_reason(self) -> str | None:
        """The reason to stop, or None while the search goes on.

        target-met            a run is accepted
        rule-unsatisfiable    only more instances than `over_allocation` allows would meet the target
        exhausted             every configuration has been run
        budget                `max_runs` runs were told
        """
        if self._searcher.find_accepted(self.runs) is not None:
            return "target-met"
        if self._searcher.is_rule_hopeless(self.runs):
            return "rule-unsatisfiable"
        if len(self._runs) >= self.lattice.size:
            return "exhausted"
        return "budget" if len(self._runs) >= self.max_runs else None

    @property
    def best(self) -> Best:
        """The accepted run when it was just accepted, else the best score among runs likely to meet the target.

        Runs told after the first acceptance are compared by score. Raises `StudyError` before the first tell.
        """
        just_accepted = None
        if self._runs_when_accepted == len(self._runs):
            just_accepted = self._searcher.find_accepted(self._require_runs())
        return self._as_best(just_accepted or self._searcher.rank(self._require_runs())[0])

    @property
    def answer(self) -> Best:
        """The run to stop with: the accepted run, or the run nearest to the target while none is accepted.

        Raises `StudyError` before the first tell.
        """
        runs = self._require_runs()
        return self._as_best(self._searcher.find_accepted(runs) or self._searcher.find_nearest(runs))

    def _require_runs(self) -> tuple[Run, ...]:
        if not self._runs:
            raise StudyError("nothing has been told yet, so there is no best; tell at least one run")
        return self.runs

    def _as_best(self, run: Run) -> Best:
        latency, probability = run.latency, self._searcher.estimate_probability(self.runs, run)
        score = float(self.benefit.score(run.parallelism, np.inf if latency is None else latency))
        is_within = latency is not None and latency <= self.benefit.latency_target
        is_trusted = is_within if probability is None else probability >= self.confidence
        return Best(run.parallelism, latency, score, is_within or is_trusted, probability, is_trusted)

    @property
    def unsure(self) -> Point | None:
        """A configuration that met the target too closely to be accepted and should be measured again; None if none.

        Another window is suggested as long as it is at least as likely as a new configuration to end the search.
        """
        run = None if self.finished else self._searcher.find_unsure(self.runs, lambda: self._propose(self.runs))
        return None if run is None else run.parallelism

    def trusts(self, k: Sequence[int]) -> bool:
        """Return whether a configuration is trusted to meet the target: measured, and known well enough.

        Args:
            k: instances of each operator, inside [floor, p_max].
        """
        run = self._runs.get(self.lattice.check(k))
        return run is not None and self._as_best(run).trusted

    @property
    def cheaper(self) -> Point | None:
        """A configuration with fewer instances than the accepted run, which a single window may confirm; None if none.

        It is either new or was measured within the target and not trusted yet.
        """
        runs = self.runs
        if self._cheaper_after is None or self._cheaper_after[0] != runs:
            rng = np.random.default_rng([self.seed, len(runs)])
            self._cheaper_after = runs, self._searcher.find_cheaper(runs, rng)
        return self._cheaper_after[1]

    @property
    def remarks(self) -> list[str]:
        """Messages about this study, such as a source model that does not fit the job and is left out."""
        return self._searcher.remarks(self.runs)

    def model(self, rate: float) -> BenefitModel:
        """Return the benefit model of these runs, to be the `source` of a later study.

        Args:
            rate: input rate at which the runs were made, in records per second.

        Raises:
            StudyError: nothing has been told yet.
        """
        checks.positive_in_range("rate", rate)
        if not self._runs:
            raise StudyError("nothing has been told yet, so there is no model; tell at least one run")
        return self._searcher.model(self.runs, float(rate))

    def _falls_behind(self, run: Run) -> bool:
        if self.throughput_target is None or run.throughput is None:
            return False
        return run.throughput < self.throughput_target


def _check_sources(source: BenefitModel | Sequence[BenefitModel] | None, operators: int) -> tuple[BenefitModel, ...]:
    models = () if source is None else tuple(source) if isinstance(source, list | tuple) else (source,)
    for model in models:
        if not isinstance(model, BenefitModel):
            raise InputError("source", "is not a benefit model", seen=model, remedy="use BenefitModel.from_json(text)")
        if len(model.floor) != operators:
            remedy = f"this study has {operators}: use a model of the same job"
            raise InputError("source", f"is a model of {len(model.floor)} operators", seen=model.floor, remedy=remedy)
    return models
