"""How long a client may take, and how many may be connected: what a web server must hold before any request is whole.

    a client that …                          is answered 408 and let go after
    connects and says nothing, or half       `head_seconds`
    sends a body bit by bit                  `body_seconds`
    does not read its answer                 `unread_seconds` (without an answer)

When `most` are connected, the one that has kept the server waiting for longest goes for each that comes: whoever sends
a whole request at once is answered, however many connections stand idle. Where all are being answered, who comes is
told to come again (503).
"""

from __future__ import annotations

import asyncio
import resource
from dataclasses import dataclass
from typing import ClassVar

import h11
from starlette.types import ASGIApp
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 1000
SPARE_FILES = 200  # of those a process may open: for the store, the runs' pipes, job files
ACCEPTED_AT_ONCE = 64  # more would keep the loop from its other work
BACKLOG = 4096  # that may wait for it in the kernel

_IDLE_SECONDS = 60  # between two requests of one connection
_STREAMS_SECONDS = 5  # that open answers are given at the end
_LINGER_SECONDS = 2.0  # for the last words to a client that is let go


@dataclass(frozen=True)
class ConnectionLimits:
    head_seconds: float = 10.0
    body_seconds: float = 20.0
    unread_seconds: float = 30.0
    most: int = MAX_CONNECTIONS

    @classmethod
    def of_this_process(cls) -> ConnectionLimits:
        """As many connections as it may open files for."""
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return cls() if files == resource.RLIM_INFINITY else cls(most=max(8, min(MAX_CONNECTIONS, files - SPARE_FILES)))


def configure_server(app: ASGIApp, limits: ConnectionLimits) -> Config:
    """A server of its own: its connections know of each other."""
    kind = type("BoundedConnection", (BoundedConnection,), {"limits": limits, "waited_for": {}})
    return Config(
        app,
        http=kind,
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="on",
        backlog=ACCEPTED_AT_ONCE,
        timeout_graceful_shutdown=_STREAMS_SECONDS,
        timeout_keep_alive=_IDLE_SECONDS,
        server_header=False,
        proxy_headers=False,
    )


class BoundedConnection(H11Protocol):
    """One client's. `waited_for`: those whose next request is not whole, the longest first."""

    limits: ClassVar[ConnectionLimits] = ConnectionLimits()
    waited_for: ClassVar[dict[BoundedConnection, None]] = {}
    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    # -- what asyncio calls -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits.most and not self._made_room():
            self._last_words(503, "Service Unavailable")
            return
        self.waited_for[self] = None
        self._give(self.limits.head_seconds)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._deadline is None and self.conn.their_state is h11.IDLE:
            self._give(self.limits.head_seconds)  # the next request has begun
        before = self.conn.their_state
        super().data_received(data)
        self._look(before)

    def connection_lost(self, exc: Exception | None) -> None:
        self._no_longer_waited_for()
        self._read()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(self.limits.unread_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        self._read()
        super().resume_writing()

    # -- what uvicorn calls -------------------------------------------------------------------------------------------

    def on_response_complete(self) -> None:
        before = self.conn.their_state
        super().on_response_complete()
        if not self.transport.is_closing():
            self._look(before)

    def timeout_keep_alive_handler(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # closed, it would wait for a client that does not read
        else:
            super().timeout_keep_alive_handler()

    # -- deadlines ----------------------------------------------------------------------------------------------------

    def _look(self, before: object) -> None:
        """At what is to come: a head, the rest of a body, or nothing until it is answered."""
        now = self.conn.their_state
        if now is h11.SEND_BODY and before is not h11.SEND_BODY:
            self._give(self.limits.body_seconds)
        if now in (h11.IDLE, h11.SEND_BODY):
            self.waited_for.setdefault(self)
        else:
            self._no_longer_waited_for()

    def _give(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, self._too_slow)

    def _no_longer_waited_for(self) -> None:
        self.waited_for.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _too_slow(self) -> None:
        self._deadline = None
        self._last_words(408, "Request Timeout")

    def _last_words(self, status: int, phrase: str) -> None:
        """The application is told that its client has left, where it was at work for it."""
        self._no_longer_waited_for()
        cycle = self.cycle
        answering = cycle is not None and not cycle.response_complete
        silent = not cycle.response_started if answering else self.conn.their_state is h11.IDLE
        if silent and not self.transport.is_closing():
            self.transport.write(
                f"HTTP/1.1 {status} {phrase}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".encode()
            )
        if answering:
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.close()
        self.loop.call_later(_LINGER_SECONDS, self.transport.abort)

    def _made_room(self) -> bool:
        for longest in self.waited_for:
            longest._no_longer_waited_for()
            longest.transport.abort()
            return True
        return False
