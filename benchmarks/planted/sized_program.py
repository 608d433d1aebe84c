"""One of the jobs of `sized.py`, as a program that knows nothing of AuTraScale: sized_program.py FAULT FOLDER"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.planted.sized import named


def main(fault: str, folder: Path) -> None:
    spark = SparkSession.builder.appName(fault).getOrCreate()
    named(fault).writer(spark, folder).start().awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
