"""Taking a program in: hooks, then the agent. Once in a process, whoever asks first."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import psutil

from autotrascale.domain.errors import InputError
from autotrascale.execute.spark.adopted.address import APPLY, EXECUTORS, FOLDER, MEASURED, RESCALE, rescale_of
from autotrascale.execute.spark.adopted.agent import Agent
from autotrascale.execute.spark.adopted.arriving import Arriving
from autotrascale.execute.spark.adopted.hooks import Adoption
from autotrascale.execute.spark.adopted.interrupts import listen, quiet_py4j
from autotrascale.execute.spark.adopted.keeper import PROGRAM, PYTHON
from autotrascale.execute.spark.adopted.program import life_in
from autotrascale.execute.spark.adopted.saying import say
from autotrascale.execute.spark.lives import Life
from autotrascale.files import write_whole
from autotrascale.plan.migration.choice import Rescale


@dataclass(frozen=True)
class Attached:
    """`folder` is where a controller finds the program."""

    folder: Path
    adoption: Adoption
    agent: Agent


_attached: Attached | None = None


def adopt() -> Attached:
    """Of a program that a controller started; it says where in the environment."""
    folder = Path(os.environ[FOLDER])
    write_whole(folder / PYTHON, json.dumps({"pid": os.getpid()}))
    least, colon, most = os.environ.get(EXECUTORS, "").partition(":")
    executors = (int(least), int(most)) if colon else None
    life = life_in(folder)
    listen()
    measured = os.environ.get(MEASURED) == "1"
    attached = _take_in(
        folder,
        apply=os.environ.get(APPLY) == "1",
        executors=executors,
        measured=measured,
        life=life,
        rescale=rescale_of(os.environ.get(RESCALE, "in-place")),
    )
    if life.former is not None:
        Arriving(attached.adoption, folder)
    return attached


def attach(folder: str | Path | None = None, *, apply: bool = True, rescale: Rescale = "in-place") -> Attached:
    """The program that runs now: a notebook, or a script that says so in one line. Best before its session is opened.
    Twice is once. A program that was started by a controller is taken in already. `rescale`: whether another query may
    be made ready beside one that runs, and take over from it (`overlap`, `auto`)."""
    if _attached is not None:
        return _attached
    home = Path(folder) if folder is not None else Path(tempfile.mkdtemp(prefix="autotrascale-"))
    if home.exists() and not home.is_dir():
        raise InputError("folder", "is no folder", seen=str(home), remedy="name one, or none")
    attached = _take_in(home.resolve(), apply=apply, rescale=rescale_of(rescale))
    me = psutil.Process()
    note = {"keeper": me.pid, "program": me.pid, "command": sys.argv[:1] or ["program"], "began": me.create_time()}
    write_whole(attached.folder / PROGRAM, json.dumps(note))
    say(f"this program can be watched and moved from {attached.folder}")
    _see_what_runs(attached.adoption)
    return attached


def _take_in(
    folder: Path,
    *,
    apply: bool,
    executors: tuple[int, int] | None = None,
    measured: bool = False,
    life: Life | None = None,
    rescale: Rescale = "in-place",
) -> Attached:
    global _attached
    if _attached is None:
        event_log = folder / "events"
        event_log.mkdir(mode=0o700, parents=True, exist_ok=True)
        adoption = Adoption(
            event_log.as_uri(),
            apply=apply,
            executors=executors,
            measured=measured,
            rescale=rescale,
            life=(life or Life()).settings,
        )
        agent = Agent(adoption, folder)
        adoption.install()
        quiet_py4j()
        _attached = Attached(folder, adoption, agent)
    return _attached


def _see_what_runs(adoption: Adoption) -> None:
    if adoption.context is None or adoption.session is None:
        return
    say("Spark was open before: its settings stay as they are, and what is not in an event log is not measured")
    running = adoption.session.streams.active
    if running:
        names = ", ".join(str(query.name or query.id) for query in running)
        say(f"started before, so they are watched and cannot be moved: {names}")
