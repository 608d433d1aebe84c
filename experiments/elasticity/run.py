"""AuTraScale's Tables II and III, Figs. 6 and 7, simulated: python -m experiments.elasticity.run"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from autotrascale.views.plots.plot import Axis, Level, Plot, Series
from experiments.elasticity.measure import METHODS, STARTS, cases, measure
from experiments.shared.claim import Claim, Measured, Pair, Result
from experiments.shared.documents import milliseconds, percent, spread, table, vector
from experiments.shared.driving import quartiles
from experiments.shared.jobs import job
from experiments.shared.published import inputs, published

TITLES = {
    "drs-observed": "DRS, observed rates",
    "drs-true": "DRS, true rates",
    "drs-observed-corrected": "DRS, observed, corrected",
    "drs-true-corrected": "DRS, true, corrected",
    "algorithm-1": "Algorithm 1",
    "default": "AuTraScale",
    "default-from-here": "AuTraScale, from the start",
}
SHORT = {
    "drs-observed": "DRS o",
    "drs-true": "DRS t",
    "drs-observed-corrected": "DRS o, corr.",
    "drs-true-corrected": "DRS t, corr.",
    "algorithm-1": "Alg. 1",
    "default": "ours",
    "default-from-here": "ours, from here",
}
PAPERS = {"drs-observed": "drs-observed", "drs-true": "drs-true", "algorithm-1": "autrascale"}
JOBS = {"wordcount": "WordCount, 350k/s, 180 ms", "yahoo": "Yahoo, 34k/s, 300 ms"}
RIVALS = {"as it is": ("drs-observed", "drs-true"), "corrected": ("drs-observed-corrected", "drs-true-corrected")}
OURS = ("algorithm-1", "default", "default-from-here")


def result(pairs: Sequence[Pair]) -> Result:
    rows = {
        name: {
            direction: {method: _row(_these(pairs, name, direction, method)) for method in METHODS}
            for direction in directions
        }
        for name, directions in STARTS.items()
    }
    return {"simulated": True, "rows": rows, "saved": _saved(rows), "paper_saved": _paper_saved()}


def _these(pairs: Sequence[Pair], name: str, direction: str, method: str) -> list[Measured]:
    wanted = {"job": name, "direction": direction, "method": method}
    return [found for case, found in pairs if all(case[key] == value for key, value in wanted.items())]


def _row(found: Sequence[Measured]) -> Result:
    latencies = [each["latency"] for each in found if each["latency"] is not None]
    ends = Counter(tuple(each["k"]) for each in found)
    return {
        "seeds": len(found),
        "often": list(ends.most_common(1)[0][0]),
        "often_share": ends.most_common(1)[0][1] / len(found),
        "instances": quartiles([each["instances"] for each in found]),
        "latency": quartiles(latencies)[1] if len(latencies) > len(found) / 2 else None,
        "qos_share": sum(each["qos"] for each in found) / len(found),
        "iterations": quartiles([each["iterations"] for each in found]),
        "runs": quartiles([each["runs"] for each in found]),
    }


def _saved(rows: Mapping[str, Any]) -> Result:
    """By the paper's reckoning: of the mean of DRS's two results, job by job, then the mean of both jobs."""
    return {
        direction: {
            ours: {
                kind: {
                    "mean": _mean([_share(rows[name][direction], ours, rivals) for name in rows]),
                    **{name: _share(rows[name][direction], ours, rivals) for name in rows},
                    "cheapest_that_holds": {name: _against_best(rows[name][direction], ours, rivals) for name in rows},
                }
                for kind, rivals in RIVALS.items()
            }
            for ours in OURS
        }
        for direction in ("up", "down")
    }


def _share(rows: Mapping[str, Any], ours: str, rivals: Sequence[str]) -> float:
    return round(1 - rows[ours]["instances"][1] / _mean([rows[rival]["instances"][1] for rival in rivals]), 4)


def _against_best(rows: Mapping[str, Any], ours: str, rivals: Sequence[str]) -> float | None:
    """Of the cheaper one that holds throughput and latency with at least half of the seeds; None: neither does."""
    holding = [rows[rival]["instances"][1] for rival in rivals if rows[rival]["qos_share"] >= 0.5]
    return round(1 - rows[ours]["instances"][1] / min(holding), 4) if holding else None


def _paper_saved() -> Result:
    """From the numbers of its tables; they give the percentages that its text has."""
    found = {}
    for direction in ("up", "down"):
        shares = []
        for name in STARTS:
            sums = {who: sum(published(f"{name}/{direction}/{who}")["k"]) for who in PAPERS.values()}
            shares.append(1 - sums["autrascale"] / _mean([sums["drs-observed"], sums["drs-true"]]))
        found[direction] = round(_mean(shares), 4)
    return found


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 4)


def _table(name: str) -> Any:
    def told(found: Result) -> str:
        rows = []
        for direction, start in STARTS[name].items():
            for method in METHODS:
                ours = found["rows"][name][direction][method]
                theirs = published(f"{name}/{direction}/{PAPERS[method]}") if method in PAPERS else None
                rows.append(
                    (
                        f"{direction} from {vector(start)}" if method == METHODS[0] else "",
                        TITLES[method],
                        _paper(theirs),
                        f"{vector(ours['often'])} ({percent(ours['often_share'], 0)})",
                        spread(ours["instances"]),
                        milliseconds(ours["latency"]),
                        percent(ours["qos_share"], 0),
                        spread(ours["iterations"]),
                    )
                )
        head = (
            "start",
            "method",
            "paper: k, latency, iterations, QoS",
            "most often (of seeds)",
            "Σk",
            "latency",
            "QoS held",
            "iterations",
        )
        return table(head, rows)

    return told


def _paper(point: Mapping[str, Any] | None) -> str:
    if point is None:
        return "–"
    held = "yes" if point["qos"] else "no"
    return f"{vector(point['k'])}, {milliseconds(point['latency'])}, {point['iterations']}, {held}"


def _saved_table(found: Result) -> str:
    rows = []
    for direction in ("up", "down"):
        for ours in OURS:
            for kind in RIVALS:
                each = found["saved"][direction][ours][kind]
                best = each["cheapest_that_holds"]
                rows.append(
                    (
                        direction,
                        TITLES[ours],
                        kind,
                        percent(published("elasticity/saved")[direction]),
                        percent(each["mean"]),
                        percent(each["wordcount"]),
                        percent(each["yahoo"]),
                        _or_none(best["wordcount"]),
                        _or_none(best["yahoo"]),
                    )
                )
    head = (
        "direction",
        "method",
        "DRS",
        "paper",
        "saved",
        "WordCount",
        "Yahoo",
        "WordCount, of the cheaper that holds",
        "Yahoo, of the cheaper that holds",
    )
    return table(head, rows)


def _or_none(share: float | None) -> str:
    return "none holds" if share is None else percent(share)


def _summary(found: Result) -> str:
    """Summarize the savings from the paper's starts, and from one instance of each operator."""
    theirs = published("elasticity/saved")
    corrected, from_ones, as_it_is = (
        _both_ways(found, ours, kind)
        for ours, kind in (
            ("default-from-here", "corrected"),
            ("default", "corrected"),
            ("default-from-here", "as it is"),
        )
    )
    return (
        f"AuTraScale uses {corrected} fewer instances than DRS corrected by measurements (paper: "
        f"{percent(theirs['down'])} down and {percent(theirs['up'])} up; from one instance each, {from_ones}). "
        f"Compared with plain DRS it uses {as_it_is} fewer. Throughput and latency hold in "
        f"{percent(_held(found, 'default-from-here'), 0)} of its runs, in "
        f"{percent(_held(found, *RIVALS['corrected']), 0)} of corrected DRS and in "
        f"{percent(_held(found, *RIVALS['as it is']), 0)} of plain DRS"
    )


