"""Notifications of control loops: what is new is posted to addresses, by a thread of its own.

Nothing here keeps the loop waiting or ends it. News wait in a short queue; each is tried a few times within a deadline.
An address that does not take them is said once, and again when it does. What is behind the host in an address is a
secret in most tools, and is never shown.
"""

from __future__ import annotations

import http.client
import json
import os
import queue
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any, Literal
from urllib.parse import SplitResult, urlsplit

from autotrascale import __version__
from autotrascale.app import environment_variables
from autotrascale.app.console import note
from autotrascale.domain import checks
from autotrascale.domain.errors import InputError
from autotrascale.validation import read_file
from autotrascale.views.loop_events import EventKind, LoopCondition, LoopEvent, carry_over, find_events

ALL_OCCASIONS: tuple[EventKind, ...] = ("rescale", "miss", "hold", "down")
TEMPLATE_NAMES = ("event", "job", "text", "over", "simulated", "latency_seconds", "latency_target", "running")
MAX_QUEUED = 100
ATTEMPT_SECONDS, PAUSES = 10.0, (1.0, 5.0)  # of one attempt, and between them
CLOSING_SECONDS = 5.0  # for what waits when the loop ends


@dataclass(frozen=True)
class NotificationTarget:
    """One address. `url_env` names a variable that holds it, as such an address is mostly a secret."""

    url: str = ""
    url_env: str = ""
    kind: Literal["webhook", "chat"] = "webhook"
    when: tuple[EventKind, ...] = ALL_OCCASIONS
    template: str = ""  # of the body (webhook: JSON) or of the text (chat), with $job, $text, …
    hold_seconds: float = 600.0  # a hold is told of when it has lasted so long
    token_env: str = ""  # a variable whose content is sent as `Authorization: Bearer …`

    def __post_init__(self) -> None:
        if bool(self.url) == bool(self.url_env):
            raise InputError("url", "or url_env is what an address has, one of them", remedy="give one")
        if self.url:
            check_address("url", self.url)
        checks.positive("hold_seconds", self.hold_seconds)
        if not self.when:
            raise InputError("when", "is empty: nothing would be told", remedy="use rescale, miss, hold, down")
        self._check_template()

    def _check_template(self) -> None:
        unknown = [name for name in _names(self.template) if name not in TEMPLATE_NAMES]
        if unknown:
            raise InputError(
                "template",
                "has a name that there is none of",
                seen=f"${unknown[0]}",
                remedy=f"use some of ${', $'.join(TEMPLATE_NAMES)}; $$ is a dollar",
            )
        try:
            self.body(LoopEvent("miss", False, "job", False, "text"))
        except ValueError as error:
            raise InputError("template", f"does not give JSON: {error}", remedy='write {"summary": "$text"}') from None

    def address(self, environment: Mapping[str, str] = os.environ) -> SplitResult:
        url = self.url or environment.get(self.url_env, "")
        if not url:
            raise InputError("notify.url_env", "names a variable that is not set", seen=self.url_env, remedy="set it")
        return check_address(f"notify: {self.url_env or 'url'}", url)

    def token(self, environment: Mapping[str, str] = os.environ) -> str:
        if self.token_env and not environment.get(self.token_env):
            raise InputError(
                "notify.token_env", "names a variable that is not set", seen=self.token_env, remedy="set it"
            )
        return environment.get(self.token_env, "") if self.token_env else ""

    def body(self, told: LoopEvent) -> bytes:
        """In a template of JSON each value stands between quotes that the template has."""
        data = told.as_data()
        plain = {word: _plain(data.get(word)) for word in TEMPLATE_NAMES}
        if self.kind == "chat":
            text = Template(self.template).substitute(plain) if self.template else told.text
            return json.dumps({"text": text}).encode()
        if not self.template:
            return json.dumps(data).encode()
        escaped = {word: json.dumps(value)[1:-1] for word, value in plain.items()}
        text = Template(self.template).substitute(escaped)
        json.loads(text)
        return text.encode()


@dataclass(frozen=True)
class _Notify:
    notify: tuple[NotificationTarget, ...]


def read_notifications(path: Path) -> tuple[NotificationTarget, ...]:
    """A file that holds nothing but `notify:`."""
    return read_file(path, _Notify).notify


def read_targets_from_environment(environment: Mapping[str, str] = os.environ) -> tuple[NotificationTarget, ...]:
    path = environment.get(environment_variables.NOTIFY)
    return read_notifications(Path(path)) if path else ()


def check_targets(wanted: Iterable[NotificationTarget]) -> None:
    """Before anything is started for nothing."""
    for each in wanted:
        each.address()
        each.token()


def check_address(place: str, url: str) -> SplitResult:
    """None of it is shown."""
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        named = parts.username is not None
    except ValueError:
        fine = named = False
    if not fine or not url.isascii() or not url.isprintable() or " " in url:
        raise InputError(place, "is no http or https address", remedy="write https://host/path")
    if named:
        raise InputError(place, "has a user or a password in it", remedy="send a token, with token_env")
    return parts


