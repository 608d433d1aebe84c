"""A live job with a script: a job with given capacities, whose clock only `wait` moves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from autotrascale.closeable import Closeable
from autotrascale.domain.errors import EngineError
from autotrascale.domain.observation import Observation, RescaleResult, RescaleTime
from autotrascale.domain.snapshot import Latency, OperatorMetrics, Snapshot
from autotrascale.domain.topology import Topology, check_parallelism

Parallelism = Mapping[str, int]


def constant_rate(_: float) -> float:
    return 100.0


def constant_latency(_: Parallelism, __: float) -> float:
    return 0.1


@dataclass
class ScriptedLive(Closeable):
    """A live job for tests. Every record passes every operator.

    Args:
        topology: the operators.
        capacity: records per second of useful time of one instance of each operator.
        rate: input rate in records per second at a time.
        latency: mean latency in seconds, without the backlog's part, at a parallelism and a rate.
        p_max: most instances of an operator.
        standstill_seconds: time without output of a rescale.
        rescale_time: expected time of a rescale, as observations report it.
        name: name of the job.
        simulated: whether the job reports as simulated.
        looks: events by the number of the observation, from 1: a function changes it, an exception is raised.
        rescales: events by the number of the rescale, from 1. A text fails it half way, which leaves the old
            parallelism.
        now: clock in seconds.
        running: parallelism that runs; None while the job does not run.
        left_running: parallelism at the last `kill` or `close`, with which the job starts again.
        backlog: waiting records.
        asked: parallelism of every requested rescale.
        started: parallelism after every start.
        observed: number of observations.
        closed: number of calls of `close`.
        unmeasured_seconds: time since the last observation or rescale.
    """

    topology: Topology
    capacity: Mapping[str, float]
    rate: Callable[[float], float] = constant_rate
    latency: Callable[[Parallelism, float], float] = constant_latency
    p_max: int = 16
    standstill_seconds: float = 2.0
    rescale_time: RescaleTime | None = None
    name: str = "scripted"
    simulated: bool = True
    looks: Mapping[int, BaseException | Callable[[Observation], Observation]] = field(default_factory=dict)
    rescales: Mapping[int, str | BaseException | Callable[[RescaleResult], RescaleResult]] = field(default_factory=dict)
    now: float = 0.0
    running: dict[str, int] | None = None
    left_running: dict[str, int] | None = None
    backlog: float = 0.0
    asked: list[dict[str, int]] = field(default_factory=list)
    started: list[dict[str, int]] = field(default_factory=list)
    observed: int = 0
    closed: int = 0
    unmeasured_seconds: float = 0.0

    def start(self, parallelism: Parallelism) -> Observation:
        check_parallelism(self.topology, parallelism, self.p_max)
        if self.running is None:
            self.running = dict(self.left_running or parallelism)
            self.started.append(self.running)
        return self._observe()

    def observe(self) -> Observation:
        self.observed += 1
        observation = self._observe()
        match self.looks.get(self.observed):
            case None:
                return observation
            case BaseException() as error:
                raise error
            case change:
                return change(observation)

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
        self.wait(self.standstill_seconds)
        self.unmeasured_seconds = 0.0
        if isinstance(surprise, str):
            return RescaleResult(self.now, False, dict(self.running), self.standstill_seconds, detail=surprise)
        self.running = dict(parallelism)
        done = RescaleResult(
            self.now, True, dict(self.running), self.standstill_seconds, {"standstill": self.standstill_seconds}
        )
        return done if surprise is None else surprise(done)

    def wait(self, seconds: float) -> None:
        carried = self._carried(self.rate(self.now)) if self.running else 0.0
        self.backlog = max(0.0, self.backlog + (self.rate(self.now) - carried) * seconds)
        self.now += seconds
        self.unmeasured_seconds += seconds

    def kill(self) -> None:
        self.left_running, self.running = self.running or self.left_running, None

    def close(self) -> None:
        self.kill()
        self.closed += 1

    def _observe(self) -> Observation:
        if self.running is None:
            return Observation(self.now, None, None, detail="the job does not run")
        if self.unmeasured_seconds == 0:
            return Observation(
                self.now, dict(self.running), None, detail="nothing was measured since the last observation"
            )
        window, self.unmeasured_seconds = self.unmeasured_seconds, 0.0
        return Observation(
            self.now, dict(self.running), self._snapshot(window), measured_at=self.now, rescale=self.rescale_time
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


def stale_metrics(seconds: float) -> Callable[[Observation], Observation]:
    """Return a change that makes the metrics of an observation `seconds` old."""
    return lambda observation: replace(observation, measured_at=observation.at - seconds)


def drop_metrics(observation: Observation) -> Observation:
    return replace(observation, snapshot=None, measured_at=None, detail="the metrics did not come")


def shift_clock(seconds: float) -> Callable[[Observation], Observation]:
    """Return a change that moves the job's clock by `seconds` for one observation."""
    return lambda observation: replace(
        observation,
        at=observation.at + seconds,
        measured_at=None if observation.measured_at is None else observation.measured_at + seconds,
    )


def unreachable_error() -> EngineError:
    return EngineError("the engine cannot be reached")
