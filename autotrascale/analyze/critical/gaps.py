"""The time of a timeline between two activities: waits, or unknown time.

A gap that a message ends was a wait for this message (§3.3.3, Assumption 2: every wait is ended by a message). The rest
of a gap behind its last message, and a gap without a message, is `unknown`. Before its first activity and after its
last a timeline waits, because no path needs it there.

differs: the thesis closes gaps below 100 ms (Table 3.2). Here they stay, because an edge costs nothing.

Waits are no edges here. Time of a timeline that no edge covers is a wait: see `graph`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autotrascale.analyze.critical.edges import NONE, UNKNOWN, WAITING, Edges, Numbers


def fill_gaps(edges: Edges) -> Edges:
    """Return one activity at a time on each timeline, with edges for unknown time and without waits.

    The edges must be those of whole traces: the message that ends a gap may come long after a window.
    """
    activities, messages = edges.taken(~edges.message), edges.taken(edges.message)
    activities = _one_at_a_time(activities)
    unknown = _unknown(activities, messages)
    return activities.taken(activities.kind != WAITING).joined(messages, unknown)


def _one_at_a_time(activities: Edges) -> Edges:
    """Return activities that end where the next one of their timeline begins (Def. 6), sorted."""
    ordered = activities.taken(np.lexsort((activities.end, activities.start, activities.source)))
    if len(ordered) < 2:
        return ordered.taken(ordered.end > ordered.start)
    same = ordered.source[1:] == ordered.source[:-1]
    end = ordered.end.copy()
    end[:-1] = np.where(same, np.minimum(end[:-1], ordered.start[1:]), end[:-1])
    separate = replace(ordered, end=end)
    return separate.taken(separate.end > separate.start)


def _unknown(activities: Edges, messages: Edges) -> Edges:
    pairs = max(0, len(activities) - 1)
    before, after = activities.taken(np.arange(pairs)), activities.taken(np.arange(pairs) + 1)
    gap = (before.source == after.source) & (before.end < after.start)
    since, until, timeline = before.end[gap], after.start[gap], after.source[gap]
    since = np.maximum(since, _last_received(messages, timeline, until))
    left = since < until
    since, until, timeline = since[left], until[left], timeline[left]
    none, zeros = np.full_like(since, NONE), np.zeros_like(since)
    kind = np.full_like(since, UNKNOWN)
    return Edges(timeline, timeline, since, until, kind, none, none, zeros.astype(bool), zeros)


def _last_received(messages: Edges, timeline: Numbers, until: Numbers) -> Numbers:
    """Return the time of the last message that reached each timeline until then, -1 without any."""
    if not len(messages) or not len(until):
        return np.full(len(until), -1)
    ordered = messages.taken(np.lexsort((messages.end, messages.target)))
    low = min(int(until.min()), int(ordered.end.min()))
    many = max(int(until.max()), int(ordered.end.max())) - low + 1
    received = ordered.target * many + ordered.end - low
    at = np.searchsorted(received, timeline * many + until - low, side="right") - 1
    return np.where((at >= 0) & (ordered.target[at] == timeline), ordered.end[at], -1)
