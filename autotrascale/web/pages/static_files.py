"""`/static/NAME`: what pages load. An address with the digest of what is in the file is kept by browsers for ever."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, Request, Response

from autotrascale.web.pages.assets import load_file
from autotrascale.web.pages.page_route import PageRoute
from autotrascale.web.pages.rendering import HEADERS

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/static/{name}")
def static(name: str, request: Request) -> Response:
    found = load_file(name)
    if found is None:
        raise HTTPException(404, "there is no such file")
    keep = "public, max-age=31536000, immutable" if request.url.query == found.tag else "no-cache"
    headers = {**HEADERS, "Cache-Control": keep, "ETag": f'"{found.tag}"', "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(None, 304, headers)
    if "gzip" in request.headers.get("accept-encoding", "") and found.zipped:
        return Response(found.zipped, 200, {**headers, "Content-Encoding": "gzip"}, found.kind)
    return Response(found.content, 200, headers, found.kind)
