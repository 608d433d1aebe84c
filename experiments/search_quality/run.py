"""Searches beside each other, simulated: python -m experiments.search_quality.run"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from autotrascale.views.plots.plot import Axis, Plot, Series
from benchmarks.workloads.transfer_measures import OURS, PAPER
from benchmarks.workloads.transfer_searches import BUDGET
from experiments.search_quality.choices import CHOICES
from experiments.search_quality.measure import FAMILIES, METHODS, cases, measure
from experiments.shared.claim import Claim, Measured, Pair, Result
from experiments.shared.documents import percent, spread, table
from experiments.shared.driving import quartiles

TITLES = {
    OURS: "AuTraScale",
    PAPER: "Algorithm 1",
    "random": "random",
    "skopt-gp-ei": "scikit-optimize, GP and EI",
    "optuna-tpe": "Optuna, TPE",
    "optuna-gp": "Optuna, GP",
}
SHORT = {
    OURS: "ours",
    PAPER: "Alg. 1",
    "random": "random",
    "skopt-gp-ei": "skopt",
    "optuna-tpe": "TPE",
    "optuna-gp": "Optuna GP",
}


def result(pairs: Sequence[Pair]) -> Result:
    return {
        "simulated": True,
        "cold": _searches(pairs, _before()),
        "changed": {
            method: {
                start: _row([row for row in _of(pairs, method, "warm", FAMILIES) if row["start"] == start])
                for start in ("cold", "warm")
            }
            for method in (OURS, PAPER)
        },
        "choices": _choices(pairs),
    }


def _searches(pairs: Sequence[Pair], before: Result) -> Result:
    """A search whose package is not installed here keeps the row of where it was: it depends on the jobs alone."""
    found = {}
    for method in METHODS:
        if any(case["method"] == method for case, _ in pairs):
            found[method] = {
                "all": _row(_of(pairs, method, "cold", FAMILIES)),
                **{family: _row(_of(pairs, method, "cold", (family,))) for family in FAMILIES},
            }
        elif method in before:
            found[method] = before[method]
    return found


def _before() -> Result:
    return dict(CLAIM.read_result()["cold"]) if CLAIM.result_file.exists() else {}


def _choices(pairs: Sequence[Pair]) -> Result:
    """Each with its medians, and job by job beside the search that it is a change of."""
    told: dict[str, dict[tuple[str, int], Measured]] = {name: {} for name in CHOICES}
    for case, found in pairs:
        if case["part"] == "choice":
            told[case["method"]][case["family"], case["number"]] = found["rows"][0]
    return {
        name: {
            **_row(list(rows.values())),
            **_beside(rows, told[CHOICES[name].against]),
            "of_floor": quartiles([row["of_floor"] for row in rows.values()]),
        }
        for name, rows in told.items()
    }


def _beside(rows: Mapping[Any, Measured], kept: Mapping[Any, Measured]) -> Result:
    """On how many jobs it stopped sooner and later, and by how many runs in the mean."""
    more = [_stop(row) - _stop(kept[job]) for job, row in rows.items()]
    return {
        "sooner": sum(each < 0 for each in more),
        "later": sum(each > 0 for each in more),
        "more_runs_mean": round(sum(more) / len(more), 2),
        "more_regret_mean": round(
            sum(row["regret_at_stop"] - kept[job]["regret_at_stop"] for job, row in rows.items()) / len(more), 4
        ),
    }


def _stop(row: Measured) -> int:
    """A search that never accepted anything counts as its budget, and one run more."""
    return int(row["stop"] if row["stop"] is not None else BUDGET + 1)


def _of(pairs: Sequence[Pair], method: str, part: str, families: Sequence[str]) -> list[Mapping[str, Any]]:
    return [
        row
        for case, found in pairs
        if case["method"] == method and case["part"] == part and case["family"] in families
        for row in found["rows"]
    ]


def _row(rows: Sequence[Mapping[str, Any]]) -> Result:
    stops = [_stop(row) for row in rows]
    accepted = [row for row in rows if row["stop"] is not None]
    later = [row["regret_later"] for row in rows if row.get("regret_later") is not None]
    return {
        "searches": len(rows),
        "stopped_share": len(accepted) / max(len(rows), 1),
        "runs": quartiles(stops),
        "regret": quartiles([row["regret_at_stop"] for row in rows]),
        "regret_after_10": quartiles(later) if later else None,
        "missed_share": sum(bool(row["missed"]) for row in accepted) / max(len(accepted), 1),
    }


def _cold(found: Result) -> str:
    rows = [(TITLES[method], *_cells(each["all"])) for method, each in found["cold"].items()]
    return table(("search", *_HEAD), rows)


def _changed(found: Result) -> str:
    titles = {OURS: "AuTraScale", PAPER: "Algorithms 1 and 2"}
    starts = {"cold": "cold", "warm": "from a model"}
    rows = [
        (f"{titles[method]}, {starts[start]}", *_cells(each))
        for method, both in found["changed"].items()
        for start, each in both.items()
    ]
    return table(("search at 0.7 and 1.4 times the rate", *_HEAD), rows)


_HEAD = (
    "searches",
    "accepts something",
    "runs until then",
    "regret then",
    "regret after 10 runs",
    "accepted and misses",
)


def _cells(each: Result) -> tuple[object, ...]:
    later = each["regret_after_10"]
    return (
        each["searches"],
        percent(each["stopped_share"], 0),
        _runs(each["runs"]),
        _regret(each["regret"]),
        "–" if later is None else _regret(later),
        percent(each["missed_share"], 0),
    )


def _runs(values: Sequence[float]) -> str:
    low, middle, high = ("never" if value > BUDGET else f"{math.ceil(value)}" for value in values)
    return f"{middle} [{low}, {high}]"


def _regret(values: Sequence[float]) -> str:
    low, middle, high = values
    return f"{middle:.3f} [{low:.3f}, {high:.3f}]"


def _families(found: Result) -> str:
    rows = [(family, *(_short(each[family]) for each in found["cold"].values())) for family in FAMILIES]
    return table(("family", *(TITLES[method] for method in found["cold"])), rows)


def _short(each: Result) -> str:
    return f"{_runs(each['runs'])}; {each['regret'][1]:.3f}"


def _choices_table(found: Result) -> str:
    rows = []
    for name, each in found["choices"].items():
        choice = CHOICES[name]
        alone = name == choice.against
        rows.append(
            (
                choice.about,
                name,
                percent(each["stopped_share"], 0),
                _runs(each["runs"]),
                "" if alone else f"{each['more_runs_mean']:+.1f}",
                "" if alone else f"{each['sooner']}, {each['later']}",
                _regret(each["regret"]),
                "" if alone or choice.alpha else f"{each['more_regret_mean']:+.3f}",
                spread(each["of_floor"], 2),
                percent(each["missed_share"], 0),
            )
        )
    head = (
        "choice",
        "search",
        "accepts something",
        "runs until then",
        "more runs, mean",
        "sooner, later",
        "regret then",
        "more regret, mean",
        "Σk over the floor's",
        "accepted and misses",
    )
    return table(head, rows)


def _summary(found: Result) -> str:
    told = found["cold"]
    others = [method for method in told if method != OURS]
    best = min(others, key=lambda method: (told[method]["all"]["runs"][1], told[method]["all"]["regret"][1]))
    each = {method: told[method]["all"] for method in (OURS, best)}
    ours, theirs = (f"{_runs(each[m]['runs'])} runs, regret {each[m]['regret'][1]:.3f}" for m in (OURS, best))
    cold, warm = (found["changed"][OURS][start] for start in ("cold", "warm"))
    return (
        f"AuTraScale stops after {ours} (median of {each[OURS]['searches']} searches). The best other search, "
        f"{TITLES[best]}, stops after {theirs}. From a model AuTraScale takes {_runs(warm['runs'])} runs instead of "
        f"{_runs(cold['runs'])}"
    )


def _plots(found: Result) -> list[Plot]:
    names = tuple(SHORT[method] for method in found["cold"])

    def bars(what: str, scale: float = 1.0) -> tuple[Series, ...]:
        values = tuple(scale * each["all"][what][1] for each in found["cold"].values())
        return (Series(what, names, values, "bars"),)

    shares = tuple(100 * each["all"]["stopped_share"] for each in found["cold"].values())
    changed = tuple(
        Series(
            title,
            ("cold", "from a model"),
            tuple(found["changed"][m][s]["runs"][1] for s in ("cold", "warm")),
            "bars",
            role,
        )  # type: ignore[arg-type]
        for m, title, role in ((OURS, "AuTraScale", "main"), (PAPER, "Algorithms 1 and 2", "second"))
    )
    return [
        Plot(
            "runs",
            "cold — simulated",
            "",
            Axis("", "names"),
            Axis(f"runs to stop, median (above {BUDGET}: never)"),
            bars("runs"),
        ),
        Plot("regret", "cold — simulated", "", Axis("", "names"), Axis("regret then, median"), bars("regret")),
        Plot(
            "stopped",
            "cold — simulated",
            "",
            Axis("", "names"),
            Axis("% of searches that accept"),
            (Series("accepts", names, shares, "bars", "good"),),
        ),
        Plot("changed", "at another rate — simulated", "", Axis("", "names"), Axis("runs to stop, median"), changed),
    ]


CLAIM = Claim(
    "search_quality",
    cases,
    measure,
    result,
    figures={"summary": _summary, "cold": _cold, "changed": _changed, "families": _families, "choices": _choices_table},
    plots={"search_quality.svg": _plots},
    code=("benchmarks/workloads", "experiments/search_choices/run.py"),
)

if __name__ == "__main__":
    from experiments.shared.running import main

    main([CLAIM.name])
