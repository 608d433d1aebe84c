"""An engine with a script: a job with given capacities and a given latency, whose trials take no time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from autotrascale.closeable import Closeable
from autotrascale.domain.errors import EngineError
from autotrascale.domain.snapshot import Latency, OperatorMetrics, Snapshot
from autotrascale.domain.topology import Topology, check_parallelism, check_source_rates
from autotrascale.domain.trial import Trial, Verdict

WINDOW = 60.0
Parallelism = Mapping[str, int]


def constant_latency(_: Parallelism) -> float:
    return 0.1


@dataclass
class ScriptedEngine(Closeable):
    """An engine for tests. Every record passes every operator.

    Args:
        topology: the operators.
        capacity: records per second of useful time of one instance of each operator.
        latency: mean latency in seconds at a parallelism.
        p_max: most instances of an operator.
        surprises: events by the number of the trial, from 1. A text fails the trial, an exception is raised, and a
            function changes the trial.
        simulated: whether the engine reports as simulated.
        asked: parallelism of every trial so far.
        closed: number of calls of `close`.
    """

    topology: Topology
    capacity: Mapping[str, float]
    latency: Callable[[Parallelism], float] = constant_latency
    p_max: int = 16
    surprises: Mapping[int, str | BaseException | Callable[[Trial], Trial]] = field(default_factory=dict)
    simulated: bool = True
    asked: list[dict[str, int]] = field(default_factory=list)
    closed: int = 0

    def run(self, parallelism: Parallelism, source_rates: Mapping[str, float]) -> Trial:
        if self.closed:
            raise EngineError("the scripted engine is closed")
        self._check(parallelism, source_rates)
        moved = bool(self.asked) and self.asked[-1] != dict(parallelism)
        self.asked.append(dict(parallelism))
        trial = replace(self._measure(parallelism, source_rates), standstill_seconds=1.0 if moved else 0.0)
        match self.surprises.get(len(self.asked)):
            case None:
                return trial
            case str(detail):
                return replace(trial, verdict=Verdict.FAILED, snapshot=None, detail=detail)
            case BaseException() as error:
                raise error
            case change:
                return change(trial)

    def _measure(self, parallelism: Parallelism, source_rates: Mapping[str, float]) -> Trial:
        offered = sum(source_rates.values())
        carried = min([offered, *(k * self.capacity[name] for name, k in parallelism.items())])
        keeps_up = carried >= offered
        mean = self.latency(parallelism)
        snapshot = Snapshot(
            job="scripted",
            window_seconds=WINDOW,
            p_max=self.p_max,
            source_rates=dict(source_rates),
            operators={
                name: OperatorMetrics(
                    carried * WINDOW,
                    carried * WINDOW,
                    carried * WINDOW / self.capacity[name],
                    parallelism=parallelism[name],
                    upstream=operator.upstream,
                    stateful=operator.stateful,
                    minimum=operator.minimum,
                    maximum=operator.maximum,
                )
                for name, operator in self.topology.operators.items()
            },
            throughput=carried,
            latency_seconds=Latency(mean=mean, p95=2 * mean) if keeps_up else Latency(),
        )
        verdict = Verdict.STABLE if keeps_up else Verdict.CANNOT_KEEP_UP
        return Trial(dict(parallelism), verdict, snapshot, "" if keeps_up else "falls behind")

    def _check(self, parallelism: Parallelism, source_rates: Mapping[str, float]) -> None:
        check_parallelism(self.topology, parallelism, self.p_max)
        check_source_rates(self.topology, source_rates)

    def close(self) -> None:
        self.closed += 1
