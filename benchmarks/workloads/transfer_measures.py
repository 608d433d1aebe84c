"""The measurements of one job: searches from a cold start, from a model, from a wrong model, and the law of continuing.

Each search is one row. Warm and cold searches at a rate get the same noise, window by window, so they form pairs. A
warm search starts from the model of the first study at its stop. The models of the warm searches at all rates form a
library: from it the job is tuned again at each rate, with and without the model of that rate.
"""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, replace
from typing import Any

from threadpoolctl import threadpool_limits

from autotrascale.plan.search.ask_tell import AskTellStudy
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.plan.sizing.sizing import Sizing
from benchmarks.workloads.case import Case
from benchmarks.workloads.peers import installed_peers
from benchmarks.workloads.problems import Problem
from benchmarks.workloads.readings import Windows
from benchmarks.workloads.transfer_jobs import JobId, draw_other_family, draw_problem
from benchmarks.workloads.transfer_searches import (
    CaseTruth,
    continue_search,
    make_reader,
    make_study,
    measure_floor,
    reading_errors,
    run_tuning,
    tell,
    trace_lean_oracle,
    trace_oracle,
    trace_peer,
    trace_search,
)

OURS, PAPER = "autotrascale", "paper"
ORACLE = "informed"
LEAN_ORACLE, ORACLE_WITH_MEMORY = "lean", "remembers"  # oracles: lower bounds of every search
METHODS = (OURS, PAPER, "random", "skopt-gp-ei", "optuna-tpe", ORACLE)
PARTS = ("cold", "warm", "library", "wrong", "law", "bounds")
OTHERS, AGAIN = "others", "again"  # models of the job's other rates; of the same rate as well
LIBRARY = (OTHERS, AGAIN)
WRONG = ("other", "shuffled")  # models of another job, and of this job with shuffled operators
FACTORS = (0.5, 0.7, 1.0, 1.4, 2.0)
PAPER_FACTORS = (0.7, 1.4)  # fewer rates, as its searches are slow

Row = dict[str, Any]


def measure_job(job: JobId, seed: int, methods: Sequence[str], parts: Sequence[str]) -> list[Row]:
    """Return all rows of one job.

    Args:
        job: family and number of the job.
        seed: seed of the noise and of the searches.
        methods: names of the searches, from METHODS.
        parts: parts to measure, from PARTS.
    """
    warnings.simplefilter("ignore")
    problem = draw_problem(*job)
    case = problem.case
    about = {
        "family": job[0],
        "number": job[1],
        "seed": seed,
        "operators": len(case.floor),
        "execution": case.job.execution,
    }
    with threadpool_limits(1):
        return [about | row for row in _Job(problem, job, seed, methods, parts).rows()]


