"""The text of a piece of a log, as blocks of lines: read, decompressed and cut natively, where Spark's own reader of
lines would take as long as everything else together.

A stream that breaks off, or turns into garbage, gives all that comes before and says so. Neither a line nor what a file
inflates to may be as long as it likes: a few kilobytes of zstd can say gigabytes.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from contextlib import closing
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from autotrascale.monitor.eventlog.log_files import Piece, codec_of, open_filesystem

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MOST_LINE = 1 << 24  # bytes; Spark's longest events, of plans with thousands of nodes, have some millions
MOST_INFLATED = (
    1000  # times its size is what a compressed file may hold; logs are some 20 times as long as their zstd …
)
LEAST_INFLATED = 1 << 28  # … but for short ones
_BUFFER = 1 << 16
_BLOCK = 1 << 18  # bytes of lines that are handed on together
OVERLONG = b"a line that is too long\n"  # stands for one: it is no event either


class Text(io.RawIOBase):
    """Raw bytes of a piece, from one before its start, so that a line begins at the start only if one ended there."""

    def __init__(self, piece: Piece) -> None:
        self._piece, self._read, self.problem = piece, 0, ""
        self.overlong = 0  # lines that were left out for their length
        try:
            self._stream, self._most = _opened(piece)
        except (OSError, ValueError) as error:
            self.problem = f"cannot be opened: {str(error).splitlines()[0]}"

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        if self.problem:
            return 0
        if self._read > self._most:
            self.problem = (
                f"inflates to more than {self._most:,} bytes: what comes before is used, the rest is left out"
            )
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

    def without_overlong(self, block: list[bytes]) -> list[bytes]:
        """Each counted, and something that is no event in its place."""
        if max(map(len, block)) <= MOST_LINE:
            return block
        self.overlong += sum(len(line) > MOST_LINE for line in block)
        return [line if len(line) <= MOST_LINE else OVERLONG for line in block]

    def _before_the_end(self, most: int) -> bytes:
        """A read that fails gives nothing of what it had. So once more, to where it failed byte by byte."""
        found = b""
        with _opened(self._piece)[0] as stream:
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
        at = piece.start  # where the next line begins, in the piece's own text
        begun = b"" if at == 0 else None  # of a line; None while the rest of one is passed over
        at -= at > 0  # the byte before the piece tells whether a line begins with it
        while at < piece.end and (more := reader.read(_BLOCK)):
            if begun is None:
                end = more.find(b"\n") + 1
                at += end or len(more)
                if not end:
                    continue
                begun, more = b"", more[end:]
            block, begun = _cut(begun + more)
            block, at = _of_piece(block, at, piece.end)
            if len(begun) > MOST_LINE and at < piece.end:
                block.append(begun)
                at, begun = at + len(begun), None
            if block:
                yield text.without_overlong(block)
        if begun and at < piece.end and not text.problem:  # one that broke off with the stream is no other damage
            yield text.without_overlong([begun])


def _cut(text: bytes) -> tuple[list[bytes], bytes]:
    """Its whole lines, and what has begun behind them."""
    end = text.rfind(b"\n") + 1
    return io.BytesIO(text[:end]).readlines(), text[end:]


def _of_piece(block: list[bytes], at: int, end: float) -> tuple[list[bytes], int]:
    """Those that begin before the end, and where the line after the block begins."""
    after = at + sum(map(len, block))
    if after > end:
        begins = accumulate(map(len, block), initial=at)
        block = [line for line, begin in zip(block, begins, strict=False) if begin < end]
    return block, after


def _opened(piece: Piece) -> tuple[Any, float]:
    """The stream, and how much of it is read at most."""
    system, path = open_filesystem(piece.uri)
    file = system.open_input_file(path)
    if codec := codec_of(piece.uri):
        most = max(LEAST_INFLATED, MOST_INFLATED * file.size())
        return pa.CompressedInputStream(file, codec), most
    file.seek(max(0, piece.start - 1))
    return file, math.inf
