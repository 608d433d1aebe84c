"""The controller's end of the line to a program's agent. It may be opened and closed at any time."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from autotrascale.closeable import Closeable
from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.protocol.agent_address import connect
from autotrascale.execute.spark.protocol.agent_messages import (
    CODEC,
    AdoptedQueries,
    AdoptedQuery,
    Answer,
    ApplicationInfo,
    AskApplication,
    AskExecutors,
    AskQueries,
    ExecutorCounts,
    QueryRescaled,
    Question,
    RequestFailed,
    RescaleQuery,
    SetExecutorCount,
    StopForRelaunch,
    StoppedForRelaunch,
)
from autotrascale.execute.spark.protocol.channel import Channel, ChannelClosedError, ChannelTimeoutError

_A = TypeVar("_A")
_MOVE_SECONDS = 600.0  # of state, beside what a rescale may wait for batches


class AgentAwayError(EngineError):
    """Nobody answers: the program has ended, has not come so far, or hangs."""


class AgentBrokenError(EngineError):
    """It answers, and something of its program is broken."""


class AgentClient(Closeable):
    """One question at a time. Raises `EngineError` where the program's side refuses, `AgentAwayError` where it is gone;
    what was asked for may then be done all the same."""

    def __init__(self, folder: Path, *, patience: float = 30.0) -> None:
        self._folder, self._patience = folder, patience
        self._channel: Channel[Question | Answer] | None = None

    def application(self) -> ApplicationInfo:
        return self._ask(AskApplication(), ApplicationInfo)

    def queries(self) -> tuple[AdoptedQuery, ...]:
        return self._ask(AskQueries(), AdoptedQueries).queries

    def rescale(self, wish: RescaleQuery) -> QueryRescaled:
        """Also one that had to go back is an answer."""
        seconds = wish.finish_within + 2 * wish.first_within + _MOVE_SECONDS
        return self._ask(wish, QueryRescaled, seconds)

    def standing(self) -> ExecutorCounts:
        return self._ask(AskExecutors(), ExecutorCounts)

    def scale_to(self, executors: int) -> ExecutorCounts:
        """More come when the cluster gives them, and those that are given back go when they have done their tasks."""
        return self._ask(SetExecutorCount(executors), ExecutorCounts)

    def leave(self, wish: StopForRelaunch) -> StoppedForRelaunch:
        """The program ends right after the answer."""
        return self._ask(wish, StoppedForRelaunch, 2 * wish.finish_within + self._patience)

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _ask(self, question: Question, kind: type[_A], seconds: float | None = None) -> _A:
        try:
            channel = self._open()
            channel.send(question)
            answer = channel.receive(seconds or self._patience)
        except (OSError, ChannelClosedError):
            self.close()
            raise AgentAwayError(f"no program answers in {self._folder}") from None
        except ChannelTimeoutError:
            self.close()  # its answer, should it come, is not the next one's
            asked = type(question).__name__
            raise AgentAwayError(f"the program in {self._folder} did not answer {asked} in time") from None
        except BaseException:
            self.close()
            raise
        if isinstance(answer, RequestFailed):
            raise AgentBrokenError(answer.error) if answer.unforeseen else EngineError(answer.error)
        if not isinstance(answer, kind):
            raise EngineError(f"the program answered with {type(answer).__name__} where {kind.__name__} was asked for")
        return answer

    def _open(self) -> Channel[Question | Answer]:
        if self._channel is None:
            self._channel = Channel(connect(self._folder), CODEC)
        return self._channel
