"""Files of this machine below a folder: each file once, and nothing that has no end.

A folder of logs belongs to another system. It may hold links in a circle, a pipe without a writer, or a device.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from autotrascale.domain.errors import InputError
from autotrascale.monitor.eventlog.damage import Damage

_Inode = tuple[int, int]
_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


class LocalFiles:
    """The files below some folders. `files` maps addresses to sizes; `damages` names everything that was left out."""

    def __init__(self) -> None:
        self.files: dict[str, int] = {}
        self.damages: list[Damage] = []
        self._folders: dict[_Inode, str] = {}
        self._seen: dict[_Inode, str] = {}

    def walk(self, root: str, wanted: Callable[[str], bool]) -> None:
        """Add the files below `root`. `wanted` decides about each name in a folder.

        Raises `InputError` where `root` itself is missing, or is neither a file nor a folder.
        """
        try:
            status = os.stat(root)
        except OSError as error:
            raise InputError(root, "cannot be read", seen=error.strerror, remedy="give another path") from None
        if kind := find_special_kind(status):
            raise InputError(root, f"is {kind} and no file", remedy="give an event log's file, or a folder of logs")
        if not stat.S_ISDIR(status.st_mode):
            self._file(root, status)
            return
        todo = [root]
        while todo:
            folder = todo.pop()
            todo += reversed(list(self._within(folder, wanted)))

    def _within(self, folder: str, wanted: Callable[[str], bool]) -> Iterator[str]:
        """Add the files of a folder, and yield its folders."""
        try:
            status = os.stat(folder)
            first = self._folders.setdefault(_inode(status), folder)
            if first != folder:
                self.damages.append(Damage(folder, f"leads to {first}, which is read already: not followed"))
                return
            names = sorted(os.listdir(folder))
        except OSError as error:
            self.damages.append(Damage(folder, f"cannot be read: {error.strerror}"))
            return
        for name in names:
            path = os.path.join(folder, name)
            if not wanted(name):
                continue
            try:
                status = os.stat(path)
            except OSError as error:
                self.damages.append(Damage(path, f"cannot be read: {error.strerror}"))
                continue
            if stat.S_ISDIR(status.st_mode):
                yield path
            elif kind := find_special_kind(status):
                self.damages.append(Damage(path, f"is {kind} and no file: not read"))
            else:
                self._file(path, status)

    def _file(self, path: str, status: os.stat_result) -> None:
        first = self._seen.setdefault(_inode(status), path)
        if first == path:
            self.files[path] = status.st_size
        else:
            self.damages.append(Damage(path, f"is the same file as {first}: read once"))


def find_special_kind(status: os.stat_result) -> str:
    """Return the kind of something that is neither a file nor a folder; empty for a file or a folder."""
    return next((name for is_kind, name in _KINDS if is_kind(status.st_mode)), "")


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading. A pipe is refused with `InputError` and does not block."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if kind := find_special_kind(os.fstat(handle)):
        os.close(handle)
        raise InputError(str(path), f"is {kind} and no file", remedy="name the folder of an application's log")
    return os.fdopen(handle, "rb")


def _inode(status: os.stat_result) -> _Inode:
    return status.st_dev, status.st_ino
