"""Wrong, late and missing measurements of a job whose truth is known.

A history is a scripted job with a changing rate. Many observations in the middle are spoiled; the last ones are true.
The control loop must not raise an error, and two things must not happen.

A *wrong scaling* is a rescale that the truth does not justify. `need` is the number of instances that the highest true
rate within an hour before and after needs:

    up      an operator gets more than 2 · need + 2, or grows from more than 1.5 · need + 2 without a backlog
    down    an operator gets less than the present true rate needs

A *lasting failure* is a job that has too few instances or a backlog of a minute at the end, after half an hour of true
observations at a steady rate.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from autotrascale.domain.errors import EngineError, InputError
from autotrascale.domain.observation import Observation, RescaleResult
from autotrascale.domain.snapshot import Latency, OperatorMetrics, Snapshot
from autotrascale.domain.topology import Topology
from autotrascale.testing.scripted_live import ScriptedLive

TOPOLOGY = Topology.chain("source", "work", "sink")
CAPACITY: Mapping[str, float] = {"source": 400.0, "work": 50.0, "sink": 200.0}
INTERVAL, GOOD_LOOKS, BAD_LOOKS, LAST_LOOKS = 30.0, 10, 60, 80
SECONDS = INTERVAL * (GOOD_LOOKS + BAD_LOOKS + LAST_LOOKS)
TARGET = 0.5
FULLEST = 0.93  # busy share up to which `latency` is within the target
GENEROUS, HALF_AGAIN = 2.0, 1.5
LEVELS = (60.0, 120.0, 200.0, 320.0, 450.0)

Spoil = Callable[[random.Random, Observation, Observation | None], Observation]


def latency(running: Mapping[str, int], rate: float) -> float:
    """Return the true latency in seconds: 0.1 s and a queue at each operator."""
    busy = [min(rate / (k * CAPACITY[name]), 0.98) for name, k in running.items()]
    return 0.1 + sum(0.01 * share / (1 - share) for share in busy)


def needed_instances(rate: float) -> dict[str, int]:
    """Return the least instances that process the rate."""
    return {name: max(1, math.ceil(rate / each - 1e-9)) for name, each in CAPACITY.items()}


def make_observation(
    at: float, running: Mapping[str, int], take: Callable[[], Snapshot], measured_at: float | None = None
) -> Observation:
    """Return an observation with the snapshot that `take` returns.

    A monitor may report impossible numbers, which `take` refuses with `InputError`. The observation then has no
    snapshot, and its `detail` names the error.
    """
    try:
        return Observation(at, running, take(), measured_at)
    except InputError as error:
        return Observation(at, running, None, measured_at, f"the measurements are impossible: {error}")


@dataclass
class BadLiveJob(ScriptedLive):
    """A scripted job with spoiled observations, which detects wrong scalings."""

    seed: int = 0
    wrong: list[str] = field(default_factory=list)
    spoiled: dict[str, int] = field(default_factory=dict)
    before: Observation | None = None

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.share = self.rng.choice((0.2, 0.5, 0.8))
        self.favourite = self.rng.choice(list(SPOILS))  # is chosen more often

    def observe(self) -> Observation:
        true = super().observe()
        before, self.before = self.before, true
        if not GOOD_LOOKS < self.observed <= GOOD_LOOKS + BAD_LOOKS or self.rng.random() > self.share:
            return true
        name = self.favourite if self.rng.random() < 0.3 else self.rng.choice(list(SPOILS))
        self.spoiled[name] = self.spoiled.get(name, 0) + 1
        return SPOILS[name](self.rng, true, before)

    def rescale(self, parallelism: Mapping[str, int]) -> RescaleResult:
        if problem := self._find_wrong_scaling(parallelism):
            self.wrong.append(
                f"{self.now:.0f} s, {self.rate(self.now):.0f}/s: {self.running} → {dict(parallelism)}: {problem}"
            )
        return super().rescale(parallelism)

    def find_lasting_failure(self) -> str | None:
        """Return a description of a lasting failure, or None."""
        least, running = needed_instances(self.rate(self.now)), self.running or {}
        short = [name for name, k in least.items() if running.get(name, 0) < k]
        if short or self.backlog > 60 * self.rate(self.now):
            return f"ends with {running} and a backlog of {self.backlog:.0f}, needs {least}"
        return None

    def _find_wrong_scaling(self, wanted: Mapping[str, int]) -> str | None:
        least, hour = needed_instances(self.rate(self.now)), range(-3600, 3601, 60)
        most = needed_instances(max(self.rate(max(0.0, self.now + dt)) for dt in hour))
        waits = self.backlog > 2 * self.rate(self.now)
        for name, k in wanted.items():
            has = (self.running or {})[name]
            if k < least[name] and k < has:
                return f"{name} needs {least[name]}"
            if k > has and (k > GENEROUS * most[name] + 2 or (has > HALF_AGAIN * most[name] + 2 and not waits)):
                return f"{name} needs no more than {most[name]}"
        return None


def draw_history(seed: int) -> BadLiveJob:
    rng = random.Random(f"rates of {seed}")
    levels = [rng.choice(LEVELS) for _ in range(1 + int(SECONDS // 1500))]
    steady = levels[int((GOOD_LOOKS + BAD_LOOKS - 20) * INTERVAL // 1500)]

    def rate(t: float) -> float:
        return steady if t >= (GOOD_LOOKS + BAD_LOOKS - 20) * INTERVAL else levels[int(t // 1500)]

    return BadLiveJob(
        TOPOLOGY, CAPACITY, rate, latency, p_max=40, seed=seed, standstill_seconds=rng.choice((2.0, 20.0, 60.0))
    )


def choose_start(job: BadLiveJob) -> dict[str, int]:
    """Return a first parallelism with 20 % to spare."""
    return {name: math.ceil(1.2 * k) for name, k in needed_instances(job.rate(0.0)).items()}


# --- ways to spoil an observation -------------------------------------------------------------------------------------


def _changed(**change: Callable[[random.Random, Snapshot], object]) -> Spoil:
    """Change fields of the snapshot. The observation has no snapshot if a value is impossible."""

    def spoil(rng: random.Random, look: Observation, _: Observation | None) -> Observation:
        shot = look.snapshot
        if shot is None:
            return look
        new = {name: value(rng, shot) for name, value in change.items()}
        return make_observation(look.at, look.running or {}, lambda: replace(shot, **new), look.measured_at)  # type: ignore[arg-type]

    return spoil


def _operators(change: Callable[[random.Random, OperatorMetrics], Mapping[str, object]], *, all_of_them: bool) -> Spoil:
    def spoil(rng: random.Random, look: Observation, _: Observation | None) -> Observation:
        shot = look.snapshot
        if shot is None:
            return look
        names = list(shot.operators) if all_of_them else [rng.choice(list(shot.operators))]

        def make() -> Snapshot:
            changed = {name: replace(shot.operators[name], **change(rng, shot.operators[name])) for name in names}  # type: ignore[arg-type]
            return replace(shot, operators={**shot.operators, **changed})

        return make_observation(look.at, look.running or {}, make, look.measured_at)

    return spoil


def _no_snapshot(_: random.Random, look: Observation, __: Observation | None) -> Observation:
    return replace(look, snapshot=None, measured_at=None, detail="the metrics are missing")


def _at_another_time(seconds: tuple[float, ...]) -> Spoil:
    return lambda rng, look, _: replace(look, measured_at=look.at + rng.choice(seconds))


def _again(rng: random.Random, look: Observation, before: Observation | None) -> Observation:
    """Repeat the snapshot of the observation before, with or without its time."""
    if before is None or before.snapshot is None:
        return look
    return replace(before, at=look.at, running=look.running, measured_at=rng.choice((before.measured_at, None)))


def _operator_missing(rng: random.Random, look: Observation, _: Observation | None) -> Observation:
    shot = look.snapshot
    if shot is None:
        return look
    last = list(shot.operators)[-1]
    left = {name: metrics for name, metrics in shot.operators.items() if name != last}
    running = {name: k for name, k in (look.running or {}).items() if name != last}
    return replace(look, snapshot=replace(shot, operators=left), running=rng.choice((look.running, running)))


def _operator_surplus(rng: random.Random, look: Observation, _: Observation | None) -> Observation:
    shot, more = look.snapshot, OperatorMetrics(10.0, 10.0, 1.0, parallelism=3, upstream=("work",))
    if shot is None:
        return look
    running = {**(look.running or {}), "stranger": 3}
    return replace(
        look,
        snapshot=replace(shot, operators={**shot.operators, "stranger": more}),
        running=rng.choice((look.running, running)),
    )


def _other_parallelism(rng: random.Random, look: Observation, _: Observation | None) -> Observation:
    name = rng.choice(list(look.running or {}))
    return replace(look, running={**(look.running or {}), name: rng.choice((0, -1, 39, 10**9))})


def _clock(rng: random.Random, look: Observation, _: Observation | None) -> Observation:
    by = rng.choice((-5000.0, -40.0, 7000.0, 3 * 86_400.0, 1e300, math.nan, math.inf))
    return replace(look, at=look.at + by, measured_at=None if look.measured_at is None else look.measured_at + by)


def _unreachable(_: random.Random, __: Observation, ___: Observation | None) -> Observation:
    raise EngineError("the engine cannot be reached")


NONSENSE = (math.nan, math.inf, -math.inf, -1.0)
SPOILS: Mapping[str, Spoil] = {
    "no snapshot": _no_snapshot,
    "unreachable": _unreachable,
    "stale": _at_another_time((-600.0, -86_400.0)),
    "future": _at_another_time((60.0, 86_400.0, math.inf)),
    "no time": lambda _, look, __: replace(look, measured_at=None),
    "again": _again,
    "clock": _clock,
    "operator missing": _operator_missing,
    "operator surplus": _operator_surplus,
    "other parallelism": _other_parallelism,
    "no latency": _changed(latency_seconds=lambda _, __: Latency()),
    "latency for ever": _changed(latency_seconds=lambda rng, _: Latency(mean=rng.choice((1e6, 1e9, 1e300)))),
    "useful nonsense": _operators(lambda rng, _: {"useful_seconds": rng.choice(NONSENSE)}, all_of_them=False),
    "short window": _changed(window_seconds=lambda rng, _: rng.choice((1e-6, 1e-12, 0.0))),
    "rate nonsense": _changed(source_rates=lambda rng, _: {"source": rng.choice(NONSENSE)}),
    "rate far off": _changed(
        source_rates=lambda rng, s: {"source": s.target_rate * rng.choice((1e-3, 50.0, 1e6, 1e200))}
    ),
    "throughput far off": _changed(throughput=lambda rng, s: (s.throughput or 1.0) * rng.choice((20.0, 1e9))),
    "no throughput": _changed(throughput=lambda _, __: 0.0),
    "unknown throughput": _changed(throughput=lambda _, __: None),
    "backlog far off": _changed(backlog_records=lambda rng, s: s.target_rate * rng.choice((1e3, 1e6, 1e200))),
    "backlog gone": _changed(backlog_records=lambda _, __: 0.0),
    "backlog unknown": _changed(backlog_records=lambda _, __: None),
    "useful for too long": _operators(lambda _, __: {"useful_seconds": 1e6}, all_of_them=False),
    "useful for an instant": _operators(
        lambda rng, m: {"useful_seconds": (m.useful_seconds or 0) * rng.choice((1e-3, 1e-9))}, all_of_them=False
    ),
    "no useful time": _operators(lambda rng, _: {"useful_seconds": rng.choice((0.0, None))}, all_of_them=False),
    "no records": _operators(
        lambda rng, _: {"records_in": rng.choice((0.0, None)), "records_out": rng.choice((0.0, None))},
        all_of_them=False,
    ),
    "nothing known": _operators(
        lambda _, __: {"records_in": None, "records_out": None, "useful_seconds": None}, all_of_them=True
    ),
}
