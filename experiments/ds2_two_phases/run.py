"""DS2's Fig. 7, simulated: python -m experiments.ds2_two_phases.run"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autotrascale.views.plots.plot import Axis, Plot, Role, Series
from experiments.ds2_two_phases.measure import RATES, cases, measure
from experiments.shared.claim import Claim, Pair, Result
from experiments.shared.documents import percent, table, vector
from experiments.shared.published import inputs, published

TITLES = {"ds2": "DS2", "dhalion": "Dhalion"}
UP, UP_AT, DOWN = (published(f"flink-wordcount/{name}") for name in ("up", "up/at", "down"))


def result(pairs: Sequence[Pair]) -> Result:
    policies = {case["policy"]: dict(found) for case, found in pairs}
    least = next(iter(policies.values()))["least"]
    return {
        "simulated": True,
        "least": least,
        "policies": {
            name: {
                "first": _phase(found, 0, RATES["second_from"]),
                "second": _phase(found, RATES["second_from"], RATES["until"]),
                "changes": found["changes"],
                "carried": found["carried"],
            }
            for name, found in policies.items()
        },
    }


def _phase(found: Mapping[str, Any], start: float, end: float) -> Result:
    """`settled`: when the last decision of the phase runs; None where that is not before its end."""
    changes = [each for each in found["changes"] if start < each["decided"] <= end]
    last = changes[-1]["running"]
    of_time = [rate for at, rate in found["carried"] if start < at <= end]
    offered = RATES["second" if start else "first"]
    return {
        "changes": changes,
        "end": changes[-1]["k"],
        "settled": last if last < end else None,
        "carried": sum(of_time) / len(of_time) / offered,
    }


def _decisions(found: Result) -> str:
    rows = [
        ("2M sentences/s", "the paper, Flink", _way(UP[1:], UP_AT["decided"]), f"{UP_AT['settled']} s", "–", "–"),
        *_rows(found, "first"),
        ("1M sentences/s", "the paper, Flink", _way(DOWN["k"], DOWN["decided"]), f"{DOWN['settled']} s", "–", "–"),
        *_rows(found, "second"),
    ]
    head = ("phase", "", "decisions (flatmap, count)", "settled from", "over the least", "of the phase's records")
    return table(head, rows)


def _rows(found: Result, phase: str) -> list[tuple[str, ...]]:
    rows = []
    for name, each in found["policies"].items():
        there = each[phase]
        changes = there["changes"]
        settled = "not before the end" if there["settled"] is None else f"{there['settled']:.0f} s"
        over = f"{sum(there['end']) / sum(found['least'][phase]):.2f}"
        rows.append(
            (
                "",
                f"{TITLES[name]}, here",
                _way([c["k"] for c in changes], [c["decided"] for c in changes]),
                settled,
                over,
                percent(there["carried"], 0),
            )
        )
    return rows


def _way(ks: Sequence[Sequence[int]], at: Sequence[float]) -> str:
    return " → ".join(f"{vector(k)} at {when:.0f} s" for k, when in zip(ks, at, strict=True))


def _summary(found: Result) -> str:
    ds2, dhalion = (found["policies"][name] for name in TITLES)
    up, down = ds2["first"], ds2["second"]
    theirs = f"{len(UP) - 1} and {len(DOWN['k'])}"
    ends = [each[phase]["end"] for phase in ("first", "second") for each in (ds2, dhalion)]
    return (
        f"DS2 takes {len(up['changes'])} decisions up, to {vector(ends[0])}, and {len(down['changes'])} down, to "
        f"{vector(ends[2])} (paper: {theirs}, to {vector(UP[-1])} and {vector(DOWN['k'][-1])}). It settles "
        f"{up['settled']:.0f} s after the start and {down['settled'] - RATES['second_from']:.0f} s after the change "
        f"(paper: {UP_AT['settled']} s and {DOWN['settled'] - RATES['second_from']} s). Dhalion, an addition to the "
        f"paper's experiment, takes {len(dhalion['first']['changes'])}, to {vector(ends[1])}, and "
        f"{len(dhalion['second']['changes'])}, to {vector(ends[3])}"
    )


def _plots(found: Result) -> list[Plot]:
    return [*(_parallelism(found, name) for name in TITLES), *(_throughput(found, name) for name in TITLES)]


def _throughput(found: Result, name: str) -> Plot:
    points = found["policies"][name]["carried"]
    offered = Series(
        "offered",
        (0, RATES["second_from"], RATES["until"]),
        tuple(RATES[phase] / 1e6 for phase in ("first", "second", "second")),
        "dashed steps",
        "quiet",
    )
    carried = Series("source", tuple(at for at, _ in points), tuple(rate / 1e6 for _, rate in points))
    return Plot(
        f"{name}-rate",
        f"{TITLES[name]}: source rate — simulated",
        "",
        Axis("seconds"),
        Axis("million sentences/s"),
        (carried, offered),
    )


def _parallelism(found: Result, name: str) -> Plot:
    changes = found["policies"][name]["changes"]
    xs = (0.0, *(each["running"] for each in changes), float(RATES["until"]))
    ks = [UP[0], *(each["k"] for each in changes), changes[-1]["k"]]
    operators: tuple[tuple[str, Role], ...] = (("flatmap", "main"), ("count", "second"))
    series = tuple(
        Series(operator, xs, tuple(k[i] for k in ks), "steps", role) for i, (operator, role) in enumerate(operators)
    )
    return Plot(
        f"{name}-k",
        f"{TITLES[name]}: instances — simulated",
        "",
        Axis("seconds"),
        Axis("instances", whole=True),
        series,
    )


CLAIM = Claim(
    "ds2_two_phases",
    cases,
    measure,
    result,
    figures={
        "summary": _summary,
        "decisions": _decisions,
        "inputs": lambda _: inputs(
            "flink-wordcount/rates", "flink-wordcount/manager", "flink-wordcount/up", "dhalion-wordcount/rates"
        ),
    },
    plots={"ds2_two_phases.svg": _plots},
)

if __name__ == "__main__":
    from experiments.shared.running import main

    main([CLAIM.name])
