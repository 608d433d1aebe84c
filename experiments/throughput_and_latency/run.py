"""AuTraScale's Figs. 1 and 2, simulated: python -m experiments.throughput_and_latency.run"""

from __future__ import annotations

from collections.abc import Sequence

from autotrascale.views.plots.plot import Axis, Level, Plot, Series
from experiments.shared.claim import Claim, Pair, Result
from experiments.shared.documents import milliseconds, table
from experiments.shared.published import inputs, published
from experiments.throughput_and_latency.measure import P, cases, measure


def result(pairs: Sequence[Pair]) -> Result:
    return {
        "simulated": True,
        "rising": next(dict(found) for case, found in pairs if case["figure"] == 1),
        "parallelism": {str(case["p"]): dict(found) for case, found in pairs if case["figure"] == 2},
    }


def _parallelism(found: Result) -> str:
    carried = dict(zip(("1", "2", "3"), published("wordcount-small/throughput"), strict=True))
    late = dict(zip(("5", "6"), published("wordcount-small/latency"), strict=True))
    rows = [
        (
            p,
            f"{carried[p]:,}/s" if p in carried else "–",
            f"{each['throughput']:,.0f}/s",
            milliseconds(late.get(p)),
            milliseconds(each["latency"]) if each["keeps_up"] else "falls behind",
            "–" if each["read"] is None else " – ".join(f"{1000 * value:.0f}" for value in each["read"][::2]) + " ms",
        )
        for p, each in found["parallelism"].items()
    ]
    head = ("p", "paper: throughput", "ours", "paper: latency", "ours", "middle half of readings")
    return table(head, rows)


def _rising(found: Result) -> str:
    rows = []
    for rate in published("wordcount-small/rates"):
        looks = [look for look in found["rising"]["looks"] if look["offered"] == rate]
        rows.append(
            (
                f"{rate:,}/s",
                f"{looks[-1]['throughput']:,.0f}/s",
                milliseconds(looks[0]["latency"]),
                milliseconds(looks[-1]["latency"]),
                f"{looks[-1]['lag']:,.0f}",
            )
        )
    return table(("offered", "carried", "latency, first minute", "tenth minute", "records waiting at the end"), rows)


def _summary(found: Result) -> str:
    looks = found["rising"]["looks"]
    behind = next(look["offered"] for look in looks if look["throughput"] < 0.98 * look["offered"])
    rows = found["parallelism"]
    known = {int(p): each["latency"] for p, each in rows.items() if each["latency"] is not None}
    best = min(known, key=lambda p: known[p])
    least, last = milliseconds(known[best]), milliseconds(known[max(known)])
    turn = f"latency is least at p = {best}, {least}, and {last} at {max(known)}"
    gains = " and ".join(f"{rows[str(p)]['throughput'] / rows['1']['throughput']:.2f}" for p in (2, 3))
    return f"p = {P} falls behind at {behind:,}/s. 2 and 3 instances carry {gains} times the rate of one. The {turn}"


def _plots(found: Result) -> list[Plot]:
    looks = found["rising"]["looks"]
    minutes = tuple(look["minute"] for look in looks)
    places, each = tuple(found["parallelism"]), found["parallelism"].values()
    carried = tuple(one["throughput"] / 1e3 for one in each)
    latencies = tuple(1000 * one["latency"] if one["keeps_up"] else None for one in each)
    return [
        Plot(
            "rising",
            f"p = {P}, rising rate — simulated",
            "",
            Axis("minute"),
            Axis("thousand records/s"),
            (
                Series("offered", minutes, tuple(look["offered"] / 1e3 for look in looks), "steps", "quiet"),
                Series("carried", minutes, tuple(look["throughput"] / 1e3 for look in looks), "steps"),
            ),
        ),
        Plot(
            "lag",
            f"p = {P}, rising rate — simulated",
            "",
            Axis("minute"),
            Axis("latency, s"),
            (Series("mean latency", minutes, tuple(look["latency"] for look in looks), "line", "second"),),
        ),
        Plot(
            "throughput",
            "300,000/s offered — simulated",
            "",
            Axis("p", "names"),
            Axis("thousand records/s"),
            (Series("carried", places, carried, "bars"),),
            (Level(300, "offered"),),
        ),
        Plot(
            "latency",
            "300,000/s offered — simulated",
            "",
            Axis("p", "names"),
            Axis("ms (none: falls behind)"),
            (Series("latency", places, latencies, "bars", "second"),),
        ),
    ]


CLAIM = Claim(
    "throughput_and_latency",
    cases,
    measure,
    result,
    figures={
        "summary": _summary,
        "parallelism": _parallelism,
        "rising": _rising,
        "inputs": lambda _: inputs("wordcount-small/throughput", "wordcount-small/latency", "wordcount-small/rates"),
    },
    plots={"throughput_and_latency.svg": _plots},
)

if __name__ == "__main__":
    from experiments.shared.running import main

    main([CLAIM.name])
