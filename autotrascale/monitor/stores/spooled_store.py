"""A store in front of a server that may be away: points go to a spool on disk, and from there to the server, in order.

A background thread sends, so a writer never waits for the network. While the server is away, the thread retries after
pauses that double up to 30 s. Several processes may share a spool; one process sends at a time.
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

FIRST_PAUSE = 0.5  # seconds before the second attempt; doubled after each failure
LONGEST_PAUSE = 30.0

log = logging.getLogger(__name__)


class SpooledStore(MetricStore):
    """A spool of at most `bound` points in the file at `path`, in front of `store`. `close` closes the store too."""

    def __init__(self, store: MetricStore, path: Path | str, bound: int, longest_pause: float = LONGEST_PAUSE) -> None:
        self._store = store
        self._path = Path(path)
        self._spool = Spool(path, store.status().place, bound)
        self._longest_pause = longest_pause
        self._problem: str | None = None  # while sending fails
        self._sending = Lock()  # for threads; `_turn` is the same for processes
        self._turn = FileLock(Path(f"{path}.lock"))
        self._wake_up, self._closing = Event(), Event()
        self._wake_up.set()  # an earlier process may have left points
        self._thread = Thread(target=self._send_for_ever, name="metric-spool", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"SpooledStore({self._store!r}, {str(self._path)!r})"

    def write(self, points: Iterable[MetricPoint]) -> None:
        """Write the points to the disk. They reach the store in the background."""
        spooled = list(points)
        if not spooled:
            return
        dropped = self._spool.append(spooled)
        if dropped:
            log.warning("%s: the spool is full; the %d oldest points are dropped", self._path, dropped)
        self._wake_up.set()

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
        """Send the waiting points if the store answers. Else they wait on the disk for the next process."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._wake_up.set()
        self._thread.join()
        try:
            self.flush()
        except MetricStoreError as error:
            log.warning("%d points wait in %s: %s", self._spool.counts().waiting, self._path, error)
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
            self._wake_up.wait()
            self._wake_up.clear()
            try:
                while not self._closing.is_set() and self._send_next():
                    pause = FIRST_PAUSE
            except Exception as error:
                if not isinstance(error, MetricStoreError):  # a defect of ours: log it, and keep the thread alive
                    log.exception("sending metric points failed")
                self._wake_up.set()
                self._closing.wait(pause)
                pause = min(2 * pause, self._longest_pause)
            if self._closing.is_set():
                return

    def _send_next(self) -> bool:
        """Send the next batches. Returns False if no point waits. After an error the spool is unchanged."""
        with self._sender_lock():
            try:
                batches = self._spool.oldest()
                if batches:
                    self._deliver_or_refuse(batches)
            except MetricStoreError as error:
                self._record_problem(error)
                raise
            if batches:
                self._clear_problem()
            return bool(batches)

    def _deliver_or_refuse(self, batches: Sequence[Batch]) -> None:
        try:
            self._deliver(batches)
        except MetricStoreRefusedError:
            for batch in batches:  # one by one, so that only batches at fault are set aside
                try:
                    self._deliver([batch])
                except MetricStoreTooLargeError as error:
                    self._deliver_in_parts(batch, error)
                except MetricStoreRefusedError as error:
                    self._set_aside(batch, error, batch.points)

    def _deliver_in_parts(self, batch: Batch, error: MetricStoreRefusedError) -> None:
        """Send a batch in halves until the parts are small enough. Sending a part twice changes nothing."""
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

    def _record_problem(self, error: MetricStoreError) -> None:
        if self._problem is None:  # log once per outage, not once per attempt
            log.warning("points wait in %s: %s", self._path, error)
        self._problem = str(error)

    def _clear_problem(self) -> None:
        if self._problem is not None:
            log.warning("the metric store answers again; %d points still wait", self._spool.counts().waiting)
        self._problem = None

    @contextmanager
    def _sender_lock(self) -> Iterator[None]:
        with self._sending:
            self._turn.acquire()
            try:
                yield
            finally:
                self._turn.release()
