"""What the README quotes, from the result alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from experiments.ds2_spark.measure import STARTS
from experiments.shared.claim import Result
from experiments.shared.documents import table, vector
from experiments.shared.spark_jobs import QUERIES
from experiments.shared.trials import carried, circumstances, latency, way

PAPER = 3  # decisions, at most
SETTLED = ("policy-settled", "policy-repeats")


def decisions(found: Result) -> int:
    """That changed something."""
    return len(found["trials"]) - 1


def near(found: Result) -> int:
    """Decisions after which no operator is moved by more than one instance any more: noise alone does that."""
    ks: Sequence[Sequence[int]] = [each["k"] for each in found["trials"]]
    moves = [max(abs(a - b) for a, b in zip(before, after, strict=True)) for before, after in pairwise(ks)]
    return max((i for i, moved in enumerate(moves, start=1) if moved > 1), default=0)


def _all(result: Result) -> list[tuple[str, int, Result]]:
    return [
        (query, start, found)
        for query in QUERIES
        for start in STARTS
        if (found := result["cases"].get(f"{query} from {start} ds2"))
    ]


def grid(result: Result) -> str:
    rows, last = [], ""
    for query, start, found in _all(result):
        name = "" if query == last else f"{query.upper()} ({', '.join(found['operators'])})"
        rows.append(
            (
                name,
                start,
                way(found["trials"]),
                decisions(found),
                near(found),
                carried(found),
                latency(found),
                found["stop_reason"],
                f"{found['load_before']:.0f}",
            )
        )
        last = query
    head = ("query", "from", "way", "decisions", "… until within one", "of the rate", "latency", "why", "load")
    names = [f"{query} from {start} ds2" for query in QUERIES for start in STARTS]
    missing = [name for name in names if name not in result["cases"]]
    left = f"Not measured yet: {', '.join(missing)}." if missing else ""
    return "\n\n".join(filter(None, (table(head, rows) if rows else "", left)))


def summary(result: Result) -> str:
    found = [each for _, _, each in _all(result)]
    if not found:
        return "not measured yet"
    still = sum(each["stop_reason"] in SETTLED and decisions(each) <= PAPER for each in found)
    close = sum(near(each) <= PAPER for each in found)
    return (
        f"DS2 stops after at most {PAPER} decisions in {still} of {len(found)} cases. In {close} cases it moves no "
        f"operator by more than one instance after decision {PAPER}"
    )


def word_count(result: Result) -> str:
    rows = [
        (
            policy,
            way(found["trials"]),
            decisions(found),
            vector(found["k"]),
            found["tasks"],
            carried(found),
            latency(found),
            found["stop_reason"],
            f"{found['load_before']:.0f}",
        )
        for policy in ("ds2", "dhalion")
        if (found := result["cases"].get(f"wordcount from 1 {policy}"))
    ]
    head = ("policy", "way", "decisions", "ended at", "Σk", "of the rate", "latency", "why", "load")
    return table(head, rows) if rows else "Not measured yet."


FIGURES: Mapping[str, Callable[[Result], str]] = {
    "grid": grid,
    "summary": summary,
    "word_count": word_count,
    "circumstances": circumstances,
}
