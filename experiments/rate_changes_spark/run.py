"""When the rate changes, on real Spark, in micro-batches: AuTraScale's Fig. 8, from a model and beside DS2.

python -m experiments.rate_changes_spark.run              # what is not measured yet; then the table
python -m experiments.rate_changes_spark.run --anew       # all of it, or what --only names
python -m experiments.rate_changes_spark.run --only q11
python -m experiments.rate_changes_spark.run --tables     # the README's table, from result.json
"""

from __future__ import annotations

from collections.abc import Iterator

from experiments.rate_changes_spark.measure import CHANGED, cases, measuring
from experiments.shared.claim import Result
from experiments.shared.documents import percent, table, vector
from experiments.shared.record import Record, main
from experiments.shared.trials import carried, circumstances, held, latency, line, way

METHODS = (
    ("DS2", "ds2", "after"),
    ("AuTraScale, from a model", "autrascale", "after"),
    ("AuTraScale, cold", "autrascale", "cold"),
)


def _line(found: Result) -> str:
    return line(found["after"])


def _rows(result: Result) -> Iterator[tuple[str, str, Result, Result, Result]]:
    for query in CHANGED:
        for title, policy, part in METHODS:
            case = result["cases"].get(f"{query} change {policy}")
            if case and case[part]:
                yield query, title, case["before"], case[part], case


def _changes(result: Result) -> str:
    rows = [
        (
            f"{query.upper()}, {before['rate']:,.0f} → {after['rate']:,.0f}/s, {after['target']:.1f} s",
            title,
            vector(before["k"]),
            way(after["trials"]),
            vector(after["k"]),
            after["tasks"],
            after["slots"],
            latency(after),
            carried(after),
            held(after),
            len(after["trials"]),
            after["stop_reason"],
            f"{case['load_before']:.0f}",
        )
        for query, title, before, after, case in _rows(result)
    ]
    head = (
        "change",
        "method",
        "before",
        "parallelism",
        "ended at",
        "Σk",
        "slots",
        "latency",
        "of the rate",
        "QoS",
        "runs",
        "why",
        "load",
    )
    return table(head, rows) if rows else "Not measured yet."


def _summary(result: Result) -> str:
    said = []
    for query in CHANGED:
        there = {title: after for name, title, _, after, _ in _rows(result) if name == query}
        if "DS2" in there and METHODS[1][0] in there:
            ds2, ours = there["DS2"], there[METHODS[1][0]]
            said.append(
                f"on {query.upper()} it takes {_in_short(ours)}, DS2 {_in_short(ds2)}: "
                f"{percent(1 - ours['tasks'] / ds2['tasks'], 0)} saved"
            )
    return "; ".join(said) or "not measured yet"


def _in_short(after: Result) -> str:
    return f"{len(after['trials'])} runs and {after['tasks']} instances (QoS {held(after)})"


FIGURES = {"changes": _changes, "summary": _summary, "circumstances": circumstances}
RECORD = Record("rate_changes_spark", "Spark, micro-batch", cases, measuring, FIGURES, _line)

if __name__ == "__main__":
    main(RECORD, __doc__)
