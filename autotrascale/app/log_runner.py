"""The choice between this process and PySpark for reading event logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from autotrascale.analyze.log_tasks import RunAll, needs_spark, run_here, run_on

if TYPE_CHECKING:
    from autotrascale.monitor.eventlog.log_files import LogFile


@contextmanager
def open_log_runner(logs: Sequence[Sequence[LogFile]], driver_memory: str) -> Iterator[RunAll]:
    """Start Spark where several logs hold much text; `driver_memory` is its JVM's memory. Else read in this process."""
    if not needs_spark(logs):
        yield run_here
        return
    from autotrascale.execute.spark.controller.local_session import local_session

    with local_session(driver_memory) as spark:
        yield run_on(spark)
