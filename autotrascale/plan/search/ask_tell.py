"""A tuning study at one input rate: ask for a configuration, run it, tell what was measured (Algorithms 1 and 2).

    study = Study(floor=(3, 4, 12, 10), p_max=40, latency_target=0.18, seed=0)
    while not study.finished:
        k = study.ask()
        study.tell(k, latency=measure(k))
    study.best

The study holds what was told and nothing else: asked again after a restart and the same tells, it answers the same.
How to choose the next configuration and when to accept one is a `Searcher`: `search.Search`, or `faithful.Algorithm1`
and `faithful.Algorithm2`, which do what the paper says step by step.
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

Runs = dict[Point, Run]


class Searcher(Protocol):
    """Chooses runs and judges them. Both answers depend on the runs and the generator alone."""

    def propose(self, runs: Sequence[Run], rng: np.random.Generator) -> Point | None:
        """The next configuration, never one of the runs; None when none is left."""
        ...

    def expected(self, runs: Sequence[Run], k: Point) -> Run:
        """What a run of `k`, which is not back yet, is expected to come out as."""
        ...

    def accepted(self, runs: Sequence[Run]) -> Run | None:
        """The run that ends the search, if one does."""
        ...

    def rank(self, runs: Sequence[Run]) -> list[Run]:
        """The runs, best first."""
        ...

    def nearest(self, runs: Sequence[Run]) -> Run:
        """While none is accepted: the run to use if there were no more."""
        ...

    def probability(self, runs: Sequence[Run], run: Run) -> float | None:
        """That the run truly meets the target, where the searcher knows."""
        ...

    def unsure(self, runs: Sequence[Run], ahead: Callable[[], Point | None]) -> Run | None:
        """A run that one more window of it might get accepted, where the searcher cares. `ahead`: what it asks next."""
        ...

    def cheaper(self, runs: Sequence[Run], rng: np.random.Generator) -> Point | None:
        """What takes fewer instances than the accepted run, and may be trusted after one more window of it."""
        ...

    def rule_is_hopeless(self, runs: Sequence[Run]) -> bool:
        """Nothing that the stop rule allows is likely to meet the target, and something beyond it does."""
        ...

    def model(self, runs: Sequence[Run], rate: float) -> BenefitModel: ...

    def remarks(self, runs: Sequence[Run]) -> list[str]:
        """What the user should know: a source model that was dropped, and why."""
        ...


@dataclass(frozen=True)
class SearchSettings:
    """What rarely needs to be set."""

    noise: float = 0.05  # relative error of one reading, roughly
    confidence: float = 0.97  # a run is accepted when its true latency meets the target with at least this probability
    throughput_target: float | None = None  # a run that carries less falls behind, whatever its latency
    uniform_samples: int = 6  # the paper's M, where it is faithful

    def __post_init__(self) -> None:
        checks.positive("noise", self.noise)
        checks.share("noise", self.noise)
        checks.share("confidence", self.confidence)
        checks.optional(checks.non_negative, "throughput_target", self.throughput_target)


class AskTellStudy:
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
        """`sizing` is what the floor was computed from, where it was measured: the search expects latency to rise where
        its loads say. `faithful`: the paper's algorithms, step by step."""
        settings = settings or SearchSettings()
        self.lattice = Lattice.between(floor, p_max)
        self.benefit = Benefit(self.lattice.lower, latency_target, alpha, over_allocation)
        checks.count("max_runs", max_runs)
        checks.count("seed", seed, least=0)
        self.max_runs, self.seed, self.throughput_target = max_runs, seed, settings.throughput_target
        self.confidence = settings.confidence
        sources = _as_models(source, len(self.lattice.lower))
        self._searcher: Searcher
        if not faithful:
            self._searcher = Search(
                self.lattice, self.benefit, sources, sizing=sizing, noise=settings.noise, confidence=settings.confidence
            )
        elif sources:
            self._searcher = Algorithm2(self.lattice, self.benefit, sources[0], settings.uniform_samples)
        else:
            self._searcher = Algorithm1(self.lattice, self.benefit, settings.uniform_samples)
        self._runs: Runs = {}
        self._last: tuple[tuple[Run, ...], Point | None] | None = None  # what was proposed after which runs
        self._cheaper_after: tuple[tuple[Run, ...], Point | None] | None = None
        self._settled_after: int | None = None  # runs told when the first of them was accepted

    @overload
    def ask(self, n: None = None, *, running: Sequence[Sequence[int]] = ()) -> Point: ...

    @overload
    def ask(self, n: int, *, running: Sequence[Sequence[int]] = ()) -> tuple[Point, ...]: ...

    def ask(self, n: int | None = None, *, running: Sequence[Sequence[int]] = ()) -> Point | tuple[Point, ...]:
        """The configuration to run next: inside [floor, p_max], never one already told, nor one of those `running`.

        `ask(3)`: up to three to run side by side, fewer where no more are left. They may be told in any order, as they
        come; whoever asks again before all are told names the others as `running`. A finished study can be asked for
        more: each further run may find a better configuration.
        """
        if n is not None:
            checks.count("n", n)
        waiting = [self.lattice.check(k) for k in running]
        found: list[Point] = []
        while len(found) < (n or 1):
            if (k := self._proposed(self._as_if_run([*waiting, *found]))) is None:
                break
            found.append(k)
        if not found:
            raise StudyError(
                f"every one of the {self.lattice.size} configurations has been run or is running; see `best`"
            )
        return found[0] if n is None else tuple(found)

    def _proposed(self, runs: tuple[Run, ...]) -> Point | None:
        if self._last is None or self._last[0] != runs:
            self._last = runs, self._searcher.propose(runs, np.random.default_rng([self.seed, len(runs)]))
        return self._last[1]

    def _as_if_run(self, waiting: Sequence[Point]) -> tuple[Run, ...]:
        """The runs told, and those that are not back yet as they are expected to come out."""
        runs = list(self.runs)
        for k in waiting:
            if k not in self._runs:
                runs.append(self._searcher.expected(runs, k))
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
        """What one window at `k` measured, latency in seconds. A second window at the same `k` is averaged in.
        `sizing`: the job as that window sizes it, which says where its latency comes from."""
        point = self.lattice.check(k)
        if sizing is not None and len(sizing.operators) != len(point):
            raise InputError(
                "sizing",
                f"is of {len(sizing.operators)} operators",
                seen=sizing.operators,
                remedy=f"this study has {len(point)}: give what was measured of the same job",
            )
        run = make_run(point, latency, throughput, failed, WindowMeasurement.of(sizing))
        if self._falls_behind(run):
            run = replace(run, latency=None)
        before = self._runs.get(point)
        self._runs[point] = run if before is None else before.again(run)
        if self._settled_after is None and self._searcher.accepted(self.runs) is not None:
            self._settled_after = len(self._runs)

    @property
    def runs(self) -> tuple[Run, ...]:
        """Every configuration told, in the order of their first tell."""
        return tuple(self._runs.values())

    @property
    def finished(self) -> bool:
        return self.stop_reason is not None

    @property
    def stop_reason(self) -> str | None:
        """`target-met`, `rule-unsatisfiable` (only more instances than the over-allocation allows meet the target),
        `exhausted` or `budget`; None while the search goes on."""
        if self._searcher.accepted(self.runs) is not None:
            return "target-met"
        if self._searcher.rule_is_hopeless(self.runs):
            return "rule-unsatisfiable"
        if len(self._runs) >= self.lattice.size:
            return "exhausted"
        return "budget" if len(self._runs) >= self.max_runs else None

    @property
    def best(self) -> Best:
        """The run to use. Once one is accepted, that one. Who goes on asking prefers score to certainty: from then
        on, and as long as none is accepted, it is the best score among the runs that are likely to meet the target."""
        just_accepted = self._searcher.accepted(self._told()) if self._settled_after == len(self._runs) else None
        return self._as_best(just_accepted or self._searcher.rank(self._told())[0])

    @property
    def answer(self) -> Best:
        """The run to stop with: the nearest to the target until one can be trusted to meet it, then the best score of
        those that can."""
        return self._as_best(self._searcher.accepted(self._told()) or self._searcher.nearest(self._told()))

    def _told(self) -> tuple[Run, ...]:
        if not self._runs:
            raise StudyError("nothing has been told yet, so there is no best; tell at least one run")
        return self.runs

    def _as_best(self, run: Run) -> Best:
        latency, probability = run.latency, self._searcher.probability(self.runs, run)
        score = float(self.benefit.score(run.parallelism, np.inf if latency is None else latency))
        within = latency is not None and latency <= self.benefit.latency_target
        trusted = within if probability is None else probability >= self.confidence
        met = within or trusted
        return Best(run.parallelism, latency, score, met, probability, trusted)

    @property
    def unsure(self) -> Point | None:
        """A configuration whose reading meets the stop rule but lies too close to the target to be trusted: a second
        window of it may settle the study, and a third and more where nothing new is as likely to."""
        run = None if self.finished else self._searcher.unsure(self.runs, lambda: self._proposed(self.runs))
        return None if run is None else run.parallelism

    def trusts(self, k: Sequence[int]) -> bool:
        """Whether what was told of `k`, and beside it, is enough to say that its true latency meets the target."""
        run = self._runs.get(self.lattice.check(k))
        return run is not None and self._as_best(run).trusted

    @property
    def cheaper(self) -> Point | None:
        """Of fewer instances than the accepted configuration, and likely enough to be trusted after one more window,
        which may save those instances for good: one that was within the target when measured, or a new one."""
        runs = self.runs
        if self._cheaper_after is None or self._cheaper_after[0] != runs:
            rng = np.random.default_rng([self.seed, len(runs)])
            self._cheaper_after = runs, self._searcher.cheaper(runs, rng)
        return self._cheaper_after[1]

    @property
    def remarks(self) -> list[str]:
        return self._searcher.remarks(self.runs)

    def model(self, rate: float) -> BenefitModel:
        """The benefit model of these runs, made at this input rate, for a later study's `source`."""
        checks.positive_in_range("rate", rate)
        if not self._runs:
            raise StudyError("nothing has been told yet, so there is no model; tell at least one run")
        return self._searcher.model(self.runs, float(rate))

    def _falls_behind(self, run: Run) -> bool:
        return (
            self.throughput_target is not None
            and run.throughput is not None
            and run.throughput < self.throughput_target
        )


def _as_models(source: BenefitModel | Sequence[BenefitModel] | None, operators: int) -> tuple[BenefitModel, ...]:
    models = () if source is None else tuple(source) if isinstance(source, list | tuple) else (source,)
    for model in models:
        if not isinstance(model, BenefitModel):
            raise InputError("source", "is not a benefit model", seen=model, remedy="use BenefitModel.from_json(text)")
        if len(model.floor) != operators:
            raise InputError(
                "source",
                f"is a model of {len(model.floor)} operators",
                seen=model.floor,
                remedy=f"this study has {operators}: use a model of the same job",
            )
    return models
