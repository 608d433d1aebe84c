"""AuTraScale's Fig. 8, simulated: python -m experiments.rate_changes.run"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from autotrascale.views.plots.plot import Axis, Level, Plot, Series
from experiments.rate_changes.measure import BUSY, EXAMPLE, FACTORS, FAMILIES, RATIO, USUAL, cases, measure
from experiments.shared.claim import Claim, Pair, Result
from experiments.shared.documents import milliseconds, percent, spread, table, vector
from experiments.shared.driving import quartiles
from experiments.shared.published import inputs, published

METHODS = {
    "ds2": "DS2",
    "ds2-ratio": f"DS2, target rate ratio {RATIO:.1f}",
    "ds2-headroom": "DS2, headroom of the rate before",
    "ds2-usual": f"DS2, {percent(USUAL, 0)} utilisation",
    "ds2-hindsight": "DS2, least headroom that holds QoS",
    "algorithm-2": "Algorithm 2",
    "transfer": "AuTraScale, from a model",
    "transfer-on": "AuTraScale, from a model, as many runs as DS2",
    "cold": "AuTraScale, cold",
}
SHORT = {
    "ds2": "DS2",
    "ds2-ratio": "DS2, ratio",
    "ds2-headroom": "DS2 + headroom",
    "ds2-usual": f"DS2 at {USUAL:.0%}",
    "ds2-hindsight": "DS2, hindsight",
    "algorithm-2": "Alg. 2",
    "transfer": "ours, warm",
    "transfer-on": "ours, warm, on",
    "cold": "ours, cold",
}
RIVALS = ("ds2", "ds2-ratio", "ds2-headroom", "ds2-usual", "ds2-hindsight")
OURS = ("algorithm-2", "transfer", "transfer-on", "cold")
OFFLINE = ("ds2-offline", "transfer", "transfer-on")
QUERIES = {"q5": "Q5, 20k → 30k/s, 500 ms", "q11": "Q11, 80k → 100k/s, 150 ms"}


def result(pairs: Sequence[Pair]) -> Result:
    known = [(case, found) for case, found in pairs if found and "busy" not in case]
    queries = {name: [found for case, found in known if case["job"] == name] for name in QUERIES}
    drawn = [found for case, found in known if "/" in case["job"]]
    return {
        "simulated": True,
        "queries": {
            name: {method: _row([each[method] for each in found]) for method in METHODS}
            for name, found in queries.items()
        },
        "drawn": {
            "changes": len(drawn),
            "methods": {method: _shares([(each[method], each["ds2"]) for each in drawn]) for method in METHODS},
        },
        "saved": {ours: {rival: _saved(queries, drawn, ours, rival) for rival in RIVALS} for ours in OURS},
        "offline": [_offline(pairs, busy) for busy in BUSY],
    }


def _offline(pairs: Sequence[Pair], busy: float) -> Result:
    """DS2 offline and ours, on the queries with sources that are so busy."""
    queries = {
        name: [found for case, found in pairs if case.get("busy") == busy and case["job"] == name] for name in QUERIES
    }
    return {
        "busy": busy,
        "queries": {
            name: {method: _row([each[method] for each in found]) for method in OFFLINE}
            for name, found in queries.items()
        },
        "saved": {ours: _saved(queries, [], ours, "ds2-offline") for ours in OFFLINE[1:]},
    }


def _row(found: Sequence[Mapping[str, Any]]) -> Result:
    latencies = [each["latency"] for each in found if each["latency"] is not None]
    often, times = Counter(tuple(each["k"]) for each in found).most_common(1)[0]
    return {
        "seeds": len(found),
        "often": list(often),
        "often_share": times / len(found),
        "instances": quartiles([each["instances"] for each in found]),
        "latency": quartiles(latencies)[1] if len(latencies) > len(found) / 2 else None,
        "qos_share": sum(each["qos"] for each in found) / len(found),
        "runs": quartiles([each["runs"] for each in found]),
    }


def _shares(found: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> Result:
    """Instances over those of DS2 as it is, run by run."""
    return {
        "of_ds2": quartiles([each["instances"] / ds2["instances"] for each, ds2 in found]),
        "qos_share": sum(each["qos"] for each, _ in found) / len(found),
        "runs": quartiles([each["runs"] for each, _ in found]),
    }


def _saved(queries: Mapping[str, Any], drawn: Sequence[Any], ours: str, rival: str) -> Result:
    """1 − ours/theirs, mean: over both queries, and over the drawn changes; and of these, where both hold, too."""

    def shares(found: Sequence[Any], where_both_hold: bool = False) -> list[float]:
        return [
            1 - f[ours]["instances"] / f[rival]["instances"]
            for f in found
            if not where_both_hold or (f[ours]["qos"] and f[rival]["qos"])
        ]

    both = {name: _mean(shares(found, where_both_hold=True)) for name, found in queries.items()}
    known = [each for each in both.values() if each is not None]
    return {
        "queries": _mean([share for found in queries.values() if (share := _mean(shares(found))) is not None]),
        "queries_where_both_hold": _mean(known) if len(known) == len(both) else None,
        "each": {name: _mean(shares(found)) for name, found in queries.items()},
        "each_where_both_hold": both,
        "drawn": _mean(shares(drawn)),
        "drawn_where_both_hold": _mean(shares(drawn, where_both_hold=True)),
        "both_hold": len(shares(drawn, where_both_hold=True)),
    }


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 4) if values else None


def _queries(found: Result) -> str:
    rows = [
        (
            QUERIES[name] if method == "ds2" else "",
            METHODS[method],
            f"{vector(row['often'])} ({percent(row['often_share'], 0)})",
            spread(row["instances"]),
            milliseconds(row["latency"]),
            percent(row["qos_share"], 0),
            spread(row["runs"]),
        )
        for name, methods in found["queries"].items()
        for method, row in methods.items()
    ]
    head = ("change", "method", "most often (of seeds)", "Σk", "latency", "QoS held", "runs at the new rate")
    return table(head, rows)


def _drawn(found: Result) -> str:
    rows = [
        (METHODS[method], spread(row["of_ds2"], 2), percent(row["qos_share"], 0), spread(row["runs"]))
        for method, row in found["drawn"]["methods"].items()
    ]
    about = f"{found['drawn']['changes']} changes, to {' and '.join(f'{each:g}' for each in FACTORS)} times the rate"
    kinds = ", ".join(FAMILIES)
    return f"{about}, of drawn jobs of the families {kinds}:\n\n" + table(
        ("method", "Σk over DS2's", "QoS held", "runs at the new rate"), rows
    )


def _saved_table(found: Result) -> str:
    rows = [
        (
            METHODS[ours],
            METHODS[rival],
            percent(each["queries"]),
            percent(each["queries_where_both_hold"]),
            percent(each["drawn"]),
            f"{percent(each['drawn_where_both_hold'])} of {each['both_hold']}",
        )
        for ours, rivals in found["saved"].items()
        for rival, each in rivals.items()
    ]
    return table(
        (
            "method",
            "against",
            "saved, Q5 and Q11",
            "… where both hold QoS",
            "saved, drawn jobs",
            "… where both hold QoS",
        ),
        rows,
    )


def _offline_table(found: Result) -> str:
    rows = []
    for each in found["offline"]:
        told = f"{percent(each['busy'], 0)}{', as in the example' * (each['busy'] == EXAMPLE)}"
        for name, methods in each["queries"].items():
            rows.append(
                (
                    told,
                    name.upper(),
                    *(_ended(methods[method]) for method in OFFLINE),
                    percent(each["saved"]["transfer"]["each"][name]),
                    percent(each["saved"]["transfer-on"]["each"][name]),
                )
            )
            told = ""
        saved = (percent(each["saved"][ours]["queries"]) for ours in OFFLINE[1:])
        rows.append(("", "both", "", "", "", *saved))
    head = (
        "source busy",
        "query",
        "DS2, offline: Σk, QoS, runs",
        "ours, from a model",
        "ours, as many runs as DS2",
        "saved",
        "saved, as many runs",
    )
    return table(head, rows)


def _ended(row: Result) -> str:
    return f"{spread(row['instances'])}, {percent(row['qos_share'], 0)}, {row['runs'][1]:.0f}"


def _example(found: Result) -> Result:
    saved: Result = next(each for each in found["offline"] if each["busy"] == EXAMPLE)["saved"]
    return saved


def _summary(found: Result) -> str:
    ours, theirs = found["saved"]["transfer"], found["queries"]
    plain, ratio, usual = (_signed(ours[rival]["queries"]) for rival in ("ds2", "ds2-ratio", "ds2-usual"))
    each, on = (
        " and ".join(
            f"{_signed(found['saved'][method]['ds2-hindsight']['each_where_both_hold'][name])} on {name.upper()}"
            for name in QUERIES
        )
        for method in ("transfer", "transfer-on")
    )
    held = {
        method: " and ".join(percent(theirs[name][method]["qos_share"], 0) for name in QUERIES)
        for method in ("ds2", "ds2-ratio", "transfer")
    }
    paper = percent(published("rate_changes/saved"))
    offline = _example(found)
    return (
        f"Offline DS2, with sources as busy as in its authors' example: AuTraScale from a model takes "
        f"{_signed(offline['transfer']['queries'])} instances, and {_signed(offline['transfer-on']['queries'])} in as "
        f"many runs (paper: {paper} fewer). DS2 with the offered rate: AuTraScale takes {ratio} instances than DS2 "
        f"with its target rate ratio, and {plain} than DS2 without it. QoS holds on Q5 and Q11 in {held['ds2-ratio']} "
        f"of the seeds with the ratio, {held['ds2']} without, and {held['transfer']} for AuTraScale. Compared with the "
        f"least headroom that holds, known only afterwards, AuTraScale takes {each}. In as many runs as DS2 it takes "
        f"{on}. At {percent(USUAL, 0)} utilization DS2 needs more: AuTraScale takes {usual}"
    )


def _signed(share: float | None) -> str:
    if not share:
        return "–" if share is None else "as many instances"
    return f"{percent(abs(share))} {'fewer' if share >= 0 else 'more'}"


def _plots(found: Result) -> list[Plot]:
    names = tuple(SHORT[method] for method in METHODS)
    return (
        [
            Plot(
                name,
                f"{QUERIES[name]} — simulated",
                "instances of each method",
                Axis("", "names"),
                Axis("Σk, median"),
                (Series("instances", names, tuple(row["instances"][1] for row in methods.values()), "bars"),),
            )
            for name, methods in found["queries"].items()
        ]
        + [
            Plot(
                f"{name}-qos",
                f"{QUERIES[name]} — simulated",
                "QoS held by each method",
                Axis("", "names"),
                Axis("QoS held, % of seeds"),
                (Series("held", names, tuple(100 * row["qos_share"] for row in methods.values()), "bars", "good"),),
            )
            for name, methods in found["queries"].items()
        ]
        + _offline_plots(found)
    )


def _offline_plots(found: Result) -> list[Plot]:
    busy = tuple(100 * each["busy"] for each in found["offline"])
    across = Axis("% of its time that the source is busy")
    named = (
        ("ds2-offline", "DS2, offline", "third"),
        ("transfer", "ours, warm", "main"),
        ("transfer-on", "ours, warm, on", "second"),
    )
    instances = tuple(
        Series(name, busy, tuple(_together(each, method) for each in found["offline"]), "line", role)  # type: ignore[arg-type]
        for method, name, role in named
    )
    saved = tuple(
        Series(name, busy, tuple(100 * each["saved"][method]["queries"] for each in found["offline"]), "line", role)  # type: ignore[arg-type]
        for method, name, role in named[1:]
    )
    paper = Level(100 * published("rate_changes/saved"), "the paper")
    return [
        Plot("offline", "Q5 and Q11, DS2 offline — simulated", "", across, Axis("Σk of both, medians"), instances),
        Plot("saved", "Q5 and Q11, DS2 offline — simulated", "", across, Axis("instances saved, %"), saved, (paper,)),
    ]


def _together(each: Result, method: str) -> float:
    return float(sum(methods[method]["instances"][1] for methods in each["queries"].values()))


CLAIM = Claim(
    "rate_changes",
    cases,
    measure,
    result,
    figures={
        "summary": _summary,
        "queries": _queries,
        "offline": _offline_table,
        "drawn": _drawn,
        "saved": _saved_table,
        "inputs": lambda _: inputs(
            "q5/floor",
            "q11/floor",
            "q5/change",
            "q11/change",
            "elasticity/score",
            "ds2/target-ratio",
            "ds2/offline/source",
        ),
    },
    plots={"rate_changes.svg": _plots},
)

if __name__ == "__main__":
    from experiments.shared.running import main

    main([CLAIM.name])
