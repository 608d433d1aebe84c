"""The process that has a job and rescales it, as the control loop does, on behalf of the bench: it says which phase it
is in, and can be made to wait there until somebody has been killed."""

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

BACK = "back: "  # a phase of the launch that has the settings of before again
_STARTS = 5  # in a row that fail: then the job is down for good, as it is for the control loop


@dataclass(frozen=True)
class Rescale:
    """`patience` is what the batch in flight gets; `pause` a phase to say when it is reached, and to stay there unless
    it is one that somebody is to be killed in (`in …`)."""

    parallelism: dict[str, int]
    patience: float = 10.0
    pause: str = ""
    how: str = "in-place"


@dataclass(frozen=True)
class Relaunch:
    """With executors of another size."""

    following: NextLaunch
    pause: str = ""


@dataclass(frozen=True)
class Up:
    """The job runs, or has been given up."""

    running: dict[str, int] | None
    host: int
    detail: str = ""
    standstill: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)
    how: str = ""  # the rescale was done, and why in this way


@dataclass(frozen=True)
class Reached:
    """The phase that it was told to pause in."""

    phase: str
    host: int


def control(
    pipe: Pipe, settings: SparkSettings, home: Path, k: dict[str, int], pause: str, sized: bool = False
) -> None:
    """Starts the job, and does what it is told until the pipe breaks. `pause` is a phase of coming up; `sized`: it may
    be relaunched."""
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
    """As the control loop: what does not run is started again."""
    for _ in range(_STARTS):
        try:
            look = live.observe()
            if look.running is None:
                look = live.start(k)
            if look.running is not None:
                host = live._launcher.connection
                return Up(dict(look.running), host.process.pid if host else 0, detail, standstill, phases or {})
            detail = f"{detail} | {look.detail}"
        except AuTraScaleError as error:
            detail = f"{detail} | {error}"
    return Up(None, 0, detail)


class _Hooks:
    """Phases, by the messages that are sent to a host and by what is done around them."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._phase = ""

    def pause(self, phase: str) -> None:
        self._phase = phase

    def install(self) -> None:
        ask, rest, write = DriverConnection.ask, QueryRescaler.come_to_rest, LaunchLog._write
        connections = list[DriverConnection]()  # the last one that was asked something

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
            self._phase = self._pipe.recv()  # go on, to the next phase to pause in
