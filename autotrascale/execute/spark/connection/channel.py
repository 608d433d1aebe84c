"""A socket pair between engine and host. Not standard output: Spark, the JVM and user code all print there."""

from __future__ import annotations

import select
import socket
import time

from autotrascale.execute.spark.connection.messages import Message, decode, encode


class ChannelClosedError(Exception):
    """The other end is gone."""


class ChannelTimeoutError(Exception):
    """The other end said nothing in time."""


class Channel:
    """Messages over a stream socket, one at a time in each direction."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._received = b""

    def send(self, message: Message) -> None:
        try:
            self._socket.sendall(encode(message))
        except OSError as error:
            raise ChannelClosedError(str(error)) from None

    def receive(self, seconds: float | None = None) -> Message:
        """The next message, waited for this long; None waits for ever."""
        until = None if seconds is None else time.monotonic() + seconds
        while b"\n" not in self._received:
            left = None if until is None else max(0.0, until - time.monotonic())
            if not self._readable(left):
                raise ChannelTimeoutError
            self._received += self._read()
        line, self._received = self._received.split(b"\n", 1)
        return decode(line)

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
