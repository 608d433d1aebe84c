"""The papers' elasticity comparison on real Spark, and one job at 1 to 6 instances each and at rising rates.

    python -m experiments.elasticity_spark.run                     # what is not measured yet; then the tables
    python -m experiments.elasticity_spark.run --anew              # all of it, or what --only names
    python -m experiments.elasticity_spark.run --only "yahoo up"   # cases whose name begins so
    python -m experiments.elasticity_spark.run --slow 4            # on a crowded machine: a quarter of the rates
    python -m experiments.elasticity_spark.run --tables            # the README's tables, from result.json

One Spark session for each job; trials one after the other.
"""

from __future__ import annotations

from experiments.elasticity_spark.cases import all_cases
from experiments.elasticity_spark.measure import measuring
from experiments.elasticity_spark.tables import FIGURES
from experiments.shared.claim import Result
from experiments.shared.record import Record, main
from experiments.shared.trials import line


def _line(found: Result) -> str:
    return f"{len(found['points'])} points" if "points" in found else line(found)


RECORD = Record("elasticity_spark", "Spark, micro-batch", all_cases, measuring, FIGURES, _line)

if __name__ == "__main__":
    main(RECORD, __doc__)
