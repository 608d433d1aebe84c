"""Stands in front of a store that may be away: points go to disk first, and from there to the store, in order.

A thread of its own does the sending, so that whoever writes never waits for a network. While the store is away it
tries again after ever longer pauses; several processes may share one spool, and one of them at a time sends.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Lock, Thread

from autotrascale.atomic_files import FileLock
from autotrascale.domain.errors import MetricStoreError, MetricStoreRefusedError, MetricStoreTooLargeError
from autotrascale.monitor.stores.metric_store import Aggregate, MetricQuery, MetricSample, MetricStore, StoreStatus
from autotrascale.monitor.stores.points import MetricPoint
from autotrascale.monitor.stores.spool import Batch, Spool

FIRST_PAUSE = 0.5  # seconds before the second attempt; doubled after each that fails
LONGEST_PAUSE = 30.0

log = logging.getLogger(__name__)


class SpooledStore(MetricStore):
    """`store`, with a spool of at most `bound` points in the file at `path`. Closing it closes the store."""

    def __init__(self, store: MetricStore, path: Path | str, bound: int, longest_pause: float = LONGEST_PAUSE) -> None:
        self._store = store
        self._path = Path(path)
        self._spool = Spool(path, store.status().place, bound)
        self._longest_pause = longest_pause
        self._problem: str | None = None  # of sending, until it works again
        self._sending = Lock()  # one sender at a time: threads by this, processes by a lock beside the spool
        self._turn = FileLock(Path(f"{path}.lock"))
        self._news, self._closing = Event(), Event()
        self._news.set()  # what an earlier process left behind is news too
        self._thread = Thread(target=self._send_for_ever, name="metric-spool", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"SpooledStore({self._store!r}, {str(self._path)!r})"

    def write(self, points: Iterable[MetricPoint]) -> None:
        """On the disk when this returns, in the store soon after, whether it is there now or not."""
        kept = list(points)
        if not kept:
            return
        dropped = self._spool.append(kept)
        if dropped:
            log.warning("%s: the spool is full; the %d oldest points are lost", self._path, dropped)
        self._news.set()

    def flush(self) -> None:
        while self._send_next():
            pass

    def check(self) -> None:
        self._store.check()

    def status(self) -> StoreStatus:
        inner, counts = self._store.status(), self._spool.counts()
        return replace(
            inner,
            problem=self._problem or inner.problem,
            waiting=counts.waiting,
            dropped=counts.dropped,
            refused=counts.refused,
        )

    def close(self) -> None:
        """Sends what it can; the rest waits on the disk for the next process."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._news.set()
        self._thread.join()
        try:
            self.flush()
        except MetricStoreError as error:
            log.warning("%d points stay in %s: %s", self._spool.counts().waiting, self._path, error)
        self._spool.close()
        self._turn.close()
        self._store.close()

    def _windows(self, query: MetricQuery, aggregate: Aggregate, every: int | None) -> Iterable[MetricSample]:
        return self._store.windows(query, aggregate, every)

    def _last(self, query: MetricQuery) -> Iterable[MetricSample]:
        return self._store.last(query)

    def _send_for_ever(self) -> None:
        pause = FIRST_PAUSE
        while True:
            self._news.wait()
            self._news.clear()
            try:
                while not self._closing.is_set() and self._send_next():
                    pause = FIRST_PAUSE
            except Exception as error:
                if not isinstance(error, MetricStoreError):  # a defect: say where, and keep the thread alive
                    log.exception("sending metric points failed")
                self._news.set()
                self._closing.wait(pause)
                pause = min(2 * pause, self._longest_pause)
            if self._closing.is_set():
                return

    def _send_next(self) -> bool:
        """One sending; False when nothing waits. An error leaves everything where it was."""
        with self._my_turn():
            try:
                batches = self._spool.oldest()
                if batches:
                    self._deliver_or_refuse(batches)
            except MetricStoreError as error:
                self._trouble(error)
                raise
            if batches:
                self._relief()
            return bool(batches)

    def _deliver_or_refuse(self, batches: Sequence[Batch]) -> None:
        try:
            self._deliver(batches)
        except MetricStoreRefusedError:
            for batch in batches:  # one by one: only those at fault are to be set aside
                try:
                    self._deliver([batch])
                except MetricStoreTooLargeError as error:
                    self._deliver_in_parts(batch, error)
                except MetricStoreRefusedError as error:
                    self._set_aside(batch, error, batch.points)

    def _deliver_in_parts(self, batch: Batch, error: MetricStoreRefusedError) -> None:
        """Halves of halves, as small as the store wants them. What is written twice after a crash changes nothing."""
        todo, refused = [batch.points], list[MetricPoint]()
        while todo:
            part = todo.pop()
            try:
                self._store.write(part)
            except MetricStoreTooLargeError as too_large:
                error, half = too_large, len(part) // 2
                if half:
                    todo += [part[half:], part[:half]]
                else:
                    refused += part
            except MetricStoreRefusedError as at_fault:
                error = at_fault
                refused += part
        if refused:
            self._set_aside(batch, error, refused)
        else:
            self._spool.delivered([batch])

    def _set_aside(self, batch: Batch, error: MetricStoreRefusedError, points: Sequence[MetricPoint]) -> None:
        self._spool.refuse(batch, str(error), points)
        log.error("%d points are set aside in %s: %s", len(points), self._path, error)

    def _deliver(self, batches: Sequence[Batch]) -> None:
        self._store.write([point for batch in batches for point in batch.points])
        self._spool.delivered(batches)

    def _trouble(self, error: MetricStoreError) -> None:
        if self._problem is None:  # once for each absence, not once for each attempt
            log.warning("points wait in %s: %s", self._path, error)
        self._problem = str(error)

    def _relief(self) -> None:
        if self._problem is not None:
            log.warning("the metric store is back; %d points still wait", self._spool.counts().waiting)
        self._problem = None

    @contextmanager
    def _my_turn(self) -> Iterator[None]:
        with self._sending:
            self._turn.acquire()
            try:
                yield
            finally:
                self._turn.release()
