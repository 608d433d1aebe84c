"""The simulated and the scripted job behind the port, by the contract that real ones keep too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from autotrascale.domain.topology import Topology
from autotrascale.execute.live_job import LiveJob
from autotrascale.execute.simulator.live_job import SimulatedLiveJob
from autotrascale.execute.simulator.rate_functions import ConstantRate, Noisy, SteppedRate
from autotrascale.testing.live_contract import LiveContract
from autotrascale.testing.scripted_live import ScriptedLive
from benchmarks.workloads.presets import SPARK_STALLED


def simulated(home: Path | None = None, schedule: ConstantRate | Noisy | SteppedRate | None = None) -> SimulatedLiveJob:
    case = SPARK_STALLED
    return SimulatedLiveJob(
        case.job, case.topology, case.source_rates, schedule or ConstantRate(case.rate), p_max=case.p_max, home=home
    )


class TestSimulatedLive(LiveContract):
    calm: ClassVar[Mapping[str, int]] = {"source": 2, "flatmap": 12, "count": 2, "sink": 2}
    other: ClassVar[Mapping[str, int]] = {"source": 1, "flatmap": 14, "count": 3, "sink": 1}
    settle_seconds: ClassVar[float] = 30.0

    def open(self, home: Path) -> LiveJob:
        return simulated(home)


class TestScriptedLive(LiveContract):
    calm: ClassVar[Mapping[str, int]] = {"source": 2, "work": 4}
    other: ClassVar[Mapping[str, int]] = {"source": 3, "work": 3}
    settle_seconds: ClassVar[float] = 30.0
    known: dict[Path, ScriptedLive]

    def open(self, home: Path) -> LiveJob:
        self.known = getattr(self, "known", {})
        return self.known.setdefault(
            home, ScriptedLive(Topology.chain("source", "work"), {"source": 100.0, "work": 50.0})
        )


def test_backlog_grows_while_a_killed_job_stands_still_and_is_worked_off_afterwards() -> None:
    live = simulated()
    live.start({"source": 2, "flatmap": 14, "count": 2, "sink": 2})
    live.wait(60)
    live.kill()
    live.wait(60)
    assert live.observe().running is None
    live.start({"source": 2, "flatmap": 14, "count": 2, "sink": 2})
    live.wait(10)
    snapshot = live.observe().snapshot
    assert snapshot is not None
    assert snapshot.backlog_records is not None
    assert snapshot.backlog_records > 100_000
    live.wait(600)
    later = live.observe().snapshot
    assert later is not None
    assert later.backlog_records == 0


def test_the_witness_sees_every_second_once_and_the_rates_of_the_schedule() -> None:
    case, seen = SPARK_STALLED, []
    live = SimulatedLiveJob(
        case.job,
        case.topology,
        case.source_rates,
        SteppedRate((0.0, 100.0), (1000.0, 3000.0)),
        p_max=case.p_max,
        witness=lambda step, k: seen.append((step.seconds, step.offered, k)),
    )
    live.start({"source": 1, "flatmap": 8, "count": 1, "sink": 1})
    live.wait(95)
    live.rescale({"source": 1, "flatmap": 9, "count": 1, "sink": 1})
    live.wait(3)
    assert sum(seconds for seconds, _, _ in seen) == pytest.approx(live.observe().at)
    assert seen[0][1] / seen[0][0] == pytest.approx(1000.0)
    assert seen[-1][1] / seen[-1][0] == pytest.approx(3000.0)
    assert {k for _, _, k in seen} == {(1, 8, 1, 1), (1, 9, 1, 1)}
