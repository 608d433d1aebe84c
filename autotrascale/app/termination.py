"""End a command on SIGTERM as on Ctrl-C, so that a run keeps its results and releases its lease."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

TERMINATED = 143  # exit code of shells for SIGTERM: 128 + 15


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Raise SystemExit in the main thread when the process receives SIGTERM.

    In another thread this does nothing, as only the main thread can set signal handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 - signature of signal handlers
    raise SystemExit(TERMINATED)
