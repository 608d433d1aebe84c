"""The floors of AuTraScale's Fig. 5, simulated: python -m experiments.floors.run"""

from __future__ import annotations

from collections.abc import Sequence

from autotrascale.views.plots.plot import Axis, Level, Plot, Series
from experiments.floors.measure import CORRECTIONS, RATES, cases, measure
from experiments.shared.claim import Claim, Measured, Pair, Result
from experiments.shared.documents import percent, table, vector
from experiments.shared.published import inputs, published

TITLES = {"wordcount": "WordCount", "yahoo": "Yahoo", "q5": "Nexmark Q5", "q11": "Nexmark Q11"}


def result(pairs: Sequence[Pair]) -> Result:
    exact = {case["job"]: dict(found) for case, found in pairs if not case["noise"]}
    noisy = {
        name: {
            how: _noisy(name, [m for c, m in pairs if c["noise"] and c["job"] == name and c["corrections"] == n])
            for how, n in (("as_printed", 0), ("corrected", CORRECTIONS))
        }
        for name in RATES
    }
    return {"simulated": True, "exact": exact, "noisy": noisy, "corrections": CORRECTIONS}


def _noisy(name: str, found: Sequence[Measured]) -> Result:
    theirs = published(f"{name}/floor")
    away = [sum(abs(a - b) for a, b in zip(each["floor"], theirs, strict=True)) for each in found]
    return {
        "seeds": len(found),
        "equal_share": sum(each == 0 for each in away) / len(found),
        "most_instances_away": max(away),
        "held_share": sum(each["met"] for each in found) / len(found),
        "most_iterations": max(len(each["steps"]) - 1 for each in found),
    }


def _steps(found: Result) -> str:
    rows = []
    for name, each in found["exact"].items():
        theirs = published(f"{name}/floor")
        way = " → ".join(vector(step["k"]) for step in each["steps"])
        rate = f"{RATES[name]:,.0f}/s"
        carried = f"{max(step['throughput'] for step in each['steps']):,.0f}/s"
        rows.append((TITLES[name], rate, vector(theirs), vector(each["floor"]), len(each["steps"]) - 1, carried, way))
    return table(("workload", "offered", "paper's floor", "ours", "new parallelisms", "carried", "way"), rows)


def _noise(found: Result) -> str:
    rows = [
        (
            TITLES[name],
            how,
            percent(each["equal_share"], 0),
            each["most_instances_away"],
            percent(each["held_share"], 0),
            each["most_iterations"],
        )
        for name, both in found["noisy"].items()
        for how, each in (("as the paper stops", both["as_printed"]), ("capacity corrected", both["corrected"]))
    ]
    seeds = found["noisy"]["wordcount"]["as_printed"]["seeds"]
    head = (
        "workload",
        "search",
        f"equal, of {seeds} seeds",
        "instances away at most",
        "holds the rate",
        "new parallelisms at most",
    )
    return table(head, rows)


def _summary(found: Result) -> str:
    equal = sum(list(each["floor"]) == published(f"{name}/floor") for name, each in found["exact"].items())
    most = max(len(each["steps"]) - 1 for each in found["exact"].values())
    return (
        f"{equal} of {len(found['exact'])} floors equal the paper's, after {most} new parallelisms at most (paper: 4)"
    )


def _plots(found: Result) -> list[Plot]:
    return [
        Plot(
            name,
            f"{TITLES[name]}, {RATES[name]:,.0f}/s offered — simulated",
            "throughput, run by run",
            Axis("run", "names"),
            Axis("thousand records/s"),
            (
                Series(
                    "carried",
                    tuple(vector(step["k"]) for step in each["steps"]),
                    tuple(step["throughput"] / 1e3 for step in each["steps"]),
                    "bars",
                ),
            ),
            (Level(RATES[name] / 1e3, "offered"),),
        )
        for name, each in found["exact"].items()
    ]


CLAIM = Claim(
    "floors",
    cases,
    measure,
    result,
    figures={
        "summary": _summary,
        "steps": _steps,
        "noise": _noise,
        "inputs": lambda _: inputs(*(f"{name}/floor" for name in RATES), "yahoo/limit"),
    },
    plots={"floors.svg": _plots},
)

if __name__ == "__main__":
    from experiments.shared.running import main

    main([CLAIM.name])
