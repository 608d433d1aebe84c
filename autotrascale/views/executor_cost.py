"""What executors cost, in words: how many, of which size, and for how much an hour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autotrascale.domain import checks
from autotrascale.plan.formatting import format_amount, format_percent, join_names
from autotrascale.plan.sizing.executor_plan import ExecutorSize, compute_price

_HOUR = 3600.0
_CURRENCY = "$"


def format_hourly_cost(executors: int, size: ExecutorSize, instead_of: int | None = None) -> str:
    """`3 executors of 2 cores, 0.36 $ an hour instead of 0.84 $`"""
    bills = [ExecutorCost(k, size.cores, size.memory, size.price) for k in (executors, instead_of or executors)]
    return bills[0].words(instead_of=bills[1])


def format_usage(executor_seconds: float, peak: int, seconds: float, price: float | None) -> str:
    """What was used, against `peak` executors all the time.

    >>> of_a_time(3600.0, 4, 1800.0, 0.12)
    '1 executor-hours, 50% of 4 all the time: 0.12 $ instead of 0.24 $, 0.12 $ saved'
    """
    used = f"{format_amount(executor_seconds / _HOUR)} executor-hours"
    whole = peak * seconds
    if not whole:
        return used
    used += f", {format_percent(executor_seconds / whole)} of {peak} all the time"
    if price is None:
        return used
    paid, static = (compute_price(each, 1.0, price) for each in (executor_seconds, whole))
    return f"{used}: {format_money(paid)} instead of {format_money(static)}, {format_money(static - paid)} saved"


def format_money(value: float, currency: str = _CURRENCY) -> str:
    """Two decimals, and two digits of what is less than a tenth."""
    return f"{value:,.2f} {currency}" if value >= 0.1 or value == 0 else f"{value:.2g} {currency}"


@dataclass(frozen=True)
class ExecutorCost:
    """`price` is of one executor for an hour, in `currency`; None: nobody has said. `memory` is as Spark writes it.

    >>> Bill(3, 2, price=0.12).words(instead_of=Bill(7, 2, price=0.12))
    '3 executors of 2 cores, 0.36 $ an hour instead of 0.84 $'
    """

    executors: int
    cores: int
    memory: str = ""
    price: float | None = None
    currency: str = _CURRENCY

    def __post_init__(self) -> None:
        checks.count("executors", self.executors, least=0)
        checks.count("cores", self.cores)
        checks.optional(checks.non_negative, "price", self.price)

    @property
    def per_hour(self) -> float | None:
        return None if self.price is None else compute_price(self.executors, _HOUR, self.price)

    def words(self, instead_of: ExecutorCost | None = None) -> str:
        """`instead_of` is named where it differs: by its price, where both have one, and by its executors otherwise."""
        other = None if instead_of == self else instead_of
        if self.per_hour is None or (other is not None and other.per_hour is None):
            return self._size + (f" instead of {other._shortest(self)}" if other else "")
        price = self._money(self.per_hour)
        line = f"{self._size}, {price} an hour"
        if other is None or other.per_hour is None:
            return line
        before = other._money(other.per_hour)
        return f"{line} as before with {other._shortest(self)}" if before == price else f"{line} instead of {before}"

    @property
    def _size(self) -> str:
        cores = f"{self.cores} core{'' if self.cores == 1 else 's'}"
        memory = f" and {self.memory}" if self.memory else ""
        return f"{self.executors} executor{'' if self.executors == 1 else 's'} of {cores}{memory}"

    def _shortest(self, beside: ExecutorCost) -> str:
        """The number alone where the sizes are alike."""
        alike = (self.cores, self.memory) == (beside.cores, beside.memory)
        return str(self.executors) if alike and self.executors != beside.executors else self._size

    def _money(self, value: float) -> str:
        return format_money(value, self.currency)


@dataclass(frozen=True)
class ProgramCost:
    """Of the queries of one program together. `most`: the most executors that it had at one time, which are what it
    would have had all the time. `needed`: by query, the executors that it is advised, for itself; None where nothing
    is. `held`: those that there are `now` hold every query at its target.

    >>> shops = ProgramBill("shops", ExecutorSize(2, price=0.12), {"orders": 2, "clicks": 1}, now=4)
    >>> shops.words()
    'shops: 3 executors of 2 cores, 0.36 $ an hour instead of 0.48 $, are what its 2 queries need: orders 2, clicks 1'
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
        """Queries run together, so it is the sum; but each is rounded up to whole executors, and what holds them all is
        enough."""
        known = [k for k in self.needed.values() if k is not None]
        if len(known) < len(self.needed):
            return None
        return min(sum(known), self.now) if self.held else sum(known)

    def words(self) -> str:
        count = f"its {len(self.needed)} queries"
        if not self.advise:
            took = format_usage(self.executor_seconds, self.most, self.seconds, self.size.price)
            return f"{self.program}: {count} took {took}"
        if self.total is None:
            silent = join_names(name for name, k in self.needed.items() if k is None)
            return f"{self.program}: what {count} need together is not known, as nothing is advised for {silent}"
        each = join_names(f"{name} {k}" for name, k in self.needed.items())
        if self.total < sum(k or 0 for k in self.needed.values()):
            return f"{self.program}: {count} are held as it is, on {format_hourly_cost(self.total, self.size)}; each by itself: {each}"
        return f"{self.program}: {format_hourly_cost(self.total, self.size, self.now)}, are what {count} need: {each}"

    def as_data(self) -> dict[str, Any]:
        """`price` and `saved` are of what was used, against `most` all the time; null without a price."""
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
