"""A controller process for the kill benchmark: it rescales a job like the control loop, reports the phase that it has
reached, and can pause there until the benchmark has killed a process."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

from autotrascale.domain.errors import AuTraScaleError
from autotrascale.execute.spark.common.launches import Launch, NextLaunch
from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.execute.spark.controller.driver_connection import DriverConnection
from autotrascale.execute.spark.controller.launch_log import LaunchLog
from autotrascale.execute.spark.controller.live_own_job import LiveOwnJob
from autotrascale.execute.spark.controller.own_query import OwnQuery
from autotrascale.execute.spark.controller.query_rescaler import QueryRescaler
from autotrascale.execute.spark.controller.relaunchable_job import RelaunchableJob
from autotrascale.execute.spark.protocol.own_job_messages import Message

BACK = "back: "  # prefix of the phases of a launch with the former settings
_STARTS = 5  # failed starts in a row after which the job counts as down, as in the control loop


@dataclass(frozen=True)
class Rescale:
    """A request to rescale the job.

    Attributes:
        parallelism: wanted parallelism.
        patience: seconds to wait for the batch in flight.
        pause: phase to report; the controller pauses there, except in phases that begin with "in ".
        how: in-place or overlap.
    """

    parallelism: dict[str, int]
    patience: float = 10.0
    pause: str = ""
    how: str = "in-place"


@dataclass(frozen=True)
class Relaunch:
    """A request to relaunch the job with other executor sizes."""

    following: NextLaunch
    pause: str = ""


@dataclass(frozen=True)
class Up:
    """The answer to a request: the job runs at `running`, or is down."""

    running: dict[str, int] | None
    driver: int
    detail: str = ""
    standstill: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)
    how: str = ""  # the way of the rescale and its reason


@dataclass(frozen=True)
class Reached:
    """The report that the phase to pause in was reached."""

    phase: str
    driver: int


def control(
    pipe: Pipe, settings: SparkSettings, home: Path, k: dict[str, int], pause: str, sized: bool = False
) -> None:
    """Start the job and carry out requests until the pipe breaks.

    Args:
        pipe: carries the requests and answers.
        settings: settings of the job.
        home: home of the job.
        k: first parallelism.
        pause: phase of the start to pause in.
        sized: whether the job can be relaunched.
    """
    os.setpgid(0, 0)
    hooks, rates = _Hooks(pipe), {"source": 1.0}
    with RelaunchableJob("killed", settings, rates, home) if sized else LiveOwnJob(settings, rates, home) as live:
        hooks.pause(pause)
        hooks.install()
        pipe.send(_up(live, k))
        while True:
            match pipe.recv():
                case Rescale() as asked:
                    object.__setattr__(live.settings.patience, "finish_batch", asked.patience)
                    object.__setattr__(live.settings, "rescale", asked.how)
                    hooks.pause(asked.pause)
                    done = live.rescale(asked.parallelism)
                    hooks.pause("")
                    up = _up(live, k, done.detail, done.standstill_seconds, dict(done.phases or {}))
                    pipe.send(replace(up, how=done.how))
                case Relaunch(following, phase) if isinstance(live, RelaunchableJob):
                    hooks.pause(phase)
                    live.relaunch(following)
                    hooks.pause("")
                    pipe.send(_up(live, k))
                case "look":
                    pipe.send(_up(live, k))
                case "close":
                    return


def _up(
    live: LiveOwnJob,
    k: dict[str, int],
    detail: str = "",
    standstill: float = 0.0,
    phases: dict[str, float] | None = None,
) -> Up:
    """Observe the job, and start it if it is down, like the control loop."""
    for _ in range(_STARTS):
        try:
            look = live.observe()
            if look.running is None:
                look = live.start(k)
            if look.running is not None:
                connection = live._launcher.connection
                return Up(
                    dict(look.running), connection.process.pid if connection else 0, detail, standstill, phases or {}
                )
            detail = f"{detail} | {look.detail}"
        except AuTraScaleError as error:
            detail = f"{detail} | {error}"
    return Up(None, 0, detail)


class _Hooks:
    """Detects phases by the requests to the driver and the calls around them."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._phase = ""

    def pause(self, phase: str) -> None:
        self._phase = phase

    def install(self) -> None:
        ask, rest, write = DriverConnection.ask, QueryRescaler.come_to_rest, LaunchLog._write
        connections = list[DriverConnection]()  # the last one that got a request

        def asked(connection: DriverConnection, message: Message, seconds: float) -> Message:
            name, connections[:] = type(message).__name__, [connection]
            self._reach(f"before {name}", connection)
            self._reach(f"in {name}", connection)
            answer = ask(connection, message, seconds)
            self._reach(f"after {name}", connection)
            return answer

        def rested(changes: QueryRescaler, query: OwnQuery, then: Mapping[str, int] | None = None) -> float:
            self._reach("before finish", changes.connection)
            self._reach("in finish", changes.connection)
            return rest(changes, query, then)

        def written(launches: LaunchLog, launch: Launch, arrived: float | None = None) -> None:
            write(launches, launch, arrived)
            if arrived is None and connections:
                if launch.why:
                    self._phase = self._phase.removeprefix(BACK)
                self._reach("taken back" if launch.why else "left" if launch.left_at else "written", connections[0])

        patched: list[tuple[Any, str, Callable[..., Any]]] = [
            (DriverConnection, "ask", asked),
            (QueryRescaler, "come_to_rest", rested),
            (LaunchLog, "_write", written),
        ]
        for owner, name, hook in patched:
            setattr(owner, name, hook)

    def _reach(self, phase: str, connection: DriverConnection) -> None:
        if phase != self._phase:
            return
        self._phase = ""
        self._pipe.send(Reached(phase, connection.process.pid))
        if not phase.startswith("in "):
            self._phase = self._pipe.recv()  # continue; the answer is the next phase to pause in
