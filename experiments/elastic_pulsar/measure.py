"""The three policies of Elastic Pulsar Functions on its image application (§5, Figs. 3 to 8), simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autotrascale.domain.snapshot import OperatorMetrics, Snapshot
from autotrascale.domain.target import Target
from autotrascale.plan.policies.base import Policy
from autotrascale.plan.policies.registry import create
from experiments.elastic_pulsar.functions import Function, Record, Tally
from experiments.shared.published import published

SETTINGS = published("elastic_pulsar/settings")
POLICIES = ("threshold", "queueing-path", "ds2")
SEEDS = 10
# Ours: the paper prints neither service times nor rates. Object recognition needs 0.9 to 3 instances.
SERVICE = {"thumbnail": (0.04, 0.25), "resize": (0.04, 0.25), "recognise": (0.3, 0.25)}  # mean, cv²
UPSTREAM = {"thumbnail": ("topic",), "resize": ("topic",), "recognise": ("resize",)}
RATES = (3.0, 6.0, 9.0, 5.0, 8.0, 10.0, 4.0, 7.0, 3.0)  # images/s, ten minutes each


def cases() -> Sequence[Mapping[str, Any]]:
    return [{"policy": policy, "seed": seed} for policy in POLICIES for seed in range(SEEDS)]


def measure(case: Mapping[str, Any]) -> Mapping[str, Any]:
    target = Target(SETTINGS["response_target"])
    known = {name: SETTINGS[name] for name in ("scale_in", "scale_out", "cap")} if case["policy"] == "threshold" else {}
    return run(create(case["policy"], target, known), RATES, case["seed"])


def run(policy: Policy, rates: Sequence[float], seed: int) -> Mapping[str, Any]:
    """Decisions every interval, carried out at once. Response times are of the path that ends in recognition."""
    rng = np.random.default_rng([seed, 5])
    functions = {name: Function(mean, cv2, rng) for name, (mean, cv2) in SERVICE.items()}
    interval, now = float(SETTINGS["interval"]), 0.0
    responses: list[float] = []
    looks: list[dict[str, float]] = []
    for rate in rates:
        for _ in range(round(SETTINGS["span"] / interval)):
            arrived = _arrivals(rng, rate, now, interval)
            now += interval
            functions["thumbnail"].run(now, arrived)
            resized = functions["resize"].run(now, arrived)
            answered = [at - origin for at, origin in functions["recognise"].run(now, resized)]
            responses += answered
            looks.append(
                {
                    "minute": now / 60,
                    "instances": sum(each.k for each in functions.values()),
                    "backlog": functions["recognise"].backlog,
                    "response": float(np.mean(answered)) if answered else 0.0,
                }
            )
            decided = policy.decide(_snapshot(functions, len(arrived), interval)).parallelism
            for name, function in functions.items():
                function.k = decided[name]
    instances = [look["instances"] for look in looks]
    return {
        "instances_mean": float(np.mean(instances)),
        "instances_most": max(instances),
        "response_mean": float(np.mean(responses)),
        "response_peak": max(responses),
        "within": float(np.mean(np.array(responses) <= SETTINGS["response_target"])),
        "looks": looks,
    }


def _arrivals(rng: np.random.Generator, rate: float, start: float, seconds: float) -> list[Record]:
    """A Poisson stream."""
    at = np.sort(rng.uniform(start, start + seconds, rng.poisson(rate * seconds)))
    return [(float(t), float(t)) for t in at]


def _snapshot(functions: Mapping[str, Function], arrived: int, interval: float) -> Snapshot:
    """What a monitor sees. The topic is the source: it gives what came, and is nobody's to scale."""
    tallies = {name: function.window() for name, function in functions.items()}
    operators = {"topic": OperatorMetrics(arrived, arrived, 1e-6, parallelism=1, maximum=1, backlog_records=0.0)}
    for name, function in functions.items():
        operators[name] = _metrics(tallies[name], function, UPSTREAM[name])
    return Snapshot("images", interval, SETTINGS["cap"], {"topic": arrived / interval}, operators)


def _metrics(tally: Tally, function: Function, upstream: tuple[str, ...]) -> OperatorMetrics:
    done = len(tally.services)
    return OperatorMetrics(
        records_in=done,
        records_out=done,
        useful_seconds=float(sum(tally.services)),
        parallelism=function.k,
        upstream=upstream,
        backlog_records=float(function.backlog),
        arrival_cv2=_cv2(np.diff(tally.arrivals)),
        service_cv2=_cv2(np.array(tally.services)),
    )


def _cv2(values: Any) -> float | None:
    """Of a few values nothing is known."""
    if len(values) < 3 or not values.mean():
        return None
    return float(values.var() / values.mean() ** 2)
