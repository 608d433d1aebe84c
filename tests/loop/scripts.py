"""The job that the tests of the loop script, and the rules it is kept by."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from autotrascale.domain.target import Target
from autotrascale.domain.topology import Topology
from autotrascale.loop import LoopListener
from autotrascale.plan.control.autoscaling.prediction import AutoscalingSettings
from autotrascale.plan.control.loop_state import DecisionEntry, Rules, State
from autotrascale.plan.control.manager.knobs import Knobs
from autotrascale.testing.scripted_live import ScriptedLive

TOPOLOGY = Topology.chain("source", "work")
KNOBS = Knobs(
    interval_seconds=30.0,
    running_seconds=60.0,
    scale_down_delay_seconds=300.0,
    catch_up_seconds=300.0,
    backlog_seconds=1.0,
)
RULES = Rules(AutoscalingSettings(Target(0.5)), KNOBS)
START = {"source": 1, "work": 3}


def queue(running: Mapping[str, int], rate: float) -> float:
    """0.1 s, and a wait that grows as `work` gets busy."""
    busy = min(rate / (running["work"] * 50.0), 0.98)
    return 0.1 + 0.02 * busy / (1 - busy)


def live(rate: Callable[[float], float] = lambda _: 100.0, **given: object) -> ScriptedLive:
    return ScriptedLive(TOPOLOGY, {"source": 1000.0, "work": 50.0}, rate, queue, **given)  # type: ignore[arg-type]


class Diary(LoopListener):
    """A listener that keeps the entries of a loop."""

    def __init__(self) -> None:
        self.entries: list[DecisionEntry] = []

    def on_entry(self, state: State, entry: DecisionEntry) -> None:  # noqa: ARG002 - the signature of a listener
        self.entries.append(entry)

    @property
    def last(self) -> set[str]:
        """Return the codes of the last entry."""
        return {reason.code for reason in self.entries[-1].reasons}

    @property
    def codes(self) -> set[str]:
        """Return the codes of all entries."""
        return {reason.code for entry in self.entries for reason in entry.reasons}
