"""Every policy over the same days, simulated: python -m experiments.days.run"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from autotrascale.views.plots.plot import Axis, Level, Plot, Series
from experiments.days.measure import JOBS, POLICIES, cases, measure
from experiments.shared.claim import Claim, Pair, Result
from experiments.shared.documents import percent, table

TITLES = {
    "autotrascale": "AuTraScale",
    "ds2": "DS2",
    "drs-true": "DRS, true rates",
    "drs-observed": "DRS, observed rates",
    "dhalion": "Dhalion",
    "threshold": "threshold",
    "queueing": "queueing, function",
    "queueing-path": "queueing, path",
    "none": "none: static peak",
}
SHORT = {
    "autotrascale": "ours",
    "drs-true": "DRS t",
    "drs-observed": "DRS o",
    "queueing": "queue f",
    "queueing-path": "queue p",
    "ds2": "DS2",
    "dhalion": "Dhalion",
    "threshold": "threshold",
    "none": "none",
}
WELL = 0.98  # share of the day in target that a day is held with


def result(pairs: Sequence[Pair]) -> Result:
    return {
        "simulated": True,
        "diurnal": {name: _days(pairs, name, "diurnal") for name in JOBS},
        "steps": {
            name: {
                policy: _settling(found)
                for policy, found in _days(pairs, name, "steps").items()
                if policy != "clairvoyant"
            }
            for name in JOBS
        },
    }


def _days(pairs: Sequence[Pair], name: str, kind: str) -> dict[str, Result]:
    return {case["policy"]: dict(found) for case, found in pairs if (case["job"], case["kind"]) == (name, kind)}


def _settling(found: Mapping[str, Any]) -> Result:
    known = [each for each in found["settled"] if each is not None]
    return {
        "changes": len(found["settled"]),
        "settled": len(known),
        "median_seconds": statistics.median(known) if known else None,
        "longest_seconds": max(known, default=None),
        "in_target": found["in_target"],
        "of_peak": found["of_peak"],
    }


def _cost(found: Result) -> str:
    rows = []
    for name, day in found["diurnal"].items():
        least, few = day["clairvoyant"]["of_peak"], day["clairvoyant"]["of_peak_with_few_changes"]
        for policy in POLICIES:
            each = day[policy]
            rows.append(
                (
                    name if policy == POLICIES[0] else "",
                    TITLES[policy],
                    percent(each["of_peak"], 0),
                    f"{each['of_peak'] / least:.2f}",
                    percent(each["in_target"]),
                    each["rescales"],
                )
            )
        rows.append(("", "oracle", percent(least, 0), "1.00", "100.0 %", "dozens"))
        changes = day["clairvoyant"]["changes"]
        rows.append(("", f"oracle, {changes} changes", percent(few, 0), f"{few / least:.2f}", "100.0 %", changes))
    head = ("job", "policy", "instance-hours of the static peak's", "over the oracle", "in target", "rescales")
    return table(head, rows)


def _settled(found: Result) -> str:
    rows = [
        (
            name if policy == POLICIES[0] else "",
            TITLES[policy],
            f"{each['settled']} of {each['changes']}",
            _minutes(each["median_seconds"]),
            _minutes(each["longest_seconds"]),
            percent(each["in_target"]),
        )
        for name, policies in found["steps"].items()
        for policy, each in policies.items()
    ]
    return table(("job", "policy", "settles", "median", "longest", "in target"), rows)


def _minutes(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds / 60:.0f} min"


def _summary(found: Result) -> str:
    told = []
    for name, day in found["diurnal"].items():
        least = day["clairvoyant"]["of_peak"]
        ours = day["autotrascale"]
        held = [p for p in POLICIES[1:-1] if day[p]["in_target"] >= WELL]
        rivals = f"{len(held)} of {len(POLICIES) - 2} other policies hold{'s' * (len(held) == 1)} {percent(WELL, 0)}"
        if held:
            cheapest = min(held, key=lambda p: day[p]["of_peak"])
            rivals += f", the cheapest ({TITLES[cheapest]}) at {day[cheapest]['of_peak'] / least:.2f}"
        told.append(
            f"{name}: AuTraScale takes {ours['of_peak'] / least:.2f} times the oracle's instance-hours, "
            f"{percent(ours['in_target'])} of the day in target; {rivals}"
        )
    return "; ".join(told)


def _plots(found: Result) -> list[Plot]:
    panels = []
    names = tuple(SHORT[policy] for policy in POLICIES)
    knows = Level(1.0, "oracle")
    for name, day in found["diurnal"].items():
        least = day["clairvoyant"]["of_peak"]
        costs = tuple(day[policy]["of_peak"] / least for policy in POLICIES)
        panels.append(
            Plot(
                f"{name}-cost",
                f"{name}: instance-hours — simulated",
                "",
                Axis("", "names"),
                Axis("over the oracle", "log"),
                (Series("a policy", names, costs, "points"),),
                (knows,),
            )
        )
        missed = tuple(100 * (1 - day[policy]["in_target"]) or None for policy in POLICIES)
        panels.append(
            Plot(
                f"{name}-missed",
                f"{name}: out of target; no point: never — simulated",
                "",
                Axis("", "names"),
                Axis("% of the day", "log"),
                (Series("missed", names, missed, "points", "bad"),),
            )
        )
        hours = tuple(i / 2 for i in range(48))
        panels.append(
            Plot(
                f"{name}-day",
                f"{name}: one day — simulated",
                "",
                Axis("hour"),
                Axis("Σk"),
                tuple(
                    Series(TITLES[p], hours, tuple(day[p]["hourly"]), "steps", role)
                    for p, role in (("autotrascale", "main"), ("ds2", "second"), ("dhalion", "third"))
                ),
            )
        )
        times = tuple(_median_minutes(found["steps"][name][policy]) for policy in POLICIES)
        panels.append(
            Plot(
                f"{name}-settling",
                f"{name}: settling; no point: never — simulated",
                "",
                Axis("", "names"),
                Axis("minutes, median of those that settle"),
                (Series("minutes", names, times, "points", "third"),),
            )
        )
    return panels


def _median_minutes(each: Result) -> float | None:
    return None if each["median_seconds"] is None else each["median_seconds"] / 60


CLAIM = Claim(
    "days",
    cases,
    measure,
    result,
    figures={"summary": _summary, "cost": _cost, "settled": _settled},
    plots={"days.svg": _plots},
    code=("benchmarks/workloads/simulated_days.py", "benchmarks/workloads/day_bounds.py"),
)

if __name__ == "__main__":
    from experiments.shared.running import main

    main([CLAIM.name])
