"""Real Spark in real-time mode, beside micro-batches: AuTraScale's Figs. 1 and 2, its floor, and policies.

    python -m experiments.real_time.run                    # what is not measured yet; then tables and plot
    python -m experiments.real_time.run --anew             # all of it, or what --only names
    python -m experiments.real_time.run --only "real-time up"
    python -m experiments.real_time.run --tables           # tables and plot, from result.json

Needs Java and Kafka (`scripts/kafka.sh fetch`), and a quiet machine for latencies that mean anything.
"""

from __future__ import annotations

from experiments.real_time.measure import cases, measuring
from experiments.real_time.tables import FIGURES, plots
from experiments.shared.claim import Result
from experiments.shared.record import Record, main
from experiments.shared.trials import line


def _line(found: Result) -> str:
    if "points" in found:
        return f"{len(found['points'])} points"
    return line(found) if "trials" in found else f"{found['throughput']}/s, {found['latency']}"


RECORD = Record(
    "real_time",
    "Spark, real-time mode and micro-batch",
    cases,
    measuring,
    FIGURES,
    _line,
    plots={"real_time.svg": plots},
)

if __name__ == "__main__":
    main(RECORD, __doc__)
