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

from autotrascale import validation
from autotrascale.atomic_files import write_atomically
from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.controller.program_process import ProgramRecord, read_launch
from autotrascale.execute.spark.controller.supervisor import LEAVING_FILE, NEXT_FILE, PROGRAM_FILE, STOP_FILE
from autotrascale.execute.spark.driver_agent import rescale_in_place
from autotrascale.execute.spark.driver_agent.driver_log import write_line
from autotrascale.execute.spark.driver_agent.hooks import AdoptedProgram
from autotrascale.execute.spark.driver_agent.interrupts import AGENT_THREAD, interrupt_main_thread, main_thread_stopped
from autotrascale.execute.spark.driver_agent.query_handle import QueryHandle
from autotrascale.execute.spark.protocol.agent_messages import StopForRelaunch, StoppedForRelaunch

_ANSWER_SECONDS = 0.5  # until whoever asked has read it
_HEARD_SECONDS = 1.0  # for a thread that waits for a query
_END_SECONDS = 30.0  # for what a program does at its end
_one_at_a_time = threading.Lock()


def explain_not_relaunchable(adoption: AdoptedProgram, folder: Path) -> str:
    """It cannot be started again from where it stopped; empty where it can."""
    note = validation.read_file(folder / PROGRAM_FILE, ProgramRecord)
    if note.began:
        return "it was started by somebody else, who would have to start it again"
    if (folder / STOP_FILE).exists():
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


def stop_for_relaunch(adoption: AdoptedProgram, folder: Path, wish: StopForRelaunch) -> StoppedForRelaunch:
    with _one_at_a_time:
        if adoption.leaving.is_set():
            raise EngineError("the program is leaving already")
        if reason := explain_not_relaunchable(adoption, folder):
            raise EngineError(f"the program cannot be relaunched: {reason}")
        if not (folder / NEXT_FILE).exists():
            raise EngineError("the program cannot be relaunched: the settings of its next life are not written")
        life = read_launch(folder)
        write_atomically(folder / LEAVING_FILE, json.dumps({"life": life.number}))
        adoption.leaving.set()
    try:
        left = _stop_all([handle for handle in adoption.handles.all() if not handle.over], wish.finish_within)
        with suppress(OSError):
            write_atomically(folder / LEAVING_FILE, json.dumps({"life": life.number, "at": time.time()}))
    finally:
        write_line(f"the program ends to be started again with other settings, as life {life.number + 1}")
        threading.Thread(target=_end, args=(adoption,), name=AGENT_THREAD, daemon=True).start()
    return left


def _stop_all(handles: list[QueryHandle], finish_within: float) -> StoppedForRelaunch:
    """One that a move has is waited for. Held at once, they rest at about the same time."""
    began, cut_off = time.monotonic(), False
    with ExitStack() as stack:
        for handle in handles:
            stack.enter_context(handle.one_at_a_time)
            handle.begin_rescale()
        for handle in handles:
            rescale_in_place.pause_after_batch(handle)
        until = began + finish_within
        for handle in handles:
            rested = False
            with suppress(Exception):
                rested = rescale_in_place.come_to_rest(handle, until)
            cut_off = cut_off or (not rested and handle.runs_now())
            handle.cutting_off = not rested
            with suppress(Exception):  # of a query that failed: the next life has the batch again
                handle._jsq.stop()
    return StoppedForRelaunch(cut_off, time.monotonic() - began)


def _end(adoption: AdoptedProgram) -> None:
    time.sleep(_ANSWER_SECONDS)
    adoption.handles.leave()
    if not main_thread_stopped.wait(_HEARD_SECONDS):
        interrupt_main_thread()
    time.sleep(_END_SECONDS)
    os._exit(0)


def _forgets(handle: QueryHandle) -> str:
    temporary = handle.written is not None and handle.written.temporary
    return "has no checkpointLocation, so that it would begin anew" if temporary else ""
