"""Pages kept up to date: what changes on one is made once and sent to all who have it open, as server-sent events.

A topic is what one address shows: its regions, which are pieces of HTML, and what a look adds to its plots. Whoever
was told of the version before is told of what changed since; anybody else of all regions.
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
KEEPALIVE_SECONDS = 15.0  # a connection that says nothing is taken for dead by what lies between
MAX_OPEN_PAGES = 300  # pages that are kept up to date
TOPICS = 300

Regions = Mapping[str, str]


@dataclass(frozen=True)
class TopicContent:
    """`more` is for the page's script: what the last look added to plots."""

    regions: Regions
    more: Mapping[str, Any] | None = None


MakeContent = Callable[[], TopicContent]
VersionOf = Callable[[], Hashable]


@dataclass
class Topic:
    """`mark` is cheap and changes when the content may have; `make` may take a while, and runs in a thread."""

    mark: VersionOf
    make: MakeContent
    version: str = ""
    base: str = ""  # the version that `news` follows
    content: TopicContent = field(default_factory=lambda: TopicContent({}))
    news: bytes = b""
    whole: bytes = b""
    _marked: Hashable = None
    _looked: float = -REFRESH_SECONDS
    _lock: anyio.Lock = field(default_factory=anyio.Lock)

    async def refresh(self, state: ServerState) -> None:
        if time.monotonic() - self._looked < REFRESH_SECONDS / 2 and self.version:
            return
        async with self._lock:
            self._looked = time.monotonic()
            marked = self.mark()
            if self.version and marked == self._marked:
                return
            content = await state.in_thread(self.make)
            self._marked = marked
            changed = {name: html for name, html in content.regions.items() if self.content.regions.get(name) != html}
            if self.version and not changed and not content.more:
                return
            self.base, self.version = self.version, uuid.uuid4().hex[:12]
            self.content = content
            self.news = _event(self.version, changed, content.more)
            self.whole = _event(self.version, content.regions, {"again": True})


class LiveTopics:
    def __init__(self) -> None:
        self.open = 0
        self._topics: OrderedDict[str, Topic] = OrderedDict()

    async def topic(self, state: ServerState, name: str, mark: VersionOf, make: MakeContent) -> Topic:
        """Made when it is first asked for, and up to date."""
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = Topic(mark, make)
            while len(self._topics) > TOPICS:
                self._topics.popitem(last=False)
        self._topics.move_to_end(name)
        await topic.refresh(state)
        return topic

    def stream(self, state: ServerState, topic: Topic, since: str) -> StreamingResponse:
        if self.open >= MAX_OPEN_PAGES:
            raise HTTPException(503, f"{MAX_OPEN_PAGES} pages are open already", {"Retry-After": str(RETRY_SECONDS)})
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(self._events(state, topic, since), 200, headers, "text/event-stream")

    async def _events(self, state: ServerState, topic: Topic, since: str) -> AsyncIterator[bytes]:
        self.open += 1
        seen, said = since, time.monotonic()
        try:
            yield b"retry: 3000\n\n"
            while not state.closing:
                await topic.refresh(state)
                if topic.version != seen:
                    news = topic.news if topic.base == seen else topic.whole
                    seen, said = topic.version, time.monotonic()
                    yield news
                elif time.monotonic() - said > KEEPALIVE_SECONDS:
                    said = time.monotonic()
                    yield b": still here\n\n"
                await anyio.sleep(REFRESH_SECONDS)
        finally:
            self.open -= 1


def _event(version: str, regions: Regions, more: Mapping[str, Any] | None) -> bytes:
    data = json.dumps({"regions": dict(regions), "more": more}, ensure_ascii=False, separators=(",", ":"))
    return f"id: {version}\nevent: news\ndata: {data}\n\n".encode()
