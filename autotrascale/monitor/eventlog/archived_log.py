"""The log of one application, read from its beginning to its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from autotrascale.monitor.eventlog.damage import Damage, count_lines
from autotrascale.monitor.eventlog.decoding import Decode, EventReader, T, decode_line
from autotrascale.monitor.eventlog.lines import LogText, blocks
from autotrascale.monitor.eventlog.log_files import LogFile


class ArchivedLog:
    """The files of one log, in order. `damages` says what could not be read, after `read`."""

    def __init__(self, files: Sequence[LogFile], decode: Decode = decode_line) -> None:
        self._files, self._decode = files, decode
        self.damages: list[Damage] = []

    def read(self, take: Callable[[Struct], Sequence[T] | None]) -> Iterator[T]:
        """Yield everything that `take` returns for the events of the log (see `EventReader.read`)."""
        for file in self._files:
            text, reader = LogText(file.uri), EventReader(self._decode)
            yield from reader.read((line for block in blocks(text) for line in block), take)
            self.damages += _damages(file.uri, text, reader)


def _damages(uri: str, text: LogText, reader: EventReader) -> Iterator[Damage]:
    if text.problem:
        yield Damage(uri, text.problem)
    if text.overlong:
        problem = f"{count_lines(text.overlong)} longer than any event: left out"
        yield Damage(uri, problem, text.overlong)
    if reader.damaged:
        problem = f"{count_lines(reader.damaged)} without a whole, sensible event: left out"
        yield Damage(uri, problem, reader.damaged, reader.first_damaged)
