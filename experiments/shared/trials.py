"""Tuning runs on real Spark as plain data, and what documents say of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from types import TracebackType
from typing import Any, Self

from autotrascale.domain.job import Job
from autotrascale.domain.trial import Trial, Verdict
from autotrascale.execute.engine import Engine
from autotrascale.plan.sizing.floor_search import ThroughputSearch
from autotrascale.tuning import Evaluation, Outcome
from experiments.shared.claim import Result
from experiments.shared.documents import vector

NOISE = 0.05  # of a throughput that is measured in a window of seconds
MOST_STEPS = 8  # of a search for the floor


class SameStart:
    """All policies begin at the same parallelism, and are told the same reading of it: measured once."""

    simulated = False

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._first: dict[tuple[int, ...], Trial] = {}
        self._begun = False

    def begin(self) -> None:
        """Of a case: its next trial is its first."""
        self._begun = False

    def run(self, parallelism: Mapping[str, int], source_rates: Mapping[str, float]) -> Trial:
        first, self._begun = not self._begun, True
        k = tuple(parallelism.values())
        if first and k in self._first:
            return self._first[k]
        trial = self._engine.run(parallelism, source_rates)
        if first and trial.verdict is not Verdict.FAILED:
            self._first[k] = trial
        return trial

    def close(self) -> None:
        """The engine is the caller's."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def find_floor(job: Job, engine: Engine) -> dict[str, Any]:
    """AuTraScale §III-C as it is printed, from ones: size by true rates, run, until the rate is carried or the same
    comes again; then the run that carried most, on the fewest instances."""
    search = ThroughputSearch(
        job.topology,
        job.source_rates,
        job.p_max,
        target=job.target,
        tolerance=job.target.throughput_tolerance,
        noise=NOISE,
        max_steps=MOST_STEPS,
    )
    trials = []
    while not search.finished:
        trial = engine.run(search.ask(), job.source_rates)
        steady = trial.verdict is Verdict.STABLE
        throughput = None if trial.snapshot is None else trial.snapshot.throughput
        trials.append(
            {
                "k": list(trial.parallelism.values()),
                "verdict": trial.verdict.value,
                "throughput": throughput,
                "starved": trial.shortage is not None,
            }
        )
        search.tell(trial.snapshot, keeps_up=steady)
    found = search.result
    return {
        "rate": job.rate,
        "operators": list(job.topology),
        "floor": list(found.parallelism.values()),
        "met": found.met,
        "stop_reason": str(found.stop_reason),
        "trials": trials,
    }


def told(outcome: Outcome) -> dict[str, Any]:
    """`qos`: as measured where it ended, the same for all: rate carried, latency within the target."""
    best, target = outcome.best, outcome.job.target.latency_seconds
    k = list(best.parallelism.values())
    return {
        "rate": outcome.job.rate,
        "target": target,
        "operators": list(best.parallelism),
        "k": k,
        "tasks": sum(k),
        "slots": max(k),
        "latency": best.latency_seconds,
        "throughput": best.throughput,
        "qos": best.latency_seconds is not None and best.latency_seconds <= target,
        "stop_reason": outcome.stop_reason,
        "trials": [_trial(each) for each in outcome.evaluations],
    }


def _trial(each: Evaluation) -> dict[str, Any]:
    return {
        "k": list(each.parallelism.values()),
        "phase": each.phase,
        "verdict": each.verdict.value,
        "latency": each.latency_seconds,
        "throughput": each.throughput,
        "seconds": round(each.seconds, 1),
        "starved": each.shortage is not None,
    }


def line(found: Result) -> str:
    if "floor" in found:
        return f"floor {found['floor']}, {len(found['trials'])} runs, {found['stop_reason']}"
    return f"{found['k']}, {latency(found)}, {len(found['trials'])} trials, {found['stop_reason']}"


def latency(found: Result) -> str:
    return "falls behind" if found["latency"] is None else f"{found['latency']:.2f} s"


def carried(found: Result) -> str:
    return "–" if found["throughput"] is None else f"{100 * found['throughput'] / found['rate']:.0f} %"


def held(found: Result) -> str:
    return "held" if found["qos"] else "missed"


def way(steps: Sequence[Result]) -> str:
    """What ran, without the same twice in a row."""
    ks = [tuple(each["k"]) for each in steps]
    return " → ".join(vector(k) for i, k in enumerate(ks) if i == 0 or k != ks[i - 1])


def circumstances(result: Result) -> str:
    """The machine, and what else it did."""
    cases, machine = result["cases"].values(), result["machine"]
    if not cases:
        return "Not measured yet."
    loads = sorted(each["load_before"] for each in cases)
    trials = [each for case in cases for each in case.get("trials", case.get("points", ()))]
    starved = sum(each["starved"] for each in trials)
    short = f"; in {starved} of {len(trials)} trials the job was short of cores" if trials else ""
    slow = result["slow"]
    crowded = (
        ""
        if slow == 1
        else f" So it was measured with --slow {slow:g}: rates divided by it, stalls, targets and windows longer by it."
    )
    return (
        f"Real {result['engine']}, {machine['cores']} cores, Python {machine['python']}, {len(cases)} cases, "
        f"{sum(each['seconds'] for each in cases) / 60:.0f} minutes. The machine's load before a case was"
        f" {median(loads):.0f} in the median ({loads[0]:.0f} to {loads[-1]:.0f}){short}.{crowded}"
    )
