"""Use case of `critical`: critical paths of streaming queries, from event logs or from a running application.

A running application is followed in this process by its event log alone. No Spark is started, and the application is
not asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from autotrascale.analyze.critical.edge_files import write_edges
from autotrascale.analyze.critical.measured_paths import MeasuredPaths, measure_paths
from autotrascale.analyze.live.critical_windows import CriticalWindows
from autotrascale.analyze.log_tasks import workspace
from autotrascale.app.console import note
from autotrascale.app.event_logs import check_output_folder, open_log_runner
from autotrascale.app.metric_recording import read_metrics_file
from autotrascale.domain.critical_path_report import CriticalPathReport
from autotrascale.domain.errors import InputError
from autotrascale.execute.spark.common.spark_settings import parse_megabytes
from autotrascale.execute.spark.controller.read_only_job import find_application_log
from autotrascale.monitor.eventlog.follower import Follower
from autotrascale.monitor.eventlog.log_files import check_paths, find_logs
from autotrascale.monitor.stores.participation_points import participation_to_points
from autotrascale.monitor.stores.store_settings import open_store

if TYPE_CHECKING:
    from autotrascale.monitor.stores.metric_store import MetricStore

POLL_SECONDS = 1.0
LOG_PREFIX = "eventlog_v2_"


@contextmanager
def measure_critical_paths(
    paths: Sequence[str],
    window_seconds: float,
    query: str = "",
    output: str = "",
    metrics: str = "",
    driver_memory: str = "1g",
) -> Iterator[MeasuredPaths]:
    """Yield the critical paths of all windows in event logs.

    Args:
        paths: event logs, or folders of them.
        window_seconds: length of a window.
        query: name of the only query to write; "": all queries.
        output: folder for all parts as Parquet; "": do not write.
        metrics: file that describes a metric store for all windows; "": do not record.
        driver_memory: memory of Spark's JVM.

    Raises:
        InputError: a log cannot be read, or the output or metric store cannot be used.
    """
    check_paths(paths)
    parse_megabytes("--driver-memory", driver_memory)
    if output:
        check_output_folder(output)
    with ExitStack() as stack:
        store = _open_metric_store(stack, metrics)
        logs, unread = find_logs(paths)
        folder = stack.enter_context(workspace())
        run_all = stack.enter_context(open_log_runner(logs, driver_memory, splits_logs=True))
        damages = run_all(partial(write_edges, f"{folder}/edges"), logs)
        for damage in (*unread, *(each for own in damages for each in own)):
            note(str(damage))
        measured = measure_paths(f"{folder}/edges", f"{folder}/parts", window_seconds, run_all)
        _check_query(measured, query, paths)
        if output:
            measured.write(output, query)
        if store is not None:
            for window in measured.windows(query):
                store.write(participation_to_points(window))
            store.flush()
        yield measured


def follow_critical_paths(
    log: str,
    window_seconds: float,
    query: str,
    metrics: str,
    tell: Callable[[CriticalPathReport], None],
    limit_seconds: float | None,
) -> None:
    """Call `tell` with each window of a running application when the window ends, until the application ends.

    Args:
        log: event log of the application.
        window_seconds: length of a window.
        query: name of the only query to follow; "": all queries.
        metrics: file that describes a metric store for all windows; "": do not record.
        tell: receives each window.
        limit_seconds: longest time to follow; None: no limit.

    Raises:
        InputError: the log cannot be followed, or the metric store cannot be used.
    """
    check_paths([log])
    with ExitStack() as stack:
        store = _open_metric_store(stack, metrics)
        folder = find_application_log(Path(log), "LOG|JOB")
        application = folder.name.removeprefix(LOG_PREFIX)
        follower = Follower(folder.parent, application, consume=False, latest=True)
        windows = CriticalWindows(follower, application, window_seconds, query=query)
        end_mark = folder / f"appstatus_{application}"  # Spark renames it from .inprogress when the application ends
        until = None if limit_seconds is None else time.monotonic() + limit_seconds
        count = 0
        while True:
            has_ended = end_mark.exists()  # before reading, so that the last read sees everything
            for window in windows.poll():
                count += 1
                tell(window)
                if store is not None:
                    store.write(participation_to_points(window))
            if has_ended or (until is not None and time.monotonic() >= until):
                break
            time.sleep(POLL_SECONDS)
    _report_followed(windows, query, count)


def _report_followed(windows: CriticalWindows, query: str, count: int) -> None:
    if windows.damaged:
        lines = "1 line" if windows.damaged == 1 else f"{windows.damaged} lines"
        note(f"left out {lines} of the log that cannot be read")
    if query and query not in windows.queries:
        names = ", ".join(windows.queries) or "none"
        note(f"the application has no query {query}; its queries: {names}")
    if not count:
        note("no window has ended: a window ends when a later batch is committed")


def _check_query(measured: MeasuredPaths, query: str, paths: Sequence[str]) -> None:
    names = sorted({report.query for report in measured.reports()})
    if not names:
        remedy = "give the log of a streaming query that has committed a batch"
        raise InputError(", ".join(paths), "has no committed micro-batch", remedy=remedy)
    if query and query not in names:
        raise InputError("--query", "is in none of the logs", seen=query, remedy=f"use one of {', '.join(names)}")


def _open_metric_store(stack: ExitStack, metrics: str) -> MetricStore | None:
    return stack.enter_context(open_store(read_metrics_file(Path(metrics)))) if metrics else None
