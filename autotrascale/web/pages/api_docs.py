"""`/docs`: the API, as Swagger UI shows it, its scripts served from here."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from autotrascale.web.pages.overview import has_sign_in
from autotrascale.web.pages.page_route import PageRoute
from autotrascale.web.pages.rendering import render_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/docs")
async def docs(request: Request) -> Response:
    return render_page("docs.html", signed_in=has_sign_in(request))
