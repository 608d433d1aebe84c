"""Retries for a store that cannot be written at the moment: a full disk, a read-only file system, a locked file.

Measurements are expensive, so a tuning run waits until the store accepts them, and reports the wait once. Commands that
only read do not wait: they fail at once.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MAX_WAIT_SECONDS = 1800.0
_PAUSES = (1.0, 2.0, 5.0)  # seconds; the last pause repeats

_REMEDY_BY_ERRNO = {
    errno.ENOSPC: "free some room",
    errno.EDQUOT: "free some room",
    errno.EFBIG: "allow larger files",
    errno.EROFS: "make it writable",
    errno.EACCES: "make it writable",
}
# SQLite's own texts; other libraries quote them.
_REMEDY_BY_TEXT = {
    "disk is full": "free some room",
    "disk I/O error": "free some room and check the disk",
    "readonly database": "make it writable",
    "unable to open database file": "make its folder writable",
    "database is locked": "end the process that locks it, or wait",
    "database table is locked": "end the process that locks it, or wait",
}

ShowMessage = Callable[[str], object]


class StoreRetry:
    """The retry state of one process. Its threads wait for the same store, and one of them reports the wait."""

    def __init__(self) -> None:
        self._show: ShowMessage | None = None
        self._max_wait_seconds = 0.0
        self._failing_since: float | None = None
        self._lock = threading.Lock()

    @contextmanager
    def waiting(self, show: ShowMessage, max_wait_seconds: float = MAX_WAIT_SECONDS) -> Iterator[None]:
        """Retry failed calls within the block. `show` receives one message when a wait begins and one when it ends."""
        before = self._show, self._max_wait_seconds
        self._show, self._max_wait_seconds = show, max_wait_seconds
        try:
            yield
        finally:
            self._show, self._max_wait_seconds = before

    def pauses(self, problem: str, error: BaseException) -> Iterator[float]:
        """Yield the pause in seconds before each further try.

        Nothing is yielded outside `waiting`, or for an error that waiting cannot cure.
        """
        if self._show is None or not find_remedy(error):
            return
        with self._lock:
            if self._failing_since is None:
                self._failing_since = time.monotonic()
                self._show(f"{problem}: retrying for at most {self._max_wait_seconds / 60:.0f} minutes")
        number = 0
        while self._failing_since is not None and time.monotonic() - self._failing_since < self._max_wait_seconds:
            yield _PAUSES[min(number, len(_PAUSES) - 1)]
            number += 1

    def report_success(self) -> None:
        """Tell that a call succeeded: a wait that was under way is over."""
        if self._failing_since is None:
            return
        with self._lock:
            since, self._failing_since = self._failing_since, None
            if since is not None and self._show is not None:
                self._show(f"the store accepts writes again after {time.monotonic() - since:.0f} s")


def find_remedy(error: BaseException) -> str:
    """Return the remedy for a storage error, or "" where waiting does not help."""
    if isinstance(error, OSError) and error.errno in _REMEDY_BY_ERRNO:
        return _REMEDY_BY_ERRNO[error.errno]
    text = str(error)
    return next((remedy for cause, remedy in _REMEDY_BY_TEXT.items() if cause in text), "")
