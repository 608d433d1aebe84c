"""Signing in, where the server wants a token: a browser cannot send one with a page, so it keeps it in a cookie.

No script can read that cookie, and no other site can make a browser send it.
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import RedirectResponse

from autotrascale.web.api.guard import COOKIE, SIGN_IN
from autotrascale.web.pages.page_route import PageRoute
from autotrascale.web.pages.rendering import HEADERS, render_page

MOST_BYTES = 10_000

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get(SIGN_IN)
async def form(request: Request, then: Annotated[str, Query(max_length=2000)] = "/") -> Response:
    return render_page("sign_in.html", then=_own(then), wrong=False, wanted=request.app.state.tokens is not None)


@router.post(SIGN_IN)
async def sign_in(request: Request) -> Response:
    body = await request.body()
    given = parse_qs(body[:MOST_BYTES].decode("utf-8", "replace"))
    token, then = given.get("token", [""])[0].strip(), _own(given.get("then", ["/"])[0])
    tokens = request.app.state.tokens
    if tokens is not None and tokens.owner(token.encode()) is None:
        return render_page("sign_in.html", 401, then=then, wrong=True, wanted=True)
    answer = RedirectResponse(then, 303, HEADERS)
    if tokens is not None:
        secure = request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"
        answer.set_cookie(COOKIE, quote(token, safe=""), httponly=True, samesite="strict", secure=secure)
    return answer


@router.post("/sign-out")
async def sign_out() -> Response:
    answer = RedirectResponse(SIGN_IN, 303, HEADERS)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer


def _own(address: str) -> str:
    """Never to another site."""
    inside = address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
    return address if inside else "/"
