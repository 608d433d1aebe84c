"""All errors that this package raises on purpose; the message of each is one line for people.

AuTraScaleError
  InputError                        a mistake of the user: place, problem, value seen, remedy
    JobBusyError                    another run of the job is active
    NoLoopError                     no control loop of that job is known
    CommandRefusedError             the control loop cannot obey a command in its present state
  IdempotencyKeyReusedError         an idempotency key was sent with a different request
  StudyError                        a study cannot answer in its present state
  EngineError                       the engine under the job cannot run
  MetricStoreError                  a store of metric points cannot do a request
    MetricStoreUnavailableError     … at present; a later request may succeed
    MetricStoreRefusedError         … and never will
      MetricStoreTooLargeError      … because the request is too large
  RunStoreError                     the MLflow store of runs and models cannot do a request
  DecisionJournalError              the journal of a control loop cannot be read or written
  RunCancelledError                 the run was cancelled; it can be resumed
  RunLostError                      another process has taken over this run
  QueueFullError                    the run queue is full
"""

from __future__ import annotations

_UNSEEN = object()
_SHOWN = 80  # characters of a value in a message


class AuTraScaleError(Exception):
    """The base of all errors that this package raises on purpose."""


class InputError(AuTraScaleError, ValueError):
    """A value from the user cannot be used.

    Args:
        place: the value's place, such as `operators.flatmap.parallelism`.
        problem: the problem, as a predicate: "must be above zero".
        seen: the value; default: the message shows none.
        remedy: advice to the user, default none.
    """

    def __init__(self, place: str, problem: str, *, seen: object = _UNSEEN, remedy: str = "") -> None:
        self.place = place
        self.problem = problem
        self.seen = seen
        self.remedy = remedy
        super().__init__(place, problem)

    def __str__(self) -> str:
        seen = "" if self.seen is _UNSEEN else f" (seen: {_shorten(self.seen)})"
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.place}: {self.problem}{seen}{remedy}"

    def with_prefix(self, prefix: str) -> InputError:
        """Return the same error with `prefix` before its place: `operators.` + `flatmap.parallelism`."""
        seen = {} if self.seen is _UNSEEN else {"seen": self.seen}
        return type(self)(f"{prefix}{self.place}", self.problem, remedy=self.remedy, **seen)


class JobBusyError(InputError):
    """Another run of the job is active."""


class IdempotencyKeyReusedError(AuTraScaleError, ValueError):
    """An idempotency key was sent with a different request before."""


class NoLoopError(InputError):
    """No control loop of that job is known."""


class CommandRefusedError(InputError):
    """The control loop cannot obey a command in its present state."""


class StudyError(AuTraScaleError, RuntimeError):
    """A study cannot answer in its present state: no configuration is left, or nothing was told yet."""


class EngineError(AuTraScaleError, RuntimeError):
    """The engine under the job cannot run at all. A trial that failed is a verdict and not an error."""


class MetricStoreError(AuTraScaleError, RuntimeError):
    """A store of metric points cannot do a request. The message is one line and holds no secret."""


class MetricStoreUnavailableError(MetricStoreError):
    """The store cannot be reached or does not serve at present. The same request may succeed later."""


class MetricStoreRefusedError(MetricStoreError):
    """The store understood the request and refuses it. The same request will never succeed."""


class MetricStoreTooLargeError(MetricStoreRefusedError):
    """The store refuses a request of this size. A part of it may be accepted."""


class RunStoreError(AuTraScaleError, RuntimeError):
    """The store of runs and models is unavailable, damaged, or refuses a request."""


class DecisionJournalError(AuTraScaleError, RuntimeError):
    """The journal of decisions cannot be read or written."""


class RunCancelledError(AuTraScaleError, RuntimeError):
    """The run was cancelled. It can be resumed."""


class RunLostError(AuTraScaleError, RuntimeError):
    """Another process has taken over this run, so this process must not write to it any more."""


class QueueFullError(AuTraScaleError, RuntimeError):
    """The run queue is full."""


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
