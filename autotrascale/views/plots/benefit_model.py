"""What a benefit model says: slices through it, where a run would be worth most, and its predictions against outcomes.

slice        one operator's instances vary, the others stay as they are at one parallelism, the centre
μ, σ         posterior of y = log(l_r / l_t); a latency is l_t · e^μ, one standard deviation of it l_t · e^μ · σ
worth        E[(F − F⁺)₊] · √P, what the search goes by once a run was accepted
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from autotrascale.plan.formatting import format_amount, format_percent, format_seconds
from autotrascale.plan.search.acquisition import improvement_of_benefit, probability_met
from autotrascale.plan.search.benefit_model import BenefitModel, ModelSample
from autotrascale.views.plots.plot import Axis, Level, Plot, Role, Series

MS = 1000.0
PLACES = 60  # of a slice: with more room than that, every so many
LEAST_WORTH = 1e-6  # of a score: less is rounding
COMPARED = 40  # runs that are predicted from those before them: each takes a model of its own
_ROLES: tuple[Role, ...] = ("main", "second", "third", "good", "bad", "quiet")
_SCORES = "This model is of the paper's kind: it knows scores, and no latencies to show."


def plot_slices(model: BenefitModel, operators: Sequence[str], centre: Mapping[str, int]) -> list[Plot]:
    """One for each operator."""
    return [_slice(model, operators, centre, i) for i in range(len(operators))]


def _slice(model: BenefitModel, operators: Sequence[str], centre: Mapping[str, int], i: int) -> Plot:
    name, title = f"slice-{i}", f"Expected latency: {operators[i]}"
    if model.kind != "latency":
        return Plot.unavailable(name, title, _SCORES)
    ks = _along(model, operators, centre, i)
    mean, std = _latency(model, ks)
    x = tuple(int(k) for k in ks[:, i])
    here = [sample for sample in model.samples if _on_slice(sample, operators, centre, i)]
    measured = [sample for sample in here if sample.latency is not None]
    target = model.latency_target
    series = [Series("expected ± sd", x, tuple(mean * MS), "line", "main", sd=tuple(std * MS))]
    if measured:
        series.append(
            Series(
                "measured",
                tuple(s.k[i] for s in measured),
                tuple((s.latency or 0.0) * MS for s in measured),
                "points",
                "second",
                said=tuple(_measured(operators, s) for s in measured),
            )
        )
    others = ", ".join(f"{each} {centre[each]}" for j, each in enumerate(operators) if j != i)
    says = f"With {others}: " if others else ""
    says += f"{len(measured)} of {len(model.samples)} configurations that were run lie on this line."
    return Plot(
        name,
        title,
        says,
        Axis(f"instances of {operators[i]}", whole=True),
        Axis("latency (ms)"),
        tuple(series),
        (Level(target * MS, f"target {format_seconds(target)}"),),
    )


def plot_acquisition(model: BenefitModel, operators: Sequence[str], centre: Mapping[str, int]) -> Plot:
    name, title = "acquisition", "Where another run would be worth most"
    if model.kind != "latency":
        return Plot.unavailable(name, title, _SCORES)
    best = max(sample.score for sample in model.samples)
    series, peak = [], (0.0, "")
    for i, operator in enumerate(operators):
        ks = _along(model, operators, centre, i)
        mean, std = model.log_ratio(ks)
        gain = improvement_of_benefit(mean, std, model.benefit.resources(ks), best, model.alpha)
        worth = np.asarray(gain * np.sqrt(probability_met(mean, std)))
        series.append(
            Series(
                operator,
                tuple(int(k) for k in ks[:, i]),
                tuple(float(w) for w in worth),
                "line",
                _ROLES[i % len(_ROLES)],
            )
        )
        at = int(np.argmax(worth))
        peak = max(peak, (float(worth[at]), f"{operator} {int(ks[at, i])}"))
    if peak[0] < LEAST_WORTH:
        why = f"One operator changed at a time, no further run is expected to improve the best score, {best:.3f}."
        return Plot.unavailable(name, title, why)
    says = (
        f"One more run with {peak[1]} is expected to improve the best score, {best:.3f}, by {format_amount(peak[0])}."
    )
    return Plot(
        name,
        title,
        says,
        Axis("instances, the others as they are at best", whole=True),
        Axis("expected improvement of the score"),
        tuple(series),
    )


def plot_predictions(model: BenefitModel, operators: Sequence[str]) -> Plot:
    """Each run as it was expected from the runs before it, and from the models that the run started from."""
    name, title = "predictions", "Prediction against outcome"
    if model.kind != "latency":
        return Plot.unavailable(name, title, _SCORES)
    first = 0 if model.ancestors else 1
    found = []
    for at in range(max(first, len(model.samples) - COMPARED), len(model.samples)):
        sample = model.samples[at]
        if sample.latency is None or at == 0:
            continue
        mean, std = _latency(replace(model, samples=model.samples[:at]), np.array([sample.k]))
        found.append((at + 1, sample, float(mean[0]), float(std[0])))
    if not found:
        return Plot.unavailable(name, title, "Two configurations that held the rate are the least to compare.")
    x = tuple(at for at, _, _, _ in found)
    said = tuple(_measured(operators, sample) for _, sample, _, _ in found)
    near = sum(abs((s.latency or 0.0) - mean) <= 2 * _read(model, mean, std) for _, s, mean, std in found)
    series = (
        Series(
            "expected ± sd",
            x,
            tuple(mean * MS for _, _, mean, _ in found),
            "points",
            "main",
            sd=tuple(_read(model, mean, std) * MS for _, _, mean, std in found),
            said=said,
        ),
        Series("measured", x, tuple((s.latency or 0.0) * MS for _, s, _, _ in found), "points", "second", said=said),
    )
    says = (
        f"{near} of {len(found)} came within two standard deviations ({format_percent(near / len(found))}), each expected"
        " from what was run before it."
    )
    return Plot(
        name,
        title,
        says,
        Axis("configuration, in the order of their runs", whole=True),
        Axis("latency (ms)"),
        series,
        (Level(model.latency_target * MS, f"target {format_seconds(model.latency_target)}"),),
    )


def _along(model: BenefitModel, operators: Sequence[str], centre: Mapping[str, int], i: int) -> NDArray[np.int64]:
    """From the floor to P_max."""
    low, high = model.floor[i], model.p_max[i]
    places = np.unique(np.linspace(low, high, min(PLACES, high - low + 1)).round().astype(np.int64))
    at = [centre[operator] for operator in operators]
    ks = np.tile(np.clip(np.array(at, dtype=np.int64), model.floor, model.p_max), (len(places), 1))
    ks[:, i] = places
    return ks


def _latency(model: BenefitModel, ks: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """In seconds."""
    mean, std = model.log_ratio(ks)
    latency = model.latency_target * np.exp(mean)
    return latency, latency * std


def _read(model: BenefitModel, mean: float, std: float) -> float:
    """The deviation of a reading there: of the latency, and of the reading itself."""
    return math.hypot(std, mean * model.noise)


def _on_slice(sample: ModelSample, operators: Sequence[str], centre: Mapping[str, int], i: int) -> bool:
    return all(sample.k[j] == centre[operator] for j, operator in enumerate(operators) if j != i)


def _measured(operators: Sequence[str], sample: ModelSample) -> str:
    k = ", ".join(f"{operator} {n}" for operator, n in zip(operators, sample.k, strict=True))
    windows = "" if sample.windows == 1 else f" in {sample.windows} windows"
    return f"{k}: {format_seconds(sample.latency or 0.0)}{windows}"
