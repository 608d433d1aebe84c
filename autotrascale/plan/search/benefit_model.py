"""The benefit model: the runs at one input rate, stored as JSON, and predictions from them at any rate.

    symbol    meaning                                        shape
    F         benefit score, predicted as mean ± std         (n,)
    ν         relative noise of one latency reading
    θ         hyperparameters of the paper's process         (N + 4,)

A model holds its runs. Its ancestors hold the runs of the same job at other rates.
Loading a model computes its predictions again from the runs; no code from the file is executed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from autotrascale.domain.job import MAX_INSTANCES
from autotrascale.domain.snapshot import Execution
from autotrascale.plan.search import score_process, surrogate
from autotrascale.plan.search.acquisition import benefit_moments
from autotrascale.plan.search.json_fields import check_keys, parse_model_json, read_list, read_numbers
from autotrascale.plan.search.lattice import Lattice, Point
from autotrascale.plan.search.score import Benefit
from autotrascale.plan.search.study_runs import Run, WindowMeasurement
from autotrascale.plan.search.surrogate import Posterior
from autotrascale.plan.search.training_data import SessionReadings
from autotrascale.plan.sizing.sizing import Sizing

Floats = NDArray[np.float64]
Kind = Literal["latency", "score"]

VERSION = 1
LARGEST_THETA = 16  # e^16 is a thousand times the widest bound of any hyperparameter
ANCESTORS = 6  # models of other rates or earlier sessions that a model carries along

# A failed run has no latency. It counts as a reading far beyond the target, with a large variance.
FAILED_RATIO = 4.0
FAILED_WEIGHT = 36.0


@dataclass(frozen=True)
class ModelSample:
    """One configuration of a benefit model and its result.

    Args:
        k: instances of each operator.
        latency: mean latency in seconds; None when the run failed or fell behind.
        score: benefit score F, in [0, 1].
        windows: measured windows that `latency` averages, default 1.
        measured: loads and batch cost of the windows; None when they were not measured.
        scatter: squared deviations of log latency over the windows (see `Run`); None when there is one window.
    """

    k: Point
    latency: float | None
    score: float
    windows: int = 1
    measured: WindowMeasurement | None = None
    scatter: float | None = None


@dataclass(frozen=True)
class BenefitModel:
    """A model of the benefit score of a job at one input rate. `Study.model` makes it.

    Args:
        kind: "latency" models log latency and derives the score; "score" models the score itself, as the paper does.
        rate: input rate of the runs, in records per second.
        sizing: floor, upper bounds and measured loads at that rate.
        latency_target: latency target in seconds.
        alpha: weight of latency against resources, in [0, 1].
        over_allocation: over-allocation ratio that the stop rule allows, at least 0.
        samples: the runs, at least one.
        theta: hyperparameters of a score model; empty for a latency model.
        noise: relative noise of one latency reading, as the study was told, default 0.05.
        ancestors: models of the same job that this model was built on; they have no ancestors themselves.
        version: version of the JSON form, always 1.

    Raises:
        InputError: a value is out of range, or the parts do not fit together.
    """

    kind: Kind
    rate: float
    sizing: Sizing
    latency_target: float
    alpha: float
    over_allocation: float
    samples: tuple[ModelSample, ...]
    theta: tuple[float, ...] = ()
    noise: float = 0.05
    ancestors: tuple[BenefitModel, ...] = ()
    version: int = VERSION

    def __post_init__(self) -> None:
        if self.version != VERSION:
            remedy = f"export the model again as version {VERSION}"
            raise InputError("version", "is not supported", seen=self.version, remedy=remedy)
        checks.positive_in_range("rate", self.rate)
        lattice = Lattice.between(self.floor, self.p_max)
        Benefit(self.floor, self.latency_target, self.alpha, self.over_allocation)
        if self.kind not in get_args(Kind):
            raise InputError("kind", "is not a kind of model", seen=self.kind, remedy="use latency or score")
        if not self.samples:
            raise InputError("samples", "is empty", remedy="a model needs at least one run")
        for i, sample in enumerate(self.samples):
            _check_sample(f"samples[{i}].", sample, lattice)
        self._check_theta()
        checks.positive("noise", self.noise)
        checks.share("noise", self.noise)
        for i, ancestor in enumerate(self.ancestors):
            if len(ancestor.floor) != len(self.floor):
                raise InputError(
                    f"ancestors[{i}]",
                    f"is a model of {len(ancestor.floor)} operators",
                    seen=ancestor.floor,
                    remedy=f"remove it: this job has {len(self.floor)} operators",
                )

    def __repr__(self) -> str:
        return (
            f"BenefitModel(kind={self.kind!r}, rate={self.rate:g}, floor={self.floor}, p_max={self.p_max}, "
            f"latency_target={self.latency_target:g}, samples={len(self.samples)}, ancestors={len(self.ancestors)})"
        )

    def _check_theta(self) -> None:
        wanted = 0 if self.kind == "latency" else len(self.floor) + 4
        if len(self.theta) != wanted:
            problem = f"has {len(self.theta)} numbers where the kernel has {wanted}"
            raise InputError("theta", problem, remedy="train the model again")
        for i, value in enumerate(self.theta):
            if not abs(value) <= LARGEST_THETA:
                problem = f"must lie within ±{LARGEST_THETA}"
                raise InputError(f"theta[{i}]", problem, seen=value, remedy="train the model again")
        if self.theta and self.theta[-1] < score_process.LEAST_SPREAD:
            problem = "is the spread of the scores and must be above zero"
            raise InputError(f"theta[{wanted - 1}]", problem, seen=self.theta[-1], remedy="train the model again")

    @property
    def floor(self) -> Point:
        """The least instances of each operator that sustain the rate."""
        return self.sizing.floor

    @property
    def p_max(self) -> Point:
        """The most instances of each operator."""
        return self.sizing.upper

    @property
    def execution(self) -> Execution | None:
        """The execution model of the engine; None when the study did not know it."""
        return self.sizing.execution

    @property
    def benefit(self) -> Benefit:
        """The benefit score of this model's target, weight and over-allocation (Eq. 4)."""
        return Benefit(self.floor, self.latency_target, self.alpha, self.over_allocation)

    def predict(self, ks: ArrayLike) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of the benefit score F.

        Args:
            ks: configurations, one row of instances for each, shape (n, N).
        """
        ks = np.atleast_2d(np.asarray(ks))
        if self.kind == "score":
            return self._process.predict(ks)
        return benefit_moments(*self.log_ratio(ks), self.benefit.resources(ks), self.alpha)

    def log_ratio(self, ks: ArrayLike, rate: float | None = None) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of log(latency / latency target), for models of kind "latency".

        Args:
            ks: configurations, one row of instances for each, shape (n, N).
            rate: input rate in records per second; default: the rate of this model.
        """
        if rate is None:
            return self._posterior.log_ratio(ks)
        checks.positive("rate", rate)
        return self._posterior.log_ratio(ks, math.log(rate / self.rate))

    @property
    def runs(self) -> tuple[Run, ...]:
        """The samples as runs of a study."""
        return tuple(
            Run(s.k, s.latency, windows=s.windows, measured=s.measured, scatter=s.scatter or 0.0) for s in self.samples
        )

    @cached_property
    def readings(self) -> SessionReadings:
        """The samples as the surrogate takes them, relative to this model's floor and target."""
        return build_readings(self.samples, self.latency_target, self.sizing)

    @cached_property
    def _posterior(self) -> Posterior:
        sources = [ancestor.towards(self.latency_target).readings for ancestor in self.ancestors]
        with _singular_as_input_error():
            return surrogate.fit(self.readings, sources, noise=max(self.noise, surrogate.LEAST_NOISE))

    @cached_property
    def _process(self) -> score_process.ScoreProcess:
        scores = np.array([sample.score for sample in self.samples])
        ks = np.array([sample.k for sample in self.samples])
        with _singular_as_input_error():
            return score_process.rebuild(ks, scores, self.floor, self.p_max, self.theta)

    def towards(self, latency_target: float) -> BenefitModel:
        """Return the model of the same runs for another latency target, in seconds."""
        return replace(self, latency_target=latency_target)

    def alone(self) -> BenefitModel:
        """Return this model without its ancestors."""
        return replace(self, ancestors=())

    def to_json(self) -> str:
        """Return the model as JSON text, which `from_json` reads."""
        return json.dumps(_as_data(self), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> BenefitModel:
        """Return the model that `to_json` wrote.

        Raises:
            InputError: the text is not JSON, or a key is unknown, missing or of a wrong type; names the place.
        """
        return _read_model(parse_model_json(text), "model")


def build_readings(samples: Sequence[ModelSample], latency_target: float, sizing: Sizing) -> SessionReadings:
    """Return the samples as log ratios with their weights, in the order told."""
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
    """Return the runs with their benefit scores."""
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
        raise error.with_prefix(place) from None
    checks.optional(checks.positive, f"{place}latency", sample.latency)
    checks.share(f"{place}score", sample.score)
    checks.count(f"{place}windows", sample.windows)
    checks.optional(checks.non_negative, f"{place}scatter", sample.scatter)
    if sample.measured is not None:
        _check_loads(sample.measured.loads, len(sample.k), f"{place}measured.")
        for i, load in enumerate(sample.measured.loads):
            checks.positive(f"{place}measured.loads[{i}]", load)
        checks.optional(checks.positive, f"{place}measured.fixed", sample.measured.fixed)


def _check_loads(loads: Sequence[float] | None, operators: int, place: str = "") -> None:
    if loads is None:
        return
    if len(loads) != operators:
        problem = f"must be {operators} numbers"
        raise InputError(f"{place}loads", problem, seen=loads, remedy="give one for each operator")
    for i, load in enumerate(loads):
        checks.non_negative(f"{place}loads[{i}]", load)
        if load > MAX_INSTANCES:
            problem = f"is above {MAX_INSTANCES}"
            raise InputError(f"{place}loads[{i}]", problem, seen=load, remedy="give instances, not records")


@contextmanager
def _singular_as_input_error() -> Iterator[None]:
    """Raise `InputError` where a damaged file leads to a covariance that cannot be inverted."""
    try:
        yield
    except np.linalg.LinAlgError:
        problem = "has samples and hyperparameters that contradict each other"
        raise InputError("model", problem, remedy="train the model again") from None


# --- JSON -------------------------------------------------------------------------------------------------------
# The planning core imports no schema library, so models are read by hand. The sizing is written as flat keys.

_SIZING_KEYS = ("floor", "p_max", "loads", "execution", "overhead", "slots", "demand", "upstream")
_REQUIRED = ("kind", "rate", "floor", "p_max", "latency_target", "alpha", "over_allocation", "samples")
_OPTIONAL = ("loads", "execution", "overhead", "slots", "demand", "upstream", "theta", "noise", "ancestors", "version")


def _as_data(model: BenefitModel) -> dict[str, Any]:
    sizing = model.sizing
    unknown_or_empty = {
        "slots": sizing.slots,
        "demand": sizing.demand if any(sizing.demand) else None,
        "upstream": sizing.upstream or None,
        "theta": model.theta or None,
        "noise": model.noise if model.kind == "latency" else None,
    }
    return {
        "kind": model.kind,
        "rate": model.rate,
        "floor": sizing.floor,
        "p_max": sizing.upper,
        "latency_target": model.latency_target,
        "alpha": model.alpha,
        "over_allocation": model.over_allocation,
        "samples": [_without_none(asdict(sample), keep="latency") for sample in model.samples],
        "loads": sizing.hottest if sizing.measured else None,
        "execution": sizing.execution,
        "overhead": sizing.overhead,
        **_without_none(unknown_or_empty),
        "ancestors": [_as_data(ancestor) for ancestor in model.ancestors],
        "version": model.version,
    }


def _without_none(values: Mapping[str, Any], keep: str = "") -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None or key == keep}


