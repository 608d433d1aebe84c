"""Attach AuTraScale to the program that runs in this process: hooks into PySpark, then the agent. Once per process."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from autotrascale.domain.errors import InputError
from autotrascale.execute.spark.common.program_environment import FOLDER_VARIABLE, ProgramOptions, parse_rescale_mode
from autotrascale.execute.spark.common.program_folder import PROGRAM_FILE, PYTHON_FILE, write_json
from autotrascale.execute.spark.common.program_records import ProgramRecord, read_launch
from autotrascale.execute.spark.driver_agent.agent import Agent
from autotrascale.execute.spark.driver_agent.driver_log import write_line
from autotrascale.execute.spark.driver_agent.hooks import AdoptedProgram
from autotrascale.execute.spark.driver_agent.interrupts import install_stop_signal, silence_py4j
from autotrascale.execute.spark.driver_agent.readiness import ReadinessWatcher
from autotrascale.plan.migration.rescale_mode import RescaleMode


@dataclass(frozen=True)
class Attachment:
    """AuTraScale in this process. A controller finds the program by its `folder`."""

    folder: Path
    program: AdoptedProgram
    agent: Agent


_attachment: Attachment | None = None


def adopt() -> Attachment:
    """Attach to a program that a controller started. The environment names its folder and its options."""
    folder = Path(os.environ[FOLDER_VARIABLE])
    write_json(folder / PYTHON_FILE, {"pid": os.getpid()})
    launch = read_launch(folder)
    install_stop_signal()
    attachment = _attach_once(folder, ProgramOptions.from_environment(os.environ), launch.settings)
    if launch.former is not None:
        ReadinessWatcher(attachment.program, folder)
    return attachment


def attach(folder: str | Path | None = None, *, apply: bool = True, rescale: RescaleMode = "in-place") -> Attachment:
    """Attach to the program that calls this: a notebook or a script. Call it before the Spark session is opened.

    A second call returns the first attachment. So does a call in a program that `autotrascale run` started.

    Args:
        folder: for the files of the program; default: a new temporary folder
        apply: queries may be rescaled; else they are only observed
        rescale: "in-place" stops a query while its state moves; "overlap" and "auto" may prepare a second query beside
            the running query
    """
    if _attachment is not None:
        return _attachment
    home = Path(folder) if folder is not None else Path(tempfile.mkdtemp(prefix="autotrascale-"))
    if home.exists() and not home.is_dir():
        raise InputError("folder", "is not a folder", seen=str(home), remedy="name a folder, or leave it out")
    attachment = _attach_once(home.resolve(), ProgramOptions(apply, rescale=parse_rescale_mode(rescale)), {})
    me = psutil.Process()
    record = ProgramRecord(me.pid, me.pid, tuple(sys.argv[:1]) or ("program",), created_at=me.create_time())
    write_json(attachment.folder / PROGRAM_FILE, asdict(record))
    write_line(f"attached to this program; its folder is {attachment.folder}")
    _tell_what_came_before(attachment.program)
    return attachment


def _attach_once(folder: Path, options: ProgramOptions, relaunch_settings: Mapping[str, str]) -> Attachment:
    global _attachment
    if _attachment is None:
        event_log = folder / "events"
        event_log.mkdir(mode=0o700, parents=True, exist_ok=True)
        program = AdoptedProgram(event_log.as_uri(), options, relaunch_settings)
        agent = Agent(program, folder)
        program.install_hooks()
        silence_py4j()
        _attachment = Attachment(folder, program, agent)
    return _attachment


def _tell_what_came_before(program: AdoptedProgram) -> None:
    if program.context is None or program.session is None:
        return
    write_line("Spark was opened before attach(): its settings stay, and without an event log nothing can be measured")
    running = program.session.streams.active
    if running:
        names = ", ".join(str(query.name or query.id) for query in running)
        write_line(f"queries that started before attach() are observed and cannot be rescaled: {names}")
