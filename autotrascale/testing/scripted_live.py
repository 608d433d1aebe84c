"""A live job that does what a test says: a chain of operators with given capacities, on a clock that `wait` moves.

`rate` and `latency` are functions of time and of what runs. `looks` and `rescales` name what happens instead of the
n-th one, counted from 1: a function changes what would have been answered, an exception is raised; a text for a
rescale is why it fails half way, which leaves the job at its old parallelism.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Self

from autotrascale.domain.errors import EngineError
from autotrascale.domain.observation import RescaleTime
from autotrascale.domain.snapshot import Latency, OperatorMetrics, Snapshot
from autotrascale.domain.topology import Topology, check_parallelism
from autotrascale.execute.live_job import Observation, RescaleResult

Parallelism = Mapping[str, int]


def constant_rate(_: float) -> float:
    return 100.0


def constant_latency(_: Parallelism, __: float) -> float:
    return 0.1


@dataclass
class ScriptedLive:
    """Every record passes every operator. `capacity` is of one instance, in records per second of useful time."""

    topology: Topology
    capacity: Mapping[str, float]
    rate: Callable[[float], float] = constant_rate
    latency: Callable[[Parallelism, float], float] = constant_latency
    p_max: int = 16
    downtime: float = 2.0
    says: RescaleTime | None = None  # what a rescale would take
    name: str = "scripted"
    simulated: bool = True
    looks: Mapping[int, BaseException | Callable[[Observation], Observation]] = field(default_factory=dict)
    rescales: Mapping[int, str | BaseException | Callable[[RescaleResult], RescaleResult]] = field(default_factory=dict)
    now: float = 0.0
    running: dict[str, int] | None = None
    left: dict[str, int] | None = None  # what ran when it was closed, or killed
    backlog: float = 0.0
    asked: list[dict[str, int]] = field(default_factory=list)  # every rescale asked for
    started: list[dict[str, int]] = field(default_factory=list)  # what it ran with after every start
    looked: int = 0
    closed: int = 0
    unseen: float = 0.0

    def start(self, parallelism: Parallelism) -> Observation:
        check_parallelism(self.topology, parallelism, self.p_max)
        if self.running is None:
            self.running = dict(self.left or parallelism)
            self.started.append(self.running)
        return self._look()

    def look(self) -> Observation:
        self.looked += 1
        look = self._look()
        match self.looks.get(self.looked):
            case None:
                return look
            case BaseException() as error:
                raise error
            case change:
                return change(look)

    def rescale(self, parallelism: Parallelism) -> RescaleResult:
        check_parallelism(self.topology, parallelism, self.p_max)
        if self.running is None:
            return RescaleResult(self.now, False, None, detail="the job does not run")
        if dict(parallelism) == self.running:
            return RescaleResult(self.now, True, dict(self.running))
        self.asked.append(dict(parallelism))
        surprise = self.rescales.get(len(self.asked))
        if isinstance(surprise, BaseException):
            raise surprise
        self.wait(self.downtime)
        self.unseen = 0.0
        if isinstance(surprise, str):
            return RescaleResult(self.now, False, dict(self.running), self.downtime, detail=surprise)
        self.running = dict(parallelism)
        done = RescaleResult(self.now, True, dict(self.running), self.downtime, {"standstill": self.downtime})
        return done if surprise is None else surprise(done)

    def wait(self, seconds: float) -> None:
        carried = self._carried(self.rate(self.now)) if self.running else 0.0
        self.backlog = max(0.0, self.backlog + (self.rate(self.now) - carried) * seconds)
        self.now += seconds
        self.unseen += seconds

    def kill(self) -> None:
        self.left, self.running = self.running or self.left, None

    def close(self) -> None:
        self.kill()
        self.closed += 1

    def _look(self) -> Observation:
        if self.running is None:
            return Observation(self.now, None, None, detail="the job does not run")
        if self.unseen == 0:
            return Observation(self.now, dict(self.running), None, detail="nothing was measured since the last look")
        window, self.unseen = self.unseen, 0.0
        return Observation(
            self.now, dict(self.running), self._snapshot(window), measured_at=self.now, rescale=self.says
        )

    def _carried(self, offered: float) -> float:
        running = self.running or {}
        most = min(k * self.capacity[name] for name, k in running.items())
        return most if self.backlog > 0 else min(offered, most)

    def _snapshot(self, window: float) -> Snapshot:
        offered, running = self.rate(self.now), self.running or {}
        carried = self._carried(offered)
        mean = self.latency(running, offered) + self.backlog / max(carried, 1e-9)
        return Snapshot(
            job=self.name,
            window_seconds=window,
            p_max=self.p_max,
            source_rates={name: offered / len(self.topology.sources) for name in self.topology.sources},
            operators={
                name: OperatorMetrics(
                    carried * window,
                    carried * window,
                    carried * window / self.capacity[name],
                    parallelism=running[name],
                    upstream=operator.upstream,
                    stateful=operator.stateful,
                    minimum=operator.minimum,
                    maximum=operator.maximum,
                )
                for name, operator in self.topology.operators.items()
            },
            throughput=carried,
            latency_seconds=Latency(mean=mean, p95=2 * mean),
            backlog_records=self.backlog,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def stale_metrics(seconds: float) -> Callable[[Observation], Observation]:
    """Metrics that are so old."""
    return lambda look: replace(look, measured_at=look.at - seconds)


def drop_metrics(look: Observation) -> Observation:
    return replace(look, snapshot=None, measured_at=None, detail="the metrics did not come")


def shift_clock(seconds: float) -> Callable[[Observation], Observation]:
    """The job's clock jumps by so much, for this look."""
    return lambda look: replace(
        look, at=look.at + seconds, measured_at=None if look.measured_at is None else look.measured_at + seconds
    )


def unreachable_error() -> EngineError:
    return EngineError("the engine cannot be reached")
