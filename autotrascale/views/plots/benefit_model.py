"""A benefit model: slices of its expected latency, the expected gain of another trial, and its predictions.

Notation:
    slice    the instances of one operator vary; the other operators stay at one configuration, the centre
    y        log(latency / latency target), with posterior mean μ and standard deviation σ
    latency  latency target · exp(μ), with standard deviation latency · σ
    gain     E[(F − F⁺)₊] · √P, with score F, best score F⁺ and probability P that the target is met. The search
             maximises it after it has accepted a configuration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from autotrascale.plan.formatting import format_amount, format_seconds
from autotrascale.plan.search.acquisition import improvement_of_benefit, probability_met
from autotrascale.plan.search.benefit_model import BenefitModel, ModelSample
from autotrascale.views.plots.loop_history import PREDICTIONS, describe_accurate
from autotrascale.views.plots.plot import MS, Axis, Level, Plot, Role, Series

ACQUISITION = ("acquisition", "Expected gain of another trial")
MAX_SLICE_POINTS = 60
MIN_GAIN = 1e-6  # of a score; smaller values are rounding
MAX_PREDICTED = 40  # samples; each needs a model of the samples before it
_ROLES: tuple[Role, ...] = ("main", "second", "third", "good", "bad", "quiet")
_NO_LATENCY = "This model predicts scores, as in the paper, and no latencies."


def plot_slices(model: BenefitModel, operators: Sequence[str], centre: Mapping[str, int]) -> list[Plot]:
    """Return one plot for each operator."""
    return [_plot_slice(model, operators, centre, i) for i in range(len(operators))]


def _plot_slice(model: BenefitModel, operators: Sequence[str], centre: Mapping[str, int], i: int) -> Plot:
    name, title = f"slice-{i}", f"Expected latency: {operators[i]}"
    if model.kind != "latency":
        return Plot.unavailable(name, title, _NO_LATENCY)
    ks = _slice(model, operators, centre, i)
    mean, sd = _predict(model, ks)
    series = [Series("expected ± sd", tuple(int(k) for k in ks[:, i]), tuple(mean * MS), sd=tuple(sd * MS))]
    on_slice = [each for each in model.samples if _is_on_slice(each, operators, centre, i)]
    measured = [each for each in on_slice if each.latency is not None]
    if measured:
        series.append(
            Series(
                "measured",
                tuple(each.k[i] for each in measured),
                tuple((each.latency or 0.0) * MS for each in measured),
                "points",
                "second",
                labels=tuple(_label(operators, each) for each in measured),
            )
        )
    fixed = ", ".join(f"{each} {centre[each]}" for j, each in enumerate(operators) if j != i)
    caption = f"With {fixed}: " if fixed else ""
    caption += f"{len(measured)} of {len(model.samples)} measured configurations lie on this line."
    x, y = Axis(f"instances of {operators[i]}", whole=True), Axis("latency (ms)")
    return Plot(name, title, caption, x, y, tuple(series), (_target(model),))


def plot_acquisition(model: BenefitModel, operators: Sequence[str], centre: Mapping[str, int]) -> Plot:
    """Return the expected gain of a trial that changes one operator."""
    if model.kind != "latency":
        return Plot.unavailable(*ACQUISITION, _NO_LATENCY)
    best = max(sample.score for sample in model.samples)
    series, peak = [], (0.0, "")
    for i, operator in enumerate(operators):
        ks = _slice(model, operators, centre, i)
        mean, std = model.log_ratio(ks)
        improvement = improvement_of_benefit(mean, std, model.benefit.resources(ks), best, model.alpha)
        gain = np.asarray(improvement * np.sqrt(probability_met(mean, std)))
        x, y = tuple(int(k) for k in ks[:, i]), tuple(float(each) for each in gain)
        series.append(Series(operator, x, y, "line", _ROLES[i % len(_ROLES)]))
        at = int(np.argmax(gain))
        peak = max(peak, (float(gain[at]), f"{operator} {int(ks[at, i])}"))
    if peak[0] < MIN_GAIN:
        why = f"No trial that changes one operator is expected to improve the best score, {best:.3f}."
        return Plot.unavailable(*ACQUISITION, why)
    caption = f"A trial with {peak[1]} is expected to improve the best score, {best:.3f}, by {format_amount(peak[0])}."
    x_axis = Axis("instances, other operators at the best configuration", whole=True)
    return Plot(*ACQUISITION, caption, x_axis, Axis("expected improvement of the score"), tuple(series))


def plot_predictions(model: BenefitModel, operators: Sequence[str]) -> Plot:
    """Return each measured latency beside its prediction from the earlier samples and the models of the warm start."""
    if model.kind != "latency":
        return Plot.unavailable(*PREDICTIONS, _NO_LATENCY)
    numbers, measured, means, sds, labels = [], [], [], [], []
    for at in range(max(1, len(model.samples) - MAX_PREDICTED), len(model.samples)):
        sample = model.samples[at]
        if sample.latency is None:
            continue
        mean, sd = _predict(replace(model, samples=model.samples[:at]), np.array([sample.k]))
        numbers.append(at + 1)
        measured.append(sample.latency)
        means.append(float(mean[0]))
        sds.append(math.hypot(float(sd[0]), float(mean[0]) * model.noise))  # of the latency, and of a measurement
        labels.append(_label(operators, sample))
    if not numbers:
        return Plot.unavailable(*PREDICTIONS, "At least two configurations that kept up with the rate are needed.")
    accurate = sum(abs(latency - mean) <= 2 * sd for latency, mean, sd in zip(measured, means, sds, strict=True))
    caption = describe_accurate(accurate, len(numbers)) + " Each prediction uses the trials before it."
    x = tuple(numbers)
    series = (
        Series("expected ± sd", x, _ms(means), "points", "main", sd=_ms(sds), labels=tuple(labels)),
        Series("measured", x, _ms(measured), "points", "second", labels=tuple(labels)),
    )
    x_axis = Axis("configuration, in the order of the trials", whole=True)
    return Plot(*PREDICTIONS, caption, x_axis, Axis("latency (ms)"), series, (_target(model),))


def _ms(seconds: Sequence[float]) -> tuple[float, ...]:
    return tuple(each * MS for each in seconds)


def _target(model: BenefitModel) -> Level:
    return Level(model.latency_target * MS, f"target {format_seconds(model.latency_target)}")


def _slice(model: BenefitModel, operators: Sequence[str], centre: Mapping[str, int], i: int) -> NDArray[np.int64]:
    """Return configurations from the floor to P_max of operator i, shape (points, operators)."""
    low, high = model.floor[i], model.p_max[i]
    values = np.unique(np.linspace(low, high, min(MAX_SLICE_POINTS, high - low + 1)).round().astype(np.int64))
    point = np.array([centre[operator] for operator in operators], dtype=np.int64)
    ks = np.tile(np.clip(point, model.floor, model.p_max), (len(values), 1))
    ks[:, i] = values
    return ks


def _predict(model: BenefitModel, ks: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation of the latency in seconds."""
    mean, std = model.log_ratio(ks)
    latency = model.latency_target * np.exp(mean)
    return latency, latency * std


def _is_on_slice(sample: ModelSample, operators: Sequence[str], centre: Mapping[str, int], i: int) -> bool:
    return all(sample.k[j] == centre[operator] for j, operator in enumerate(operators) if j != i)


def _label(operators: Sequence[str], sample: ModelSample) -> str:
    k = ", ".join(f"{operator} {n}" for operator, n in zip(operators, sample.k, strict=True))
    windows = "" if sample.windows == 1 else f" in {sample.windows} windows"
    return f"{k}: {format_seconds(sample.latency or 0.0)}{windows}"
