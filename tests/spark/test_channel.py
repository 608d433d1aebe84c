from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import get_args

import pytest

from autotrascale.domain.errors import InputError
from autotrascale.domain.topology import Operator
from autotrascale.execute.spark.common.checkpoint_facts import CheckpointFacts, PlannedBatch, StateStoreFacts
from autotrascale.execute.spark.common.checkpoint_generations import VisibleBatches
from autotrascale.execute.spark.common.source_settings import KafkaTopic, SourceSettings, TopicContents
from autotrascale.execute.spark.protocol.channel import Channel, ChannelClosedError, ChannelTimeoutError
from autotrascale.execute.spark.protocol.own_job_messages import (
    CODEC,
    BatchPlanned,
    Boot,
    BuildQuery,
    CatchUp,
    CaughtUp,
    CheckpointCopied,
    CheckpointRead,
    CopyCheckpoint,
    DescribeQuery,
    Done,
    DropCopy,
    Failed,
    HandedOver,
    HandOver,
    IsWaiting,
    LetWrite,
    Message,
    PlanBatch,
    QueryDescription,
    ReadCheckpoint,
    Ready,
    Repartition,
    RunOpenBatch,
    Shutdown,
    Started,
    StartQuery,
    StopQuery,
    WaitingState,
)

MESSAGES: list[Message] = [
    Boot("jobs:job", {"stall": 0.5, "words": [1, 2]}, {"spark.master": "local[2]"}, "/tmp/work", 30.0),
    Boot(
        "jobs:job",
        {},
        {},
        "/tmp/work",
        30.0,
        {"source": SourceSettings(KafkaTopic("127.0.0.1:9092", "clicks"))},
        "/tmp/work/copies",
    ),
    StartQuery({"source": 1, "sink": 2}, "/tmp/checkpoint", "/tmp/load.json"),
    StartQuery({"source": 1, "sink": 2}, "/tmp/checkpoint-1", "/tmp/load.json", visible=VisibleBatches(12, 28)),
    BuildQuery({"source": 1, "sink": 2}, "/tmp/load.json"),
    StopQuery(),
    Repartition("/tmp/checkpoint", 8),
    ReadCheckpoint("/tmp/checkpoint"),
    RunOpenBatch(7, {"source": 1, "sink": 2}, "/tmp/checkpoint", "/tmp/load.json"),
    IsWaiting(),
    DescribeQuery(),
    CopyCheckpoint("/tmp/checkpoint", "/tmp/checkpoint-1"),
    PlanBatch("/tmp/checkpoint", "/tmp/checkpoint-1", 7),
    CatchUp({"source": 1, "sink": 2}, "/tmp/checkpoint-1", "/tmp/load.json", since=41, within=60.0),
    DropCopy(),
    HandOver({"source": 1, "sink": 2}, "/tmp/checkpoint-1", "/tmp/load.json", 45.0),
    LetWrite(),
    Shutdown(),
    Ready("local-1", "4.3.0", 8, "job", {"source": Operator(), "count": Operator(("source",), stateful=True)}),
    Ready("local-1", "4.3.0", 8, "job", {"source": Operator()}, {"source": TopicContents(3, 1200)}),
    Started("run", ("source",), ("socket",), 0.25),
    CheckpointRead(
        CheckpointFacts((PlannedBatch(7, 2), PlannedBatch(8, 3)), (6, 7), (StateStoreFacts("0/left", 1, (7, 8)),))
    ),
    WaitingState(True),
    QueryDescription("foreachbatch", True, "a watermark", False, True, 1e5),
    BatchPlanned(9),
    CheckpointCopied(41),
    CaughtUp(0.5, 3, committed=2, behind=2),
    HandedOver("run", VisibleBatches(12, 28), 1.7e9, 0.5),
    Done(1.5),
    Failed("ValueError: ä\nsecond line"),
]


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    one, other = socket.socketpair()
    with one, other:
        yield Channel(one, CODEC), Channel(other, CODEC)


def test_no_message_is_left_out() -> None:
    assert {type(message) for message in MESSAGES} == set(get_args(Message))


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_every_message_comes_out_as_it_went_in(message: Message, ends: tuple[Channel, Channel]) -> None:
    assert CODEC.decode(CODEC.encode(message)) == message
    ends[0].send(message)
    assert ends[1].receive(1.0) == message


@pytest.mark.parametrize(
    "line",
    [
        b"26/11/18 WARN something",
        b"[]",
        b'{"kind": "Exec", "code": "1"}',
        b'{"kind": "Done"',
        b'{"kind": "Done", "seconds": "soon"}',
        b'{"kind": "Done", "more": 1}',
        b'{"kind": "Repartition", "checkpoint": "x", "partitions": 1.5}',
    ],
)
def test_anything_else_is_refused_in_one_line(line: bytes) -> None:
    with pytest.raises(InputError) as refused:
        CODEC.decode(line)
    assert "\n" not in str(refused.value)


def test_two_messages_in_one_packet_come_out_one_by_one(ends: tuple[Channel, Channel]) -> None:
    ends[0].send(Done(1.0))
    ends[0].send(Done(2.0))
    assert [ends[1].receive(1.0), ends[1].receive(1.0)] == [Done(1.0), Done(2.0)]


def test_a_large_message_is_put_together(ends: tuple[Channel, Channel]) -> None:
    message = Failed("x" * 2_000_000)
    sender = threading.Thread(target=ends[0].send, args=(message,))
    sender.start()
    assert ends[1].receive(10.0) == message
    sender.join()


def test_silence_and_hanging_up_are_told_apart(ends: tuple[Channel, Channel]) -> None:
    with pytest.raises(ChannelTimeoutError):
        ends[0].receive(0.01)
    assert not ends[0].has_ended()
    ends[1].close()
    assert ends[0].has_ended()
    with pytest.raises(ChannelClosedError):
        ends[0].receive(1.0)
    with pytest.raises(ChannelClosedError):
        ends[0].send(Done())
