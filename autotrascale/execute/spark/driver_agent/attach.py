"""Taking a program in: hooks, then the agent. Once in a process, whoever asks first."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import psutil

from autotrascale.atomic_files import write_atomically
from autotrascale.domain.errors import InputError
from autotrascale.execute.spark.common.launches import Launch
from autotrascale.execute.spark.controller.program_process import read_launch
from autotrascale.execute.spark.controller.supervisor import PROGRAM_FILE, PYTHON_FILE
from autotrascale.execute.spark.driver_agent.agent import Agent
from autotrascale.execute.spark.driver_agent.driver_log import write_line
from autotrascale.execute.spark.driver_agent.hooks import AdoptedProgram
from autotrascale.execute.spark.driver_agent.interrupts import install_stop_signal, silence_py4j
from autotrascale.execute.spark.driver_agent.readiness import ReadinessWatcher
from autotrascale.execute.spark.protocol.agent_address import (
    APPLY_VARIABLE,
    EXECUTORS_VARIABLE,
    FOLDER_VARIABLE,
    MEMORY_METRICS_VARIABLE,
    RESCALE_VARIABLE,
    parse_rescale_method,
)
from autotrascale.plan.migration.rescale_mode import RescaleMode


@dataclass(frozen=True)
class Attachment:
    """`folder` is where a controller finds the program."""

    folder: Path
    adoption: AdoptedProgram
    agent: Agent


_attached: Attachment | None = None


def adopt() -> Attachment:
    """Of a program that a controller started; it says where in the environment."""
    folder = Path(os.environ[FOLDER_VARIABLE])
    write_atomically(folder / PYTHON_FILE, json.dumps({"pid": os.getpid()}))
    least, colon, most = os.environ.get(EXECUTORS_VARIABLE, "").partition(":")
    executors = (int(least), int(most)) if colon else None
    life = read_launch(folder)
    install_stop_signal()
    measured = os.environ.get(MEMORY_METRICS_VARIABLE) == "1"
    attached = _take_in(
        folder,
        apply=os.environ.get(APPLY_VARIABLE) == "1",
        executors=executors,
        measured=measured,
        life=life,
        rescale=parse_rescale_method(os.environ.get(RESCALE_VARIABLE, "in-place")),
    )
    if life.former is not None:
        ReadinessWatcher(attached.adoption, folder)
    return attached


def attach(folder: str | Path | None = None, *, apply: bool = True, rescale: RescaleMode = "in-place") -> Attachment:
    """The program that runs now: a notebook, or a script that says so in one line. Best before its session is opened.
    Twice is once. A program that was started by a controller is taken in already. `rescale`: whether another query may
    be made ready beside one that runs, and take over from it (`overlap`, `auto`)."""
    if _attached is not None:
        return _attached
    home = Path(folder) if folder is not None else Path(tempfile.mkdtemp(prefix="autotrascale-"))
    if home.exists() and not home.is_dir():
        raise InputError("folder", "is no folder", seen=str(home), remedy="name one, or none")
    attached = _take_in(home.resolve(), apply=apply, rescale=parse_rescale_method(rescale))
    me = psutil.Process()
    note = {"keeper": me.pid, "program": me.pid, "command": sys.argv[:1] or ["program"], "began": me.create_time()}
    write_atomically(attached.folder / PROGRAM_FILE, json.dumps(note))
    write_line(f"this program can be watched and moved from {attached.folder}")
    _see_what_runs(attached.adoption)
    return attached


def _take_in(
    folder: Path,
    *,
    apply: bool,
    executors: tuple[int, int] | None = None,
    measured: bool = False,
    life: Launch | None = None,
    rescale: RescaleMode = "in-place",
) -> Attachment:
    global _attached
    if _attached is None:
        event_log = folder / "events"
        event_log.mkdir(mode=0o700, parents=True, exist_ok=True)
        adoption = AdoptedProgram(
            event_log.as_uri(),
            apply=apply,
            executors=executors,
            measured=measured,
            rescale=rescale,
            life=(life or Launch()).settings,
        )
        agent = Agent(adoption, folder)
        adoption.install()
        silence_py4j()
        _attached = Attachment(folder, adoption, agent)
    return _attached


def _see_what_runs(adoption: AdoptedProgram) -> None:
    if adoption.context is None or adoption.session is None:
        return
    write_line("Spark was open before: its settings stay as they are, and what is not in an event log is not measured")
    running = adoption.session.streams.active
    if running:
        names = ", ".join(str(query.name or query.id) for query in running)
        write_line(f"started before, so they are watched and cannot be moved: {names}")
