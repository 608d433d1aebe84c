"""A socket between us and a process with Spark. Not standard output: Spark, the JVM and user code all print there."""

from __future__ import annotations

import select
import socket
import time
from typing import Generic

from autotrascale.execute.spark.protocol.codec import Codec, M


class ChannelClosedError(Exception):
    """The other end is gone."""


class ChannelTimeoutError(Exception):
    """The other end said nothing in time."""


class Channel(Generic[M]):
    """Messages over a stream socket, one at a time in each direction."""

    def __init__(self, end: socket.socket, codec: Codec[M]) -> None:
        self._socket, self._codec = end, codec
        self._received = b""

    def send(self, message: M) -> None:
        try:
            self._socket.sendall(self._codec.encode(message))
        except OSError as error:
            raise ChannelClosedError(str(error)) from None

    def receive(self, seconds: float | None = None) -> M:
        """The next message, waited for this long; None waits for ever."""
        until = None if seconds is None else time.monotonic() + seconds
        while b"\n" not in self._received:
            left = None if until is None else max(0.0, until - time.monotonic())
            if not self._readable(left):
                raise ChannelTimeoutError
            self._received += self._read()
        line, self._received = self._received.split(b"\n", 1)
        return self._codec.decode(line)

    def ended(self) -> bool:
        """Whether the other end has hung up, without waiting and without taking a message away."""
        if not self._readable(0.0):
            return False
        try:
            return not self._socket.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def close(self) -> None:
        self._socket.close()

    def _readable(self, seconds: float | None) -> bool:
        try:
            return bool(select.select([self._socket], [], [], seconds)[0])
        except (OSError, ValueError):
            return True  # closed: reading it will say so

    def _read(self) -> bytes:
        try:
            data = self._socket.recv(65536)
        except OSError as error:
            raise ChannelClosedError(str(error)) from None
        if not data:
            raise ChannelClosedError("closed by the other side")
        return data
