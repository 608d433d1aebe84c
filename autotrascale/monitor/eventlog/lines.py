"""The text of a piece of a log, as blocks of lines: read, decompressed and cut natively, where Spark's own reader of
lines would take as long as everything else together.

A stream that breaks off, or turns into garbage, gives all that comes before and says so.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from autotrascale.monitor.eventlog.files import Piece, codec_of, opened

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_BUFFER = 1 << 16
_BLOCK = 1 << 18  # bytes of lines that are handed on together


class Text(io.RawIOBase):
    """Raw bytes of a piece, from one before its start, so that a line begins at the start only if one ended there."""

    def __init__(self, piece: Piece) -> None:
        self._piece, self._read, self.problem = piece, 0, ""
        try:
            self._stream = _opened(piece)
        except (OSError, ValueError) as error:
            self.problem = f"cannot be opened: {str(error).splitlines()[0]}"

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        if self.problem:
            return 0
        try:
            got = int(self._stream.readinto(buffer))
        except OSError as error:
            rest = self._before_the_end(len(memoryview(buffer)))
            memoryview(buffer)[: len(rest)] = rest
            got = len(rest)
            what = "ends in mid-stream" if "runcated" in str(error) else "is corrupt"
            read = f"about {self._read + got:,} bytes of text"
            self.problem = f"{what} after {read}: what comes before is used, the rest is lost"
        self._read += got
        return got

    def _before_the_end(self, most: int) -> bytes:
        """A read that fails gives nothing of what it had. So once more, to where it failed byte by byte."""
        found = b""
        with _opened(self._piece) as stream:
            for _ in range(self._read // _BUFFER):
                stream.read(_BUFFER)
            stream.read(self._read % _BUFFER)
            try:
                while len(found) < most and (byte := stream.read(1)):
                    found += byte
            except OSError:
                pass  # here it is
        return found


def blocks(text: Text, piece: Piece) -> Iterator[list[bytes]]:
    """The lines that begin in the piece, wherever they end."""
    with closing(io.BufferedReader(text, _BUFFER)) as reader:
        at = piece.start
        if at:
            at += len(reader.readline()) - 1
        while at < piece.end and (block := reader.readlines(_BLOCK)):
            begins = accumulate(map(len, block), initial=at)
            at += sum(map(len, block))
            if at > piece.end:
                block = [line for line, begin in zip(block, begins, strict=False) if begin < piece.end]
            elif text.problem and not block[-1].endswith(b"\n"):
                block.pop()  # a line that broke off with the stream is no other damage
            yield block


def _opened(piece: Piece) -> Any:
    system, path = opened(piece.uri)
    if codec := codec_of(piece.uri):
        return pa.CompressedInputStream(system.open_input_file(path), codec)
    stream = system.open_input_file(path)
    stream.seek(max(0, piece.start - 1))
    return stream
