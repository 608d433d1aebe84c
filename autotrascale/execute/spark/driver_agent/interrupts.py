"""Ends of a program that its author did not write: Ctrl-C, and the stop before a relaunch.

Ctrl-C: PySpark cancels all jobs and raises KeyboardInterrupt. Threads of AuTraScale may be talking to the JVM at that
moment, and py4j would log a traceback for each. Those records are dropped; calls of the program itself are logged.

Stop before a relaunch: the program gets SystemExit. Its `finally` blocks run, and no error is logged. The main thread
gets it once, wherever it is.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
from contextlib import suppress
from pathlib import PurePath
from types import FrameType

AGENT_THREAD, WATCH_THREAD_PREFIX = "autotrascale agent", "query "
"""Names of AuTraScale's threads in the driver."""
_LOGGERS = ("py4j.java_gateway", "py4j.clientserver")
_HANDLER_FILE = ("pyspark", "core", "context.py")  # of PySpark's answer to Ctrl-C
_STOP_SIGNAL = signal.SIGUSR2

main_thread_stopped = threading.Event()
"""Set once the main thread has got SystemExit."""


def silence_py4j() -> None:
    """Drop log records of py4j that do not come from the program itself."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_is_from_program)


def _is_from_program(record: logging.LogRecord) -> bool:
    is_ours = (record.threadName or "").startswith((AGENT_THREAD, WATCH_THREAD_PREFIX))
    return not is_ours and not _is_interrupted()


def _is_interrupted() -> bool:
    """Return whether PySpark's handler of Ctrl-C is on the call stack."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        code = frame.f_code
        if code.co_name == "signal_handler" and PurePath(code.co_filename).parts[-3:] == _HANDLER_FILE:
            return True
        frame = frame.f_back
    return False


def install_stop_signal() -> None:
    """Prepare the main thread for `interrupt_main_thread`, before the program begins."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(_STOP_SIGNAL, _raise_stop)


def make_stop_exception() -> SystemExit:
    """Return the exception for a thread of the program that waits for an end of a query which will not come."""
    if threading.current_thread() is threading.main_thread():
        main_thread_stopped.set()
    return SystemExit(0)


def interrupt_main_thread() -> None:
    """Raise SystemExit in the main thread, unless the author replaced the handler."""
    if signal.getsignal(_STOP_SIGNAL) is _raise_stop:
        with suppress(Exception):
            signal.pthread_kill(threading.main_thread().ident or 0, _STOP_SIGNAL)


def _raise_stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - signature of a signal handler
    if not main_thread_stopped.is_set():
        raise make_stop_exception()
