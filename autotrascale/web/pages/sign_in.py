"""/sign-in: browsers get the token as a cookie, because they cannot send it as a bearer token with a page.

No script can read the cookie, and no other site can make a browser send it.
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import RedirectResponse

from autotrascale.web.api.guard import COOKIE, SIGN_IN
from autotrascale.web.pages.assets import HEADERS
from autotrascale.web.pages.page_route import PageRoute
from autotrascale.web.pages.rendering import render_page

MAX_FORM_BYTES = 10_000

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get(SIGN_IN)
async def show_form(request: Request, then: Annotated[str, Query(max_length=2000)] = "/") -> Response:
    return render_page(request, "sign_in.html", then=_local_address(then), is_wrong=False)


@router.post(SIGN_IN)
async def sign_in(request: Request) -> Response:
    body = await request.body()
    form = parse_qs(body[:MAX_FORM_BYTES].decode("utf-8", "replace"))
    token, then = form.get("token", [""])[0].strip(), _local_address(form.get("then", ["/"])[0])
    tokens = request.app.state.tokens
    if tokens is not None and tokens.owner(token.encode()) is None:
        return render_page(request, "sign_in.html", 401, then=then, is_wrong=True)
    answer = RedirectResponse(then, 303, HEADERS)
    if tokens is not None:
        is_secure = request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"
        answer.set_cookie(COOKIE, quote(token, safe=""), httponly=True, samesite="strict", secure=is_secure)
    return answer


@router.post("/sign-out")
async def sign_out() -> Response:
    answer = RedirectResponse(SIGN_IN, 303, HEADERS)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer


def _local_address(address: str) -> str:
    """Return the address if it is on this server, else the first page."""
    is_local = address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
    return address if is_local else "/"
