"""The goals of the search on held-out jobs, each with its measurement and the value of an oracle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.quality.transfer.figures import POOLED, Figures
from benchmarks.workloads.transfer_measures import AGAIN, LEAN_ORACLE, ORACLE, OURS, WRONG
from benchmarks.workloads.transfer_searches import GOAL_MEDIAN_RUNS, GOAL_TAIL_RUNS

COLD = {
    "runs_to_stop_median": GOAL_MEDIAN_RUNS,
    "runs_to_stop_90": GOAL_TAIL_RUNS,
    "missed_share": 0.01,
    "regret_at_stop_median": 0.035,
    "regret_after_10_median": 0.012,
}
WARM_FIRST_RUN = 0.85
ONE_MORE = 0.95
TIMES_FASTER = 10


@dataclass(frozen=True)
class Goal:
    """One goal. `bound` is the value of an oracle, or None."""

    name: str
    goal: str
    measured: float | str | None
    met: bool
    bound: float | str | None = None


def compare_with_goals(figures: Figures) -> Iterator[Goal]:
    """Yield the goals that have a measurement."""
    cold, warm = (figures[part].get(OURS, {}).get(POOLED) for part in ("cold", "warm"))
    if cold:
        for name, most in COLD.items():
            bound = figures["bounds"].get(LEAN_ORACLE, {}).get(POOLED, {}).get(name)
            yield Goal(f"cold, {name}", f"≤ {most:g}", cold[name], _number(cold[name]) <= most, bound)
    if warm:
        share = warm["first_run_accepted_share"]
        bound = figures["bounds"].get(ORACLE, {}).get(POOLED, {}).get("first_run_accepted_share")
        yield Goal("warm, first run accepted", f"≥ {WARM_FIRST_RUN:g}", share, share >= WARM_FIRST_RUN, bound)
        if again := figures["library"].get(AGAIN, {}).get(POOLED):
            share = again["first_run_accepted_share"]
            yield Goal(
                "back at a known rate, first run accepted", f"≥ {WARM_FIRST_RUN:g}", share, share >= WARM_FIRST_RUN
            )
        worse = [family for family, each in figures["warm"][OURS].items() if _more(each)]
        yield Goal("warm, families of more runs than cold in the median", "none", ", ".join(worse) or "none", not worse)
    for start in WRONG:
        if pooled := figures["wrong"].get(start, {}).get(POOLED):
            share = pooled["within_cold_and_one_share"]
            yield Goal(f"wrong model ({start}), at most one run more", f"≥ {ONE_MORE:g}", share, share >= ONE_MORE)
    if law := figures["law"].get(POOLED):
        share = law["agree_share"]
        yield Goal("same job, rate and target: as if the study went on", "1", share, share == 1)
    if speed := figures.get("tell_ask_seconds"):
        times = round(speed["times_faster"], 1)
        yield Goal(
            "tell and ask beside scikit-optimize, times faster", f"≥ {TIMES_FASTER}", times, times >= TIMES_FASTER
        )


def _more(pair: Figures) -> bool:
    return _number(pair["runs_to_stop_median"]) > _number(pair["cold_runs_to_stop_median"])


def _number(value: float | str | None) -> float:
    """Return a figure as a number. "never" and unknown are larger than any number."""
    return value if isinstance(value, int | float) else float("inf")
