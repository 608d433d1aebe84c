"""Limits on connections: how long a client may take, and how many clients may be connected.

    client                                     limit             then
    sends nothing, or half a request head      `head_seconds`    answer 408, close
    sends a body slowly                        `body_seconds`    answer 408, close
    does not read its answer                   `unread_seconds`  close

If more than `max_connections` clients are connected, a new client replaces the client that has kept the server waiting
longest. So a client that sends a whole request at once is answered, however many idle connections are open. If all
clients are being answered, the new client gets 503.
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
SPARE_FILES = 200  # file descriptors that stay free for the store, pipes of runs, job files
ACCEPTED_AT_ONCE = 64  # more would block the event loop for too long
BACKLOG = 4096  # connections that wait in the kernel

_IDLE_SECONDS = 60  # between two requests on one connection
_SHUTDOWN_SECONDS = 5  # for open answers at shutdown
_LINGER_SECONDS = 2.0  # for the last answer to a client that is disconnected


@dataclass(frozen=True)
class ConnectionLimits:
    head_seconds: float = 10.0
    body_seconds: float = 20.0
    unread_seconds: float = 30.0
    max_connections: int = MAX_CONNECTIONS

    @classmethod
    def of_this_process(cls) -> ConnectionLimits:
        """Return limits for the number of files that this process may open."""
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if files == resource.RLIM_INFINITY:
            return cls()
        return cls(max_connections=max(8, min(MAX_CONNECTIONS, files - SPARE_FILES)))


def configure_server(app: ASGIApp, limits: ConnectionLimits) -> Config:
    """Return the configuration of a server with these limits."""
    kind = type("LimitedConnection", (BoundedConnection,), {"limits": limits, "pending": {}})  # one dict per server
    return Config(
        app,
        http=kind,
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="on",
        backlog=ACCEPTED_AT_ONCE,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        timeout_keep_alive=_IDLE_SECONDS,
        server_header=False,
        proxy_headers=False,
    )


class BoundedConnection(H11Protocol):
    """The connection of one client. `pending`: connections whose next request is incomplete, the longest first."""

    limits: ClassVar[ConnectionLimits] = ConnectionLimits()
    pending: ClassVar[dict[BoundedConnection, None]] = {}
    _deadline: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    # -- called by asyncio --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits.max_connections and not self._drop_longest_pending():
            self._disconnect(503, "Service Unavailable")
            return
        self.pending[self] = None
        self._set_deadline(self.limits.head_seconds)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._deadline is None and self.conn.their_state is h11.IDLE:
            self._set_deadline(self.limits.head_seconds)  # the next request begins
        before = self.conn.their_state
        super().data_received(data)
        self._update_deadline(before)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_pending()
        self._cancel_unread()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(self.limits.unread_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        self._cancel_unread()
        super().resume_writing()

    # -- called by uvicorn --------------------------------------------------------------------------------------------

    def on_response_complete(self) -> None:
        before = self.conn.their_state
        super().on_response_complete()
        if not self.transport.is_closing():
            self._update_deadline(before)

    def timeout_keep_alive_handler(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # closing would wait for a client that does not read
        else:
            super().timeout_keep_alive_handler()

    # -- deadlines ----------------------------------------------------------------------------------------------------

    def _update_deadline(self, before: object) -> None:
        now = self.conn.their_state
        if now is h11.SEND_BODY and before is not h11.SEND_BODY:
            self._set_deadline(self.limits.body_seconds)
        if now in (h11.IDLE, h11.SEND_BODY):
            self.pending.setdefault(self)
        else:
            self._end_pending()

    def _set_deadline(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, self._time_out)

    def _end_pending(self) -> None:
        self.pending.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _cancel_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _time_out(self) -> None:
        self._deadline = None
        self._disconnect(408, "Request Timeout")

    def _disconnect(self, status: int, phrase: str) -> None:
        """Answer with `status` if no answer has begun, tell the application that the client is gone, and close."""
        self._end_pending()
        cycle = self.cycle
        is_answering = cycle is not None and not cycle.response_complete
        can_answer = not cycle.response_started if is_answering else self.conn.their_state is h11.IDLE
        if can_answer and not self.transport.is_closing():
            self.transport.write(
                f"HTTP/1.1 {status} {phrase}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".encode()
            )
        if is_answering:
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.close()
        self.loop.call_later(_LINGER_SECONDS, self.transport.abort)

    def _drop_longest_pending(self) -> bool:
        for longest in self.pending:
            longest._end_pending()
            longest.transport.abort()
            return True
        return False
