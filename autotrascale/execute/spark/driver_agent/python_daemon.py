"""Spark's daemon of Python workers, with the libraries of all workers already imported.

Workers are forked from the daemon. They start in milliseconds instead of half a second of CPU to import Arrow, and they
share the memory of the libraries.

Spark's own daemon imports late, because a process with several threads should not fork. So OpenBLAS is told to start no
threads. The thread of Arrow's allocator (jemalloc) allows forks.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import pandas  # noqa: F401
import pyarrow.compute  # noqa: F401
from pyspark import daemon, worker  # noqa: F401
from pyspark.sql.pandas import serializers, types  # noqa: F401

if __name__ == "__main__":
    daemon.manager()
