"""Spark's daemon of Python workers, with the libraries that every worker needs already loaded.

Workers are forked from it, so they start in milliseconds where each took half a second of CPU to import Arrow, and
they share those pages: sixteen of them fit in the memory of a few.

Spark's own daemon imports late because a fork must not happen while other threads run. OpenBLAS is therefore told to
start none; the one that Arrow's allocator starts (jemalloc) is made to be forked.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import pandas  # noqa: F401
import pyarrow.compute  # noqa: F401
from pyspark import daemon, worker  # noqa: F401
from pyspark.sql.pandas import serializers, types  # noqa: F401

if __name__ == "__main__":
    daemon.manager()
