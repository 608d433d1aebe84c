"""DS2's Table 4 and Fig. 6, simulated: python -m experiments.ds2_convergence.run"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from autotrascale.views.plots.plot import Axis, Level, Plot, Series
from experiments.ds2_convergence.measure import INITIAL, SEEDS, cases, measure
from experiments.shared.claim import Claim, Measured, Pair, Result
from experiments.shared.documents import percent, table, vector
from experiments.shared.jobs import QUERIES
from experiments.shared.published import inputs, published

GROWTHS = {"even": "even", "steep": "steep"}


def result(pairs: Sequence[Pair]) -> Result:
    grid = {
        growth: {
            query: {str(initial): _cell(_ways(pairs, query, growth, initial)) for initial in INITIAL}
            for query in QUERIES
        }
        for growth in GROWTHS
    }
    return {
        "simulated": True,
        "grid": grid,
        "counts": {growth: _counts(grid[growth]) for growth in GROWTHS},
        "word_count": {case["policy"]: dict(found) for case, found in pairs if "policy" in case},
    }


def _ways(pairs: Sequence[Pair], query: str, growth: str, initial: int) -> list[list[int]]:
    wanted = {"query": query, "growth": growth, "initial": initial}
    return [list(m["way"]) for c, m in pairs if all(c.get(name) == value for name, value in wanted.items())]


def _cell(ways: Sequence[Sequence[int]]) -> Result:
    """The way of most seeds, and the most decisions of any."""
    often, times = Counter(tuple(way) for way in ways).most_common(1)[0]
    return {"way": list(often), "share": times / len(ways), "steps": len(often), "most": max(len(w) for w in ways)}


def _counts(queries: Any) -> Result:
    """Staying where it is counts as one decision, as in the paper's table."""
    cells = [(query, cell) for query, row in queries.items() for cell in row.values()]
    steps = [max(1, cell["steps"]) for _, cell in cells]
    return {
        "cells": len(cells),
        "one": sum(each == 1 for each in steps),
        "at_most_three": sum(each <= 3 for each in steps),
        "most": max(steps),
        "at_most_three_without_q11": sum(max(1, cell["steps"]) <= 3 for query, cell in cells if query != "Q11"),
    }


def _paper_counts() -> tuple[int, int, int]:
    steps = [each for row in published("ds2/steps").values() for each in row]
    return sum(each == 1 for each in steps), sum(each <= 3 for each in steps), len(steps)


def _grid(growth: str) -> Any:
    def told(found: Result) -> str:
        rows = [
            (initial, *(_way(found["grid"][growth][query][str(initial)], query, initial) for query in QUERIES))
            for initial in INITIAL
        ]
        return table(("from", *QUERIES), rows)

    return told


def _way(cell: Measured, query: str, initial: int) -> str:
    theirs = published("ds2/steps")[str(initial)][QUERIES.index(query)]
    way = " → ".join(str(each) for each in cell["way"]) or "stays"
    return f"{way} ({theirs})"


def _counted(found: Result) -> str:
    one, three, of = _paper_counts()
    rows = [("the paper, Flink", f"{one} of {of}", f"{three} of {of}", 3)]
    for growth, title in GROWTHS.items():
        each = found["counts"][growth]
        rows.append((title, f"{each['one']} of {of}", f"{each['at_most_three']} of {of}", each["most"]))
    return table(("jobs", "one decision", "three at most", "most decisions"), rows)


def _word_count(found: Result) -> str:
    rows = []
    for policy, title in (("ds2", "DS2"), ("dhalion", "Dhalion")):
        theirs, ours = published(f"dhalion-wordcount/{policy}"), found["word_count"][policy]
        way = " → ".join(vector(each["k"]) for each in ours["changes"])
        paper, mine = (
            f"{vector(k)} after {steps}" for k, steps in ((theirs["k"], theirs["steps"]), (ours["end"], ours["steps"]))
        )
        rows.append((title, paper, mine, f"{ours['settled_at']:,.0f} s", way))
    return table(("policy", "paper: (flatmap, count), decisions", "ours", "stops at", "path"), rows)


def _summary(found: Result) -> str:
    even, steep = found["counts"]["even"], found["counts"]["steep"]
    words = found["word_count"]
    share = sum(words["dhalion"]["end"]) / sum(words["ds2"]["end"])
    theirs, mine = (f"{words[who]['steps']} to {vector(words[who]['end'])}" for who in ("dhalion", "ds2"))
    return (
        f"DS2 stops after at most three decisions in {even['at_most_three']} of {even['cells']} even cases and in "
        f"{steep['at_most_three']} steep ones. On the word count it takes {mine}. Dhalion takes {theirs}, "
        f"{percent(share, 0)} of DS2's instances"
    )


def _plots(found: Result) -> list[Plot]:
    return [*(_of_growth(found, growth) for growth in GROWTHS), _throughput(found), _instances(found)]


def _of_growth(found: Result, growth: str) -> Plot:
    names = tuple(QUERIES)
    roles = ("main", "second", "third", "good", "bad", "quiet")
    series = tuple(
        Series(
            f"from {initial}",
            names,
            tuple(max(1, found["grid"][growth][q][str(initial)]["steps"]) for q in names),
            "bars",
            role,
        )  # type: ignore[arg-type]
        for initial, role in zip(INITIAL, roles, strict=True)
    )
    return Plot(
        growth,
        f"decisions, {growth} — simulated",
        "decisions until DS2 stands still",
        Axis("query", "names"),
        Axis("decisions", whole=True),
        series,
        (Level(3, "three"),),
    )


def _throughput(found: Result) -> Plot:
    series = tuple(
        Series(title, tuple(at for at, _ in points), tuple(rate / 1e6 for _, rate in points), "line", role)
        for policy, title, role in (("ds2", "DS2", "main"), ("dhalion", "Dhalion", "second"))
        for points in [found["word_count"][policy]["throughput"]]
    )  # type: ignore[arg-type]
    return Plot(
        "throughput",
        "word count — simulated",
        "what each carries",
        Axis("seconds"),
        Axis("million sentences/min"),
        series,
        (Level(1.0, "offered"),),
    )


def _instances(found: Result) -> Plot:
    series = []
    for policy, title, role in (("ds2", "DS2", "main"), ("dhalion", "Dhalion", "second")):
        changes = found["word_count"][policy]["changes"]
        last = found["word_count"][policy]["throughput"][-1][0]
        xs, ys = [each["at"] for each in changes], [sum(each["k"]) for each in changes]
        series.append(Series(title, (*xs, last), (*ys, ys[-1]), "steps", role))  # type: ignore[arg-type]
    return Plot(
        "instances",
        "word count — simulated",
        "flatmap and count together",
        Axis("seconds"),
        Axis("instances, flatmap + count"),
        tuple(series),
    )


CLAIM = Claim(
    "ds2_convergence",
    cases,
    measure,
    result,
    figures={
        "summary": _summary,
        "counted": _counted,
        "even": _grid("even"),
        "steep": _grid("steep"),
        "word_count": _word_count,
        "seeds": lambda _: str(SEEDS),
        "inputs": lambda _: inputs("ds2/rates", "ds2/final", "ds2/first-from-8", "dhalion-wordcount/rates"),
    },
    plots={"ds2_convergence.svg": _plots},
)

if __name__ == "__main__":
    from experiments.shared.running import main

    main([CLAIM.name])
