"""Parameters that several routes share, and pages of long lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeVar

from fastapi import Path, Query

from autotrascale.domain.errors import InputError
from autotrascale.web.api.schemas import PageCursor, PageLimit

T = TypeVar("T")

JobName = Annotated[str, Path(max_length=250, description="A job's name.", examples=["wordcount"])]
LimitQuery = Annotated[PageLimit, Query()]
CursorQuery = Annotated[PageCursor | None, Query()]


def take_page(items: Sequence[T], names: Sequence[str], limit: int, cursor: str | None) -> tuple[list[T], str | None]:
    """Return the items after the item that `cursor` names, and the cursor of the next page.

    Names instead of positions: items that appear or vanish between two requests shift nothing.
    """
    start = 0
    if cursor is not None:
        if cursor not in names:
            raise InputError("cursor", "is unknown, or its item is gone", seen=cursor, remedy="start without a cursor")
        start = names.index(cursor) + 1
    page = list(items[start : start + limit])
    return page, names[start + limit - 1] if start + limit < len(items) else None
