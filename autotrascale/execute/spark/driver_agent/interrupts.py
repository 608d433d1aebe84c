"""The ends of a program that it did not choose itself.

Ctrl-C in a program's driver: it ends as any command does, and nobody reads tracebacks of a JVM that goes with it.

PySpark cancels all jobs at Ctrl-C, and raises KeyboardInterrupt. Our threads may be asking the JVM something then, and
py4j logs with a traceback that it has gone. What the program itself asks is logged as ever.

One that makes room for its next life is told by SystemExit: what its `finally` says is done, and nothing is logged. The
main thread is told once, wherever it is.
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
"""How our threads are called."""
_LOGGERS = ("py4j.java_gateway", "py4j.clientserver")


def silence_py4j() -> None:
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_is_the_programs)


def _is_the_programs(record: logging.LogRecord) -> bool:
    ours = (record.threadName or "").startswith((AGENT_THREAD, WATCH_THREAD_PREFIX))
    return not ours and not _at_an_interrupt()


def _at_an_interrupt() -> bool:
    """Whether it is PySpark's answer to Ctrl-C that is being run."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        code = frame.f_code
        if code.co_name == "signal_handler" and PurePath(code.co_filename).parts[-3:] == (
            "pyspark",
            "core",
            "context.py",
        ):
            return True
        frame = frame.f_back
    return False


_END = signal.SIGUSR2
main_thread_stopped = threading.Event()
"""The main thread was told to end."""


def install_stop_signal() -> None:
    """In the main thread, before the program has begun. A handler of its author's replaces ours."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(_END, _told)


def make_stop_exception() -> SystemExit:
    """To raise, in whichever thread of the program's waits for what will not come."""
    if threading.current_thread() is threading.main_thread():
        main_thread_stopped.set()
    return SystemExit(0)


def interrupt_main_thread() -> None:
    """The main thread, whatever it does."""
    if signal.getsignal(_END) is _told:
        with suppress(Exception):
            signal.pthread_kill(threading.main_thread().ident or 0, _END)


def _told(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as Python calls it
    if not main_thread_stopped.is_set():
        raise make_stop_exception()