def _both_ways(found: Result, ours: str, kind: str) -> str:
    down, up = (percent(found["saved"][way][ours][kind]["mean"]) for way in ("down", "up"))
    return f"{down} down and {up} up"


def _held(found: Result, *methods: str) -> float:
    return _mean(
        [
            found["rows"][name][way][method]["qos_share"]
            for name in STARTS
            for way in ("up", "down")
            for method in methods
        ]
    )


def _plots(found: Result) -> list[Plot]:
    return [
        panel
        for name in STARTS
        for panel in (
            _panel(found, name, "instances", "Σk, all operators", lambda row: row["instances"][1], None),
            _panel(
                found,
                name,
                "latency",
                "latency in ms, up to 1 s",
                _shown,
                Level(1000 * job(name).latency_target, "target"),
            ),
        )
    ]


def _shown(row: Mapping[str, Any]) -> float | None:
    return 1000 * row["latency"] if row["latency"] is not None and row["latency"] < 1 else None


def _panel(found: Result, name: str, what: str, unit: str, value: Any, level: Level | None) -> Plot:
    series = tuple(
        Series(
            direction,
            tuple(SHORT[m] for m in METHODS),
            tuple(value(found["rows"][name][direction][m]) for m in METHODS),
            "bars",
            role,
        )
        for direction, role in (("up", "main"), ("down", "second"))
    )
    return Plot(
        f"{name}-{what}",
        f"{JOBS[name]} — simulated",
        f"{what} of each method",
        Axis("", "names"),
        Axis(unit),
        series,
        () if level is None else (level,),
    )


_POINTS = [f"{name}/{way}/{who}" for name in STARTS for way in ("up", "down") for who in PAPERS.values()]
CLAIM = Claim(
    "elasticity",
    cases,
    measure,
    result,
    figures={
        "summary": _summary,
        "wordcount": _table("wordcount"),
        "yahoo": _table("yahoo"),
        "saved": _saved_table,
        "inputs": lambda _: inputs("wordcount/floor", "yahoo/floor", "yahoo/limit", "elasticity/score", *_POINTS),
    },
    plots={"elasticity.svg": _plots},
)

if __name__ == "__main__":
    from experiments.shared.running import main

    main([CLAIM.name])
