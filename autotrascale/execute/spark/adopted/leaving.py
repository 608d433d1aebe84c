"""A program makes room for its next life: all its queries end between two batches, and it with them.

Its author's code is told as Python tells anybody to end: whoever waits for a query gets SystemExit, and so does the
main thread wherever it is, once. So what stands in `finally` is done, no error is logged, and its exit code is 0. One
that does not end for all that is ended; its queries have stopped by then, and nothing of theirs is lost.

That it leaves is written down before anything is touched: killed in the middle of it, it is started again all the same.
"""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from autotrascale import reading
from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.adopted import moving
from autotrascale.execute.spark.adopted.handles import Handle
from autotrascale.execute.spark.adopted.hooks import Adoption
from autotrascale.execute.spark.adopted.interrupts import AGENT, heard, interrupt
from autotrascale.execute.spark.adopted.keeper import LEAVING, NEXT, PROGRAM, TOLD
from autotrascale.execute.spark.adopted.messages import Leave, Left
from autotrascale.execute.spark.adopted.program import Note, life_in
from autotrascale.execute.spark.adopted.saying import say
from autotrascale.files import write_whole

_ANSWER_SECONDS = 0.5  # until whoever asked has read it
_HEARD_SECONDS = 1.0  # for a thread that waits for a query
_END_SECONDS = 30.0  # for what a program does at its end
_one_at_a_time = threading.Lock()


def why_not(adoption: Adoption, folder: Path) -> str:
    """It cannot be started again from where it stopped; empty where it can."""
    note = reading.read_file(folder / PROGRAM, Note)
    if note.began:
        return "it was started by somebody else, who would have to start it again"
    if (folder / TOLD).exists():
        return "it was told to end"
    try:
        os.kill(note.keeper, 0)
    except OSError:
        return "its keeper is gone, and nobody would start it again"
    active = [handle for handle in adoption.handles.all() if not handle.over]
    if not active:
        return "it has no query that runs"
    for handle in active:
        if reason := handle.not_movable or _forgets(handle):
            return f"query {handle.name or handle.query_id} {reason}"
    return ""


def leave(adoption: Adoption, folder: Path, wish: Leave) -> Left:
    with _one_at_a_time:
        if adoption.leaving.is_set():
            raise EngineError("the program is leaving already")
        if reason := why_not(adoption, folder):
            raise EngineError(f"the program cannot be relaunched: {reason}")
        if not (folder / NEXT).exists():
            raise EngineError("the program cannot be relaunched: the settings of its next life are not written")
        life = life_in(folder)
        write_whole(folder / LEAVING, json.dumps({"life": life.number}))
        adoption.leaving.set()
    try:
        left = _stop_all([handle for handle in adoption.handles.all() if not handle.over], wish.finish_within)
        with suppress(OSError):
            write_whole(folder / LEAVING, json.dumps({"life": life.number, "at": time.time()}))
    finally:
        say(f"the program ends to be started again with other settings, as life {life.number + 1}")
        threading.Thread(target=_end, args=(adoption,), name=AGENT, daemon=True).start()
    return left


def _stop_all(handles: list[Handle], finish_within: float) -> Left:
    """One that a move has is waited for. Held at once, they rest at about the same time."""
    began, cut_off = time.monotonic(), False
    with ExitStack() as stack:
        for handle in handles:
            stack.enter_context(handle.one_at_a_time)
            handle.set_out()
        for handle in handles:
            moving.hold(handle)
        until = began + finish_within
        for handle in handles:
            rested = False
            with suppress(Exception):
                rested = moving.come_to_rest(handle, until)
            cut_off = cut_off or (not rested and handle.runs_now())
            handle.cutting_off = not rested
            with suppress(Exception):  # of a query that failed: the next life has the batch again
                handle._jsq.stop()
    return Left(cut_off, time.monotonic() - began)


def _end(adoption: Adoption) -> None:
    time.sleep(_ANSWER_SECONDS)
    adoption.handles.leave()
    if not heard.wait(_HEARD_SECONDS):
        interrupt()
    time.sleep(_END_SECONDS)
    os._exit(0)


def _forgets(handle: Handle) -> str:
    temporary = handle.written is not None and handle.written.temporary
    return "has no checkpointLocation, so that it would begin anew" if temporary else ""
