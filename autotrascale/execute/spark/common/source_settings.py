"""Settings of a source that is a Kafka topic, from the `sources:` section of a job file.

A running job reads the topic itself. A trial plays a copy of the newest records at the rate of the trial. So a trial
reads nothing from the broker while it is measured, joins no consumer group, and moves no offset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from autotrascale.domain import checks
from autotrascale.domain.errors import InputError

MAX_RECORDS = 5_000_000  # of a copy, which is made in the memory of the driver
NO_CONNECTOR = (
    "Spark has no connector to Kafka: run scripts/kafka.sh fetch, or set spark.conf.spark.jars to its jars,"
    " as scripts/kafka.sh jars prints them"
)

_SERVER = r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[1-9][0-9]{0,4}"
_SERVERS = re.compile(rf"{_SERVER}(,{_SERVER})*")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
# Options that would disturb other readers of the topic, or name another topic.
_FORBIDDEN_OPTIONS = {
    "kafka.group.id": "would join a consumer group that a running job may use",
    "kafka.bootstrap.servers": "is set by the key `bootstrap`",
    "kafka.enable.auto.commit": "would move offsets of a consumer group",
}


@dataclass(frozen=True)
class KafkaTopic:
    """A Kafka topic.

    Attributes:
        bootstrap: servers as host:port, separated by commas.
        topic: name of the topic.
        begin: where a running job without a checkpoint begins.
        records: largest number of records in the copy for trials.
        options: options of the Kafka consumer, such as `kafka.security.protocol`.
    """

    bootstrap: str
    topic: str
    begin: Literal["earliest", "latest"] = "latest"
    records: int = 200_000
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _SERVERS.fullmatch(self.bootstrap):
            raise InputError(
                "bootstrap",
                "is not a list of servers",
                seen=self.bootstrap,
                remedy="write it like 127.0.0.1:9092,other:9092",
            )
        if not _TOPIC.fullmatch(self.topic) or self.topic in (".", ".."):
            raise InputError(
                "topic",
                "is not the name of a topic",
                seen=self.topic,
                remedy="name one topic, with letters, digits, dots, dashes and underscores",
            )
        checks.count("records", self.records)
        if self.records > MAX_RECORDS:
            raise InputError(
                "records",
                f"is above {MAX_RECORDS:,}, the most that a driver should hold",
                seen=self.records,
                remedy="give fewer: a trial plays them again from the first",
            )
        for name in self.options:
            if name in _FORBIDDEN_OPTIONS:
                raise InputError(f"options.{name}", _FORBIDDEN_OPTIONS[name], remedy="remove it")
            if not name.startswith("kafka."):
                raise InputError(
                    f"options.{name}",
                    "is not an option of the Kafka consumer",
                    remedy="begin it with kafka., as Spark does",
                )

    @property
    def label(self) -> str:
        """Return the topic and its servers, for messages."""
        return f"topic {self.topic} of {self.bootstrap}"


@dataclass(frozen=True)
class SourceSettings:
    """The origin of the records of one source."""

    kafka: KafkaTopic


@dataclass(frozen=True)
class TopicContents:
    """The contents of a topic when the Spark session was opened. `records` counts those of a copy for trials."""

    partitions: int
    records: int


def warn_of_short_topic(topic: KafkaTopic, holds: TopicContents, rate: float, seconds: float) -> str:
    """Return a warning for a topic with fewer records than a trial of `seconds` reads at `rate` records/s."""
    return (
        f"{topic.label} holds {holds.records:,} records for trials, {holds.records / rate:.0f} s at {rate:g} records/s;"
        f" a trial may take {seconds:.0f} s and then plays the records again from the first"
    )
