"""Files that are written completely or not at all, and locks that one process holds at a time."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # constants of Linux


def write_atomically(path: Path, text: str) -> None:
    """Replace the file at `path` by `text`. A reader sees the old or the new file, also after a crash.

    The text is written to a draft in the same folder, which is renamed when it is on the disk. A failed write removes
    its draft.
    """
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
    """Create a file at `path` with `text`. A failed write removes the file.

    Raises:
        FileExistsError: the file exists; it stays unchanged, also when another process creates it at the same time.
    """
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
    """Return the path of this process's draft, so that two processes never write into the same draft."""
    return path.with_name(f"{path.name}.{os.getpid()}.part")


def exchange_paths(one: Path, other: Path) -> None:
    """Exchange two paths in one step, so that neither is ever missing. Python has no such function.

    Raises:
        OSError: the operating system or the file system does not support it.
    """
    rename: Callable[..., int] | None = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), str(one))
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(one), None, str(other))


class FileLock:
    """A lock on a file that the kernel releases when its process ends, for any reason. The file stays.

    Args:
        path: the lock file, created if necessary.
        mode: permissions of a new file, default 0o644.
    """

    def __init__(self, path: Path, mode: int = 0o644) -> None:
        self.path = path
        # O_NOFOLLOW: in a shared folder, a link of another user might lead anywhere.
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, mode)

    def acquire(self, *, wait: bool = True) -> bool:
        """Acquire the lock. Return False when another process holds it and `wait` is False."""
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Release the lock. It can be acquired again."""
        fcntl.flock(self._handle, fcntl.LOCK_UN)

    def close(self) -> None:
        """Release the lock and close the file. A second call has no effect."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock on `path` in a `with` block, after waiting for other processes."""
    lock = FileLock(path)
    try:
        lock.acquire()
        yield
    finally:
        lock.close()
