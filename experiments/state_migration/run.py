"""Megaphone's Figs. 5.15 to 5.19, simulated: python -m experiments.state_migration.run"""

from __future__ import annotations

from collections.abc import Sequence

from autotrascale.views.plots.plot import Axis, Plot, Role, Series
from experiments.shared.claim import Claim, Pair, Result
from experiments.shared.documents import table
from experiments.state_migration.measure import BINS_VARY, BOTH_VARY, KEYS_VARY, MEMORY, MILLION, PLANS, cases, measure

ROLES: dict[str, Role] = {"all-at-once": "bad", "batched": "main", "fluid": "second"}
Sizes = Sequence[tuple[int, int]]


def result(pairs: Sequence[Pair]) -> Result:
    return {
        "simulated": True,
        "migrations": [{"bins": case["bins"], "keys": case["keys"], "plans": dict(found)} for case, found in pairs],
    }


def _plans(found: Result, size: tuple[int, int]) -> Result:
    plans: Result = next(each["plans"] for each in found["migrations"] if (each["bins"], each["keys"]) == size)
    return plans


def _table(found: Result, sizes: Sizes) -> str:
    rows = []
    for bins, keys in sizes:
        plans = _plans(found, (bins, keys))
        costs = [f"{_seconds(plans[name]['latency'])}, {_seconds(plans[name]['duration'])}" for name in PLANS]
        rows.append((f"{bins:,}", f"{keys / MILLION:,.0f}", *costs))
    return table(("bins", "million keys", *(f"{name}: latency, duration" for name in PLANS)), rows)


def _seconds(value: float) -> str:
    return f"{1000 * value:,.0f} ms" if value < 1 else f"{value:,.1f} s"


def _ratio(found: Result, sizes: Sizes, plan: str, cost: str) -> float:
    """Return the cost at the last size over the cost at the first."""
    first, last = (_plans(found, size)[plan][cost] for size in (sizes[0], sizes[-1]))
    return float(last / first)


def _summary(found: Result) -> str:
    latency = 1 / _ratio(found, BINS_VARY, "batched", "latency")
    duration = _ratio(found, BINS_VARY, "batched", "duration")
    constant = _ratio(found, BOTH_VARY, "fluid", "latency")
    growing = _ratio(found, BOTH_VARY, "all-at-once", "latency")
    return (
        f"from 16 to 16,384 bins, batched migration lowers the latency by a factor of {latency:,.0f} and lasts "
        f"{duration:.2f} times as long; all-at-once does not depend on the bins. With a constant state per bin and 128 "
        f"times the keys, fluid and batched migration keep their latency ({constant:.2f} times), all-at-once waits "
        f"{growing:,.0f} times as long"
    )


def _memory(found: Result) -> str:
    plans = _plans(found, MEMORY[0])
    rows = [(name, f"{plans[name]['in_flight'] / 2**30:,.2f} GiB") for name in PLANS]
    return table(("plan", "most state in transfer at once"), rows)


def _plots(found: Result) -> list[Plot]:
    titles = (("bins vary", BINS_VARY), ("keys vary", KEYS_VARY), ("bins and keys vary", BOTH_VARY))
    return [_plot(found, title, sizes) for title, sizes in titles]


def _plot(found: Result, title: str, sizes: Sizes) -> Plot:
    series = []
    for name in PLANS:
        costs = [_plans(found, size)[name] for size in sizes]
        durations, latencies = tuple(each["duration"] for each in costs), tuple(each["latency"] for each in costs)
        series.append(Series(name, durations, latencies, "points", ROLES[name]))
    x, y = Axis("duration in s", "log"), Axis("latency in s", "log")
    return Plot(title.replace(" ", "-"), f"{title} — simulated", "", x, y, tuple(series))


CLAIM = Claim(
    "state_migration",
    cases,
    measure,
    result,
    figures={
        "summary": _summary,
        "bins": lambda found: _table(found, BINS_VARY),
        "keys": lambda found: _table(found, KEYS_VARY),
        "both": lambda found: _table(found, BOTH_VARY),
        "memory": _memory,
    },
    plots={"state_migration.svg": _plots},
)

if __name__ == "__main__":
    from experiments.shared.running import main

    main([CLAIM.name])
