"""What people ask of a control loop while it runs, as values that its step takes in with a look.

    pause     it goes on looking, and rescales nothing           until resumed
    pin       operators get this parallelism, and keep it        until resumed
    resume    neither any more
    apply     what it recommends is carried out                  once, at the first look that it can decide on

Of two that cannot both hold the later counts. Each order has a number of the journal's; one that was taken already says
nothing new, so that it may be handed in again after a crash.
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
    number: int
    what: CommandKind
    asked_by: str
    asked_at: float  # by the wall's clock: for people to read
    parallelism: Mapping[str, int] = field(default_factory=dict)  # of a pin, for the operators that it names

    def __post_init__(self) -> None:
        checks.count("number", self.number)
        if bool(self.parallelism) != (self.what == "pin"):
            raise InputError(
                "parallelism",
                "is what a pin has, and nothing else",
                seen=dict(self.parallelism),
                remedy="name the operators to pin, or leave it out",
            )
        for name, k in self.parallelism.items():
            checks.count(f"parallelism.{name}", k)

    @property
    def in_words(self) -> str:
        return "pin " + _each(self.parallelism) if self.parallelism else self.what


@dataclass(frozen=True)
class CommandsInForce:
    """Those in force."""

    taken: int = 0  # the number of the last one
    standing: LoopCommand | None = None  # a pause or a pin, until it is resumed
    applying: LoopCommand | None = None  # waits for a look that can be decided on, and for its rescale to end

    @property
    def paused(self) -> bool:
        return self.standing is not None and self.standing.what == "pause"

    @property
    def pinned(self) -> Mapping[str, int]:
        """As it was asked for, which may be out of bounds."""
        return self.standing.parallelism if self.standing is not None else {}

    def taking(self, order: LoopCommand) -> CommandsInForce:
        if order.number <= self.taken:
            return self
        match order.what:
            case "apply":
                return CommandsInForce(order.number, self.standing, order)
            case "resume":
                return CommandsInForce(order.number)
            case _:
                return CommandsInForce(order.number, order)

    def taking_all(self, orders: Iterable[LoopCommand]) -> CommandsInForce:
        found = self
        for order in orders:
            found = found.taking(order)
        return found

    def applied(self) -> CommandsInForce:
        return self if self.applying is None else replace(self, applying=None)

    def reasons(self) -> list[Reason]:
        """What stands, for each entry that is written meanwhile."""
        found = []
        if self.paused and self.standing is not None:
            text = f"paused by {self.standing.asked_by}: nothing is rescaled until it is resumed"
            found.append(Reason("paused", text, {"order": self.standing.number}))
        if self.pinned and self.standing is not None:
            text = f"pinned by {self.standing.asked_by} until it is resumed: {_each(self.pinned)}"
            found.append(Reason("pinned-by", text, {"order": self.standing.number}))
        if self.applying is not None:
            text = f"{self.applying.asked_by} asked to carry out what is recommended"
            found.append(Reason("applying", text, {"order": self.applying.number}))
        return found


def accept_commands(orders: CommandsInForce, asked: Iterable[LoopCommand]) -> tuple[CommandsInForce, list[Reason]]:
    """Those in force from now on, and who asked for what is new."""
    reasons = []
    for order in asked:
        if order.number > orders.taken:
            numbers = {"order": order.number, "what": order.what, "asked_by": order.asked_by}
            reasons.append(Reason("ordered", f"{order.asked_by} asked: {order.in_words}", numbers))
        orders = orders.taking(order)
    return orders, reasons


# --- a pin, within the bounds of the job ------------------------------------------------------------------------------


@dataclass(frozen=True)
class PinBounds:
    """What a pin is kept within: the job's own bounds and its knobs', by the snapshot where there is one."""

    knobs: Knobs
    topology: Topology | None
    p_max: int | None
    snapshot: Snapshot | None = None

    @property
    def execution(self) -> Execution | None:
        return None if self.snapshot is None else self.snapshot.execution

    def of(self, name: str) -> tuple[int, int | None]:
        least, most = self._declared(name)
        return max(least, self.knobs.minimum.get(name, 1)), _least(most, self.knobs.maximum.get(name))

    def _declared(self, name: str) -> tuple[int, int | None]:
        if self.snapshot is not None and name in self.snapshot.operators:
            return get_limits(self.snapshot, name)
        declared = None if self.topology is None else self.topology.operators.get(name)
        return (1, self.p_max) if declared is None else (declared.minimum, _least(declared.maximum, self.p_max))


def clamp_pins(pins: Mapping[str, int], running: Mapping[str, int], bounds: PinBounds) -> dict[str, int]:
    """Of the operators that the job has. Every worker runs every operator where they are shared; a quota holds for what
    people ask for, too."""
    known = {name: k for name, k in pins.items() if name in running}
    if bounds.execution == "shared" and known:
        known = dict.fromkeys(running, max(known.values()))
    kept = {name: _between(k, *bounds.of(name)) for name, k in known.items()}
    quota = bounds.knobs.quota
    if quota is None or count_slots(bounds.execution, {**running, **kept}) <= quota:
        return kept
    if bounds.execution in ("pipelined", None):
        others = sum(k for name, k in running.items() if name not in kept)
        cut = apply_quota(kept, {}, max(0, quota - others)).given
    else:
        cut = {name: min(k, quota) for name, k in kept.items()}
    return {name: max(cut[name], bounds.of(name)[0]) for name in kept}


def _between(k: int, least: int, most: int | None) -> int:
    return max(least, k if most is None else min(k, most))


def _least(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)


def _each(parallelism: Mapping[str, int]) -> str:
    return join_names(f"{name} {k}" for name, k in parallelism.items())
