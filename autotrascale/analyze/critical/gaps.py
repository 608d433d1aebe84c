"""What a timeline does between two activities: it waits, or nobody knows.

A gap that a message ends was a wait for it (§3.3.3, Assumption 2: every wait is ended by a message). What follows the
last message in a gap, and a gap without one, is `unknown`. Nothing is known before a timeline's first activity and
after its last: there it waits, for no path needs it there.

differs: gaps below 100 ms are closed in the thesis (Table 3.2). Here they stay as what they are; an edge costs nothing.

Waits are no edges here. Whatever time of a timeline no edge covers is a wait: see `graph`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autotrascale.analyze.critical.edges import NONE, UNKNOWN, WAITING, Edges, Numbers


def fill_gaps(edges: Edges) -> Edges:
    """One thing at a time on each timeline, what is unknown as edges, and no waits. Times are those of whole traces:
    a gap is judged by what ends it, which may come long after a window."""
    activities, messages = edges.taken(~edges.message), edges.taken(edges.message)
    activities = _one_at_a_time(activities)
    unknown = _unknown(activities, messages)
    return activities.taken(activities.kind != WAITING).joined(messages, unknown)


def _one_at_a_time(activities: Edges) -> Edges:
    """An activity ends where the next of its timeline begins (Def. 6). In order of timelines and time."""
    ordered = activities.taken(np.lexsort((activities.end, activities.start, activities.source)))
    if len(ordered) < 2:
        return ordered.taken(ordered.end > ordered.start)
    same = ordered.source[1:] == ordered.source[:-1]
    end = ordered.end.copy()
    end[:-1] = np.where(same, np.minimum(end[:-1], ordered.start[1:]), end[:-1])
    kept = replace(ordered, end=end)
    return kept.taken(kept.end > kept.start)


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
    """When the last message up to then came to this timeline; -1 where none did."""
    if not len(messages) or not len(until):
        return np.full(len(until), -1)
    ordered = messages.taken(np.lexsort((messages.end, messages.target)))
    low = min(int(until.min()), int(ordered.end.min()))
    many = max(int(until.max()), int(ordered.end.max())) - low + 1
    received = ordered.target * many + ordered.end - low
    at = np.searchsorted(received, timeline * many + until - low, side="right") - 1
    return np.where((at >= 0) & (ordered.target[at] == timeline), ordered.end[at], -1)