class _Job:
    """One job and its searches."""

    def __init__(self, problem: Problem, job: JobId, seed: int, methods: Sequence[str], parts: Sequence[str]) -> None:
        self.problem, self.case, self.job, self.seed = problem, problem.case, job, seed
        self.methods, self.parts = methods, parts
        self.judge = CaseTruth(self.case)
        self.sizing = measure_floor(self.case, self._seed_for("sizing"))

    def rows(self) -> Iterator[Row]:
        if OURS in self.methods:
            first, windows = make_study(self.case, self.seed, sizing=self.sizing), self._windows(self.case, "first")
            yield from self._first_study(first, windows)
        if "cold" in self.parts:
            yield from self._cold_others()
        if PAPER in self.methods and "warm" in self.parts:
            yield from self._warm_paper()
        if "bounds" in self.parts:
            yield from self._bounds()

    # -- the first study and its models --------------------------------------------------------------------------------

    def _first_study(self, study: AskTellStudy, windows: Windows) -> Iterator[Row]:
        trace = trace_search(study, self.judge, make_reader(self.case, windows))
        model, stopped = study.model(self.case.rate), math.isfinite(trace.stop)
        if "law" in self.parts and stopped:
            yield self._compare_with_continuing(study, windows, model)
        if {"warm", "library", "wrong"} & set(self.parts):
            yield from self._changed_rates(model)
        if "cold" not in self.parts:
            return
        continue_search(study, make_reader(self.case, windows), windows.count)
        later = self.judge.regret(study.best.parallelism)
        yield {"part": "cold", "method": OURS} | asdict(replace(trace, regret_later=later))
        if "law" in self.parts and stopped:
            yield self._compare_with_continuing(study, windows, study.model(self.case.rate))

    def _compare_with_continuing(self, first: AskTellStudy, windows: Windows, model: BenefitModel) -> Row:
        """Compare a new study from the model of the same job, rate and target with the first study going on.

        Both are told one more window of the configuration that the new study asks for. The first study goes on if it
        still trusts its accepted configuration.
        """
        warm, on = make_study(self.case, self.seed, sizing=self.sizing, source=model), deepcopy(first)
        accepted, k = on.answer.parallelism, warm.ask()
        read = make_reader(self.case, deepcopy(windows))(k)
        for study in (warm, on):
            tell(study, k, lambda _: read)
        return {
            "part": "law",
            "method": OURS,
            "runs": windows.count,
            "same": k == accepted,
            "accepts": warm.stop_reason == "target-met",
            "goes_on": on.trusts(accepted),
        }

    def _changed_rates(self, model: BenefitModel) -> Iterator[Row]:
        starts: dict[str, BenefitModel | None] = {"cold": None}
        if {"warm", "library"} & set(self.parts):
            starts["warm"] = model
        if "wrong" in self.parts:
            starts |= {"other": self._model_of_another_job(), "shuffled": self._model_of_shuffled_operators()}
        learned: dict[float, BenefitModel] = {}
        for factor, case in self._cases():
            judge, sizing = CaseTruth(case), measure_floor(case, self._seed_for(f"sizing at {factor}"))
            for start, source in starts.items():
                study = make_study(case, self.seed, sizing=sizing, source=source)
                trace = trace_search(study, judge, make_reader(case, self._windows(case, f"at {factor}")))
                yield {"part": "changed", "method": OURS, "start": start, "factor": factor} | asdict(trace)
                if start == "warm":
                    learned[factor] = study.model(case.rate)
            if ORACLE in self.methods:
                trace = trace_oracle(judge, self._windows(case, f"at {factor}").measure)
                yield {"part": "changed", "method": OURS, "start": ORACLE, "factor": factor} | asdict(trace)
        if "library" in self.parts:
            yield from self._library(model, learned)

    def _library(self, first: BenefitModel, learned: Mapping[float, BenefitModel]) -> Iterator[Row]:
        for factor, case in self._cases():
            others = [model.alone() for rate, model in learned.items() if rate != factor]
            if factor != 1.0:
                others.append(first)
            sizing = measure_floor(case, self._seed_for(f"sizing again at {factor}"))
            for start, sources in zip(LIBRARY, (others, [learned[factor], *others]), strict=True):
                study = make_study(case, self.seed, sizing=sizing, source=sources or None)
                trace = trace_search(
                    study, CaseTruth(case), make_reader(case, self._windows(case, f"again at {factor}"))
                )
                yield {"part": "changed", "method": OURS, "start": start, "factor": factor} | asdict(trace)

    def _cases(self) -> Iterator[tuple[float, Case]]:
        """Yield the job at each rate at which it can be tuned."""
        for factor in FACTORS:
            if (case := self.problem.at_rate(factor)) is not None:
                yield factor, case

    def _model_of_another_job(self) -> BenefitModel:
        """Return a model of another job, with latencies scaled to this job's target so that it looks alike."""
        other = draw_other_family(*self.job, len(self.case.floor)).case
        study = make_study(
            replace(other, latency_target=self.case.latency_target),
            self.seed,
            sizing=measure_floor(other, self._seed_for("other")),
        )
        windows, scale = self._windows(other, "other"), self.case.latency_target / other.latency_target
        run_tuning(study, make_reader(other, windows, scale))
        return study.model(self.case.rate)

    def _model_of_shuffled_operators(self) -> BenefitModel:
        """Return a model of this job with each operator in the place of the next one."""
        case = self.case
        turned = replace(case, floor=_shift(case.floor))
        loads = None if self.sizing is None else list(_shift(self.sizing.hottest))
        overhead = 0.0 if self.sizing is None else self.sizing.overhead
        sizing = Sizing.of_loads(
            turned.floor, [case.p_max] * len(case.floor), loads, execution=case.job.execution, overhead=overhead
        )
        study, windows = make_study(turned, self.seed, sizing=sizing), self._windows(case, "first")
        read = make_reader(case, windows)

        def read_shifted(k: tuple[int, ...]) -> tuple[float, Sizing | None]:
            latency, sized = read((*k[1:], k[0]))
            return latency, None if sized is None else _shift_sizing(sized)

        run_tuning(study, read_shifted)
        return study.model(case.rate)

    # -- other methods -------------------------------------------------------------------------------------------------

    def _cold_others(self) -> Iterator[Row]:
        if PAPER in self.methods:
            study = make_study(self.case, self.seed, faithful=True)
            trace = trace_search(
                study, self.judge, make_reader(self.case, self._windows(self.case, "first")), later=True
            )
            yield {"part": "cold", "method": PAPER} | asdict(trace)
        if ORACLE in self.methods:
            trace = trace_oracle(self.judge, self._windows(self.case, "first").measure)
            yield {"part": "cold", "method": ORACLE} | asdict(trace)
        for name, make in installed_peers().items():
            if name in self.methods:
                trace = trace_peer(make, self.judge, self._windows(self.case, "first").measure, self.seed)
                yield {"part": "cold", "method": name} | asdict(trace)

    def _warm_paper(self) -> Iterator[Row]:
        """Run Algorithm 2 from the model of Algorithm 1."""
        first = make_study(self.case, self.seed, faithful=True)
        run_tuning(first, make_reader(self.case, self._windows(self.case, "first")))
        model = first.model(self.case.rate)
        for factor in PAPER_FACTORS:
            case = self.problem.at_rate(factor)
            if case is None:
                continue
            for start, source in (("cold", None), ("warm", model)):
                study = make_study(case, self.seed, faithful=True, source=source)
                trace = trace_search(study, CaseTruth(case), make_reader(case, self._windows(case, f"at {factor}")))
                yield {"part": "changed", "method": PAPER, "start": start, "factor": factor} | asdict(trace)

    # -- oracles -------------------------------------------------------------------------------------

    def _bounds(self) -> Iterator[Row]:
        """Run the oracles: cold, and at each rate with and without the readings of the first study."""
        lean = trace_lean_oracle(self.judge, self._windows(self.case, "first").measure)
        yield {"part": "bounds", "method": LEAN_ORACLE, "factor": 1.0} | asdict(lean)
        first = make_study(self.case, self.seed, sizing=self.sizing)
        run_tuning(first, make_reader(self.case, self._windows(self.case, "first")))
        errors = reading_errors(first, self.case)
        for factor, case in self._cases():
            judge = CaseTruth(case)
            for method, past in ((ORACLE, ()), (ORACLE_WITH_MEMORY, errors)):
                trace = trace_oracle(judge, self._windows(case, f"at {factor}").measure, past)
                yield {"part": "bounds", "method": method, "factor": factor} | asdict(trace)

    def _windows(self, case: Case, purpose: str) -> Windows:
        return case.windows(self._seed_for(purpose))

    def _seed_for(self, purpose: str) -> int:
        """Return the seed for a purpose."""
        return zlib.crc32(f"{self.job}/{self.seed}/{purpose}".encode())


def _shift(values: Sequence[Any]) -> tuple[Any, ...]:
    return (*values[-1:], *values[:-1])


def _shift_sizing(sizing: Sizing) -> Sizing:
    """Return the measurements with each operator in the place of the next one."""
    return replace(sizing, load=_shift(sizing.load), skew=_shift(sizing.skew), stage_loads=_shift(sizing.stage_loads))
