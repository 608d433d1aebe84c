"""Templates, and what every page is sent with. Everything that comes from a store or a request is escaped."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import quote

from fastapi import Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from autotrascale import __version__
from autotrascale.plan.formatting import format_amount, format_percent, format_seconds
from autotrascale.web.pages.assets import file_address, script_style_ids

# Only what comes from here, and no script or style within a page: what a store holds can do nothing but be read.
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


def render_page(template: str, status: int = 200, **values: Any) -> Response:
    return Response(render_template(template, **values), status, HEADERS, "text/html")


def render_template(template: str, **values: Any) -> str:
    return _templates().get_template(template).render(**values)


@cache
def _templates() -> Environment:
    made = Environment(
        loader=PackageLoader(__package__ or ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "amount": format_amount,
        "seconds": format_seconds,
        "percent": format_percent,
        "when": when,
        "ago": ago,
        "part": part,
    }
    made.globals |= {"file": file_address, "styles_within": script_style_ids, "version": __version__}
    return made


def part(name: str) -> str:
    """A name as part of an address."""
    return quote(name, safe="")


def when(at: float | str | None) -> Markup:
    """A moment, which the reader's browser says in the reader's time zone."""
    return _time(at, "when")


def ago(at: float | str | None) -> Markup:
    """How long ago a moment was: the browser counts on."""
    return _time(at, "ago")


def _time(at: float | str | None, how: str) -> Markup:
    if at is None or at == "":
        return Markup("<span class=quiet>never</span>")
    text = at if isinstance(at, str) else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    shown = text.replace("T", " ").replace("Z", " UTC")
    return Markup('<time datetime="{}" data-{}>{}</time>').format(text, how, shown)
