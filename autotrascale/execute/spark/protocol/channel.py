"""A socket between two processes. Standard output cannot be used: Spark, the JVM and user code all print there."""

from __future__ import annotations

import select
import socket
import time
from typing import Generic

from autotrascale.execute.spark.protocol.codec import Codec, M


class ChannelClosedError(Exception):
    """The other end has closed the channel."""


class ChannelTimeoutError(Exception):
    """The other end sent nothing in time."""


class Channel(Generic[M]):
    """An end of a stream socket that carries messages in both directions."""

    def __init__(self, end: socket.socket, codec: Codec[M]) -> None:
        self._socket, self._codec = end, codec
        self._received = b""

    def send(self, message: M) -> None:
        """Send a message. Raise `ChannelClosedError` if the other end is gone."""
        try:
            self._socket.sendall(self._codec.encode(message))
        except OSError as error:
            raise ChannelClosedError(str(error)) from None

    def receive(self, seconds: float | None = None) -> M:
        """Return the next message.

        Args:
            seconds: how long to wait before `ChannelTimeoutError` is raised; None waits for ever.

        Raises:
            ChannelClosedError: the other end is gone.
            InputError: the line is not a known message.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while b"\n" not in self._received:
            left = None if until is None else max(0.0, until - time.monotonic())
            if not self._is_readable(left):
                raise ChannelTimeoutError
            self._received += self._read()
        line, self._received = self._received.split(b"\n", 1)
        return self._codec.decode(line)

    def has_ended(self) -> bool:
        """Return whether the other end has closed the channel. Neither waits nor takes a message."""
        if not self._is_readable(0.0):
            return False
        try:
            return not self._socket.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def close(self) -> None:
        self._socket.close()

    def _is_readable(self, seconds: float | None) -> bool:
        try:
            return bool(select.select([self._socket], [], [], seconds)[0])
        except (OSError, ValueError):
            return True  # the socket is closed: reading raises the error

    def _read(self) -> bytes:
        try:
            data = self._socket.recv(65536)
        except OSError as error:
            raise ChannelClosedError(str(error)) from None
        if not data:
            raise ChannelClosedError("closed by the other side")
        return data
