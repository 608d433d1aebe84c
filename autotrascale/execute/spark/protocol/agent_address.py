"""Where a program's agent is found: a socket in a folder that only its owner can enter.

The path of a Unix socket is at most a hundred characters long, which folders need not heed; it is reached through an
open descriptor of its folder instead.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import cast, get_args

from autotrascale.domain.errors import InputError
from autotrascale.plan.migration.rescale_mode import RescaleMode

SOCKET_NAME = "agent.sock"
FOLDER_VARIABLE = "AUTOTRASCALE_PROGRAM"
"""Names the folder to the program."""
EXECUTORS_VARIABLE = "AUTOTRASCALE_EXECUTORS"
"""MIN:MAX that the program may have."""
RESCALE_VARIABLE = "AUTOTRASCALE_RESCALE"
"""How its queries are rescaled: in place, or overlapped where that can be done."""
APPLY_VARIABLE = "AUTOTRASCALE_APPLY"
"""Whether its queries may be moved, or are watched only."""
MEMORY_METRICS_VARIABLE = "AUTOTRASCALE_MEASURED"
"""Whether Spark shall tell what its executors use of their memory."""


def parse_rescale_method(said: str) -> RescaleMode:
    """In words, as `RESCALE` and an option have it."""
    for known in get_args(RescaleMode):
        if said == known:
            return cast("RescaleMode", known)
    remedy = f"take one of: {', '.join(get_args(RescaleMode))}"
    raise InputError("rescale", "is no way to rescale", seen=said, remedy=remedy)


def listen(folder: Path) -> socket.socket:
    """What an earlier process left there goes."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    (folder / SOCKET_NAME).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    with _short(folder) as path:
        listener.bind(path)
    listener.listen()
    return listener


def connect(folder: Path) -> socket.socket:
    """Raises `OSError` where nobody listens."""
    end = socket.socket(socket.AF_UNIX)
    try:
        with _short(folder) as path:
            end.connect(path)
    except OSError:
        end.close()
        raise
    return end


@contextlib.contextmanager
def _short(folder: Path) -> Iterator[str]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET_NAME}"
    finally:
        os.close(descriptor)