def _read_model(data: Any, place: str) -> BenefitModel:
    values = check_keys(data, place, required=_REQUIRED, optional=_OPTIONAL)
    samples = enumerate(read_list(values, "samples", place))
    values["samples"] = tuple(_read_sample(item, f"{place}.samples[{i}]") for i, item in samples)
    ancestors = enumerate(read_list(values, "ancestors", place))
    values["ancestors"] = tuple(_read_model(item, f"{place}.ancestors[{i}]") for i, item in ancestors)
    if "upstream" in values:
        upstream = enumerate(read_list(values, "upstream", place))
        values["upstream"] = tuple(read_numbers(each, f"{place}.upstream[{i}]") for i, each in upstream)
    for name in ("floor", "p_max", "theta", "loads", "demand"):
        if name in values and not (name == "loads" and values[name] is None):
            values[name] = read_numbers(values[name], f"{place}.{name}")
    if values["kind"] == "latency" and "noise" not in values:
        raise InputError(f"{place}.noise", "is missing", remedy="export the model again")
    try:
        values["sizing"] = _read_sizing({name: values.pop(name) for name in _SIZING_KEYS if name in values}, values)
        return BenefitModel(**values)
    except InputError as error:
        raise error.with_prefix(f"{place}.") from None


def _read_sizing(flat: dict[str, Any], values: Mapping[str, Any]) -> Sizing:
    lattice = Lattice.between(flat.pop("floor"), flat.pop("p_max"))
    loads = flat.pop("loads", None)
    _check_loads(loads, len(lattice.lower))
    return Sizing.of_loads(lattice.lower, lattice.upper, loads, rate=values["rate"], **flat)


def _read_sample(data: Any, place: str) -> ModelSample:
    optional = ("windows", "measured", "scatter")
    values = check_keys(data, place, required=("k", "latency", "score"), optional=optional)
    values["k"] = read_numbers(values["k"], f"{place}.k")
    if values.get("measured") is not None:
        inner = f"{place}.measured"
        measured = check_keys(values["measured"], inner, required=("loads",), optional=("fixed",))
        values["measured"] = WindowMeasurement(read_numbers(measured["loads"], f"{inner}.loads"), measured.get("fixed"))
    return ModelSample(**values)
