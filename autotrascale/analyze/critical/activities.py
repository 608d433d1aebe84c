"""What was done where and when: the edges that a graph of a program's activities is made of.

A *timeline* does one thing at a time: the driver, one task slot of an executor. An *activity* is an edge along one of
them, from when it began to when it ended; a *message* is an edge from one to another. What a log does not say is
`unknown`, an edge of its own kind and not a guess.

Hoffmann, "Managing Latency and Scaling of Distributed Dataflow Systems" (SnailTrail), §3.2 and §3.3.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    planning = "planning"
    offsets = "offsets"
    log = "write-ahead-log"
    commit = "commit"
    scheduling = "scheduling"
    deserialising = "deserialising"
    python = "python-workers"  # starting them, and what is carried to them and back
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
    """One edge along a timeline ("driver", "executor 1 slot 3")."""

    timeline: str
    start_ms: float
    end_ms: float
    kind: Kind
    operator: str | None = None
    instance: int | None = None


@dataclass(frozen=True)
class Message:
    """One edge from a timeline to another: a task launched, its result, a block of a shuffle."""

    source: str
    sent_ms: float
    target: str
    received_ms: float
    kind: Kind
    operator: str | None = None


@dataclass(frozen=True)
class ActivityTrace:
    activities: tuple[Activity, ...]
    messages: tuple[Message, ...]
