"""The cost of executors as text: their number, their size, and their price per hour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autotrascale.plan.formatting import format_amount, format_percent, join_names
from autotrascale.plan.sizing.executor_plan import ExecutorSize, compute_price

_HOUR = 3600.0


def format_hourly_cost(executors: int, size: ExecutorSize, instead_of: int | None = None) -> str:
    """Return number, size and hourly price of executors, beside the price of `instead_of` executors.

    >>> format_hourly_cost(3, ExecutorSize(2, price=0.12), instead_of=7)
    '3 executors of 2 cores, 0.36 $/h instead of 0.84 $/h'
    """
    memory = f" and {size.memory}" if size.memory else ""
    text = f"{format_count(executors, 'executor')} of {format_count(size.cores, 'core')}{memory}"
    is_changed = instead_of is not None and instead_of != executors
    if size.price is None:
        return text + (f" instead of {instead_of}" if is_changed else "")
    text += f", {_hourly_price(executors, size.price)}"
    return text + (f" instead of {_hourly_price(instead_of or 0, size.price)}" if is_changed else "")


def format_usage(
    used_seconds: float, peak: int, seconds: float, price: float | None = None, unit: str = "executor"
) -> str:
    """Return the executor time that was used, against `peak` executors during all `seconds`.

    Args:
        price: of one executor for an hour; None: unknown.
        unit: "executor" or "instance".

    >>> format_usage(3600.0, 4, 1800.0, 0.12)
    '1 executor-hours instead of 2 with 4 executors all the time: saved 50%, 0.12 $ of 0.24 $'
    """
    used, static = used_seconds / _HOUR, peak * seconds / _HOUR
    text = f"{format_amount(used)} {unit}-hours"
    if not static:
        return text
    saved = format_percent(max(0.0, 1 - used / static))
    text += f" instead of {format_amount(static)} with {format_count(peak, unit)} all the time: saved {saved}"
    if price is None:
        return text
    return f"{text}, {format_money((static - used) * price)} of {format_money(static * price)}"


def format_count(number: int, noun: str) -> str:
    """Return the number with the noun in singular or plural.

    >>> format_count(1, "core"), format_count(2, "core")
    ('1 core', '2 cores')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def format_money(value: float) -> str:
    """Return an amount with two decimals, and with two significant digits below a tenth.

    >>> format_money(1234.5), format_money(0.0042)
    ('1,234.50 $', '0.0042 $')
    """
    return f"{value:,.2f} $" if value >= 0.1 or value == 0 else f"{value:.2g} $"


def _hourly_price(executors: int, price: float) -> str:
    return f"{format_money(compute_price(executors, _HOUR, price))}/h"


@dataclass(frozen=True)
class ProgramCost:
    """The executors of one program, used by all its queries together.

    Args:
        needed: executors that are advised for each query by itself; None: no advice.
        now: executors that the program has at present.
        most: the most executors that it had at one time; the reference for savings.
        held: the present executors hold the target of every query.

    >>> shops = ProgramCost("shops", ExecutorSize(2, price=0.12), {"orders": 2, "clicks": 1}, now=4)
    >>> shops.words()
    'shops: its 2 queries need 3 executors of 2 cores, 0.36 $/h instead of 0.48 $/h (orders 2, clicks 1)'
    """

    program: str
    size: ExecutorSize
    needed: Mapping[str, int | None]
    now: int = 0
    executor_seconds: float = 0.0
    most: int = 0
    seconds: float = 0.0
    advise: bool = True
    held: bool = False

    @property
    def total(self) -> int | None:
        """Return the executors that all queries need together, or None if a query has no advice.

        The sum is rounded up once per query, so that executors that hold all targets today are enough.
        """
        known = [k for k in self.needed.values() if k is not None]
        if len(known) < len(self.needed):
            return None
        return min(sum(known), self.now) if self.held else sum(known)

    def words(self) -> str:
        queries = f"its {len(self.needed)} queries"
        if not self.advise:
            used = format_usage(self.executor_seconds, self.most, self.seconds, self.size.price)
            return f"{self.program}: {queries} used {used}"
        if self.total is None:
            unknown = join_names(name for name, k in self.needed.items() if k is None)
            return f"{self.program}: the executors for {queries} are unknown, because there is no advice for {unknown}"
        each = join_names(f"{name} {k}" for name, k in self.needed.items())
        if self.total < sum(k or 0 for k in self.needed.values()):
            executors = format_hourly_cost(self.total, self.size)
            return f"{self.program}: {queries} meet their targets on the present {executors} (each by itself: {each})"
        return f"{self.program}: {queries} need {format_hourly_cost(self.total, self.size, self.now)} ({each})"

    def as_data(self) -> dict[str, Any]:
        """Return the figures as plain data. `price` and `saved` are null if the price of an executor is unknown."""
        price = self.size.price
        paid = None if price is None else compute_price(self.executor_seconds, 1.0, price)
        static = None if price is None else compute_price(self.most, self.seconds, price)
        return {
            "program": self.program,
            "queries": dict(self.needed),
            "executors_needed": self.total,
            "executor_hours": self.executor_seconds / _HOUR,
            "most_executors": self.most,
            "seconds": self.seconds,
            "price": paid,
            "saved": None if paid is None or static is None else static - paid,
            "summary": self.words(),
        }
