"""/static/NAME: the files that pages load. They are our style sheet and scripts, Plotly's script, and Swagger UI.

The address of a file contains a digest of its content, so that browsers keep the file until it changes.
"""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from fastapi import APIRouter, Request, Response

# Pages load files of this server only, and have no script or style inside: text from a store cannot become code.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_OWN_FILES = ("pages.css", "pages.js", "docs.js", "icon.svg")
# Files of installed packages, which are not imported for them.
_PACKAGE_FILES = {
    "plotly.js": ("plotly", "package_data/plotly.min.js"),
    "swagger-ui.js": ("fastapi_offline", "static/swagger-ui-bundle.js"),
    "swagger-ui.css": ("fastapi_offline", "static/swagger-ui.css"),
}
_MIN_COMPRESSED_BYTES = 1000

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True)
class StaticFile:
    content: bytes
    compressed: bytes
    media_type: str
    digest: str


@router.get("/static/{name}")
def send_file(name: str, request: Request) -> Response:
    file = load_file(name)
    if file is None:
        return Response("there is no such file", 404, HEADERS, "text/plain")
    keep = "public, max-age=31536000, immutable" if request.url.query == file.digest else "no-cache"
    headers = {**HEADERS, "Cache-Control": keep, "ETag": f'"{file.digest}"', "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(None, 304, headers)
    if "gzip" in request.headers.get("accept-encoding", "") and file.compressed:
        return Response(file.compressed, 200, {**headers, "Content-Encoding": "gzip"}, file.media_type)
    return Response(file.content, 200, headers, file.media_type)


def file_address(name: str) -> str:
    """Return the address of a file, with its digest. Raises `LookupError` for an unknown file."""
    file = load_file(name)
    if file is None:
        raise LookupError(f"{name} is not a file that pages load, or its package is not installed")
    return f"/static/{name}?{file.digest}"


@cache
def load_file(name: str) -> StaticFile | None:
    """Return a file by its name among the known files. The name is never used as a path."""
    content = _read_content(name)
    if content is None:
        return None
    media_type = _TYPES["." + name.rpartition(".")[2]]
    compressed = gzip.compress(content, 6, mtime=0) if len(content) > _MIN_COMPRESSED_BYTES else b""
    return StaticFile(content, compressed, media_type, sha256(content).hexdigest()[:12])


@cache
def script_style_ids(name: str) -> tuple[str, ...]:
    """Return the ids of styles that a script would add to the page, which the page's policy forbids.

    The script adds no style whose id is on the page already. Plotly has such styles for maps, which are not used here.
    """
    file = load_file(name)
    text = "" if file is None else file.content.decode("utf-8", "replace")
    return tuple(dict.fromkeys(re.findall(r'getElementById\("([0-9a-f]{64})"\)', text)))


def _read_content(name: str) -> bytes | None:
    if name in _OWN_FILES:
        return files(__package__).joinpath("static", name).read_bytes()
    path = _find_package_file(*_PACKAGE_FILES[name]) if name in _PACKAGE_FILES else None
    return None if path is None else path.read_bytes()


def _find_package_file(package: str, pattern: str) -> Path | None:
    spec = find_spec(package)
    folders = [Path(each) for each in (spec.submodule_search_locations or ())] if spec is not None else []
    return next((path for folder in folders for path in sorted(folder.glob(pattern), reverse=True)), None)
