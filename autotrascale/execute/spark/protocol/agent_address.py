"""The Unix socket of a program's agent, in a folder that only its owner can enter.

The path of a Unix socket has at most about a hundred characters. So the socket is reached through an open descriptor of
its folder, whose path may be longer.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

SOCKET_NAME = "agent.sock"


def listen(folder: Path) -> socket.socket:
    """Open the socket in `folder`, which is created if needed. The socket of an earlier process is removed."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    (folder / SOCKET_NAME).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    with _short_path(folder) as path:
        listener.bind(path)
    listener.listen()
    return listener


def connect(folder: Path) -> socket.socket:
    """Connect to the agent of the program in `folder`. Raises `OSError` if no agent listens."""
    end = socket.socket(socket.AF_UNIX)
    try:
        with _short_path(folder) as path:
            end.connect(path)
    except OSError:
        end.close()
        raise
    return end


@contextlib.contextmanager
def _short_path(folder: Path) -> Iterator[str]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET_NAME}"
    finally:
        os.close(descriptor)
