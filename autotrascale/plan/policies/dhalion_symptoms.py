"""What Dhalion sees of a job and makes of it: its detectors and its diagnosers (VLDB '17, §5).

| symptom | detector                                                                     | unit    |
|---------|------------------------------------------------------------------------------|---------|
| s       | back-pressure that an operator causes, summed over those it holds up, ≤ 999     | ms/s    |
| x       | what a source takes in of what is offered to it                                | [0, 1]  |
| hot     | share that one instance takes in beside its even part                          | [0, 1]  |
| slow    | instances that take in their part and need far longer for it than the others    |         |
| q       | records that wait in front of it                                               | records |

    s > noise, one instance is hot       skewed: more instances do not divide one key
    s > noise, some instances are slow   slow-instance: more instances do not mend those
    s > noise, else                      under-provisioned
    no s anywhere, q ≈ 0                 over-provisioned

The operator that causes back-pressure is the one that is not held up itself while its upstream is.

differs: Heron's sources are not scaled. Here a source is an operator like others: nobody before it could be held up, so
where records wait for it and it is not held up itself, s = 1000·(1 − x).

differs: Heron counts what waits for each instance, and tells a slow one by its long queue and a skewed one by its high
rate beside it. Here queues are counted by operator, so the rates of the instances themselves tell both. Where the queue
of an operator is not counted, what waits for it waits at the sources, and the backlog of the job stands for it.
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
_ITS_PART = 0.5  # of the mean: an instance that takes in less says little of how fast it is


@dataclass(frozen=True)
class Thresholds:
    """When a symptom is one."""

    noise_ms: float = 1.0  # back-pressure of less than this per second counts as none
    slow: float = 0.5  # an instance below this share of the median rate is slow
    pending_seconds: float = 0.1  # of input: less is on its way, and waits for nobody

    def __post_init__(self) -> None:
        checks.non_negative("noise_ms", self.noise_ms)
        checks.share("slow", self.slow)
        checks.non_negative("pending_seconds", self.pending_seconds)


@dataclass(frozen=True)
class Symptoms:
    """Of one operator that causes back-pressure, or of one in a job without any. `pending` is q."""

    operator: str
    instances: int
    pressure: float = 0.0
    hot: float = 0.0
    slow: int = 0
    pending: float | None = None


def find_unknown_backpressure(snapshot: Snapshot) -> list[str]:
    """Operators of which it is not known whether they are held up. The last ones of a job push to nobody, so nobody can
    hold them up, and they need not say so."""
    pushing = {upstream for metrics in snapshot.operators.values() for upstream in metrics.upstream}
    return [name for name, metrics in snapshot.operators.items() if name in pushing and metrics.backpressure is None]


def measure_backpressure(snapshot: Snapshot, thresholds: Thresholds) -> dict[str, float]:
    """s for every operator that causes back-pressure: it is not held up, and operators before it are."""
    noise = thresholds.noise_ms
    held = {name: 1000 * (metrics.backpressure or 0.0) for name, metrics in snapshot.operators.items()}
    caused = {
        name: sum(held[upstream] for upstream in metrics.upstream)
        if metrics.upstream
        else _left_waiting(snapshot, name, thresholds)
        for name, metrics in snapshot.operators.items()
        if held[name] <= noise
    }
    return {name: min(MAX_BACKPRESSURE_MS, pressure) for name, pressure in caused.items() if pressure > noise}


def detect_symptoms(snapshot: Snapshot, thresholds: Thresholds) -> list[Symptoms]:
    """The operators that back-pressure comes from; without any, all of them."""
    caused: Mapping[str, float] = measure_backpressure(snapshot, thresholds)
    return [_of(snapshot, name, caused.get(name, 0.0), thresholds) for name in caused or snapshot.operators]


def diagnose_symptoms(symptoms: Symptoms, snapshot: Snapshot, thresholds: Thresholds) -> Diagnosis | None:
    """None: healthy, or not known to be anything else."""
    if symptoms.pressure > 0:
        if symptoms.hot >= HOT_KEY_SHARE:
            return "skewed"
        return "slow-instance" if symptoms.slow else "under-provisioned"
    waits = symptoms.pending is None or symptoms.pending > _little(snapshot, thresholds)
    return None if waits else "over-provisioned"


def _little(snapshot: Snapshot, thresholds: Thresholds) -> float:
    """Records that wait though nothing is late: what comes during a batch waits for the next."""
    batch = snapshot.batch_seconds if snapshot.execution == "micro-batch" else None
    return max(thresholds.pending_seconds, batch or 0.0) * snapshot.target_rate


def _left_waiting(snapshot: Snapshot, name: str, thresholds: Thresholds) -> float:
    """What a source leaves waiting, of each second's input; none where that is not known."""
    metrics, offered = snapshot.operators[name], snapshot.source_rates.get(name, 0.0)
    pending, total = _pending(snapshot, name), metrics.total
    taken = total.records_in if total.records_in is not None else total.records_out
    if not offered or taken is None or pending is None or pending <= _little(snapshot, thresholds):
        return 0.0
    return 1000 * max(0.0, 1 - taken / (offered * snapshot.window_seconds))


def _pending(snapshot: Snapshot, name: str) -> float | None:
    own = snapshot.operators[name].backlog_records
    return snapshot.backlog_records if own is None else own


def _of(snapshot: Snapshot, name: str, pressure: float, thresholds: Thresholds) -> Symptoms:
    metrics = snapshot.operators[name]
    slow = _slow(metrics, thresholds.slow)
    return Symptoms(name, metrics.parallelism, pressure, metrics.hot_share, slow, _pending(snapshot, name))


def _slow(metrics: OperatorMetrics, share: float) -> int:
    """How many instances are slow. Where half of them are, that is what an instance can do."""
    mean = sum(work.records_in or 0.0 for work in metrics.instances) / max(1, len(metrics.instances))
    rates = [rate for work in metrics.instances if (rate := _rate(work, mean)) is not None]
    slow = sum(rate < share * median(rates) for rate in rates) if rates else 0
    return slow if 2 * slow < len(rates) else 0


def _rate(work: Work, mean: float) -> float | None:
    """Records for each second of useful time, of an instance that took in its part."""
    if not work.records_in or not work.useful_seconds or work.records_in < _ITS_PART * mean:
        return None
    return work.records_in / work.useful_seconds
