"""Live pages: a change is rendered once and sent to every browser that has the page open, as server-sent events.

A topic is the content of one address: its regions (pieces of HTML), and the data for the plots. A browser with the
previous version gets the changed regions; a browser with an older version gets all regions.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
from fastapi import HTTPException
from starlette.responses import StreamingResponse

from autotrascale.web.api.problem_details import RETRY_SECONDS
from autotrascale.web.api.server_state import ServerState

REFRESH_SECONDS = 1.0
KEEPALIVE_SECONDS = 15.0  # proxies close connections that are silent for long
MAX_OPEN_PAGES = 300
MAX_TOPICS = 300
RELOAD_PLOTS = {"reload": True}

Regions = Mapping[str, str]


@dataclass(frozen=True)
class TopicContent:
    """`plots`: data that the page's script adds to its plots, or `RELOAD_PLOTS`."""

    regions: Regions
    plots: Mapping[str, Any] | None = None


MakeContent = Callable[[], TopicContent]
VersionOf = Callable[[], Hashable]


@dataclass
class Topic:
    """The content of one address.

    Args:
        version_of: returns a value that changes when the content may have changed. Cheap.
        make: renders the content, in a thread.
    """

    version_of: VersionOf
    make: MakeContent
    version: str = ""
    previous_version: str = ""  # that `changes` builds on
    content: TopicContent = field(default_factory=lambda: TopicContent({}))
    changes: bytes = b""
    whole: bytes = b""
    _made_from: Hashable = None
    _checked_at: float = -REFRESH_SECONDS
    _lock: anyio.Lock = field(default_factory=anyio.Lock)

    async def refresh(self, state: ServerState) -> None:
        """Render the content again if it may have changed."""
        if time.monotonic() - self._checked_at < REFRESH_SECONDS / 2 and self.version:
            return
        async with self._lock:
            self._checked_at = time.monotonic()
            source = self.version_of()
            if self.version and source == self._made_from:
                return
            content = await state.in_thread(self.make)
            self._made_from = source
            changed = {name: html for name, html in content.regions.items() if self.content.regions.get(name) != html}
            if self.version and not changed and not content.plots:
                return
            self.previous_version, self.version = self.version, uuid.uuid4().hex[:12]
            self.content = content
            self.changes = _event(self.version, changed, content.plots)
            self.whole = _event(self.version, content.regions, RELOAD_PLOTS)


class LiveTopics:
    """The topics of open pages."""

    def __init__(self) -> None:
        self.open = 0
        self._topics: OrderedDict[str, Topic] = OrderedDict()

    async def topic(self, state: ServerState, name: str, version_of: VersionOf, make: MakeContent) -> Topic:
        """Return the topic of that name, up to date."""
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = Topic(version_of, make)
            while len(self._topics) > MAX_TOPICS:
                self._topics.popitem(last=False)
        self._topics.move_to_end(name)
        await topic.refresh(state)
        return topic

    def stream(self, state: ServerState, topic: Topic, since: str) -> StreamingResponse:
        """Return a stream of updates after version `since`. Raises `HTTPException` 503 if too many pages are open."""
        if self.open >= MAX_OPEN_PAGES:
            raise HTTPException(503, f"{MAX_OPEN_PAGES} pages are open already", {"Retry-After": str(RETRY_SECONDS)})
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(self._events(state, topic, since), 200, headers, "text/event-stream")

    async def _events(self, state: ServerState, topic: Topic, since: str) -> AsyncIterator[bytes]:
        self.open += 1
        sent, sent_at = since, time.monotonic()
        try:
            yield b"retry: 3000\n\n"
            while not state.closing:
                await topic.refresh(state)
                if topic.version != sent:
                    update = topic.changes if topic.previous_version == sent else topic.whole
                    sent, sent_at = topic.version, time.monotonic()
                    yield update
                elif time.monotonic() - sent_at > KEEPALIVE_SECONDS:
                    sent_at = time.monotonic()
                    yield b": keepalive\n\n"
                await anyio.sleep(REFRESH_SECONDS)
        finally:
            self.open -= 1


def _event(version: str, regions: Regions, plots: Mapping[str, Any] | None) -> bytes:
    data = json.dumps({"regions": dict(regions), "plots": plots}, ensure_ascii=False, separators=(",", ":"))
    return f"id: {version}\nevent: update\ndata: {data}\n\n".encode()
