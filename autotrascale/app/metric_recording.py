"""What real jobs are measured at goes into the metric store: each trial of a tuning run, each look of the control loop.

A store that fails costs no run anything: that it does is said, and that it works again. Simulated figures are not kept,
where they would stand among real ones.
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
from autotrascale.app.stores import METRICS_VARIABLE, NO_STORE
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
class _Metrics:
    store: StoreSettings


def read_metrics_file(path: Path) -> SqliteSettings | InfluxSettings:
    return read_file(path, _Metrics).store


def find_metrics_file(option: str | None) -> Path | None:
    """That somebody named."""
    said = option or os.environ.get(METRICS_VARIABLE)
    return Path(said) if said and said != NO_STORE else None


def choose_metric_store(option: str | None) -> SqliteSettings | InfluxSettings | None:
    """As somebody said, or the embedded store; None for `none`."""
    if (option or os.environ.get(METRICS_VARIABLE)) == NO_STORE:
        return None
    file = find_metrics_file(option)
    return SqliteSettings() if file is None else read_metrics_file(file)


@contextmanager
def open_metric_recorder(option: str | None, *, journalled: bool = True) -> Iterator[MetricRecorder]:
    """Where a run is not journalled, its metrics are only kept in a store that somebody named."""
    named = find_metrics_file(option) is not None
    meter = MetricRecorder(choose_metric_store(option) if journalled or named else None, named=named)
    try:
        yield meter
    finally:
        meter.close()


class MetricRecorder:
    """Opens its store when there is a real job to keep metrics of. One that somebody named and that cannot be used is
    refused; without the usual one a run goes on."""

    def __init__(
        self,
        wanted: SqliteSettings | InfluxSettings | None,
        *,
        named: bool = False,
        clock: Callable[[], int] = time.time_ns,
        tell: Callable[[str], None] = note,
    ) -> None:
        self._wanted, self._named, self._clock, self._tell = wanted, named, clock, tell
        self._store: MetricStore | None = None
        self._trouble = ""

    def of(self, what: RealOrSimulated) -> Callable[[Snapshot], None]:
        """What is to be told of each snapshot of this engine or live job."""
        return self._keep if not what.simulated and self._opened() else lambda _: None

    def store(self) -> MetricStore | None:
        """Where metrics are kept, and others' are read; None where there is none."""
        return self._store if self._opened() else None

    def keep_windows(self, windows: Iterable[ExecutorWindow]) -> None:
        """Of an application that is real. A window that is told again is the same points again."""
        if self._opened():
            for window in windows:
                self._write(partial(executor_window_to_points, window))

    def _keep(self, snapshot: Snapshot) -> None:
        self._write(lambda: snapshot_to_points(snapshot, self._clock()))

    def _write(self, points: Callable[[], list[MetricPoint]]) -> None:
        if self._store is None:
            return
        trouble = ""
        try:
            self._store.write(points())
            trouble = self._store.status().problem or ""
        except AuTraScaleError as error:  # the store's, or of a name that it cannot take
            trouble = str(error)
        if bool(trouble) != bool(self._trouble):
            self._tell(f"metric store: {trouble or 'works again'}")
        self._trouble = trouble

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _opened(self) -> bool:
        if self._store is None and self._wanted is not None:
            try:
                self._store = open_store(self._wanted)
            except AuTraScaleError as error:
                if self._named:
                    raise
                self._tell(f"metrics are not kept: {error}")
                self._wanted = None
        return self._store is not None


NO_RECORDER = MetricRecorder(None)
