"""Checks before every route, as plain ASGI middleware.

- Host: on a loopback address the Host header must name it. Otherwise a page of another site could reach this server
  through a host name of its own that resolves to 127.0.0.1.
- Token: if the server has tokens, every request except `/healthz` and the sign-in form must carry one. Programs send it
  as a bearer token, browsers in the cookie that the form sets.
- Size: bodies are limited, with and without a Content-Length.

The name and address of the client are stored in the request's scope.
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
    """The middleware. `tokens`: None if no token is needed. `loopback`: the server listens on a loopback address."""

    def __init__(self, app: ASGIApp, tokens: Tokens | None, loopback: bool, max_bytes: int = MAX_BODY_BYTES) -> None:
        self._app, self._tokens, self._loopback, self._max_bytes = app, tokens, loopback, max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        refusal = self._check_host(headers) or self._check_token(scope, headers) or self._check_length(headers)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        await _LimitedBody(self._app, self._max_bytes)(scope, receive, send)

    def _check_host(self, headers: dict[bytes, bytes]) -> ProblemResponse | None:
        host = headers.get(b"host", b"").decode("latin-1")
        if self._loopback and _host_name(host) not in LOOPBACK:
            return ProblemResponse(421, f"this server is not {host[:100] or 'a host without a name'}: use 127.0.0.1")
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin and urlsplit(origin).netloc != host:
            return ProblemResponse(403, "pages of other sites may not send requests to this server")
        return None

    def _check_token(self, scope: Scope, headers: dict[bytes, bytes]) -> Response | None:
        address = (scope.get("client") or ("nowhere",))[0]
        scope[ASKED_BY] = f"anonymous at {address}"
        if self._tokens is None or scope["path"] in OPEN_PATHS:
            return None
        token = _read_token(headers)
        owner = None if token is None else self._tokens.owner(token)
        if owner is not None:
            scope[ASKED_BY] = f"{owner} at {address}"
            return None
        if scope["method"] == "GET" and b"text/html" in headers.get(b"accept", b""):
            return RedirectResponse(f"{SIGN_IN}?then={quote(scope['path'], safe='')}", 303)
        return ProblemResponse(
            401, "a token is needed: send Authorization: Bearer TOKEN", headers={"WWW-Authenticate": "Bearer"}
        )

    def _check_length(self, headers: dict[bytes, bytes]) -> ProblemResponse | None:
        length = headers.get(b"content-length", b"0")
        if not length.isdigit():
            return ProblemResponse(400, "Content-Length is not a number")
        return _too_long(self._max_bytes) if len(length) > 12 or int(length) > self._max_bytes else None


class _TooLongError(Exception):
    """Passes through the application's own error handlers to the middleware."""


class _LimitedBody:
    """Limits a body without a Content-Length while it arrives."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app, self._left, self._max_bytes = app, max_bytes, max_bytes
        self._has_begun, self._is_too_long = False, False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def receive_limited() -> Message:
            message = await receive()
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                self._is_too_long = True
                raise _TooLongError
            return message

        async def send_unless_too_long(message: Message) -> None:
            if self._is_too_long and not self._has_begun:
                return  # the application reports an error of its own
            self._has_begun = True
            await send(message)

        try:
            await self._app(scope, receive_limited, send_unless_too_long)
        except Exception:
            if not self._is_too_long:
                raise
        if self._is_too_long and not self._has_begun:
            await _too_long(self._max_bytes)(scope, receive, send)


def _too_long(max_bytes: int) -> ProblemResponse:
    return ProblemResponse(413, f"the body has more than {max_bytes} bytes", headers={"Connection": "close"})


def _read_token(headers: dict[bytes, bytes]) -> bytes | None:
    scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
    if scheme:
        return token.strip() if scheme.lower() == b"bearer" else None
    for pair in headers.get(b"cookie", b"").split(b";"):
        name, _, value = pair.strip().partition(b"=")
        if name == COOKIE.encode():
            return unquote(value.decode("latin-1")).encode()
    return None


def _host_name(host: str) -> str:
    match = _HOST.fullmatch(host)
    return "" if match is None else (match[1] or match[2]).lower()
