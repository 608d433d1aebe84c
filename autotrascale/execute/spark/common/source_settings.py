"""What a job file says of a source that is a topic of Kafka.

A job that runs reads the topic itself. A trial plays a copy of its newest records at the rate of the trial, so it reads
nothing from the broker while it is measured, belongs to no group of consumers, and leaves every offset where it was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError

MOST_RECORDS = 5_000_000  # of a copy: it is made in the memory of the driver

_SERVER = r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[1-9][0-9]{0,4}"
_SERVERS = re.compile(rf"{_SERVER}(,{_SERVER})*")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
# What would make our reading be seen by others who read the topic, or read another one.
_NOT_YOURS = {
    "kafka.group.id": "would take part in a group of consumers that may be a running job's",
    "kafka.bootstrap.servers": "is said by bootstrap",
    "kafka.enable.auto.commit": "would move offsets of a group of consumers",
}


@dataclass(frozen=True)
class KafkaTopic:
    """`begin`: where a job that runs begins when it has no checkpoint yet. `records`: of the copy for trials, at most.
    `options` are Kafka's own for whoever reads, such as `kafka.security.protocol`."""

    bootstrap: str
    topic: str
    begin: Literal["earliest", "latest"] = "latest"
    records: int = 200_000
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _SERVERS.fullmatch(self.bootstrap):
            raise InputError(
                "bootstrap",
                "is no list of servers",
                seen=self.bootstrap,
                remedy="write it like 127.0.0.1:9092,other:9092",
            )
        if not _TOPIC.fullmatch(self.topic) or self.topic in (".", ".."):
            raise InputError(
                "topic",
                "cannot be the name of a topic",
                seen=self.topic,
                remedy="use letters, digits, dots, dashes and underscores: one topic",
            )
        checks.count("records", self.records)
        if self.records > MOST_RECORDS:
            raise InputError(
                "records",
                f"is above {MOST_RECORDS:,}, more than a driver should hold",
                seen=self.records,
                remedy="give fewer: they come again from the first",
            )
        for name in self.options:
            if name in _NOT_YOURS:
                raise InputError(f"options.{name}", _NOT_YOURS[name], remedy="remove it")
            if not name.startswith("kafka."):
                raise InputError(f"options.{name}", "is no setting of Kafka's", remedy="name it kafka.…, as Spark does")

    @property
    def called(self) -> str:
        return f"topic {self.topic} of {self.bootstrap}"


@dataclass(frozen=True)
class SourceSettings:
    """Where the records of one source come from."""

    kafka: KafkaTopic


@dataclass(frozen=True)
class TopicContents:
    """As it was found when Spark was opened. `records`: how many a copy of it has at most."""

    partitions: int
    records: int


def warn_of_short_topic(topic: KafkaTopic, holds: TopicContents, rate: float, seconds: float) -> str:
    """In a line, of a topic that holds less than a trial of so many seconds takes at this rate."""
    return (
        f"{topic.called} holds {holds.records:,} records for trials, {holds.records / rate:.0f} s at {rate:g} a second;"
        f" a trial may take {seconds:.0f} s, and after the last one they come again from the first"
    )
