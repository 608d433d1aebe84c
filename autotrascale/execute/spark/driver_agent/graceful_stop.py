"""Stop a program for a relaunch: all queries end between two batches, then the program ends.

The author's code ends as Python ends any program: a thread that waits for a query gets SystemExit, and so does the main
thread, once. `finally` blocks run, no error is logged, and the exit code is 0. A program that does not end by itself is
ended after 30 s. Its queries have stopped by then, so nothing is lost.

The stop is written to `stopping.json` before anything is touched. A program that is killed during the stop is
therefore started again too.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.common.program_folder import NEXT_FILE, SIGNAL_FILE, STOPPING_FILE, write_json
from autotrascale.execute.spark.common.program_records import read_launch, read_program
from autotrascale.execute.spark.driver_agent.driver_log import write_line
from autotrascale.execute.spark.driver_agent.hooks import AdoptedProgram
from autotrascale.execute.spark.driver_agent.interrupts import AGENT_THREAD, interrupt_main_thread, main_thread_stopped
from autotrascale.execute.spark.driver_agent.query_handle import QueryHandle
from autotrascale.execute.spark.driver_agent.rescale_in_place import come_to_rest, pause_after_batch
from autotrascale.execute.spark.protocol.agent_messages import StopForRelaunch, StoppedForRelaunch

_ANSWER_SECONDS = 0.5  # until the controller has read the answer
_WAITING_THREAD_SECONDS = 1.0  # for SystemExit to reach a main thread that waits for a query
_END_SECONDS = 30.0  # for `finally` blocks and exit handlers of the program
_one_stop_at_a_time = threading.Lock()


def explain_not_relaunchable(program: AdoptedProgram, folder: Path) -> str:
    """Return why the program cannot be started again from where it stops, or an empty string."""
    record = read_program(folder)
    if record.is_attached:
        return "it has no supervisor, because `autotrascale run` did not start it"
    if (folder / SIGNAL_FILE).exists():
        return "a signal has told it to end"
    try:
        os.kill(record.supervisor, 0)
    except OSError:
        return "its supervisor was killed"
    active = program.handles.active()
    if not active:
        return "it has no running query"
    for handle in active:
        if reason := handle.not_movable or _explain_lost_checkpoint(handle):
            return f"query {handle.label} {reason}"
    return ""


def stop_for_relaunch(program: AdoptedProgram, folder: Path, request: StopForRelaunch) -> StoppedForRelaunch:
    """Stop all queries, and end the program after the answer. Raises `EngineError` if it cannot be relaunched."""
    with _one_stop_at_a_time:
        if program.is_stopping.is_set():
            raise EngineError("the program is stopping already")
        if reason := explain_not_relaunchable(program, folder):
            raise EngineError(f"the program cannot be relaunched: {reason}")
        if not (folder / NEXT_FILE).exists():
            raise EngineError(f"the program cannot be relaunched: {NEXT_FILE} has no settings for the next launch")
        number = read_launch(folder).number
        write_json(folder / STOPPING_FILE, {"launch": number})
        program.is_stopping.set()
    try:
        stopped = _stop_queries(program.handles.active(), request.finish_within)
        with suppress(OSError):
            write_json(folder / STOPPING_FILE, {"launch": number, "at": time.time()})
    finally:
        write_line(f"the program ends, and is started again with other settings as launch {number + 1}")
        threading.Thread(target=_end_program, args=(program,), name=AGENT_THREAD, daemon=True).start()
    return stopped


def _stop_queries(handles: list[QueryHandle], finish_within: float) -> StoppedForRelaunch:
    """Stop the queries after their present batches. All are paused first, so that they rest at about the same time."""
    began, cut_off = time.monotonic(), False
    with ExitStack() as stack:
        for handle in handles:
            stack.enter_context(handle.one_at_a_time)  # waits for a rescale that is under way
            handle.begin_rescale()
        for handle in handles:
            pause_after_batch(handle._jsq)
        until = began + finish_within
        for handle in handles:
            rested = False
            with suppress(Exception):
                rested = come_to_rest(handle, until)
            cut_off = cut_off or (not rested and handle.runs_now())
            handle.cutting_off = not rested
            with suppress(Exception):  # a query that failed: the next launch runs its batch again
                handle._jsq.stop()
    return StoppedForRelaunch(cut_off, time.monotonic() - began)


def _end_program(program: AdoptedProgram) -> None:
    time.sleep(_ANSWER_SECONDS)
    program.handles.release_waiting_threads()
    if not main_thread_stopped.wait(_WAITING_THREAD_SECONDS):
        interrupt_main_thread()
    time.sleep(_END_SECONDS)
    os._exit(0)


def _explain_lost_checkpoint(handle: QueryHandle) -> str:
    temporary = handle.spec is not None and handle.spec.temporary
    return "has no checkpointLocation, so it would begin anew" if temporary else ""
