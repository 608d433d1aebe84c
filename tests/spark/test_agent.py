"""The agent's answers, over its socket; what it asks of Spark is made up here."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.domain import checks
from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.clusters import registered_executors
from autotrascale.execute.spark.common.program_environment import ProgramOptions
from autotrascale.execute.spark.controller.agent_client import AgentAwayError, AgentClient
from autotrascale.execute.spark.driver_agent.agent import Agent
from autotrascale.execute.spark.driver_agent.hooks import AdoptedProgram
from autotrascale.execute.spark.protocol.agent_address import SOCKET_NAME, connect
from autotrascale.execute.spark.protocol.agent_messages import CODEC, Answer, Question, RescaleQuery


@dataclass
class Scheduler:
    """One executor is leaving, and the cluster has room for eight."""

    asked: list[int] = field(default_factory=list)

    def explain_not_elastic(self) -> str:
        return ""

    def read(self) -> registered_executors.ExecutorSet:
        there = [
            registered_executors.RegisteredExecutor(
                str(number), "here", 2, 2, 0, since=0.0, leaving_since=None if number else 1.0
            )
            for number in range(4)
        ]
        return registered_executors.ExecutorSet(tuple(there), self.asked[-1] if self.asked else None, 61.0, 70.0)

    def scale_to(self, total: int) -> None:
        checks.count("executors", total)
        if total > 8:
            raise EngineError("the cluster has room for 8")
        self.asked.append(total)


class Context:
    applicationId = "app-1"  # noqa: N815
    _jsc: object | None = object()  # None once it is closed


class Opened(AdoptedProgram):
    """A program whose Spark is open."""

    context = Context()  # type: ignore[assignment]
    session = object()  # type: ignore[assignment]


@pytest.fixture
def scheduler() -> Scheduler:
    return Scheduler()


@pytest.fixture
def agent(tmp_path: Path, scheduler: Scheduler) -> Iterator[Path]:
    agent = Agent(Opened("file:/events", ProgramOptions(apply=True)), tmp_path / "p", lambda _: scheduler)
    yield tmp_path / "p"
    agent.close()


def test_executors_are_the_schedulers_to_change(agent: Path, scheduler: Scheduler) -> None:
    with AgentClient(agent) as client:
        found = client.executors()
        assert (found.staying, found.leaving, found.cores, found.not_elastic) == (3, 1, 2, "")
        assert "executor 0 " in found.trouble
        assert "2 of 5 executors" in client.scale_to(5).trouble
        with pytest.raises(EngineError, match="room for 8"):
            client.scale_to(9)
        with pytest.raises(EngineError, match="executors"):
            client.scale_to(0)
        client.scale_to(1)  # it goes on after each of them
    assert scheduler.asked == [5, 1]


def test_a_query_of_another_program_is_refused(agent: Path) -> None:
    with AgentClient(agent) as client:
        assert client.queries() == ()
        with pytest.raises(EngineError, match=r"query: .* \(seen: 'x'\); use one of: none"):
            client.rescale(RescaleQuery("x", 3))
        with pytest.raises(EngineError, match="partitions"):
            client.rescale(RescaleQuery("x", 0))


def test_controllers_come_and_go_and_talk_nonsense(agent: Path) -> None:
    for nonsense in (
        b"",
        b"{",
        b"\x00\xff\n",
        b'{"kind": "RescaleQuery"}\n',
        b'{"kind": "AdoptedQueries", "queries": []}\n',
        b"[]\n",
    ):
        end = connect(agent)
        end.sendall(nonsense)
        end.close()
    clients = [AgentClient(agent) for _ in range(8)]
    threads = [threading.Thread(target=client.queries) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in clients:
        assert client.queries() == ()
        client.close()
        assert client.queries() == ()  # opened again
        client.close()


def test_an_answer_to_nonsense_says_what_was_wrong(agent: Path) -> None:
    end = connect(agent)
    end.sendall(b'{"kind": "RescaleQuery", "query": "x", "partitions": "many"}\n')
    answer = CODEC.decode(end.makefile("rb").readline())
    end.close()
    assert "channel: RescaleQuery: partitions" in getattr(answer, "error", "")


def test_only_its_owner_may_ask(agent: Path) -> None:
    assert agent.stat().st_mode & 0o077 == 0


def test_where_nobody_is_nobody_answers(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(AgentAwayError, match="no agent answers"):
            AgentClient(folder).queries()
    (tmp_path / SOCKET_NAME).touch()
    with pytest.raises(AgentAwayError):
        AgentClient(tmp_path).queries()


@given(data=st.data(), kind=st.sampled_from([*get_args(Question), *get_args(Answer)]))
def test_every_message_comes_out_as_it_went_in(data: st.DataObject, kind: type[Question | Answer]) -> None:
    message = data.draw(st.builds(kind).filter(lambda drawn: "nan" not in repr(drawn)))  # NaN does not equal itself
    assert CODEC.decode(CODEC.encode(message)) == message
