"""Dhalion's memory: its action log and its blacklist (VLDB '17, §4.3).

An action that did not help is not repeated while the rates stay about the same. Measured rates vary, so a change of
less than a tenth counts as none.
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
    """The last action, with the back-pressure and the parallelism before it."""

    operator: str
    before: int
    wanted: int
    pressure: float  # ms/s
    comparable: bool = True  # False after the rates changed

    @property
    def direction(self) -> Direction:
        return "up" if self.wanted > self.before else "down"


@dataclass(frozen=True)
class DhalionMemory:
    """The memory between two snapshots. The lists of operators hold at these rates only."""

    rates: Mapping[str, float] | None = None
    action: DhalionAction | None = None
    waited: int = 0  # snapshots since the action was carried out
    up: tuple[str, ...] = ()  # operators that a scale-up did not help
    down: tuple[str, ...] = ()  # operators whose scale-down brought back-pressure
    raised: tuple[str, ...] = ()  # operators that were scaled up


def parse_memory(plain: Mapping[str, object]) -> DhalionMemory:
    """Return the memory that `Dhalion.get_memory` gave as plain data. Raise `InputError` for any other data."""
    try:
        memory = DhalionMemory(**plain)  # type: ignore[arg-type]
        action = DhalionAction(**memory.action) if isinstance(memory.action, Mapping) else memory.action
        return replace(memory, action=action, up=tuple(memory.up), down=tuple(memory.down), raised=tuple(memory.raised))
    except TypeError:
        raise InputError(
            "policy dhalion: memory",
            "is of another version of this program",
            seen=dict(plain),
            remedy="continue with the program that wrote it, or start a new session",
        ) from None


def forget_at_new_rates(memory: DhalionMemory, snapshot: Snapshot, change: float) -> DhalionMemory:
    """Return the memory, with empty lists if a rate changed by more than the share `change` since they began."""
    rates, before = dict(snapshot.source_rates), memory.rates
    has_same_sources = before is not None and set(before) == set(rates)
    if has_same_sources and all(abs(rates[name] - rate) <= change * rate for name, rate in (before or {}).items()):
        return memory
    action = None if memory.action is None else replace(memory.action, comparable=False)
    return DhalionMemory(rates, action, memory.waited)


def judge_scale_up(memory: DhalionMemory, action: DhalionAction, now: float) -> tuple[DhalionMemory, list[Reason]]:
    """Blacklist a scale-up that did not lower the back-pressure, which is `now` ms/s."""
    if now < action.pressure or not action.comparable:
        return memory, []
    text = (
        f"{action.operator}: {action.before} → {action.wanted} did not help. "
        f"Back-pressure went from {action.pressure:.0f} to {now:.0f} ms per second."
    )
    numbers: dict[str, Number] = {"operator": action.operator, "before_ms": action.pressure, "after_ms": now}
    up = tuple(dict.fromkeys([*memory.up, action.operator]))
    return replace(memory, up=up), [Reason("ineffective", text, numbers)]


def explain_waiting(action: DhalionAction, waited: int, wait: int) -> Reason:
    text = f"On hold: {action.operator} {action.before} → {action.wanted} settles, window {waited} of {wait}."
    return Reason("hold-waiting", text, {"operator": action.operator, "waited": waited, "wait": wait})


def explain_blacklisted(name: str) -> Reason:
    return Reason("blacklisted", f"{name}: no change, a scale-up did not help at these rates.", {"operator": name})
