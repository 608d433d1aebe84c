"""Critical participation as it is defined, by listing every path of one window: slow, plain, and nothing shared with
the package but the words of a trace."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from autotrascale.analyze.critical.activities import Activity, ActivityTrace, Kind, Message

Event = tuple[str, int, int]  # a timeline, a time, and 1 behind the seam of two activities
Name = tuple[str, ...]


@dataclass
class Link:
    source: Event
    target: Event
    wait: bool
    of: Name
    change: str = ""

    @property
    def duration(self) -> int:
        return self.target[1] - self.source[1]


@dataclass
class Window:
    begin: int
    end: int
    links: list[Link] = field(default_factory=list)

    def paths(self) -> list[list[Link]]:
        out = defaultdict(list)
        for link in self.links:
            out[link.source].append(link)
        found: list[list[Link]] = []
        pending: list[tuple[Event, list[Link]]] = [
            (event, []) for event in {link.source for link in self.links} if event[1] == self.begin
        ]
        while pending:
            event, path = pending.pop()
            if event[1] == self.end and not out[event]:
                found.append(path)
            pending += [(link.target, [*path, link]) for link in out[event]]
        return found

    def participation(self) -> dict[Name, Fraction]:
        """Return the key of an edge: kind, timelines and operator."""
        paths = self.paths()
        waits = [sum(link.duration for link in path if link.wait) for path in paths]
        best = [path for path, wait in zip(paths, waits, strict=True) if wait == min(waits)]
        share: dict[Name, Fraction] = defaultdict(Fraction)
        for path in best:
            for link in path:
                share[link.of] += Fraction(link.duration, len(best) * (self.end - self.begin))
        return {name: value for name, value in share.items() if value}

    def longest(self, left: dict[Name, Fraction]) -> Fraction:
        return max(
            sum(
                (Fraction(0 if link.wait else link.duration) * left.get(link.of, Fraction(1)) for link in path),
                Fraction(),
            )
            for path in self.paths()
        )


def window(trace: ActivityTrace, begin: int, end: int) -> Window:
    """List the paths of a trace in whole milliseconds without overlaps."""
    cut = Window(begin, end)
    spans: dict[str, list[tuple[int, int, Activity]]] = defaultdict(list)
    for one in trace.activities:
        low, high = max(int(one.start_ms), begin), min(int(one.end_ms), end)
        if low < high and one.kind is not Kind.waiting:
            spans[one.timeline].append((low, high, one))
    messages = [m for m in trace.messages if _is_in(m, begin, end)]
    events: dict[str, set[Event]] = defaultdict(set)

    def seam(timeline: str, at: int) -> bool:
        return {low for low, _, _ in spans[timeline]} & {high for _, high, _ in spans[timeline]} >= {at}

    sends = [(m.source, max(int(m.sent_ms), begin), 0) for m in messages]
    receipts = [(m.target, at := min(int(m.received_ms), end), int(seam(m.target, at))) for m in messages]
    for event in [*sends, *receipts]:
        events[event[0]].add(event)
    for timeline in {*events, *(name for name, own in spans.items() if own)}:
        events[timeline] |= {(timeline, begin, 0), (timeline, end, 0)}
        for low, high, _ in spans[timeline]:
            events[timeline] |= {(timeline, low, int(seam(timeline, low))), (timeline, high, 0)}
        for a, b in pairwise(sorted(events[timeline])):
            over = [one for low, high, one in spans[timeline] if low <= a[1] and b[1] <= high and a[1] < b[1]]
            of = _activity(over[0]) if over else ("waiting", timeline)
            cut.links.append(Link(a, b, not over, of))
    for message, source, target in zip(messages, sends, receipts, strict=True):
        cut.links.append(Link(source, target, False, _message(message)))
    return cut


def _is_in(m: Message, begin: int, end: int) -> bool:
    if m.sent_ms == m.received_ms:
        return begin < m.sent_ms < end
    return m.sent_ms < end and m.received_ms > begin


def _activity(one: Activity) -> Name:
    return (one.kind.value, one.timeline, one.operator or "")


def _message(one: Message) -> Name:
    return (one.kind.value, one.source, one.target, one.operator or "")
