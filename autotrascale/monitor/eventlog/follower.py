"""A log that still grows, uncompressed: its whole lines and their events, as they come.

The log is read, and neither the driver's REST API nor a listener, for these reasons: the log holds plans, stages, tasks
and progress in one ordered stream, costs the driver one sequential write, needs no port, and archives consist of the
same logs. Spark calls a listener in Python through a socket for every task. The REST API must be polled and forgets old
stages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from autotrascale.monitor.eventlog.decoding import EventReader, T
from autotrascale.monitor.eventlog.lines import MOST_LINE
from autotrascale.monitor.eventlog.local_files import open_regular


class Follower:
    """Reads on in the log of a running application. A rolling log continues in its next file."""

    def __init__(self, folder: Path, application: str, *, consume: bool, latest: bool = False) -> None:
        """Follow the log of `application` in `folder`.

        `consume` removes files that were read to their end; otherwise the log of a long session fills the disk.
        `latest` begins with the last file of the log.
        """
        self._parts = folder / f"eventlog_v2_{application}"
        self._application = application
        self._consume = consume
        self._part = max(self._numbers(), default=1) if latest else 1
        self._position = 0
        self._is_skipping = False  # the rest of a line that is longer than any event
        self._reader = EventReader()
        self._overlong = 0

    @property
    def damaged(self) -> int:
        """Lines that are no whole event, or make no sense. They are left out, as in an archive."""
        return self._reader.damaged + self._overlong

    def read(self, take: Callable[[Struct], Sequence[T] | None]) -> Iterator[T]:
        """Yield everything that `take` returns for the new events (see `EventReader.read`)."""
        return self._reader.read(self.lines(), take)

    def lines(self) -> Iterator[bytes]:
        """Yield the whole lines since the last call. A line that is being written is left for the next call."""
        while True:
            # Asked first: everything that was written to this file before the next file appeared is then complete.
            is_last = not self._path(self._part + 1).exists()
            yield from self._rest_of_file()
            if is_last:
                return
            if self._consume:
                self._path(self._part).unlink(missing_ok=True)
            self._part, self._position, self._is_skipping = self._part + 1, 0, False

    def _rest_of_file(self) -> Iterator[bytes]:
        try:
            file = open_regular(self._path(self._part))
        except FileNotFoundError:
            return
        with file:
            file.seek(self._position)
            while line := file.readline(MOST_LINE):
                is_whole = line.endswith(b"\n")
                if not is_whole and len(line) < MOST_LINE and not self._is_skipping:
                    return
                self._position += len(line)
                if is_whole and not self._is_skipping:
                    yield line
                elif not self._is_skipping:
                    self._overlong += 1  # once, wherever the line ends
                self._is_skipping = not is_whole

    def _numbers(self) -> Iterator[int]:
        for path in self._parts.glob(f"events_*_{self._application}"):
            number = path.name.split("_")[1]
            if number.isdigit():
                yield int(number)

    def _path(self, part: int) -> Path:
        return self._parts / f"events_{part}_{self._application}"
