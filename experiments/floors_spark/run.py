"""The floor of four workloads on real Spark, in micro-batches: AuTraScale's Fig. 5.

python -m experiments.floors_spark.run               # what is not measured yet; then the table
python -m experiments.floors_spark.run --anew        # all of it, or what --only names
python -m experiments.floors_spark.run --only q5
python -m experiments.floors_spark.run --tables      # the README's table, from result.json
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from experiments.shared.claim import Result
from experiments.shared.documents import percent, table, vector
from experiments.shared.record import Case, Measure, Record, Sitting, main
from experiments.shared.spark_jobs import opened
from experiments.shared.trials import circumstances, find_floor, line, way

TITLES = {"wordcount": "WordCount", "yahoo": "Yahoo", "q5": "Nexmark Q5", "q11": "Nexmark Q11"}
PAPER = 4  # new parallelisms, at most


def cases() -> Sequence[Case]:
    return [Case(name, "floor") for name in TITLES]


@contextmanager
def measuring(sitting: Sitting) -> Iterator[Measure]:
    with opened(sitting) as (job, engine):
        yield lambda _: find_floor(job, engine)


def _found(result: Result) -> list[tuple[str, Result]]:
    return [(name, each) for name in TITLES if (each := result["cases"].get(f"{name} floor"))]


def _floors(result: Result) -> str:
    rows = [
        (
            TITLES[name],
            f"{each['rate']:,.0f}/s",
            ", ".join(each["operators"]),
            vector(each["floor"]),
            new(each),
            percent(_carried(each), 0),
            way(each["trials"]),
            each["stop_reason"],
            f"{each['load_before']:.0f}",
        )
        for name, each in _found(result)
    ]
    head = ("workload", "offered", "operators", "floor", "new parallelisms", "carried", "way", "why", "load")
    return table(head, rows)


def new(found: Result) -> int:
    """Parallelisms after the first: a run of the same again is none."""
    return len({tuple(each["k"]) for each in found["trials"]}) - 1


def _carried(found: Result) -> float:
    """By the floor, the best of its runs."""
    runs = [each["throughput"] or 0.0 for each in found["trials"] if each["k"] == found["floor"]]
    return float(max(runs, default=0.0) / found["rate"])


def _summary(result: Result) -> str:
    found = [each for _, each in _found(result)]
    if not found:
        return "not measured yet"
    met, most = sum(each["met"] for each in found), max(new(each) for each in found)
    return f"{met} of {len(found)} floors carry their rate, after {most} new parallelisms at most (paper: {PAPER})"


FIGURES = {"floors": _floors, "summary": _summary, "circumstances": circumstances}
RECORD = Record("floors_spark", "Spark, micro-batch", cases, measuring, FIGURES, line)

if __name__ == "__main__":
    main(RECORD, __doc__)
