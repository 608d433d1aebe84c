"""Every policy in the control loop: killed and gone on with, and decided again from the journal alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autotrascale.domain.job import Job
from autotrascale.domain.target import Target
from autotrascale.execute.simulator.live_job import SimulatedLiveJob
from autotrascale.execute.simulator.rate_functions import SteppedRate
from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.knowledge.decision_journal.replay import replay
from autotrascale.knowledge.decision_journal.sessions import SessionHeader
from autotrascale.loop import Loop, LoopCollaborators
from autotrascale.plan.control.autoscaling.prediction import AutoscalingSettings
from autotrascale.plan.control.events import Event, Instruction
from autotrascale.plan.control.loop_state import DecisionEntry, Rules, State
from autotrascale.plan.policies.registry import OURS, create, known
from benchmarks.workloads.presets import SPARK_STALLED
from tests.loop.scripts import KNOBS

CASE = SPARK_STALLED
TARGET = Target(CASE.latency_target)
OPENING = SessionHeader.of(
    Job("steps", CASE.topology, CASE.p_max, CASE.source_rates, TARGET), "simulator", simulated=True, advise=False
)


class Killed(Exception):  # noqa: N818 - a signal, not an error
    pass


class Mortal(Loop):
    def _execute(self, instruction: Instruction, event: Event) -> None:
        super()._execute(instruction, event)
        if isinstance(instruction, DecisionEntry) and instruction.number == 25:
            raise Killed


def job() -> SimulatedLiveJob:
    """Up and down again, so that every one has something to do."""
    schedule = SteppedRate((0.0, 600.0, 2400.0), (0.3 * CASE.rate, 0.9 * CASE.rate, 0.3 * CASE.rate))
    return SimulatedLiveJob(CASE.job, CASE.topology, CASE.source_rates, schedule, p_max=CASE.p_max, seed=1)


def rules(name: str, **options: int) -> Rules:
    knobs = replace(KNOBS, interval_seconds=30.0, running_seconds=30.0, scale_down_delay_seconds=60.0)
    return Rules(
        AutoscalingSettings(TARGET, noise=CASE.job.noise),
        knobs,
        policy=create(name, TARGET, options),
        policy_options=options,
    )


@pytest.mark.parametrize("name", [name for name in known() if name != OURS])
def test_a_policy_that_was_killed_goes_on_and_is_decided_again_the_same(name: str, tmp_path: Path) -> None:
    options = {"slots": 30}
    initial, running = CASE.topology.named(CASE.floor), job()
    decisions = DecisionJournal(tmp_path / "decisions.db")
    first = decisions.open_session(OPENING)
    with pytest.raises(Killed):
        Mortal(
            running, rules(name, **options), initial=initial, state=first.state, around=LoopCollaborators(journal=first)
        ).run(3600)
    first.owner.mark_inactive()
    again = decisions.open_session(OPENING)
    assert again.id == first.id
    Loop(
        running, rules(name, **options), initial=initial, state=again.state, around=LoopCollaborators(journal=again)
    ).run(1800)
    seen = list(replay(decisions, first.id))
    assert len(seen) > 50
    assert [each.number for each in seen if not each.same] == []
    assert all(max((each.written["wanted"] or {"": 0}).values()) <= 30 for each in seen)
    if name == "none":
        assert {each.written["action"] for each in seen} == {"stay"}
    decisions.close()


def test_what_dhalion_remembers_outlives_its_process_and_says_nothing_to_others() -> None:
    def after(state: State | None, name: str, seconds: float, on: SimulatedLiveJob) -> State:
        loop = Loop(on, rules(name), initial=CASE.topology.named(CASE.floor), state=state)
        loop.run(seconds)
        return loop.state

    running = job()
    first = after(None, "dhalion", 1800, running)
    assert first.policy_memory.policy == "dhalion"
    assert first.policy_memory.memory["rates"] is not None
    second = after(first, "ds2", 600, running)
    assert second.policy_memory == first.policy_memory  # it is kept, in case that the first comes back
    assert after(second, "dhalion", 600, running).policy_memory.memory["rates"] is not None
