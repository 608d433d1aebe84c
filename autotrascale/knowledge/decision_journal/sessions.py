"""Sessions of control loops as rows of the decision journal: the header, and the session as it was last written."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from autotrascale.domain.errors import InputError
from autotrascale.domain.job import Job
from autotrascale.domain.target import Target
from autotrascale.knowledge.decision_journal.serialization import state_from_json
from autotrascale.knowledge.process_identity import ProcessIdentity
from autotrascale.plan.control.loop_state import State
from autotrascale.plan.sizing.executor_plan import ExecutorSize
from autotrascale.validation import validate

SESSION_COLUMNS = "id, header, begun, written, owner, ended, state"


@dataclass(frozen=True)
class SessionHeader:
    """The job and the conditions of a session. A new topology, engine or target begins a new session.

    Args:
        latency_target: seconds.
        executor: size and price of an executor, for a job whose instances are executors. May change within a session.
        operators: least and most instances by operator. May change within a session.
    """

    job: str
    engine: str
    simulated: bool
    topology: str
    latency_target: float
    statistic: str
    advise: bool = False
    executor: ExecutorSize | None = field(default=None, compare=False)
    operators: Mapping[str, tuple[int, int]] = field(default_factory=dict, compare=False)

    @property
    def target(self) -> Target:
        return Target(self.latency_target, self.statistic)  # type: ignore[arg-type]

    @classmethod
    def of(
        cls, job: Job, engine: str, *, simulated: bool, advise: bool, executor: ExecutorSize | None = None
    ) -> SessionHeader:
        target, operators = job.target, job.topology.operators
        bounds = {name: (each.minimum, min(each.maximum or job.p_max, job.p_max)) for name, each in operators.items()}
        return cls(
            job.name,
            engine,
            simulated,
            job.topology.fingerprint,
            target.latency_seconds,
            target.statistic,
            advise,
            executor,
            bounds,
        )

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class PastSession:
    """A session as it was last written.

    Args:
        begun: wall clock, seconds since 1970; so is `written`.
        ended: "finished" or the reason for the end; None while the session runs or after its process died.
        unreadable: why `state` is empty instead of the stored state; "" if the state was read.
    """

    id: str
    header: SessionHeader
    begun: float
    written: float
    owner: ProcessIdentity | None
    ended: str | None
    state: State
    unreadable: str = ""

    @property
    def is_alive(self) -> bool:
        return self.ended is None and self.owner is not None and self.owner.seems_alive(time.time() - self.written)


def parse_session(row: tuple[Any, ...]) -> PastSession:
    """Return the session of a row with `SESSION_COLUMNS`."""
    id, header, begun, written, owner, ended, text = row
    try:
        state, unreadable = state_from_json(text), ""
    except (InputError, ValueError) as error:
        state, unreadable = State(), f"the state of session {id} cannot be read, so a new session begins: {error}"
    return PastSession(
        id,
        validate(json.loads(header), SessionHeader, place="header"),
        begun,
        written,
        ProcessIdentity.parse(json.loads(owner)),
        ended,
        state,
        unreadable,
    )
