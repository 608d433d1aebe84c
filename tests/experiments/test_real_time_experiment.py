"""The experiment in real-time mode without Spark: which arrivals count, and what policies are told of them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autotrascale.domain.job import Job
from autotrascale.domain.target import Target
from autotrascale.domain.trial import Verdict
from autotrascale.plan.policies.registry import known
from autotrascale.plan.sizing.sizing import Sizing, size
from experiments.real_time.engine import TOPOLOGY, RealTimeEngine, trial
from experiments.real_time.measure import LOAD, POLICIES, STARTS, TARGET_SECONDS, UNEVEN, arrivals, cases, measure
from experiments.real_time.query import MODES, P_MAX, Load
from experiments.shared.trials import SameStart

QUEUED = 0.02  # s, between the operators


class FluidQueries:
    """Two operators that take exactly as long as they are told to, and let through what the slower one carries."""

    def run(self, mode: str, p: tuple[int, int], load: Load) -> Any:
        assert mode in MODES
        rate = min(load.rate, p[0] / load.split, p[1] / load.count)
        i = np.arange(load.rate * load.seconds)
        put = 1e6 + i / load.rate
        s0 = 1e6 + i / rate
        s1, c0 = s0 + load.split, s0 + load.split + QUEUED
        c1 = c0 + load.count
        ms, ns = ((put, c1), (s0, s1, c0, c1))
        return np.stack([*(each * 1e3 for each in ms), *(each * 1e9 for each in ns)], axis=1).round().astype(np.int64)


def test_throughput_is_of_all_that_arrived_and_latency_of_the_window_alone() -> None:
    load = Load(rate=10, seconds=20, window_seconds=10)
    put = np.arange(80_000, 100_000, 100)
    late = np.where(put < 90_000, 5000, 500)
    found = arrivals(np.stack([put, np.maximum.accumulate(put + late)], axis=1), load)
    assert found["throughput"] == pytest.approx(10.0, rel=0.05)
    assert 0.5 <= found["latency"]["p50"] <= found["latency"]["p99"] <= 5.0
    assert arrivals(np.empty((0, 2)), load) == {"throughput": 0.0, "latency": None}


@pytest.mark.parametrize("p", [(1, 1), (2, 3), (2, 4), (8, 8)])
def test_loads_are_those_of_the_operators_whatever_runs(p: tuple[int, int]) -> None:
    found = trial(FluidQueries().run("real-time", p, UNEVEN), {"split": p[0], "count": p[1]}, UNEVEN)
    assert found.snapshot is not None
    sized = size(found.snapshot)
    assert isinstance(sized, Sizing)
    assert sized.load == pytest.approx([UNEVEN.rate * UNEVEN.split, UNEVEN.rate * UNEVEN.count], rel=1e-3)
    assert sized.floor == (2, 4)
    carries = all(k >= floor for k, floor in zip(p, sized.floor, strict=True))
    assert found.verdict is (Verdict.STABLE if carries else Verdict.CANNOT_KEEP_UP)


def test_what_waits_follows_from_how_long() -> None:
    load = replace(UNEVEN, rate=100)
    found = trial(FluidQueries().run("real-time", (8, 8), load), {"split": 8, "count": 8}, load)
    assert found.snapshot is not None
    count, split = found.snapshot.operators["count"], found.snapshot.operators["split"]
    assert count.backlog_records == pytest.approx(load.rate * QUEUED, rel=0.05)
    assert split.backlog_records == pytest.approx(0.0, abs=0.5)


def test_every_case_can_be_run_and_what_comes_of_it_is_plain_data() -> None:
    job = Job("real-time", TOPOLOGY, P_MAX, {"split": float(UNEVEN.rate)}, Target(TARGET_SECONDS, "mean", 0.05))
    queries: Any = FluidQueries()
    engine = SameStart(RealTimeEngine(queries, UNEVEN))
    found = {case.name: measure(case, job, engine, queries, seed=0) for case in cases()}
    assert set(POLICIES) <= set(known())
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["real-time floor"]["floor"] == [2, 4]
    assert all(found[f"real-time {kind} ds2"]["k"] == [2, 4] for kind in STARTS)
    assert found["micro-batch 6"]["throughput"] == pytest.approx(LOAD.rate, rel=0.02)
