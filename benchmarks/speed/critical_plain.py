"""Critical participation in plain Python, for `critical_bench`: dictionaries, and integers of any length."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise

from autotrascale.analyze.critical.activities import Kind
from autotrascale.analyze.critical.edges import KINDS, Edges

Vertex = tuple[int, int, int]  # a timeline, a tick, and 1 behind the seam of two activities
Link = tuple[Vertex, Vertex, int, str, int]  # from, to, how long it waits, its kind and its ticks


def participation(edges: Edges, width: int) -> tuple[Mapping[str, float], int]:
    """Return the participation of each kind in one window, and the number of critical paths."""
    links = list(_links(edges, width))
    to = _counted(((a, b, wait) for a, b, wait, _, _ in links), 0)
    back = _counted(((b, a, wait) for a, b, wait, _, _ in links), width)
    ends = [found for vertex, found in to.items() if vertex[1] == width]
    least = min(waited for waited, _ in ends)
    total = sum(paths for waited, paths in ends if waited == least)
    found: dict[str, float] = defaultdict(float)
    for a, b, wait, kind, ticks in links:
        if to[a][0] + wait + back[b][0] == least:
            found[kind] += to[a][1] * back[b][1] / total * ticks / width
    return found, total


def _links(edges: Edges, width: int) -> Iterable[Link]:
    columns = (edges.source, edges.target, edges.start, edges.end, edges.kind, edges.message)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    activities = [row for row in rows if not row[5]]
    seams = {(row[0], row[3]) for row in activities} & {(row[0], row[2]) for row in activities}
    events: dict[int, set[Vertex]] = defaultdict(set)
    doing: dict[Vertex, tuple[int, str]] = {}
    sent = []
    for source, target, start, end, kind, message in rows:
        begin = (source, start, int(not message and (source, start) in seams))
        stop = (target, end, int(message and (target, end) in seams))
        for vertex in (begin, stop, (source, 0, 0), (source, width, 0), (target, 0, 0), (target, width, 0)):
            events[vertex[0]].add(vertex)
        if message:
            sent.append((begin, stop, 0, KINDS[kind].value, end - start))
        else:
            doing[begin] = end, KINDS[kind].value
    yield from sent
    for own in events.values():
        until, kind = 0, ""
        for a, b in pairwise(sorted(own)):
            until, kind = doing.get(a, (until, kind))
            ticks = b[1] - a[1]
            works = b[1] <= until and ticks > 0
            yield a, b, 0 if works else ticks, kind if works else Kind.waiting.value, ticks


def _counted(links: Iterable[tuple[Vertex, Vertex, int]], beginning: int) -> dict[Vertex, tuple[int, int]]:
    """Return the least wait of any path to each vertex, and the number of paths with this wait."""
    leads: dict[Vertex, list[tuple[Vertex, int]]] = defaultdict(list)
    awaited: dict[Vertex, int] = defaultdict(int)
    for a, b, wait in links:
        leads[a].append((b, wait))
        awaited[a] += 0
        awaited[b] += 1
    found = {vertex: (0, 1) if vertex[1] == beginning else (1 << 60, 0) for vertex in awaited}
    ready = [vertex for vertex, many in awaited.items() if not many]
    while ready:
        vertex = ready.pop()
        waited, paths = found[vertex]
        for after, wait in leads[vertex]:
            least, many = found[after]
            if waited + wait < least:
                found[after] = waited + wait, paths
            elif waited + wait == least:
                found[after] = least, many + paths
            awaited[after] -= 1
            if not awaited[after]:
                ready.append(after)
    return found
