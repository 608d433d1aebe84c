"""Users' commands to a running control loop, as values that arrive together with an observation.

    pause     observe on, rescale nothing                              until `resume`
    pin       give operators a parallelism and keep it                 until `resume`
    resume    end a pause or a pin
    apply     carry out the recommendation                             once, at the next decision

A later command replaces an earlier one that contradicts it. The journal numbers the commands. A command whose number
was seen before is ignored, so that commands can be delivered again after a crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from autotrascale.domain import checks
from autotrascale.domain.decision import Reason
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Execution, Snapshot
from autotrascale.domain.topology import Topology
from autotrascale.plan.control.manager.knobs import Knobs
from autotrascale.plan.formatting import join_names
from autotrascale.plan.sizing.quota import apply_quota
from autotrascale.plan.sizing.sizing import count_slots, get_limits

CommandKind = Literal["pause", "resume", "pin", "apply"]


@dataclass(frozen=True)
class LoopCommand:
    """A user's command."""

    number: int
    what: CommandKind
    asked_by: str
    asked_at: float  # Unix seconds; for display only
    parallelism: Mapping[str, int] = field(default_factory=dict)  # of a pin, by operator

    def __post_init__(self) -> None:
        checks.count("number", self.number)
        if bool(self.parallelism) != (self.what == "pin"):
            raise InputError(
                "parallelism",
                "belongs to the command pin, which needs it",
                seen=dict(self.parallelism),
                remedy="name the operators to pin, or leave it out",
            )
        for name, k in self.parallelism.items():
            checks.count(f"parallelism.{name}", k)

    @property
    def description(self) -> str:
        return "pin " + _format_pins(self.parallelism) if self.parallelism else self.what


@dataclass(frozen=True)
class CommandsInForce:
    """The commands that are in force."""

    last_number: int = 0  # number of the newest accepted command
    standing: LoopCommand | None = None  # a pause or a pin, until it is resumed
    applying: LoopCommand | None = None  # until a decision was made and its rescale has ended

    @property
    def paused(self) -> bool:
        return self.standing is not None and self.standing.what == "pause"

    @property
    def pinned(self) -> Mapping[str, int]:
        """The pins as the user asked for them, possibly out of bounds."""
        return self.standing.parallelism if self.standing is not None else {}

    def accept(self, command: LoopCommand) -> CommandsInForce:
        if command.number <= self.last_number:
            return self
        match command.what:
            case "apply":
                return CommandsInForce(command.number, self.standing, command)
            case "resume":
                return CommandsInForce(command.number)
            case _:
                return CommandsInForce(command.number, command)

    def accept_all(self, commands: Iterable[LoopCommand]) -> CommandsInForce:
        in_force = self
        for command in commands:
            in_force = in_force.accept(command)
        return in_force

    def end_apply(self) -> CommandsInForce:
        return self if self.applying is None else replace(self, applying=None)

    def explain(self) -> list[Reason]:
        """Return a reason for each command in force."""
        reasons = []
        if self.paused and self.standing is not None:
            text = f"Paused by {self.standing.asked_by}: nothing is rescaled until `resume`."
            reasons.append(Reason("paused", text, {"order": self.standing.number}))
        if self.pinned and self.standing is not None:
            text = f"Pinned by {self.standing.asked_by} until `resume`: {_format_pins(self.pinned)}."
            reasons.append(Reason("pinned-by", text, {"order": self.standing.number}))
        if self.applying is not None:
            text = f"{self.applying.asked_by} asked to apply the recommendation."
            reasons.append(Reason("applying", text, {"order": self.applying.number}))
        return reasons


def accept_commands(in_force: CommandsInForce, commands: Iterable[LoopCommand]) -> tuple[CommandsInForce, list[Reason]]:
    """Return the commands in force after `commands`, and a reason that names the user of each new command."""
    reasons = []
    for command in commands:
        if command.number > in_force.last_number:
            numbers = {"order": command.number, "what": command.what, "asked_by": command.asked_by}
            reasons.append(Reason("ordered", f"{command.asked_by} asked: {command.description}.", numbers))
        in_force = in_force.accept(command)
    return in_force, reasons


# --- pins within the bounds of the job --------------------------------------------------------------------------------


@dataclass(frozen=True)
class PinBounds:
    """The bounds of a pin: the job's and the knobs'. A snapshot, if given, knows the job's bounds best."""

    knobs: Knobs
    topology: Topology | None
    p_max: int | None
    snapshot: Snapshot | None = None

    @property
    def execution(self) -> Execution | None:
        return None if self.snapshot is None else self.snapshot.execution

    def get(self, name: str) -> tuple[int, int | None]:
        """Return the minimum and maximum of an operator."""
        least, most = self._get_declared(name)
        return max(least, self.knobs.minimum.get(name, 1)), _smaller(most, self.knobs.maximum.get(name))

    def _get_declared(self, name: str) -> tuple[int, int | None]:
        if self.snapshot is not None and name in self.snapshot.operators:
            return get_limits(self.snapshot, name)
        declared = None if self.topology is None else self.topology.operators.get(name)
        return (1, self.p_max) if declared is None else (declared.minimum, _smaller(declared.maximum, self.p_max))


def clamp_pins(pins: Mapping[str, int], running: Mapping[str, int], bounds: PinBounds) -> dict[str, int]:
    """Return `pins` of existing operators within the job's bounds and its quota.

    With shared execution every worker runs every operator, so the largest pin counts for all of them.
    """
    known = {name: k for name, k in pins.items() if name in running}
    if bounds.execution == "shared" and known:
        known = dict.fromkeys(running, max(known.values()))
    clamped = {name: _clamp(k, *bounds.get(name)) for name, k in known.items()}
    quota = bounds.knobs.quota
    if quota is None or count_slots(bounds.execution, {**running, **clamped}) <= quota:
        return clamped
    if bounds.execution in ("pipelined", None):
        others = sum(k for name, k in running.items() if name not in clamped)
        cut = apply_quota(clamped, {}, max(0, quota - others)).given
    else:
        cut = {name: min(k, quota) for name, k in clamped.items()}
    return {name: max(cut[name], bounds.get(name)[0]) for name in clamped}


def _clamp(k: int, least: int, most: int | None) -> int:
    return max(least, k if most is None else min(k, most))


def _smaller(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)


def _format_pins(parallelism: Mapping[str, int]) -> str:
    return join_names(f"{name} {k}" for name, k in parallelism.items())
