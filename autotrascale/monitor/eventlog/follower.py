"""A log that still grows, uncompressed: its whole lines, and the events in them, as they come.

Why the log and not the driver's REST API or a listener: it holds plans, stages, tasks and progress in one ordered
stream, costs the driver one sequential write, needs no port, and is what archives are made of too. A listener in
Python is called back through a socket for every task; the API must be polled, and forgets old stages.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from autotrascale.monitor.eventlog.decoding import decode_line
from autotrascale.monitor.eventlog.lines import MOST_LINE
from autotrascale.monitor.eventlog.local_files import open_regular


class Follower:
    """A rolling log goes on in the next file; files read to their end are removed when `consume` says so, or the log
    of a long session would fill the disk. `latest`: a log that is months long is begun with the last of its files.
    `damaged` counts the lines that are no whole event: they are passed over, as in an archive."""

    def __init__(self, folder: Path, application: str, *, consume: bool, latest: bool = False) -> None:
        self._parts = folder / f"eventlog_v2_{application}"
        self._application = application
        self._consume = consume
        self._part = max(self._numbers(), default=1) if latest else 1
        self._at = 0
        self._passing_over = False  # the rest of a line that is longer than any event
        self.damaged = 0

    def events(self) -> Iterator[Struct]:
        """Those that somebody reads, since the last call."""
        for line in self.lines():
            try:
                event = decode_line(line)
            except (ValueError, RecursionError):
                self.damaged += 1
                continue
            if event is not None:
                yield event

    def lines(self) -> Iterator[bytes]:
        """Whole ones. One that is being written is left for the next call."""
        while True:
            last = not self._path(self._part + 1).exists()  # asked first: what is written before it is then complete
            yield from self._rest()
            if last:
                return
            if self._consume:
                self._path(self._part).unlink(missing_ok=True)
            self._part, self._at, self._passing_over = self._part + 1, 0, False

    def _rest(self) -> Iterator[bytes]:
        try:
            file = open_regular(self._path(self._part))
        except FileNotFoundError:
            return
        with file:
            file.seek(self._at)
            while line := file.readline(MOST_LINE):
                whole = line.endswith(b"\n")
                if not whole and len(line) < MOST_LINE and not self._passing_over:
                    return
                self._at += len(line)
                if whole and not self._passing_over:
                    yield line
                elif not self._passing_over:
                    self.damaged += 1  # once, wherever it ends
                self._passing_over = not whole

    def _numbers(self) -> Iterator[int]:
        for path in self._parts.glob(f"events_*_{self._application}"):
            number = path.name.split("_")[1]
            if number.isdigit():
                yield int(number)

    def _path(self, part: int) -> Path:
        return self._parts / f"events_{part}_{self._application}"
