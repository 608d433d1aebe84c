"""Files as every part of this program needs them: written whole or not at all, and locked by one process at a time."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


def write_atomically(path: Path, text: str) -> None:
    """A reader sees the file as it was or as it shall be, after a crash too: it is written beside, and renamed when it
    is on the disk. What was begun and failed leaves nothing behind."""
    draft = draft_path(path)
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def create_file(path: Path, text: str) -> None:
    """A file that is not there yet; else `FileExistsError`, and what is there stays as it is, also where somebody else
    makes it at the same moment. What was begun and failed leaves nothing behind."""
    with path.open("x", encoding="utf-8") as file:
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            with suppress(OSError):
                path.unlink(missing_ok=True)
            raise


def draft_path(path: Path) -> Path:
    """Of this process: two that write the same file at once do not write into one draft."""
    return path.with_name(f"{path.name}.{os.getpid()}.part")


def exchange_paths(one: Path, other: Path) -> None:
    """Two names, of whatever is there, in one step: at no moment is either of them missing. Python has no such call;
    `OSError` where this system or this disk has none either."""
    rename: Callable[..., int] | None = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), str(one))
    if rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(one), None, str(other))


class FileLock:
    """A lock that the kernel lets go of however its holder ends. The file stays; who can lock it may."""

    def __init__(self, path: Path, mode: int = 0o644) -> None:
        self.path = path
        # Not through a link that somebody else has put there: in a shared folder it might lead anywhere.
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, mode)

    def acquire(self, *, wait: bool = True) -> bool:
        """False where somebody else holds it and nobody wants to wait."""
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        fcntl.flock(self._handle, fcntl.LOCK_UN)

    def close(self) -> None:
        """Lets go of it for good; calling it twice is fine."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Waits for its turn."""
    lock = FileLock(path)
    try:
        lock.acquire()
        yield
    finally:
        lock.close()
