"""A store that cannot take anything now: for how long a run waits for it, and what is said meanwhile.

A disk that is full, a file system that has become read-only, a file that somebody else has locked: what was measured
is too dear to be thrown away for that. So a run waits, says so once, and goes on when there is room. Whoever only looks
is told at once.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MAX_WAIT_SECONDS = 1800.0
_PAUSES = (1.0, 2.0, 5.0)  # then the last again and again

_PASSING = {
    errno.ENOSPC: "free some room",
    errno.EDQUOT: "free some room",
    errno.EFBIG: "allow larger files",
    errno.EROFS: "make it writable",
    errno.EACCES: "make it writable",
}
# As SQLite says it, and so whatever stands before it.
_SAID = {
    "disk is full": "free some room",
    "disk I/O error": "free some room, and look at the disk",
    "readonly database": "make it writable",
    "unable to open database file": "make its folder writable",
    "database is locked": "end what holds it, or wait",
    "database table is locked": "end what holds it, or wait",
}

ShowMessage = Callable[[str], None]


class StoreRetry:
    """Of a process: its threads wait for the same store, and one of them says so."""

    def __init__(self) -> None:
        self._say: ShowMessage | None = None
        self._longest = 0.0
        self._since: float | None = None  # when the first of the failures in a row was
        self._lock = threading.Lock()

    @contextmanager
    def waiting(self, say: ShowMessage, longest: float = MAX_WAIT_SECONDS) -> Iterator[None]:
        """While a run is under way."""
        before = self._say, self._longest
        self._say, self._longest = say, longest
        try:
            yield
        finally:
            self._say, self._longest = before

    def pauses(self, problem: str, error: BaseException) -> Iterator[float]:
        """How long to wait before each further try: none for what will not pass by itself, or where nobody waits."""
        if self._say is None or not find_remedy(error):
            return
        with self._lock:
            if self._since is None:
                self._since = time.monotonic()
                self._say(f"{problem}: waiting for it, for {self._longest / 60:.0f} minutes at most")
        number = 0
        while self._since is not None and time.monotonic() - self._since < self._longest:
            yield _PAUSES[min(number, len(_PAUSES) - 1)]
            number += 1

    def passed(self) -> None:
        """It works, or works again."""
        if self._since is None:
            return
        with self._lock:
            since, self._since = self._since, None
            if since is not None and self._say is not None:
                self._say(f"the store takes what it is given again, after {time.monotonic() - since:.0f} s")


def find_remedy(error: BaseException) -> str:
    """What to do about it; nothing where waiting does not help."""
    if isinstance(error, OSError) and error.errno in _PASSING:
        return _PASSING[error.errno]
    said = str(error)
    return next((what for words, what in _SAID.items() if words in said), "")
