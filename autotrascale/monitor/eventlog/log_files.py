"""Which files are logs, and which of them make up one log.

    file                                   log
    app-1.zstd, app-1.inprogress, app-1    app-1
    eventlog_v2_app-1/events_2_app-1.zstd  eventlog_v2_app-1, part 2
    progress.jsonl                         progress.jsonl

Numbers of stages and jobs are only unique within one log, so every row carries its log's number. Work is given out in
pieces: a plain file is cut, a compressed one cannot be; a rolling log comes in parts anyway.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import unquote

from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType, LocalFileSystem

from autotrascale.domain.errors import InputError
from autotrascale.monitor.eventlog.damage import Damage
from autotrascale.monitor.eventlog.local_files import LocalFiles

_CODECS = {".zstd": "zstd", ".zst": "zstd", ".gz": "gzip"}
_UNREADABLE = (".lz4", ".lzf", ".snappy")  # Spark frames these in a way of its own that only Spark's driver reads
_UNFINISHED = re.compile(r"(\.inprogress|\.compact)+$")
_ENDINGS = re.compile(r"(\.inprogress|\.compact|\.zstd|\.zst|\.gz)+$")
_PART = re.compile(r"^events_(\d+)_")
_PIECE = 1 << 26  # bytes of a plain file that are read together
MOST_FILES = 1_000_000


@dataclass(frozen=True)
class LogFile:
    """One file: its path, or its address where it lies elsewhere, and the log it is a part of. `part` is 0 where logs
    do not roll."""

    number: int
    uri: str
    size: int
    log: int
    log_name: str
    part: int = 0


@dataclass(frozen=True)
class Piece:
    """What is read in one go: the lines of a file that begin in [start, end)."""

    file: int
    log: int
    uri: str
    start: int = 0
    end: float = math.inf


def open_filesystem(address: str) -> tuple[FileSystem, str]:
    """What an address lies on, and its path there."""
    if not is_address(address):
        return LocalFileSystem(), os.path.abspath(address)
    system, path = FileSystem.from_uri(address.replace("s3a://", "s3://", 1))
    return system, path


def is_address(path: str) -> bool:
    return "://" in path or path.startswith("file:")


def check_paths(paths: Sequence[str]) -> None:
    """Local paths must exist: asked before a JVM is started."""
    if not paths:
        raise InputError("event log", "is not named", remedy="give a file or a folder")
    for path in paths:
        if not is_address(path) and not os.path.exists(path):
            raise _missing(path)


def find_files(paths: Sequence[str]) -> tuple[list[LogFile], list[Damage]]:
    """Every readable file below `paths`, and what had better be known about the others."""
    check_paths(paths)
    local = LocalFiles()
    sizes: dict[str, int] = {}
    for path in paths:
        sizes |= _below(path, local)
    sizes |= local.files
    if len(sizes) > MOST_FILES:
        raise InputError(
            ", ".join(paths),
            f"holds more than {MOST_FILES:,} files",
            seen=len(sizes),
            remedy="give a part of them at a time",
        )
    damages = [_unreadable(uri) for uri in sorted(sizes) if _finished(uri).endswith(_UNREADABLE)] + local.damages
    files = number_files({uri: size for uri, size in sizes.items() if not _finished(uri).endswith(_UNREADABLE)})
    if not files:
        seen = {"seen": str(damages[0])} if damages else {}
        raise InputError(", ".join(paths), "holds no readable event log", remedy="give a log of Spark", **seen)
    return files, damages + list(find_missing_parts(files))


def number_files(sizes: Mapping[str, int]) -> list[LogFile]:
    """Files and logs by number, the parts of a log in their order."""
    logs: dict[str, int] = {}
    files = []
    for number, uri in enumerate(sorted(sizes, key=_order)):
        folder, _, name = uri.rpartition("/")
        part = _PART.match(name)
        rolling = part is not None and folder.rsplit("/", 1)[-1].startswith("eventlog_v2_")
        log = folder if rolling else _ENDINGS.sub("", uri)
        log_name = unquote(log.rsplit("/", 1)[-1]).removeprefix("eventlog_v2_")
        at = logs.setdefault(log, len(logs))
        files.append(LogFile(number, uri, sizes[uri], at, log_name, int(part[1]) if part else 0))
    return files


def pieces(files: Iterable[LogFile], size: int = _PIECE) -> list[Piece]:
    cut = []
    for file in files:
        starts = [0] if codec_of(file.uri) else range(0, max(1, file.size), size)
        ends = [*starts[1:], math.inf]  # a file that is being written may be longer by now
        cut += [Piece(file.number, file.log, file.uri, *span) for span in zip(starts, ends, strict=True)]
    return cut


def codec_of(uri: str) -> str | None:
    return _CODECS.get(os.path.splitext(_finished(uri))[1])


def find_missing_parts(files: Iterable[LogFile]) -> Iterable[Damage]:
    """A rolling log with a hole: its jobs on either side of it are used, what happened inside is not known."""
    by_log: dict[int, list[LogFile]] = {}
    for file in files:
        if file.part:
            by_log.setdefault(file.log, []).append(file)
    for parts in by_log.values():
        for before, after in pairwise(parts):
            if after.part > before.part + 1:
                hole = f"{before.part + 1} to {after.part - 1}" if after.part > before.part + 2 else str(after.part - 1)
                yield Damage(after.uri, f"comes after a part that is missing (part {hole})")


def _below(path: str, local: LocalFiles) -> dict[str, int]:
    """Files elsewhere by address, with their sizes; `local` takes those of this machine."""
    try:
        system, root = open_filesystem(path)
        if isinstance(system, LocalFileSystem):
            if not os.path.exists(root):
                raise _missing(path)
            local.walk(root, _is_somebodys)
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
    return info.type == FileType.File and all(map(_is_somebodys, within))


def _is_somebodys(name: str) -> bool:
    """As for Spark, a name that begins with a dot or an underscore is nobody's."""
    return not name.startswith((".", "_", "appstatus_"))


def _missing(path: str) -> InputError:
    return InputError(path, "does not exist", remedy="give an event log's file, its folder, or a folder of logs")


def _order(uri: str) -> tuple[str, int, str]:
    """By folder, then by part: 2 before 10."""
    folder, _, name = uri.rpartition("/")
    part = _PART.match(name)
    return folder, int(part[1]) if part else 0, name


def _finished(uri: str) -> str:
    """The name that a file will have when it is complete."""
    return _UNFINISHED.sub("", uri)


def _unreadable(uri: str) -> Damage:
    codec = _finished(uri).rsplit(".", 1)[-1]
    remedy = "write logs with spark.eventLog.compression.codec=zstd"
    return Damage(uri, f"is compressed with {codec}, which only Spark itself can read: {remedy}")
