"""A benefit model: what the runs at one input rate taught, kept as JSON and asked again at another rate.

    symbol    meaning                                     shape
    F         benefit score, predicted as mean ± std      (n,)
    θ         log hyperparameters of the process          as its kernel orders them
    ρ         worth of each source model                  one each

A model is its runs, at its own rate and, in its ancestors, at the other rates of the job: so it answers for any rate.
Loading one computes, it never runs code from the artefact.

θ and ρ are read by programs before 0.2, whose kernel had hyperparameters and which weighed sources by a correlation.
Of θ only the noise is still used, and models of kind score use all of theirs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autotrascale.domain import checks
from autotrascale.domain.displayed import Displayed
from autotrascale.domain.errors import InputError
from autotrascale.domain.job import MAX_INSTANCES
from autotrascale.domain.snapshot import Execution
from autotrascale.plan.search import score_process, surrogate
from autotrascale.plan.search.acquisition import benefit_moments
from autotrascale.plan.search.lattice import Lattice, Point
from autotrascale.plan.search.score import Benefit
from autotrascale.plan.search.study_runs import Run, WindowMeasurement
from autotrascale.plan.search.surrogate import LEAST_NOISE, Posterior
from autotrascale.plan.search.training_data import SessionReadings
from autotrascale.plan.sizing.sizing import Sizing

Floats = NDArray[np.float64]

VERSION = 1
MOST_NOISE = 1.0
LARGEST_THETA = 16  # e^16 is a thousand times the widest bound of any hyperparameter
ANCESTORS = 6  # other rates, or earlier sessions, whose runs a model carries along: enough to span them, and bounded

# A run that failed has no latency. It says "far beyond the target", roughly: hence a value and a large variance.
FAILED_RATIO = 4.0
FAILED_WEIGHT = 36.0


@dataclass(frozen=True)
class ModelSample:
    """One configuration, its mean latency in seconds (None: it failed or fell behind), and the score it got. `scatter`
    of its windows, where they differ (see `Run`)."""

    k: Point
    latency: float | None
    score: float
    windows: int = 1
    measured: WindowMeasurement | None = None
    scatter: float | None = None


@dataclass(frozen=True)
class BenefitModel(Displayed):
    """`kind` latency: a process over log latency, the score follows. `kind` score: the paper's, over F itself."""

    kind: Literal["latency", "score"]
    rate: float
    sizing: Sizing  # at this rate: the floor, the bounds, and what the floor was computed from
    latency_target: float
    alpha: float
    over_allocation: float
    samples: tuple[ModelSample, ...]
    theta: tuple[float, ...]
    correlation: tuple[float, ...] = ()
    ancestors: tuple[BenefitModel, ...] = ()
    version: int = VERSION

    def __post_init__(self) -> None:
        if self.version != VERSION:
            raise InputError(
                "version",
                "is not one this program reads",
                seen=self.version,
                remedy=f"export the model again as version {VERSION}",
            )
        checks.positive_in_range("rate", self.rate)
        lattice = Lattice.between(self.floor, self.p_max)
        Benefit(self.floor, self.latency_target, self.alpha, self.over_allocation)
        if self.kind not in get_args(Literal["latency", "score"]):
            raise InputError("kind", "is not a kind of model", seen=self.kind, remedy="use latency or score")
        if not self.samples:
            raise InputError("samples", "is empty", remedy="a model needs at least one run")
        for i, sample in enumerate(self.samples):
            _check_sample(f"samples[{i}].", sample, lattice)
        self._check_theta()
        if len(self.correlation) != len(self.ancestors):
            raise InputError(
                "correlation",
                f"has {len(self.correlation)} numbers for {len(self.ancestors)} ancestors",
                remedy="give one for each",
            )
        for i, rho in enumerate(self.correlation):
            checks.share(f"correlation[{i}]", rho)
        for i, ancestor in enumerate(self.ancestors):
            if len(ancestor.floor) != len(self.floor):
                raise InputError(
                    f"ancestors[{i}]",
                    f"is a model of {len(ancestor.floor)} operators",
                    seen=ancestor.floor,
                    remedy="leave it out: it is of another job",
                )

    def _check_theta(self) -> None:
        """As many as the kernel has, and each within what a search for them could have given."""
        operators = len(self.floor)
        wanted = 2 * operators + 3 if self.kind == "latency" else operators + 4
        if len(self.theta) != wanted:
            raise InputError(
                "theta", f"has {len(self.theta)} numbers where the kernel has {wanted}", remedy="train the model again"
            )
        for i, value in enumerate(self.theta):
            if not abs(value) <= LARGEST_THETA:
                raise InputError(
                    f"theta[{i}]", f"must lie within ±{LARGEST_THETA}", seen=value, remedy="train the model again"
                )
        if self.kind == "score" and self.theta[-1] < score_process.LEAST_SPREAD:
            raise InputError(
                f"theta[{wanted - 1}]",
                "is the spread of the scores and must be above zero",
                seen=self.theta[-1],
                remedy="train the model again",
            )

    @property
    def floor(self) -> Point:
        return self.sizing.floor

    @property
    def p_max(self) -> Point:
        return self.sizing.upper

    @property
    def execution(self) -> Execution | None:
        return self.sizing.execution

    @property
    def benefit(self) -> Benefit:
        return Benefit(self.floor, self.latency_target, self.alpha, self.over_allocation)

    def predict(self, ks: ArrayLike) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the score F of each row of `ks`."""
        ks = np.atleast_2d(np.asarray(ks))
        if self.kind == "score":
            return self._process.predict(ks)
        return benefit_moments(*self.log_ratio(ks), self.benefit.resources(ks), self.alpha)

    def log_ratio(self, ks: ArrayLike, rate: float | None = None) -> tuple[Floats, Floats]:
        """μ and σ of log(l_r / l_t) at this model's rate, or at another; for models of kind latency."""
        if rate is None:
            return self._posterior.log_ratio(ks)
        checks.positive("rate", rate)
        return self._posterior.log_ratio(ks, math.log(rate / self.rate))

    @property
    def noise(self) -> float:
        """ν of one reading, which stands last in θ."""
        return min(max(math.exp(self.theta[-1]), LEAST_NOISE), MOST_NOISE)

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(
            Run(s.k, s.latency, windows=s.windows, measured=s.measured, scatter=s.scatter or 0.0) for s in self.samples
        )

    @cached_property
    def readings(self) -> SessionReadings:
        """The samples as a surrogate takes them, relative to this model's own floor and target."""
        return build_readings(self.samples, self.latency_target, self.sizing)

    @cached_property
    def _posterior(self) -> Posterior:
        sources = [ancestor.towards(self.latency_target).readings for ancestor in self.ancestors]
        with _as_input_error():
            return surrogate.fit(self.readings, sources, noise=self.noise)

    @cached_property
    def _process(self) -> score_process.ScoreProcess:
        scores = np.array([sample.score for sample in self.samples])
        ks = np.array([sample.k for sample in self.samples])
        with _as_input_error():
            return score_process.rebuild(ks, scores, self.floor, self.p_max, self.theta)

    def towards(self, latency_target: float) -> BenefitModel:
        """The same runs, seen from another latency target."""
        return replace(self, latency_target=latency_target)

    def alone(self) -> BenefitModel:
        """This model without those it was built on."""
        return replace(self, ancestors=(), correlation=())

    def as_older(self) -> BenefitModel:
        """Less what programs did not know that only kept latencies: they refuse keys that they do not know."""
        samples = tuple(replace(sample, measured=None, scatter=None) for sample in self.samples)
        ancestors = tuple(ancestor.as_older() for ancestor in self.ancestors)
        return replace(self, samples=samples, ancestors=ancestors, sizing=self.sizing.as_older())

    def to_json(self) -> str:
        return json.dumps(_as_data(self), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> BenefitModel:
        """The model that `to_json` wrote. Unknown keys and wrong types are refused with their place."""
        try:
            data = json.loads(text, parse_int=_whole_number)
        except json.JSONDecodeError as error:
            raise InputError(
                f"model:{error.lineno}:{error.colno}", f"is not JSON: {error.msg}", remedy="export the model again"
            ) from None
        except RecursionError:
            raise InputError("model", "is nested too deeply", remedy="export the model again") from None
        return _model(data, "model")


def older_theta(operators: int, noise: float) -> tuple[float, ...]:
    """θ at the medians that earlier programs start from: amplitudes, joint effect, length scales, noise."""
    medians = [0.4] * operators + [0.6, 1.35] + [1.0] * operators + [noise]
    return tuple(math.log(each) for each in medians)


def older_correlation(doubt: float) -> float:
    """ρ of a source that counts as one's own, or with a doubt."""
    return 0.99 if doubt == 0 else 0.8


def build_readings(samples: Sequence[ModelSample], latency_target: float, sizing: Sizing) -> SessionReadings:
    """Samples → y and the weight of each, in the order told."""
    y = [None if s.latency is None else math.log(s.latency) - math.log(latency_target) for s in samples]
    failed = max(math.log(FAILED_RATIO), math.log(1.5) + max((each for each in y if each is not None), default=0.0))
    return SessionReadings(
        sizing=sizing,
        ks=tuple(s.k for s in samples),
        log_ratio=tuple(failed if each is None else each for each in y),
        weight=tuple(FAILED_WEIGHT if s.latency is None else 1 / s.windows for s in samples),
        failed=tuple(s.latency is None for s in samples),
        measured=tuple(s.measured for s in samples),
        latency_target=latency_target,
        repeated=sum(s.windows - 1 for s in samples if s.scatter),
        scatter=sum(s.scatter or 0.0 for s in samples),
    )


def build_samples(runs: Sequence[Run], benefit: Benefit) -> tuple[ModelSample, ...]:
    if not runs:
        return ()
    latencies = np.array([run.latency or math.inf for run in runs])
    scores = benefit.score([run.parallelism for run in runs], latencies).tolist()
    return tuple(
        ModelSample(run.parallelism, run.latency, score, run.windows, run.measured, run.scatter or None)
        for run, score in zip(runs, scores, strict=True)
    )


def _check_sample(place: str, sample: ModelSample, lattice: Lattice) -> None:
    try:
        lattice.check(sample.k)
    except InputError as error:
        raise error.under(place) from None
    checks.optional(checks.positive, f"{place}latency", sample.latency)
    checks.share(f"{place}score", sample.score)
    checks.count(f"{place}windows", sample.windows)
    checks.optional(checks.non_negative, f"{place}scatter", sample.scatter)
    if sample.measured is not None:
        _check_loads(sample.measured.loads, len(sample.k), f"{place}measured.")
        for i, load in enumerate(sample.measured.loads):
            checks.positive(f"{place}measured.loads[{i}]", load)
        checks.optional(checks.positive, f"{place}measured.fixed", sample.measured.fixed)


# --- writing JSON -----------------------------------------------------------------------------------------------


def _as_data(model: BenefitModel) -> dict[str, Any]:
    """Of the sizing, what a reader needs: the lattice, and what latency is expected to follow. Keys that older programs
    do not know are there only where they hold something."""
    sizing = model.sizing
    return {
        "kind": model.kind,
        "rate": model.rate,
        "floor": sizing.floor,
        "p_max": sizing.upper,
        "latency_target": model.latency_target,
        "alpha": model.alpha,
        "over_allocation": model.over_allocation,
        "samples": [_known(asdict(sample), "latency") for sample in model.samples],
        "theta": model.theta,
        "loads": sizing.hottest if sizing.measured else None,
        "execution": sizing.execution,
        "overhead": sizing.overhead,
        **_known(
            {
                "slots": sizing.slots,
                "demand": sizing.demand if any(sizing.demand) else None,
                "upstream": sizing.upstream or None,
            }
        ),
        "correlation": model.correlation,
        "ancestors": [_as_data(ancestor) for ancestor in model.ancestors],
        "version": model.version,
    }


def _known(values: dict[str, Any], *always: str) -> dict[str, Any]:
    """Without what is None, but for those that are always there."""
    return {key: value for key, value in values.items() if key in always or value is not None}


# --- reading JSON -----------------------------------------------------------------------------------------------
# Models are read inside the planning core, which knows no schema library; a model is flat enough to do without.


# What stands for the sizing in JSON.
_FLAT = {"floor", "p_max", "loads", "execution", "overhead", "slots", "demand", "upstream"}


def _model(data: Any, place: str) -> BenefitModel:
    values = _keys(data, place, BenefitModel)
    values["samples"] = tuple(_sample(item, f"{place}.samples[{i}]") for i, item in _items(values, "samples", place))
    ancestors = [_model(item, f"{place}.ancestors[{i}]") for i, item in _items(values, "ancestors", place)]
    values["ancestors"] = tuple(ancestors)
    if "upstream" in values:
        of_each = enumerate(_items(values, "upstream", place))
        values["upstream"] = tuple(_numbers(each, f"{place}.upstream[{i}]") for i, (_, each) in of_each)
    for name in ("floor", "p_max", "theta", "correlation", "loads", "demand"):
        if name in values and not (name == "loads" and values[name] is None):
            values[name] = _numbers(values[name], f"{place}.{name}")
    try:
        values["sizing"] = _sizing(values)
        return BenefitModel(**values)
    except InputError as error:
        raise error.under(f"{place}.") from None


def _sizing(values: dict[str, Any]) -> Sizing:
    """Taken out of the flat keys."""
    floor, upper, loads = values.pop("floor"), values.pop("p_max"), values.pop("loads", None)
    execution, overhead = values.pop("execution", None), values.pop("overhead", 0.0)
    slots, demand, upstream = values.pop("slots", None), values.pop("demand", ()), values.pop("upstream", ())
    lattice = Lattice.between(floor, upper)
    _check_loads(loads, len(floor))
    return Sizing.of_loads(
        lattice.lower,
        lattice.upper,
        loads,
        rate=values["rate"],
        execution=execution,
        overhead=overhead,
        slots=slots,
        demand=demand,
        upstream=upstream,
    )


def _check_loads(loads: Sequence[float] | None, operators: int, place: str = "") -> None:
    if loads is None:
        return
    if len(loads) != operators:
        raise InputError(
            f"{place}loads", f"must be {operators} numbers", seen=loads, remedy="give one for each operator"
        )
    for i, load in enumerate(loads):
        checks.non_negative(f"{place}loads[{i}]", load)
        if load > MAX_INSTANCES:
            raise InputError(
                f"{place}loads[{i}]", f"is above {MAX_INSTANCES}", seen=load, remedy="give instances, not records"
            )


def _sample(data: Any, place: str) -> ModelSample:
    values = _keys(data, place, ModelSample)
    values["k"] = _numbers(values["k"], f"{place}.k")
    if values.get("measured") is not None:
        values["measured"] = _measured(values["measured"], f"{place}.measured")
    return ModelSample(**values)


def _measured(data: Any, place: str) -> WindowMeasurement:
    values = _keys(data, place, WindowMeasurement)
    return WindowMeasurement(_numbers(values["loads"], f"{place}.loads"), values.get("fixed"))


def _keys(data: Any, place: str, kind: type[Any]) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise InputError(place, "must hold a mapping of names to values", seen=data, remedy="export the model again")
    known = {field.name for field in fields(kind)} - {"sizing"} | (_FLAT if kind is BenefitModel else set())
    for name in data:
        if name not in known:
            raise InputError(
                f"{place}.{name}", "is not a known key", remedy="remove it, or use the program that wrote it"
            )
    needed = [
        "samples",
        "k",
        "latency",
        "score",
        "kind",
        "rate",
        "floor",
        "p_max",
        "latency_target",
        "alpha",
        "over_allocation",
        "theta",
    ]
    for name in ["loads"] if kind is WindowMeasurement else needed:
        if name in known and name not in data:
            raise InputError(f"{place}.{name}", "is missing", remedy="export the model again")
    return dict(data)


def _items(values: Mapping[str, Any], name: str, place: str) -> list[tuple[int, Any]]:
    items = values.get(name, [])
    if not isinstance(items, list):
        raise InputError(f"{place}.{name}", "must be a list", seen=items, remedy="export the model again")
    return list(enumerate(items))


def _whole_number(digits: str) -> int:
    """No count of ours has more digits, and Python itself refuses to read thousands of them."""
    if len(digits) > 18:
        raise InputError(
            "model", "holds a whole number that is too large", seen=digits[:20], remedy="export the model again"
        )
    return int(digits)


@contextmanager
def _as_input_error() -> Iterator[None]:
    """Hyperparameters that no training would have left behind may make a covariance that cannot be inverted."""
    try:
        yield
    except np.linalg.LinAlgError:
        raise InputError(
            "model",
            "does not make a process: its samples and theta contradict each other",
            remedy="train the model again",
        ) from None


def _numbers(value: Any, place: str) -> tuple[Any, ...]:
    if not isinstance(value, list) or any(isinstance(x, bool) or not isinstance(x, int | float) for x in value):
        raise InputError(place, "must be a list of numbers", seen=value, remedy="export the model again")
    return tuple(value)
