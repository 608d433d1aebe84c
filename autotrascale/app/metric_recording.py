"""Record measurements of real jobs in the metric store: each trial of a tuning run, each observation of a loop.

A failing metric store never stops a run: the failure is reported once, and so is the recovery.
Measurements of simulated jobs are not recorded.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from autotrascale.app.console import note
from autotrascale.app.environment_variables import METRICS
from autotrascale.app.stores import NO_STORE
from autotrascale.domain.errors import AuTraScaleError
from autotrascale.domain.executor_window import ExecutorWindow
from autotrascale.domain.snapshot import Snapshot
from autotrascale.monitor.stores.executor_points import executor_window_to_points
from autotrascale.monitor.stores.metric_store import MetricStore
from autotrascale.monitor.stores.points import MetricPoint
from autotrascale.monitor.stores.snapshot_points import snapshot_to_points
from autotrascale.monitor.stores.store_settings import InfluxSettings, SqliteSettings, StoreSettings, open_store
from autotrascale.validation import read_file


class RealOrSimulated(Protocol):
    """An engine or a live job."""

    simulated: bool


@dataclass(frozen=True)
class _MetricsFile:
    store: StoreSettings


def read_metrics_file(path: Path) -> SqliteSettings | InfluxSettings:
    """Return the `store:` section of a file that describes a metric store."""
    return read_file(path, _MetricsFile).store


def find_metrics_file(option: str | None) -> Path | None:
    """Return the file that `--metrics` or the environment names, or None."""
    name = option or os.environ.get(METRICS)
    return Path(name) if name and name != NO_STORE else None


def choose_metric_store(option: str | None) -> SqliteSettings | InfluxSettings | None:
    """Return the settings of the named store, of ./mlruns/metrics.db if none is named, or None for `none`."""
    if (option or os.environ.get(METRICS)) == NO_STORE:
        return None
    file = find_metrics_file(option)
    return SqliteSettings() if file is None else read_metrics_file(file)


@contextmanager
def open_metric_recorder(option: str | None, *, journalled: bool = True) -> Iterator[MetricRecorder]:
    """Open a recorder for the duration of a command.

    Args:
        option: the value of `--metrics`.
        journalled: whether the command keeps a journal. Without one only a store that the user named is written to.
    """
    is_named = find_metrics_file(option) is not None
    recorder = MetricRecorder(choose_metric_store(option) if journalled or is_named else None, is_named=is_named)
    try:
        yield recorder
    finally:
        recorder.close()


class MetricRecorder:
    """Writer of measurements. It opens its store at the first measurement of a real job."""

    def __init__(
        self,
        settings: SqliteSettings | InfluxSettings | None,
        *,
        is_named: bool = False,
        clock: Callable[[], int] = time.time_ns,
        tell: Callable[[str], None] = note,
    ) -> None:
        """Create a recorder.

        Args:
            settings: where to record; None records nothing.
            is_named: whether the user named the store. If so, a store that cannot be opened is an error;
                otherwise it is reported through `tell` and nothing is recorded.
            clock: time of a measurement in nanoseconds since 1970.
            tell: prints a line about failure and recovery.
        """
        self._settings, self._is_named, self._clock, self._tell = settings, is_named, clock, tell
        self._store: MetricStore | None = None
        self._problem = ""

    def recorder_for(self, source: RealOrSimulated) -> Callable[[Snapshot], None]:
        """Return a function that records the snapshots of an engine or live job; it does nothing if simulated."""
        return self._record_snapshot if not source.simulated and self._open() else lambda _: None

    def store(self) -> MetricStore | None:
        """Return the open store, for reading measurements of other jobs, or None."""
        return self._store if self._open() else None

    def record_windows(self, windows: Iterable[ExecutorWindow]) -> None:
        """Record windows of executor use of a real application. Recording a window twice writes the same points."""
        if self._open():
            for window in windows:
                self._write(partial(executor_window_to_points, window))

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _record_snapshot(self, snapshot: Snapshot) -> None:
        self._write(lambda: snapshot_to_points(snapshot, self._clock()))

    def _write(self, make_points: Callable[[], list[MetricPoint]]) -> None:
        if self._store is None:
            return
        try:
            self._store.write(make_points())
            problem = self._store.status().problem or ""
        except AuTraScaleError as error:  # raised by the store, or by a job name that it cannot hold
            problem = str(error)
        if bool(problem) != bool(self._problem):
            self._tell(f"metric store: {problem or 'recording again'}")
        self._problem = problem

    def _open(self) -> bool:
        if self._store is None and self._settings is not None:
            try:
                self._store = open_store(self._settings)
            except AuTraScaleError as error:
                if self._is_named:
                    raise
                self._tell(f"metrics are not recorded: {error}")
                self._settings = None
        return self._store is not None


NO_RECORDER = MetricRecorder(None)
