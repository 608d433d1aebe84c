"""How soon DS2 stands still on real Spark, in micro-batches, and the word count beside Dhalion: DS2's Table 4, Fig. 1.

python -m experiments.ds2_spark.run                  # what is not measured yet; then the tables
python -m experiments.ds2_spark.run --anew           # all of it, or what --only names
python -m experiments.ds2_spark.run --only "q5 from 8"
python -m experiments.ds2_spark.run --tables         # the README's tables, from result.json
"""

from __future__ import annotations

from experiments.ds2_spark.measure import cases, measuring
from experiments.ds2_spark.tables import FIGURES
from experiments.shared.record import Record, main
from experiments.shared.trials import line

RECORD = Record("ds2_spark", "Spark, micro-batch", cases, measuring, FIGURES, line)

if __name__ == "__main__":
    main(RECORD, __doc__)
