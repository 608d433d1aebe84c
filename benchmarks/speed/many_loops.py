"""The CPU time of one process with 1,000 control loops: the pure loop and its journal, without simulator and metrics.

One job is simulated for a day first. Then each loop goes through its own stretch of that day, so all hours and all
rescales count in proportion.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from autotrascale.domain.target import Target
from autotrascale.execute.simulator.live_job import SimulatedLiveJob
from autotrascale.execute.simulator.rate_functions import DAY
from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.knowledge.decision_journal.sessions import SessionHeader
from autotrascale.loop import Loop
from autotrascale.plan.control.autoscaling.prediction import AutoscalingSettings
from autotrascale.plan.control.events import Event
from autotrascale.plan.control.loop_state import DecisionEntry, Rules, State
from autotrascale.plan.control.step import step
from benchmarks.workloads.presets import SPARK_STALLED
from benchmarks.workloads.simulated_days import KNOBS, make_trace


def measure_many_loops(loops: int = 1000, interval: float = 10.0, observations: int = 8) -> dict[str, object]:
    """Return the CPU time of a step in milliseconds, and the share of a core that all loops use.

    Args:
        loops: number of loops.
        interval: seconds between two observations of a loop.
        observations: observations of each loop that are measured.
    """
    recorded = _record_day(interval)
    starts = [round(i * (len(recorded) - observations - 1) / (loops - 1)) for i in range(loops)]
    rules = recorded[0][0]
    header = SessionHeader("job", "simulator", True, "", 1.0, "mean")
    with tempfile.TemporaryDirectory() as folder:
        decisions = DecisionJournal(Path(folder) / "decisions.db")
        sessions = [decisions.open_session(replace(header, job=f"job-{i}")) for i in range(loops)]
        states = [recorded[start][1] for start in starts]
        for session in sessions:
            session.begin(rules)
        began, wall, steps = time.process_time(), time.perf_counter(), 0
        for number in range(observations):
            for i, start in enumerate(starts):
                _, _, event, now = recorded[start + number]
                states[i], instructions = step(rules, states[i], event, now)
                for entry in instructions:
                    if isinstance(entry, DecisionEntry):
                        sessions[i].record(states[i], entry, event)
                steps += 1
        cpu, wall = time.process_time() - began, time.perf_counter() - wall
        decisions.close()
    return {
        "jobs": loops,
        "interval_seconds": interval,
        "steps": steps,
        "cpu_ms_per_step": round(1000 * cpu / steps, 3),
        "wall_ms_per_step": round(1000 * wall / steps, 3),
        "share_of_a_core": round(cpu / steps * loops / interval, 3),
    }


def _record_day(interval: float) -> list[tuple[Rules, State, Event, float]]:
    """Return every step of one simulated day: the state before it, and its event."""
    case = SPARK_STALLED
    schedule = make_trace("diurnal", 1, case.rate)
    live = SimulatedLiveJob(case.job, case.topology, case.source_rates, schedule, p_max=case.p_max)
    settings = AutoscalingSettings(Target(case.latency_target), noise=case.job.noise)
    rules = Rules(settings, replace(KNOBS, interval_seconds=interval))
    steps: list[tuple[Rules, State, Event, float]] = []

    class Recorded(Loop):
        def process_event(self, event: Event) -> None:
            steps.append((self.rules, self.state, event, event.at))
            super().process_event(event)

    Recorded(live, rules, initial=case.topology.named(case.floor)).run(DAY)
    return steps
