"""A job that is kept and is not simulated, whose looks tell of critical paths what a test says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from autotrascale.domain.job import Job
from autotrascale.domain.observation import Observation
from autotrascale.domain.snapshot import CriticalShares
from autotrascale.domain.target import Target
from autotrascale.domain.topology import Topology
from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.knowledge.decision_journal.session_writer import JournalSession
from autotrascale.knowledge.decision_journal.sessions import SessionHeader
from autotrascale.loop import Loop, LoopCollaborators
from autotrascale.plan.control.autoscaling.prediction import AutoscalingSettings
from autotrascale.plan.control.loop_state import Rules
from autotrascale.testing.scripted_live import ScriptedLive
from benchmarks.workloads.seeded_store import KNOBS

JOB = Job("orders", Topology.chain("read", "count"), 16, {"read": 100.0}, Target(1.0))


def kept_critical(decisions: DecisionJournal, told: Sequence[CriticalShares | None]) -> JournalSession:
    """As many looks, from the first on."""
    looks = {number: partial(_telling, critical) for number, critical in enumerate(told, start=1)}
    live = ScriptedLive(JOB.topology, {"read": 100.0, "count": 100.0}, name=JOB.name, simulated=False, looks=looks)
    session = decisions.open_session(
        SessionHeader.of(JOB, "spark", simulated=False, advise=True), restart_finished=True
    )
    rules = Rules(AutoscalingSettings(JOB.target, noise=0.05), KNOBS, advise=True)
    live.start({"read": 2, "count": 2})  # somebody else runs it
    loop = Loop(
        live, rules, initial={"read": 2, "count": 2}, state=session.state, around=LoopCollaborators(journal=session)
    )
    for _ in range(len(told)):
        live.wait(KNOBS.interval_seconds)
        loop.run_once()
    return session


def _telling(critical: CriticalShares | None, look: Observation) -> Observation:
    return look if look.snapshot is None else replace(look, snapshot=replace(look.snapshot, critical=critical))
