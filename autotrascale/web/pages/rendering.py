"""Templates, their filters, and the headers of every page. Values from a store or a request are escaped."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from autotrascale import __version__
from autotrascale.plan.formatting import format_amount, format_percent, format_seconds
from autotrascale.web.pages.assets import HEADERS, file_address, script_style_ids


def render_page(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    """Return a page. Templates also get `has_sign_in`: the server needs a token, so that one can sign out."""
    has_sign_in = request.app.state.tokens is not None
    return Response(render_template(template, has_sign_in=has_sign_in, **values), status, HEADERS, "text/html")


def render_template(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__ or ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "amount": format_amount,
        "seconds": format_seconds,
        "percent": format_percent,
        "when": format_time,
        "ago": format_time_ago,
        "part": quote_part,
    }
    environment.globals |= {"file": file_address, "style_ids": script_style_ids, "version": __version__}
    return environment


def quote_part(name: str) -> str:
    """Return `name` as one part of an address."""
    return quote(name, safe="")


def format_time(at: float | str | None) -> Markup:
    """Return a time element. The browser's script shows it in the reader's time zone.

    Args:
        at: seconds since 1970, or a time in ISO format.
    """
    return _time(at, "when")


def format_time_ago(at: float | str | None) -> Markup:
    """Return a time element that the browser's script shows as an age, and keeps up to date."""
    return _time(at, "ago")


def _time(at: float | str | None, kind: str) -> Markup:
    if at is None or at == "":
        return Markup("<span class=quiet>never</span>")
    text = at if isinstance(at, str) else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    shown = text.replace("T", " ").replace("Z", " UTC")
    return Markup('<time datetime="{}" data-{}>{}</time>').format(text, kind, shown)
