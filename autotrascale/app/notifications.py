"""Notifications about control loops: events are posted to web addresses by a thread.

The thread neither delays nor ends the loop. Events wait in a short queue, and each is tried a few times before its
deadline. A target that does not accept events is reported once, and once more when it works again. The part of an
address behind the host is a secret in most tools and never appears in a message.
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

ALL_EVENTS: tuple[EventKind, ...] = ("rescale", "miss", "hold", "down")
TEMPLATE_NAMES = ("event", "job", "text", "over", "simulated", "latency_seconds", "latency_target", "running")
MAX_QUEUED = 100  # events
ATTEMPT_SECONDS = 10.0
PAUSES = (1.0, 5.0)  # seconds between the attempts for one event
CLOSING_SECONDS = 5.0  # for queued events when the loop ends


@dataclass(frozen=True)
class NotificationTarget:
    """One entry of `notify:` in a job file."""

    url: str = ""  # Address to post to. Give exactly one of `url` and `url_env`.
    url_env: str = ""  # Environment variable that holds the address.
    kind: Literal["webhook", "chat"] = "webhook"  # A webhook gets all data as JSON, a chat gets `{"text": …}`.
    when: tuple[EventKind, ...] = ALL_EVENTS  # Events to post.
    template: str = ""  # JSON body of a webhook or text of a chat, with $job, $text, $event, … filled in.
    hold_seconds: float = 600.0  # The event `hold` is posted after so many seconds without a decision.
    token_env: str = ""  # Environment variable that holds a token, sent as `Authorization: Bearer …`.

    def __post_init__(self) -> None:
        if bool(self.url) == bool(self.url_env):
            raise InputError("url", "and url_env exclude each other, and one is required", remedy="give exactly one")
        if self.url:
            check_address("url", self.url)
        checks.positive("hold_seconds", self.hold_seconds)
        if not self.when:
            raise InputError("when", "is empty", remedy=f"use some of {', '.join(ALL_EVENTS)}")
        self._check_template()

    def _check_template(self) -> None:
        unknown = [name for name in _find_placeholders(self.template) if name not in TEMPLATE_NAMES]
        if unknown:
            raise InputError(
                "template",
                "has an unknown name",
                seen=f"${unknown[0]}",
                remedy=f"use ${', $'.join(TEMPLATE_NAMES)}; write $$ for a dollar sign",
            )
        try:
            self.body(LoopEvent("miss", False, "job", False, "text"))
        except ValueError as error:
            raise InputError("template", f"is not JSON: {error}", remedy='write {"summary": "$text"}') from None

    def address(self, environment: Mapping[str, str] = os.environ) -> SplitResult:
        """Return the address to post to.

        Raises:
            InputError: the variable is not set, or holds no usable address.
        """
        url = self.url or environment.get(self.url_env, "")
        if not url:
            raise InputError("notify.url_env", "names a variable that is not set", seen=self.url_env, remedy="set it")
        return check_address(f"notify: {self.url_env or 'url'}", url)

    def token(self, environment: Mapping[str, str] = os.environ) -> str:
        """Return the bearer token, or "".

        Raises:
            InputError: the variable is not set.
        """
        if not self.token_env:
            return ""
        if not environment.get(self.token_env):
            raise InputError(
                "notify.token_env", "names a variable that is not set", seen=self.token_env, remedy="set it"
            )
        return environment[self.token_env]

    def body(self, event: LoopEvent) -> bytes:
        """Return the JSON to post for `event`. Values in a JSON template are escaped; the template has the quotes.

        Raises:
            ValueError: the filled-in template is not JSON.
        """
        data = event.as_data()
        values = {name: _format_value(data.get(name)) for name in TEMPLATE_NAMES}
        if self.kind == "chat":
            text = Template(self.template).substitute(values) if self.template else event.text
            return json.dumps({"text": text}).encode()
        if not self.template:
            return json.dumps(data).encode()
        escaped = {name: json.dumps(value)[1:-1] for name, value in values.items()}
        text = Template(self.template).substitute(escaped)
        json.loads(text)
        return text.encode()


@dataclass(frozen=True)
class _NotifyFile:
    notify: tuple[NotificationTarget, ...]


def read_notifications(path: Path) -> tuple[NotificationTarget, ...]:
    """Return the targets of a file that has only the section `notify:`."""
    return read_file(path, _NotifyFile).notify


def read_targets_from_environment(environment: Mapping[str, str] = os.environ) -> tuple[NotificationTarget, ...]:
    """Return the targets of the file that AUTOTRASCALE_NOTIFY names, or none."""
    path = environment.get(environment_variables.NOTIFY)
    return read_notifications(Path(path)) if path else ()


def check_targets(targets: Iterable[NotificationTarget]) -> None:
    """Raise InputError if an address or token is missing, before a loop starts."""
    for target in targets:
        target.address()
        target.token()


def check_address(place: str, url: str) -> SplitResult:
    """Return the parts of `url`. The error names `place` and never shows the address.

    Raises:
        InputError: `url` is not an http or https address, or holds a user name or password.
    """
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        has_user = parts.username is not None
    except ValueError:
        is_valid = has_user = False
    if not is_valid or not url.isascii() or not url.isprintable() or " " in url:
        raise InputError(place, "is not an http or https address", remedy="write https://host/path")
    if has_user:
        raise InputError(place, "holds a user name or password", remedy="send a token with token_env")
    return parts


class Notifier:
    """Sender of notifications for one loop, or for all loops of a server."""

    def __init__(
        self,
        targets: Sequence[NotificationTarget],
        tell: Callable[[str], None] = note,
        environment: Mapping[str, str] = os.environ,
        pauses: Sequence[float] = PAUSES,
        attempt_seconds: float = ATTEMPT_SECONDS,
    ) -> None:
        """Start the sending thread if there are targets.

        Args:
            targets: where to post.
            tell: prints a line about a target that fails or works again.
            environment: holds addresses and tokens.
            pauses: seconds between the attempts for one event.
            attempt_seconds: deadline of one attempt.

        Raises:
            InputError: the environment lacks an address or token.
        """
        self._targets = [_Target(each, each.address(environment), each.token(environment)) for each in targets]
        self._tell, self._pauses, self._attempt_seconds = tell, (0.0, *pauses), attempt_seconds
        self._last: dict[str, LoopCondition] = {}  # by job
        self._queue: queue.Queue[tuple[_Target, LoopEvent] | None] = queue.Queue(MAX_QUEUED)
        self._closing = threading.Event()
        self._is_dropping = False
        self._thread = threading.Thread(target=self._send_all, name="notifications", daemon=True)
        if self._targets:
            self._thread.start()

    def observe(self, condition: LoopCondition, *, is_quiet: bool = False) -> None:
        """Queue the events between the last condition of the loop and this one, and return at once.

        Args:
            condition: the loop now.
            is_quiet: remember the condition without posting.
        """
        before = self._last.get(condition.job)
        now = self._last[condition.job] = carry_over(before, condition)
        for target in () if is_quiet else self._targets:
            for event in find_events(before, now, target.settings.hold_seconds):
                if event.kind in target.settings.when:
                    self._enqueue(target, event)

    def forget(self, job: str) -> None:
        """Forget the last condition of the job's loop."""
        self._last.pop(job, None)

    def close(self, within: float = CLOSING_SECONDS) -> None:
        """Stop the thread after at most `within` seconds, in which queued events are still sent."""
        if not self._thread.is_alive():
            return
        with suppress(queue.Full):
            self._queue.put(None, timeout=within)
        self._thread.join(within)
        self._closing.set()

    def _enqueue(self, target: _Target, event: LoopEvent) -> None:
        try:
            self._queue.put_nowait((target, event))
            self._is_dropping = False
        except queue.Full:
            if not self._is_dropping:
                self._tell(f"notifications: dropping new events, as {MAX_QUEUED} are waiting already")
            self._is_dropping = True

    def _send_all(self) -> None:
        while (item := self._queue.get()) is not None:
            target, event = item
            problem = self._send(target, event)
            if bool(problem) != bool(target.problem) and not self._closing.is_set():
                self._tell(f"notifications to {target.host}: {problem or 'working again'}")
            target.problem = problem

    def _send(self, target: _Target, event: LoopEvent) -> str:
        """Return why the target did not accept the event, or ""."""
        try:
            problem, body = "", target.settings.body(event)
        except ValueError:
            return "the template does not give JSON: put each $name between quotes"
        for pause in self._pauses:
            if self._closing.wait(pause):
                return problem or "the loop has ended"
            problem, can_retry = target.post(body, self._attempt_seconds)
            if not can_retry:
                return problem
        return problem


