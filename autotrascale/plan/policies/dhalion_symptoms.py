"""Dhalion's detectors and diagnosers (VLDB '17, §5).

| symptom | detector                                                                     | unit    |
|---------|------------------------------------------------------------------------------|---------|
| s       | back-pressure that an operator causes: sum over its upstream operators, ≤ 999  | ms/s    |
| x       | records that a source takes in over records offered                            | [0, 1]  |
| hot     | share of records that one instance takes in beyond its even part               | [0, 1]  |
| slow    | instances that take in their part and need far longer for it than their siblings |       |
| q       | records that wait in front of the operator                                     | records |

    s > noise, one instance is hot       skewed: more instances do not divide one key
    s > noise, some instances are slow   slow-instance: more instances do not repair slow ones
    s > noise, else                      under-provisioned
    no s anywhere, q ≈ 0                 over-provisioned

An operator causes back-pressure if its upstream operators are held up and it is not.

differs: Heron does not scale sources. Here a source is an operator like any other. Nothing upstream of it can be held
up; if records wait for it and it is not held up itself, s = 1000·(1 − x).

differs: Heron counts the queue of each instance. A long queue shows a slow instance, a high rate a skewed one. Here
queues are counted by operator, so the rates of instances show both. If an operator's queue is not counted, records wait
at the sources, and the backlog of the job stands for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Literal

from autotrascale.domain import checks
from autotrascale.domain.snapshot import OperatorMetrics, Snapshot, Work
from autotrascale.plan.policies.reasons import HOT_KEY_SHARE

Diagnosis = Literal["skewed", "slow-instance", "under-provisioned", "over-provisioned"]

MAX_BACKPRESSURE_MS = 999.0  # 1000 would divide by zero
_MIN_PART = 0.5  # of the mean records; the rate of an instance with fewer says little


@dataclass(frozen=True)
class Thresholds:
    """The thresholds of the detectors."""

    noise_ms: float = 1.0  # smaller back-pressure per second counts as none
    slow: float = 0.5  # an instance below this share of the median rate is slow
    pending_seconds: float = 0.1  # of input; fewer records are in transit and do not wait

    def __post_init__(self) -> None:
        checks.non_negative("noise_ms", self.noise_ms)
        checks.share("slow", self.slow)
        checks.non_negative("pending_seconds", self.pending_seconds)


@dataclass(frozen=True)
class Symptoms:
    """The symptoms of one operator."""

    operator: str
    instances: int
    pressure: float = 0.0  # s
    hot: float = 0.0
    slow: int = 0
    pending: float | None = None  # q


def find_unknown_backpressure(snapshot: Snapshot) -> list[str]:
    """Return operators whose back-pressure is missing. The last operators of a job cannot be held up by any other."""
    pushing = {upstream for metrics in snapshot.operators.values() for upstream in metrics.upstream}
    return [name for name, metrics in snapshot.operators.items() if name in pushing and metrics.backpressure is None]


def measure_backpressure(snapshot: Snapshot, thresholds: Thresholds) -> dict[str, float]:
    """Return s of every operator that causes back-pressure."""
    noise = thresholds.noise_ms
    held_up = {name: 1000 * (metrics.backpressure or 0.0) for name, metrics in snapshot.operators.items()}
    caused = {
        name: sum(held_up[upstream] for upstream in metrics.upstream)
        if metrics.upstream
        else _measure_source(snapshot, name, thresholds)
        for name, metrics in snapshot.operators.items()
        if held_up[name] <= noise
    }
    return {name: min(MAX_BACKPRESSURE_MS, pressure) for name, pressure in caused.items() if pressure > noise}


def detect_symptoms(snapshot: Snapshot, thresholds: Thresholds) -> list[Symptoms]:
    """Return the symptoms of the operators that cause back-pressure; if none does, of all operators."""
    caused: Mapping[str, float] = measure_backpressure(snapshot, thresholds)
    return [_detect(snapshot, name, caused.get(name, 0.0), thresholds) for name in caused or snapshot.operators]


def diagnose_symptoms(symptoms: Symptoms, snapshot: Snapshot, thresholds: Thresholds) -> Diagnosis | None:
    """Return the diagnosis, or None for a healthy operator and for one whose queue is unknown."""
    if symptoms.pressure > 0:
        if symptoms.hot >= HOT_KEY_SHARE:
            return "skewed"
        return "slow-instance" if symptoms.slow else "under-provisioned"
    has_queue = symptoms.pending is None or symptoms.pending > _records_in_transit(snapshot, thresholds)
    return None if has_queue else "over-provisioned"


def _records_in_transit(snapshot: Snapshot, thresholds: Thresholds) -> float:
    """Return the records that wait although nothing is late: input during a batch waits for the next batch."""
    batch = snapshot.batch_seconds if snapshot.execution == "micro-batch" else None
    return max(thresholds.pending_seconds, batch or 0.0) * snapshot.target_rate


def _measure_source(snapshot: Snapshot, name: str, thresholds: Thresholds) -> float:
    """Return s of a source, in ms of input that is left waiting per second; 0 if it is unknown."""
    metrics, offered = snapshot.operators[name], snapshot.source_rates.get(name, 0.0)
    pending, total = _pending(snapshot, name), metrics.total
    taken_in = total.records_in if total.records_in is not None else total.records_out
    if not offered or taken_in is None or pending is None or pending <= _records_in_transit(snapshot, thresholds):
        return 0.0
    return 1000 * max(0.0, 1 - taken_in / (offered * snapshot.window_seconds))


def _pending(snapshot: Snapshot, name: str) -> float | None:
    own = snapshot.operators[name].backlog_records
    return snapshot.backlog_records if own is None else own


def _detect(snapshot: Snapshot, name: str, pressure: float, thresholds: Thresholds) -> Symptoms:
    metrics = snapshot.operators[name]
    slow = _count_slow(metrics, thresholds.slow)
    return Symptoms(name, metrics.parallelism, pressure, metrics.hot_share, slow, _pending(snapshot, name))


def _count_slow(metrics: OperatorMetrics, share: float) -> int:
    """Count slow instances. If half of them are slow, this is the normal speed, and none counts."""
    mean = sum(work.records_in or 0.0 for work in metrics.instances) / max(1, len(metrics.instances))
    rates = [rate for work in metrics.instances if (rate := _instance_rate(work, mean)) is not None]
    slow = sum(rate < share * median(rates) for rate in rates) if rates else 0
    return slow if 2 * slow < len(rates) else 0


def _instance_rate(work: Work, mean: float) -> float | None:
    """Return records per useful second, or None if the instance took in far less than its part."""
    if not work.records_in or not work.useful_seconds or work.records_in < _MIN_PART * mean:
        return None
    return work.records_in / work.useful_seconds
