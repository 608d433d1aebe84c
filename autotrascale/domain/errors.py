"""One tree of errors: everything that this package raises on purpose, one line for people each.

AuTraScaleError
  InputError                 a user's mistake: where, what is wrong, the value seen, what to do
    JobBusyError             another run of the job is under way
    KeyReusedError           an idempotency key came with another request than before
    NoLoopError              no control loop of that job is known
    OrderRefusedError        the control loop cannot be asked that as things stand
  StudyError                 a study was asked for something it cannot give now
  EngineError                the engine under the job cannot run at all
  MetricStoreError           a store of metric points cannot do what it was asked
    MetricStoreAwayError     … now; later it may
    MetricStoreRefusedError  … and never will
      MetricStoreTooLargeError   … so much at once
  RunStoreError              MLflow's store of runs and models cannot do what it was asked
  DecisionJournalError       the control loop's journal cannot be read or written
  RunCancelledError          somebody asked this run to end; it can be resumed
  RunLostError               another process carries this run on
  QueueFullError             as many runs wait as may
"""

from __future__ import annotations

_UNSEEN = object()


class AuTraScaleError(Exception):
    """Everything this package raises on purpose."""


class InputError(AuTraScaleError, ValueError):
    """Something handed in cannot be used. `place` says where, `remedy` what to do about it."""

    def __init__(self, place: str, problem: str, *, seen: object = _UNSEEN, remedy: str = "") -> None:
        self.place = place
        self.problem = problem
        self.seen = seen
        self.remedy = remedy
        super().__init__(place, problem)

    def __str__(self) -> str:
        seen = "" if self.seen is _UNSEEN else f" (seen: {_short(self.seen)})"
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.place}: {self.problem}{seen}{remedy}"

    def under(self, prefix: str) -> InputError:
        """The same complaint, said from further out: `operators` + `flatmap.parallelism`."""
        seen = {} if self.seen is _UNSEEN else {"seen": self.seen}
        return type(self)(f"{prefix}{self.place}", self.problem, remedy=self.remedy, **seen)


class JobBusyError(InputError):
    """Another run of the job is under way."""


class IdempotencyKeyReusedError(AuTraScaleError, ValueError):
    """An idempotency key came with another request than before."""


class NoLoopError(InputError):
    """No control loop of that job is known."""


class CommandRefusedError(InputError):
    """The control loop cannot be asked that as things stand."""


class StudyError(AuTraScaleError, RuntimeError):
    """A study was asked for something it cannot give now: a point when none is left, a best before any run."""


class EngineError(AuTraScaleError, RuntimeError):
    """The engine under the job cannot run at all. A trial that merely failed is a verdict, not an error."""


class MetricStoreError(AuTraScaleError, RuntimeError):
    """The store cannot do what it was asked; the message is one line and holds no secret."""


class MetricStoreUnavailableError(MetricStoreError):
    """It cannot be reached or will not serve now. The same call may succeed later."""


class MetricStoreRefusedError(MetricStoreError):
    """It understood and refuses these points. The same call will never succeed."""


class MetricStoreTooLargeError(MetricStoreRefusedError):
    """It takes no request as large as this one. A part of it may be taken."""


class RunStoreError(AuTraScaleError, RuntimeError):
    """The store of runs and models cannot do what it was asked to: it is away, damaged, or says no."""


class DecisionJournalError(AuTraScaleError, RuntimeError):
    """The journal of decisions cannot be read or written."""


class RunCancelledError(AuTraScaleError, RuntimeError):
    """Somebody asked this run to end. It can be resumed."""


class RunLostError(AuTraScaleError, RuntimeError):
    """Another process carries this run on; this one must not touch it any more."""


class QueueFullError(AuTraScaleError, RuntimeError):
    """As many runs wait as may."""


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