class Notifier:
    """For one loop, or for a server's. Opened where there is somebody to tell."""

    def __init__(
        self,
        wanted: Sequence[NotificationTarget],
        tell: Callable[[str], None] = note,
        environment: Mapping[str, str] = os.environ,
        pauses: Sequence[float] = PAUSES,
        attempt_seconds: float = ATTEMPT_SECONDS,
    ) -> None:
        self._targets = [_Target(each, each.address(environment), each.token(environment)) for each in wanted]
        self._tell, self._pauses, self._attempt_seconds = tell, (0.0, *pauses), attempt_seconds
        self._last: dict[str, LoopCondition] = {}  # by job
        self._queue: queue.Queue[tuple[_Target, LoopEvent] | None] = queue.Queue(MAX_QUEUED)
        self._closing = threading.Event()
        self._dropping = False
        self._thread = threading.Thread(target=self._work, name="notifications", daemon=True)
        if self._targets:
            self._thread.start()

    def saw(self, view: LoopCondition, *, quiet: bool = False) -> None:
        """At once, whatever becomes of it. `quiet`: it is known, and no news."""
        before = self._last.get(view.job)
        view = self._last[view.job] = carry_over(before, view)
        for target in () if quiet else self._targets:
            for each in find_events(before, view, target.wanted.hold_seconds):
                if each.occasion in target.wanted.when:
                    self._put(target, each)

    def forget(self, job: str) -> None:
        self._last.pop(job, None)

    def close(self, within: float = CLOSING_SECONDS) -> None:
        """What waits is sent, if that does not take long."""
        if not self._thread.is_alive():
            return
        with suppress(queue.Full):
            self._queue.put(None, timeout=within)
        self._thread.join(within)
        self._closing.set()

    def _put(self, target: _Target, each: LoopEvent) -> None:
        try:
            self._queue.put_nowait((target, each))
            self._dropping = False
        except queue.Full:
            if not self._dropping:
                self._tell(f"notifications: {MAX_QUEUED} wait already, what is new is not told")
            self._dropping = True

    def _work(self) -> None:
        while (taken := self._queue.get()) is not None:
            target, each = taken
            trouble = self._send(target, each)
            if bool(trouble) != bool(target.trouble) and not self._closing.is_set():
                self._tell(f"notifications to {target.host}: {trouble or 'work again'}")
            target.trouble = trouble

    def _send(self, target: _Target, each: LoopEvent) -> str:
        """Why it was not taken, if so."""
        try:
            trouble, body = "", target.wanted.body(each)
        except ValueError:
            return "the template does not give JSON: put each $name between quotes"
        for pause in self._pauses:
            if self._closing.wait(pause):
                return trouble or "the loop has ended"
            trouble, again = target.post(body, self._attempt_seconds)
            if not again:
                return trouble
        return trouble


class _Target:
    def __init__(self, wanted: NotificationTarget, address: SplitResult, token: str) -> None:
        self.wanted, self._address, self._token = wanted, address, token
        self.host = f"{address.scheme}://{address.hostname}"
        self.trouble = ""

    def post(self, body: bytes, within: float) -> tuple[str, bool]:
        """Why it was not taken, and whether it is worth another attempt. A redirection is not followed: it would take
        what is posted to somewhere that nobody named."""
        where, until = self._address, time.monotonic() + within
        path = (where.path or "/") + (f"?{where.query}" if where.query else "")
        headers = {"Content-Type": "application/json", "User-Agent": f"autotrascale/{__version__}"}
        headers |= {"Authorization": f"Bearer {self._token}"} if self._token else {}
        connection = self._connection(within)
        try:
            connection.request("POST", path, body, headers)
            status = _status(connection, until)
        except (OSError, http.client.HTTPException, ValueError) as error:
            return f"not reached: {type(error).__name__}", True
        finally:
            connection.close()
        if 200 <= status < 300:
            return "", False
        return f"refused with status {status}", status in (408, 429) or status >= 500

    def _connection(self, within: float) -> http.client.HTTPConnection:
        host, port = self._address.hostname or "", self._address.port
        if self._address.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=within, context=ssl.create_default_context())
        return http.client.HTTPConnection(host, port, timeout=within)


def _status(connection: http.client.HTTPConnection, until: float) -> int:
    """A server that answers a byte at a time is let go, too: the socket is shut when the time is over."""
    timer = threading.Timer(max(0.0, until - time.monotonic()), _shut, (connection,))
    timer.start()
    try:
        return connection.getresponse().status
    finally:
        timer.cancel()


def _shut(connection: http.client.HTTPConnection) -> None:
    if connection.sock is not None:
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)


def _names(template: str) -> Iterable[str]:
    for found in re.finditer(Template.pattern, template):
        name = found["named"] or found["braced"]
        if name:
            yield name
        elif found["escaped"] is None:
            yield "…"


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {k}" for name, k in value.items())
    return "" if value is None else json.dumps(value) if isinstance(value, bool) else str(value)