class _Target:
    def __init__(self, settings: NotificationTarget, address: SplitResult, token: str) -> None:
        self.settings, self._address, self._token = settings, address, token
        self.host = f"{address.scheme}://{address.hostname}"
        self.problem = ""

    def post(self, body: bytes, within: float) -> tuple[str, bool]:
        """Return why the target did not accept the body ("" if it did), and whether another attempt makes sense.

        A redirection is not followed: it would post the data to an address that the user did not name.
        """
        address, deadline = self._address, time.monotonic() + within
        path = (address.path or "/") + (f"?{address.query}" if address.query else "")
        headers = {"Content-Type": "application/json", "User-Agent": f"autotrascale/{__version__}"}
        headers |= {"Authorization": f"Bearer {self._token}"} if self._token else {}
        connection = self._connect(within)
        try:
            connection.request("POST", path, body, headers)
            status = _read_status(connection, deadline)
        except (OSError, http.client.HTTPException, ValueError) as error:
            return f"not reached: {type(error).__name__}", True
        finally:
            connection.close()
        if 200 <= status < 300:
            return "", False
        return f"refused with status {status}", status in (408, 429) or status >= 500

    def _connect(self, within: float) -> http.client.HTTPConnection:
        host, port = self._address.hostname or "", self._address.port
        if self._address.scheme == "https":
            return http.client.HTTPSConnection(host, port, timeout=within, context=ssl.create_default_context())
        return http.client.HTTPConnection(host, port, timeout=within)


def _read_status(connection: http.client.HTTPConnection, deadline: float) -> int:
    # A socket timeout restarts with each byte. The timer ends a server that answers one byte at a time.
    timer = threading.Timer(max(0.0, deadline - time.monotonic()), _shut_down, (connection,))
    timer.start()
    try:
        return connection.getresponse().status
    finally:
        timer.cancel()


def _shut_down(connection: http.client.HTTPConnection) -> None:
    if connection.sock is not None:
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)


def _find_placeholders(template: str) -> Iterable[str]:
    for match in re.finditer(Template.pattern, template):
        name = match["named"] or match["braced"]
        if name:
            yield name
        elif match["escaped"] is None:
            yield "…"


def _format_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {k}" for name, k in value.items())
    return "" if value is None else json.dumps(value) if isinstance(value, bool) else str(value)
