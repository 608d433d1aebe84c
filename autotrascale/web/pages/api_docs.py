"""/docs: the API in Swagger UI, with scripts from this server."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from autotrascale.web.pages.page_route import PageRoute
from autotrascale.web.pages.rendering import render_page

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/docs")
async def show_docs(request: Request) -> Response:
    return render_page(request, "docs.html")
