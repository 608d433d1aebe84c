"""Who may ask, and how much at once: the checks that come before any route, as plain ASGI, for they meet every request.

On a loopback address the Host header must name it: else a page of another site could reach this server by a name of
its own that resolves to 127.0.0.1. With tokens, each request must carry one, but for `/healthz` and the form that asks
for one: programs as a bearer's, browsers in the cookie that the form gave them. Bodies are bounded, whether or not they
say how long they are. Who asks is written beside the request, for the journal.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote, urlsplit

from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from autotrascale.web.api.problem_details import ProblemResponse
from autotrascale.web.api.tokens import Tokens

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
OPEN_PATH = "/healthz"
SIGN_IN = "/sign-in"
COOKIE = "autotrascale_token"
OPEN_PATHS = frozenset({OPEN_PATH, SIGN_IN, "/static/pages.css", "/static/icon.svg"})
MAX_BODY_BYTES = 1_000_000
ASKED_BY = "autotrascale.asked_by"  # in a request's scope

_HOST = re.compile(r"\[([0-9a-fA-F:]+)\](?::\d+)?|([^:\[\]]+)(?::\d+)?")


class RequestGuard:
    def __init__(self, app: ASGIApp, tokens: Tokens | None, loopback: bool, most_bytes: int = MAX_BODY_BYTES) -> None:
        self._app, self._tokens, self._loopback, self._most = app, tokens, loopback, most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        refused = self._foreign(headers) or self._unknown(scope, headers) or self._long(headers)
        if refused is not None:
            await refused(scope, receive, send)
            return
        await _Bounded(self._app, self._most)(scope, receive, send)

    def _foreign(self, headers: dict[bytes, bytes]) -> ProblemResponse | None:
        host = headers.get(b"host", b"").decode("latin-1")
        if self._loopback and _name(host) not in LOOPBACK:
            return ProblemResponse(421, f"this server is no {host[:100] or 'nameless host'}; call it 127.0.0.1")
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin and urlsplit(origin).netloc != host:
            return ProblemResponse(403, "pages of other sites may not ask this server")
        return None

    def _unknown(self, scope: Scope, headers: dict[bytes, bytes]) -> Response | None:
        address = (scope.get("client") or ("nowhere",))[0]
        scope[ASKED_BY] = f"somebody at {address}"
        if self._tokens is None or scope["path"] in OPEN_PATHS:
            return None
        given = _given(headers)
        owner = None if given is None else self._tokens.owner(given)
        if owner is not None:
            scope[ASKED_BY] = f"{owner} at {address}"
            return None
        if scope["method"] == "GET" and b"text/html" in headers.get(b"accept", b""):
            return RedirectResponse(f"{SIGN_IN}?then={quote(scope['path'], safe='')}", 303)
        return ProblemResponse(
            401, "send the server's token: Authorization: Bearer …", headers={"WWW-Authenticate": "Bearer"}
        )

    def _long(self, headers: dict[bytes, bytes]) -> ProblemResponse | None:
        length = headers.get(b"content-length", b"0")
        if not length.isdigit():
            return ProblemResponse(400, "Content-Length is no number")
        return _too_long(self._most) if len(length) > 12 or int(length) > self._most else None


class _TooLongError(Exception):
    """Out of the application, past its own handlers, to where the response is made."""


class _Bounded:
    """For bodies that do not say how long they are."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app, self._left, self._most, self._begun, self._over = app, most, most, False, False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def bounded() -> Message:
            message = await receive()
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                self._over = True
                raise _TooLongError
            return message

        async def watched(message: Message) -> None:
            if self._over and not self._begun:
                return  # the application took it for a mistake of its own
            self._begun = True
            await send(message)

        try:
            await self._app(scope, bounded, watched)
        except Exception:
            if not self._over:
                raise
        if self._over and not self._begun:
            await _too_long(self._most)(scope, receive, send)


def _too_long(most: int) -> ProblemResponse:
    return ProblemResponse(413, f"a body may have {most} bytes at most", headers={"Connection": "close"})


def _given(headers: dict[bytes, bytes]) -> bytes | None:
    """The token that a request carries."""
    scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
    if scheme:
        return token.strip() if scheme.lower() == b"bearer" else None
    for pair in headers.get(b"cookie", b"").split(b";"):
        name, _, value = pair.strip().partition(b"=")
        if name == COOKIE.encode():
            return unquote(value.decode("latin-1")).encode()
    return None


def _name(host: str) -> str:
    match = _HOST.fullmatch(host)
    return "" if match is None else (match[1] or match[2]).lower()
