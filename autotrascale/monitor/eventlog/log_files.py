"""Event log files, and the logs that they make up.

file                                   log
app-1.zstd, app-1.inprogress, app-1    app-1
eventlog_v2_app-1/events_2_app-1.zstd  eventlog_v2_app-1, part 2
progress.jsonl                         progress.jsonl
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from urllib.parse import unquote

from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType, LocalFileSystem

from autotrascale.domain.errors import InputError
from autotrascale.monitor.eventlog.damage import Damage
from autotrascale.monitor.eventlog.local_files import LocalFiles

_CODECS = {".zstd": "zstd", ".zst": "zstd", ".gz": "gzip"}
_UNREADABLE = (".lz4", ".lzf", ".snappy")  # Spark frames these in its own way, which only Spark's driver reads
_UNFINISHED = re.compile(r"(\.inprogress|\.compact)+$")
_ENDINGS = re.compile(r"(\.inprogress|\.compact|\.zstd|\.zst|\.gz)+$")
_PART = re.compile(r"^events_(\d+)_")
_INFLATION = 20  # times the size of a compressed log is the usual size of its text
MOST_FILES = 1_000_000


@dataclass(frozen=True)
class LogFile:
    """One file of a log: `uri` is its path, or its address on another file system.

    `size` is in bytes. `log` numbers the logs. `part` is 0 where logs do not roll.
    """

    uri: str
    size: int
    log: int
    log_name: str
    part: int = 0

    @property
    def text_bytes(self) -> int:
        """An estimate of the decompressed size."""
        return self.size * _INFLATION if codec_of(self.uri) else self.size


def open_filesystem(address: str) -> tuple[FileSystem, str]:
    """Return the file system that an address lies on, and the path there."""
    if not is_address(address):
        return LocalFileSystem(), os.path.abspath(address)
    system, path = FileSystem.from_uri(address.replace("s3a://", "s3://", 1))
    return system, path


def is_address(path: str) -> bool:
    """Tell whether `path` names a file system, as in "s3a://…"."""
    return "://" in path or path.startswith("file:")


def check_paths(paths: Sequence[str]) -> None:
    """Raise `InputError` unless each local path exists. This is checked before a JVM is started."""
    if not paths:
        raise InputError("event log", "is not named", remedy="give a file or a folder")
    for path in paths:
        if not is_address(path) and not os.path.exists(path):
            raise _missing(path)


def find_logs(paths: Sequence[str]) -> tuple[list[list[LogFile]], list[Damage]]:
    """Return the files below `paths` log by log, and the files that cannot be read (see `find_files`)."""
    files, damages = find_files(paths)
    return [list(own) for _, own in groupby(files, key=lambda file: file.log)], damages


def find_files(paths: Sequence[str]) -> tuple[list[LogFile], list[Damage]]:
    """Return every readable file below `paths` in the order of logs and parts, and what is wrong with the other files.

    Raises `InputError` where there is no readable file.
    """
    check_paths(paths)
    local = LocalFiles()
    sizes: dict[str, int] = {}
    for path in paths:
        sizes |= _sizes_below(path, local)
    sizes |= local.files
    if len(sizes) > MOST_FILES:
        problem = f"holds more than {MOST_FILES:,} files"
        raise InputError(", ".join(paths), problem, seen=len(sizes), remedy="give a part of them at a time")
    damages = [_unreadable(uri) for uri in sorted(sizes) if _finished(uri).endswith(_UNREADABLE)] + local.damages
    files = number_files({uri: size for uri, size in sizes.items() if not _finished(uri).endswith(_UNREADABLE)})
    if not files:
        seen = {"seen": str(damages[0])} if damages else {}
        raise InputError(", ".join(paths), "holds no readable event log", remedy="give a log of Spark", **seen)
    return files, damages + list(find_missing_parts(files))


def number_files(sizes: Mapping[str, int]) -> list[LogFile]:
    """Return a `LogFile` for each address, with logs numbered and the parts of a log in their order."""
    logs: dict[str, int] = {}
    files = []
    for uri in sorted(sizes, key=_order):
        folder, _, name = uri.rpartition("/")
        part = _PART.match(name)
        rolling = part is not None and folder.rsplit("/", 1)[-1].startswith("eventlog_v2_")
        log = folder if rolling else _ENDINGS.sub("", uri)
        log_name = unquote(log.rsplit("/", 1)[-1]).removeprefix("eventlog_v2_")
        number = logs.setdefault(log, len(logs))
        files.append(LogFile(uri, sizes[uri], number, log_name, int(part[1]) if part else 0))
    return sorted(files, key=lambda file: file.log)


def codec_of(uri: str) -> str | None:
    """Return the name of the compression of a file, None where it is plain text."""
    return _CODECS.get(os.path.splitext(_finished(uri))[1])


def find_missing_parts(files: Iterable[LogFile]) -> Iterable[Damage]:
    """Yield the holes in rolling logs. Jobs on either side of a hole are used; jobs inside are unknown."""
    by_log: dict[int, list[LogFile]] = {}
    for file in files:
        if file.part:
            by_log.setdefault(file.log, []).append(file)
    for parts in by_log.values():
        for before, after in pairwise(parts):
            if after.part > before.part + 1:
                hole = f"{before.part + 1} to {after.part - 1}" if after.part > before.part + 2 else str(after.part - 1)
                yield Damage(after.uri, f"comes after a part that is missing (part {hole})")


def _sizes_below(path: str, local: LocalFiles) -> dict[str, int]:
    """Return the files on other file systems with their sizes; files of this machine are added to `local`."""
    try:
        system, root = open_filesystem(path)
        if isinstance(system, LocalFileSystem):
            if not os.path.exists(root):
                raise _missing(path)
            local.walk(root, _is_visible)
            return {}
        top = system.get_file_info(root)
        found = system.get_file_info(FileSelector(root, recursive=True)) if top.type == FileType.Directory else [top]
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(path, "cannot be read", seen=str(error).splitlines()[0]) from None
    if top.type == FileType.NotFound:
        raise _missing(path)
    before, after = path.rsplit(root, 1)
    return {f"{before}{info.path}{after}": info.size for info in found if _is_log(info, root)}


def _is_log(info: FileInfo, root: str) -> bool:
    within = info.path.removeprefix(root).split("/")
    return info.type == FileType.File and all(map(_is_visible, within))


def _is_visible(name: str) -> bool:
    """Leave out hidden files, as Spark does, and the markers of rolling logs."""
    return not name.startswith((".", "_", "appstatus_"))


def _missing(path: str) -> InputError:
    return InputError(path, "does not exist", remedy="give an event log's file, its folder, or a folder of logs")


def _order(uri: str) -> tuple[str, int, str]:
    """Sort by folder, then by part: 2 before 10."""
    folder, _, name = uri.rpartition("/")
    part = _PART.match(name)
    return folder, int(part[1]) if part else 0, name


def _finished(uri: str) -> str:
    """Return the name that a file has when it is complete."""
    return _UNFINISHED.sub("", uri)


def _unreadable(uri: str) -> Damage:
    codec = _finished(uri).rsplit(".", 1)[-1]
    remedy = "write logs with spark.eventLog.compression.codec=zstd"
    return Damage(uri, f"is compressed with {codec}, which only Spark itself can read: {remedy}")
