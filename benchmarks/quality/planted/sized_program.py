"""A job of `sized.py` or `daily.py` as a program that does not know of AuTraScale.

sized_program.py NAME FOLDER
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.quality.planted.daily import DAILY
from benchmarks.quality.planted.sized import PLANTED


def main(name: str, folder: Path) -> None:
    spark = SparkSession.builder.appName(name).getOrCreate()
    job = next(job for job in (*PLANTED, *DAILY) if job.application == name)
    job.writer(spark, folder).start().awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
