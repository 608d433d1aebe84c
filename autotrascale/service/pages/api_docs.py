"""`/docs`: the API, as Swagger UI shows it, its scripts served from here."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from autotrascale.service.pages.html import page
from autotrascale.service.pages.overview import signed_in
from autotrascale.service.pages.route import PageRoute

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/docs")
async def docs(request: Request) -> Response:
    return page("docs.html", signed_in=signed_in(request))
