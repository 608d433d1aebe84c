"""Ctrl-C in a program's driver: it ends as any command does, and nobody reads tracebacks of a JVM that goes with it.

PySpark cancels all jobs at Ctrl-C, and raises KeyboardInterrupt. Our threads may be asking the JVM something then, and
py4j logs with a traceback that it has gone. What the program itself asks is logged as ever.
"""

from __future__ import annotations

import logging
import sys
from pathlib import PurePath
from types import FrameType

AGENT, WATCHING = "autotrascale agent", "query "
"""How our threads are called."""
_LOGGERS = ("py4j.java_gateway", "py4j.clientserver")


def quiet_py4j() -> None:
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_is_the_programs)


def _is_the_programs(record: logging.LogRecord) -> bool:
    ours = (record.threadName or "").startswith((AGENT, WATCHING))
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
