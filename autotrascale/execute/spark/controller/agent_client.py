"""The controller's connection to a program's agent. It may be opened and closed at any time."""

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
_MOVE_STATE_SECONDS = 600.0  # of a rescale, beside the batches that it waits for


class AgentAwayError(EngineError):
    """The agent does not answer: the program has ended, has not opened it yet, or hangs."""


class AgentBrokenError(EngineError):
    """The agent answers that something in its program is broken."""


class AgentClient(Closeable):
    """Asks one question at a time.

    Each method raises `EngineError` if the program refuses, and `AgentAwayError` if the agent does not answer. The
    request may have been carried out even then.
    """

    def __init__(self, folder: Path, *, timeout: float = 30.0) -> None:
        self._folder, self._timeout = folder, timeout
        self._channel: Channel[Question | Answer] | None = None

    def application(self) -> ApplicationInfo:
        return self._ask(AskApplication(), ApplicationInfo)

    def queries(self) -> tuple[AdoptedQuery, ...]:
        return self._ask(AskQueries(), AdoptedQueries).queries

    def rescale(self, request: RescaleQuery) -> QueryRescaled:
        """Rescale a query. A roll-back is an answer too."""
        seconds = request.finish_within + 2 * request.first_within + _MOVE_STATE_SECONDS
        return self._ask(request, QueryRescaled, seconds)

    def executors(self) -> ExecutorCounts:
        return self._ask(AskExecutors(), ExecutorCounts)

    def scale_to(self, executors: int) -> ExecutorCounts:
        """Request or release executors. The answer comes before the cluster has granted or released them."""
        return self._ask(SetExecutorCount(executors), ExecutorCounts)

    def stop_for_relaunch(self, request: StopForRelaunch) -> StoppedForRelaunch:
        """Stop the program's queries. The program ends right after the answer."""
        return self._ask(request, StoppedForRelaunch, 2 * request.finish_within + self._timeout)

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _ask(self, question: Question, kind: type[_A], seconds: float | None = None) -> _A:
        try:
            channel = self._open()
            channel.send(question)
            answer = channel.receive(seconds or self._timeout)
        except (OSError, ChannelClosedError):
            self.close()
            raise AgentAwayError(
                f"no agent answers in {self._folder}: the program has ended or has not begun"
            ) from None
        except ChannelTimeoutError:
            self.close()  # a late answer must not be read as the answer to the next question
            asked = type(question).__name__
            raise AgentAwayError(f"the agent in {self._folder} did not answer {asked} in time") from None
        except BaseException:
            self.close()
            raise
        if isinstance(answer, RequestFailed):
            raise AgentBrokenError(answer.error) if answer.unexpected else EngineError(answer.error)
        if not isinstance(answer, kind):
            raise EngineError(f"the agent answered {type(answer).__name__} instead of {kind.__name__}")
        return answer

    def _open(self) -> Channel[Question | Answer]:
        if self._channel is None:
            self._channel = Channel(connect(self._folder), CODEC)
        return self._channel
