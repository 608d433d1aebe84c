"""What Dhalion did last and what came of it: its action log and its blacklist (VLDB '17, §4.3).

What did not help is not done again while the rates are about the same. Measured rates are never the same twice, so that
a change of less than a tenth is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from autotrascale.domain.decision import Number, Reason
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Snapshot

Direction = Literal["up", "down"]


@dataclass(frozen=True)
class DhalionAction:
    """What was last asked for: to judge it, what the back-pressure was then, and from which parallelism."""

    operator: str
    before: int
    wanted: int
    pressure: float
    comparable: bool = True  # not where the rates have changed since

    @property
    def direction(self) -> Direction:
        return "up" if self.wanted > self.before else "down"


@dataclass(frozen=True)
class DhalionMemory:
    """What one snapshot leaves for the next. The lists hold at these rates only."""

    rates: Mapping[str, float] | None = None
    action: DhalionAction | None = None
    waited: int = 0
    up: tuple[str, ...] = ()  # operators that more instances did not help
    down: tuple[str, ...] = ()  # … and that fewer instances were too few for
    raised: tuple[str, ...] = ()  # … that were scaled up


def parse_memory(plain: Mapping[str, object]) -> DhalionMemory:
    """As `remembered` gave it, by way of JSON."""
    try:
        memory = DhalionMemory(**plain)  # type: ignore[arg-type]
        action = DhalionAction(**memory.action) if isinstance(memory.action, Mapping) else memory.action
        return replace(memory, action=action, up=tuple(memory.up), down=tuple(memory.down), raised=tuple(memory.raised))
    except TypeError:
        raise InputError(
            "policy dhalion: memory",
            "is of another version of this program",
            seen=dict(plain),
            remedy="go on with the program that wrote it, or begin anew",
        ) from None


def forget_at_new_rates(memory: DhalionMemory, snapshot: Snapshot, change: float) -> DhalionMemory:
    """What was learned holds while the rates are about what they were when the first of it was."""
    rates = dict(snapshot.source_rates)
    if memory.rates is not None and set(memory.rates) == set(rates):
        same = all(abs(rates[name] - before) <= change * before for name, before in memory.rates.items())
        if same:
            return memory
    action = None if memory.action is None else replace(memory.action, comparable=False)
    return DhalionMemory(rates, action, memory.waited)


def judge_scale_up(memory: DhalionMemory, action: DhalionAction, now: float) -> tuple[DhalionMemory, list[Reason]]:
    if now < action.pressure or not action.comparable:
        return memory, []
    text = (
        f"{action.operator}: {action.before} → {action.wanted} did not help, "
        f"back-pressure went from {action.pressure:.0f} to {now:.0f} ms per second"
    )
    numbers: dict[str, Number] = {"operator": action.operator, "before_ms": action.pressure, "after_ms": now}
    up = tuple(dict.fromkeys([*memory.up, action.operator]))
    return replace(memory, up=up), [Reason("ineffective", text, numbers)]


def explain_waiting(action: DhalionAction, waited: int, wait: int) -> Reason:
    text = f"waiting for {action.operator} {action.before} → {action.wanted} to settle: {waited} of {wait}"
    return Reason("hold-waiting", text, {"operator": action.operator, "waited": waited, "wait": wait})


def explain_blacklisted(name: str) -> Reason:
    return Reason("blacklisted", f"{name}: scaling it did not help at these rates, left alone", {"operator": name})
