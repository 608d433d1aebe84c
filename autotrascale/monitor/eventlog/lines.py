"""The text of a log file as blocks of lines: read, decompressed and cut natively.

A stream that breaks off or turns into garbage gives everything before that place, and says so. The length of a line and
the size that a file may inflate to are both bounded: a few kilobytes of zstd can inflate to gigabytes.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from autotrascale.monitor.eventlog.log_files import codec_of, open_filesystem

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MOST_LINE = 1 << 24  # bytes; Spark's longest events, of plans with thousands of nodes, have some millions
MOST_INFLATED = 1000  # times its size is what a compressed file may hold; event logs inflate to about 20 times …
LEAST_INFLATED = 1 << 28  # … but small files may always inflate to this many bytes
_BUFFER = 1 << 16
_BLOCK = 1 << 18  # bytes of lines that are handed on together
OVERLONG = b"a line that is too long\n"  # stands for a line above MOST_LINE; it is no event either


class LogText(io.RawIOBase):
    """The decompressed bytes of one log file. `problem` says why they end early, if they do."""

    def __init__(self, uri: str) -> None:
        self._uri, self._read, self.problem = uri, 0, ""
        self.overlong = 0  # lines that were left out for their length
        try:
            self._stream, self._most = _open(uri)
        except (OSError, ValueError) as error:
            self.problem = f"cannot be opened: {str(error).splitlines()[0]}"

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        if self.problem:
            return 0
        if self._read > self._most:
            self.problem = f"inflates to more than {self._most:,} bytes: the part before is used, the rest is left out"
            return 0
        try:
            count = int(self._stream.readinto(buffer))
        except OSError as error:
            rest = self._bytes_before_the_error(len(memoryview(buffer)))
            memoryview(buffer)[: len(rest)] = rest
            count = len(rest)
            what = "ends in mid-stream" if "runcated" in str(error) else "is corrupt"
            place = f"about {self._read + count:,} bytes of text"
            self.problem = f"{what} after {place}: the part before is used, the rest is lost"
        self._read += count
        return count

    def replace_overlong(self, block: list[bytes]) -> list[bytes]:
        """Return the block with `OVERLONG` in place of each line that is too long, and count those lines."""
        if max(map(len, block)) <= MOST_LINE:
            return block
        self.overlong += sum(len(line) > MOST_LINE for line in block)
        return [line if len(line) <= MOST_LINE else OVERLONG for line in block]

    def _bytes_before_the_error(self, most: int) -> bytes:
        """Read once more, byte by byte, up to the error: a read that fails returns nothing of its bytes."""
        found = b""
        with _open(self._uri)[0] as stream:
            for _ in range(self._read // _BUFFER):
                stream.read(_BUFFER)
            stream.read(self._read % _BUFFER)
            try:
                while len(found) < most and (byte := stream.read(1)):
                    found += byte
            except OSError:
                pass  # the place of the error
        return found


def blocks(text: LogText) -> Iterator[list[bytes]]:
    """Yield the lines of a file in blocks of some hundred kilobytes."""
    with closing(io.BufferedReader(text, _BUFFER)) as reader:
        begun = b""  # the beginning of a line whose end was not read yet
        is_skipping = False  # the rest of a line that is too long
        while more := reader.read(_BLOCK):
            if is_skipping:
                end = more.find(b"\n") + 1
                if not end:
                    continue
                is_skipping, more = False, more[end:]
            text_so_far = begun + more
            end = text_so_far.rfind(b"\n") + 1
            block, begun = io.BytesIO(text_so_far[:end]).readlines(), text_so_far[end:]
            if len(begun) > MOST_LINE:
                block.append(begun)
                begun, is_skipping = b"", True
            if block:
                yield text.replace_overlong(block)
        if begun and not text.problem:  # a line that broke off with the stream is no other damage
            yield text.replace_overlong([begun])


def _open(uri: str) -> tuple[Any, float]:
    """Return the file's stream, and the number of bytes that are read of it at most."""
    system, path = open_filesystem(uri)
    file = system.open_input_file(path)
    if codec := codec_of(uri):
        most = max(LEAST_INFLATED, MOST_INFLATED * file.size())
        return pa.CompressedInputStream(file, codec), most
    return file, math.inf
