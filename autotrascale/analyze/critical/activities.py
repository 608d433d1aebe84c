"""Activities and messages: the edges of a program activity graph.

A *timeline* does one thing at a time: the driver, or one task slot of an executor. An *activity* is an edge along a
timeline, from its begin to its end. A *message* is an edge from one timeline to another. Time that the log does not
explain is `unknown`, an edge of its own kind.

Hoffmann, "Managing Latency and Scaling of Distributed Dataflow Systems" (SnailTrail), §3.2 and §3.3.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The kind of an activity or message."""

    planning = "planning"
    offsets = "offsets"
    log = "write-ahead-log"
    commit = "commit"
    scheduling = "scheduling"
    deserialising = "deserialising"
    python = "python-workers"  # starting Python workers, and moving records to them and back
    processing = "processing"
    state_load = "state-load"
    state_commit = "state-commit"
    serialising = "serialising"
    shuffle_write = "shuffle-write"
    fetch = "shuffle-fetch"
    gc = "garbage-collection"
    sink = "sink"
    external = "external-call"
    waiting = "waiting"
    unknown = "unknown"


@dataclass(frozen=True)
class Activity:
    """An edge along a timeline ("driver", "executor 1 slot 3")."""

    timeline: str
    start_ms: float
    end_ms: float
    kind: Kind
    operator: str | None = None
    instance: int | None = None


@dataclass(frozen=True)
class Message:
    """An edge from a timeline to another: the launch of a task, its result, a block of a shuffle."""

    source: str
    sent_ms: float
    target: str
    received_ms: float
    kind: Kind
    operator: str | None = None


@dataclass(frozen=True)
class ActivityTrace:
    """The activities and messages of a span of time."""

    activities: tuple[Activity, ...]
    messages: tuple[Message, ...]
