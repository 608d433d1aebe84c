"""DS2's Fig. 8, simulated: python -m experiments.ds2_accuracy.run"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from autotrascale.views.plots.plot import Axis, Plot, Series
from experiments.ds2_accuracy.measure import BUFFER, STARTS, cases, measure
from experiments.ds2_convergence.measure import SEEDS
from experiments.shared.claim import Claim, Pair, Result
from experiments.shared.documents import percent, table, vector
from experiments.shared.jobs import QUERIES
from experiments.shared.published import inputs, published

GROWTHS = ("even", "steep")
MORE = Axis("instances more than the paper's choice")
ROLES = ("main", "second", "third", "good", "bad", "quiet")


def result(pairs: Sequence[Pair]) -> Result:
    queries = {
        growth: {case["query"]: dict(found) for case, found in pairs if case.get("growth") == growth}
        for growth in GROWTHS
    }
    return {
        "simulated": True,
        "queries": queries,
        "skew": [{"share": case["skew"], **found} for case, found in pairs if "skew" in case],
        "counts": {growth: _counts(found.values()) for growth, found in queries.items()},
    }


def _counts(queries: Any) -> Result:
    """Of all choices: one for each query, start and seed."""
    away = [k - found["least"] for found in queries for chosen in found["chosen"].values() for k in chosen]
    return {
        "choices": len(away),
        "least": away.count(0),
        "fewer": sum(each < 0 for each in away),
        "more": sum(each > 0 for each in away),
        "most_more": max(away),
        "most_fewer": -min(away),
    }


def _choices(found: Result) -> str:
    rows = [
        (
            growth if query == QUERIES[0] else "",
            query,
            published("ds2/final")[query],
            each["least"],
            *(_often(each["chosen"][str(start)]) for start in STARTS),
            percent(_more(each, query, -1)["carried"]),
        )
        for growth, queries in found["queries"].items()
        for query, each in queries.items()
    ]
    head = (
        "jobs",
        "query",
        "paper's choice",
        "least that keeps up",
        *(f"DS2 from {start}" for start in STARTS),
        "one fewer than the paper's carries",
    )
    return table(head, rows)


def _often(chosen: Sequence[int]) -> str:
    k, times = Counter(chosen).most_common(1)[0]
    return str(k) if times == len(chosen) else f"{k} ({times} of {len(chosen)} seeds)"


def _latencies(found: Result) -> str:
    rows = []
    for query, each in found["queries"]["even"].items():
        there = [_more(each, query, more)["latency"] for more in (0, 1, 8)]
        rows.append((query, *(f"{_ms(at['p50'])}, {_ms(at['p99'])}" for at in there)))
    return table(("query: latency, half and 99 % within", "at DS2's choice", "one more", "eight more"), rows)


def _skew(found: Result) -> str:
    rows = [
        (
            percent(each["share"], 0),
            vector(each["end"]),
            f"{each['steps']} ({published('ds2/skew/decisions')})",
            percent(each["carried"], 0),
        )
        for each in found["skew"]
    ]
    head = (
        "of the words, one has",
        "DS2 ends at (flatmap, count)",
        "decisions, in brackets the paper's",
        "of the rate is carried",
    )
    return table(head, rows)


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms"


def _more(each: Mapping[str, Any], query: str, more: int) -> Mapping[str, Any]:
    """What is true with so many instances more than the paper's choice."""
    k = published("ds2/final")[query] + more
    found: Mapping[str, Any] = next(at for at in each["around"] if at["k"] == k)
    return found


def _summary(found: Result) -> str:
    even, steep = found["counts"]["even"], found["counts"]["steep"]
    fewer = [_more(each, query, -1)["carried"] for query, each in found["queries"]["even"].items()]
    return (
        f"even speed: {even['least']} of {even['choices']} choices of DS2 are the least that keeps up. One instance "
        f"fewer carries {percent(min(fewer), 0)} to {percent(max(fewer), 0)} of the rate. Steep: {steep['least']} "
        f"choices are the least, {steep['fewer']} are up to {steep['most_fewer']} too few and {steep['more']} up to "
        f"{steep['most_more']} too many"
    )


def _plots(found: Result) -> list[Plot]:
    return [panel(found, growth) for panel in (_missed, _latency) for growth in GROWTHS]


def _missed(found: Result, growth: str) -> Plot:
    series = tuple(
        Series(query, *_around(each, query, lambda at: 100 * (1 - at["carried"])), "line", role)  # type: ignore[arg-type]
        for (query, each), role in zip(found["queries"][growth].items(), ROLES, strict=True)
    )
    return Plot(
        f"{growth}-rate", f"rate that is missed, {growth} — simulated", "", MORE, Axis("% of the source's rate"), series
    )


def _latency(found: Result, growth: str) -> Plot:
    series = tuple(
        Series(query, *_around(each, query, lambda at: at["latency"] and 1000 * at["latency"]["p99"]), "line", role)  # type: ignore[arg-type]
        for (query, each), role in zip(found["queries"][growth].items(), ROLES, strict=True)
    )
    return Plot(
        f"{growth}-latency",
        f"latency, {growth} — simulated",
        "",
        MORE,
        Axis("ms, 99 % within; none: falls behind"),
        series,
    )


def _around(each: Mapping[str, Any], query: str, value: Any) -> tuple[tuple[float, ...], tuple[float | None, ...]]:
    final = published("ds2/final")[query]
    return tuple(at["k"] - final for at in each["around"]), tuple(value(at) for at in each["around"])


CLAIM = Claim(
    "ds2_accuracy",
    cases,
    measure,
    result,
    figures={
        "summary": _summary,
        "choices": _choices,
        "latencies": _latencies,
        "skew": _skew,
        "seeds": lambda _: str(SEEDS),
        "buffer": lambda _: f"{BUFFER:.0f}",
        "inputs": lambda _: inputs("ds2/rates", "ds2/final", "ds2/first-from-8", "dhalion-wordcount/rates", "ds2/skew"),
    },
    plots={"ds2_accuracy.svg": _plots},
    code=("experiments/ds2_convergence",),
)

if __name__ == "__main__":
    from experiments.shared.running import main

    main([CLAIM.name])
