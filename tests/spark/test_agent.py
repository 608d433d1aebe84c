"""The agent's answers over its socket, with a fake for Spark."""

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
    """A cluster for eight executors; one of four is leaving."""

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


def test_the_agent_asks_the_scheduler_for_executors(agent: Path, scheduler: Scheduler) -> None:
    with AgentClient(agent) as client:
        found = client.executors()
        assert (found.staying, found.leaving, found.cores, found.not_elastic) == (3, 1, 2, "")
        assert "executor 0 " in found.trouble
        assert "2 of 5 executors" in client.scale_to(5).trouble
        with pytest.raises(EngineError, match="room for 8"):
            client.scale_to(9)
        with pytest.raises(EngineError, match="executors"):
            client.scale_to(0)
        client.scale_to(1)  # the agent survives each refusal
    assert scheduler.asked == [5, 1]


def test_a_query_of_another_program_is_refused(agent: Path) -> None:
    with AgentClient(agent) as client:
        assert client.queries() == ()
        with pytest.raises(EngineError, match=r"query: .* \(seen: 'x'\); use one of: none"):
            client.rescale(RescaleQuery("x", 3))
        with pytest.raises(EngineError, match="partitions"):
            client.rescale(RescaleQuery("x", 0))


def test_the_agent_survives_controllers_that_send_nonsense(agent: Path) -> None:
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


def test_the_answer_to_a_bad_message_names_the_field(agent: Path) -> None:
    end = connect(agent)
    end.sendall(b'{"kind": "RescaleQuery", "query": "x", "partitions": "many"}\n')
    answer = CODEC.decode(end.makefile("rb").readline())
    end.close()
    assert "channel: RescaleQuery: partitions" in getattr(answer, "error", "")


def test_only_the_owner_may_enter_the_folder(agent: Path) -> None:
    assert agent.stat().st_mode & 0o077 == 0


def test_a_missing_agent_is_an_error(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(AgentAwayError, match="no agent answers"):
            AgentClient(folder).queries()
    (tmp_path / SOCKET_NAME).touch()
    with pytest.raises(AgentAwayError):
        AgentClient(tmp_path).queries()


@given(data=st.data(), kind=st.sampled_from([*get_args(Question), *get_args(Answer)]))
def test_every_message_survives_encoding(data: st.DataObject, kind: type[Question | Answer]) -> None:
    message = data.draw(st.builds(kind).filter(lambda drawn: "nan" not in repr(drawn)))  # NaN does not equal itself
    assert CODEC.decode(CODEC.encode(message)) == message
