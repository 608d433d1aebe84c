"""The files that pages load: our style sheet and script, Plotly's script and Swagger UI's, all from here.

An address changes with what is in its file, so browsers keep what they have.
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

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_OWN = ("pages.css", "pages.js", "docs.js", "icon.svg")
# Of packages that carry them: not imported for that, they only have the files.
_OTHERS = {
    "plotly.js": ("plotly", "package_data/plotly.min.js"),
    "swagger-ui.js": ("fastapi_offline", "static/swagger-ui-bundle.js"),
    "swagger-ui.css": ("fastapi_offline", "static/swagger-ui.css"),
}
_WORTH_IT = 1000  # bytes; less is not made shorter


@dataclass(frozen=True)
class StaticFile:
    content: bytes
    zipped: bytes
    kind: str
    tag: str


def file_address(name: str) -> str:
    found = load_file(name)
    if found is None:
        raise LookupError(f"{name} is none of the files that pages load, or its package is not installed")
    return f"/static/{name}?{found.tag}"


@cache
def load_file(name: str) -> StaticFile | None:
    """By its name among those that are known, never by a path."""
    content = _content(name)
    if content is None:
        return None
    kind = _TYPES["." + name.rpartition(".")[2]]
    zipped = gzip.compress(content, 6, mtime=0) if len(content) > _WORTH_IT else b""
    return StaticFile(content, zipped, kind, sha256(content).hexdigest()[:12])


@cache
def script_style_ids(name: str) -> tuple[str, ...]:
    """Styles that a script would write into the page, which the page's policy forbids: it leaves out one whose id is in
    the page already. Plotly brings one for maps, of which there are none here."""
    found = load_file(name)
    text = "" if found is None else found.content.decode("utf-8", "replace")
    return tuple(dict.fromkeys(re.findall(r'getElementById\("([0-9a-f]{64})"\)', text)))


def _content(name: str) -> bytes | None:
    if name in _OWN:
        return files(__package__).joinpath("static", name).read_bytes()
    path = _of_package(*_OTHERS[name]) if name in _OTHERS else None
    return None if path is None else path.read_bytes()


def _of_package(package: str, pattern: str) -> Path | None:
    spec = find_spec(package)
    folders = [Path(each) for each in (spec.submodule_search_locations or ())] if spec is not None else []
    return next((path for folder in folders for path in sorted(folder.glob(pattern), reverse=True)), None)
