"""Which files are logs, and which of them make up one log.

    file                                   log
    app-1.zstd, app-1.inprogress, app-1    app-1
    eventlog_v2_app-1/events_2_app-1.zstd  eventlog_v2_app-1, part 2
    progress.jsonl                         progress.jsonl

Numbers of stages and jobs are only unique within one log, so every row carries its log's number. Spark's own readers
open plain files and zstd ones, local or not; a zstd file cannot be split, a rolling log can: at its parts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlparse

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from autotrascale.analyze.damage import Damage
from autotrascale.domain.errors import InputError

COMPRESSED = (".zstd", ".zst")
_UNREADABLE = (".lz4", ".lzf", ".snappy")  # Spark frames these in a way of its own that only Spark's driver reads
_ENDINGS = re.compile(r"(\.inprogress|\.compact|\.zstd|\.zst|\.gz)+$")
_FILES = "uri string, log int, log_name string"
_PART = re.compile(r"^events_(\d+)_")


@dataclass(frozen=True)
class LogFile:
    """One file, as Spark names it (`uri`), and the log it is a part of. `part` is 0 where logs do not roll."""

    number: int
    uri: str
    log: int
    log_name: str
    part: int = 0

    @property
    def name(self) -> str:
        return path_of(self.uri)


def path_of(uri: str) -> str:
    """file:///tmp/a%20b → /tmp/a b; other addresses stay as they are."""
    return unquote(urlparse(uri).path) if uri.startswith("file:") else uri


def check_paths(paths: Sequence[str]) -> None:
    """Local paths must exist: asked before a JVM is started. Addresses with a scheme are Spark's to judge."""
    if not paths:
        raise InputError("event log", "is not named", remedy="give a file or a folder")
    for path in paths:
        if not urlparse(path).scheme and not os.path.exists(path):
            raise InputError(path, "does not exist", remedy="give an event log's file, its folder, or a folder of logs")


def find_files(spark: SparkSession, paths: Sequence[str]) -> tuple[list[LogFile], list[Damage]]:
    """Every readable file below `paths`, and what had better be known about the others."""
    check_paths(paths)
    addresses = [path if urlparse(path).scheme else Path(path).resolve().as_uri() for path in paths]
    try:
        uris = set(spark.read.option("recursiveFileLookup", "true").text(addresses).inputFiles())
    except AnalysisException as error:
        raise InputError(", ".join(paths), "cannot be read", seen=str(error).splitlines()[0]) from None
    uris = {uri for uri in uris if not uri.rsplit("/", 1)[-1].startswith("appstatus_")}
    damages = [_unreadable(uri) for uri in sorted(uris) if uri.endswith(_UNREADABLE)]
    files = number_files([uri for uri in uris if not uri.endswith(_UNREADABLE)])
    if not files:
        seen = {"seen": damages[0].file} if damages else {}
        raise InputError(", ".join(paths), "holds no readable event log", remedy="give a log of Spark", **seen)
    return files, damages + list(missing_parts(files))


def files_table(spark: SparkSession, files: Iterable[LogFile]) -> DataFrame:
    """Columns `uri`, `log`, `log_name`."""
    return spark.createDataFrame([(file.uri, file.log, file.log_name) for file in files], _FILES)


def spellings(spark: SparkSession, files: Iterable[LogFile]) -> DataFrame:
    """Columns `uri`, `file`, `log`: Spark's readers call one file file:/tmp/x here and file:///tmp/x there."""
    rows = [
        (uri, file.number, file.log)
        for file in files
        for uri in {file.uri, re.sub("^file:/+", "file:/", file.uri), re.sub("^file:/+", "file:///", file.uri)}
    ]
    return spark.createDataFrame(rows, "uri string, file int, log int")


def number_files(uris: Iterable[str]) -> list[LogFile]:
    """Files and logs by number, the parts of a log in their order."""
    logs: dict[str, int] = {}
    files = []
    for number, uri in enumerate(sorted(uris, key=_order)):
        folder, _, name = uri.rpartition("/")
        part = _PART.match(name)
        rolling = part is not None and folder.rsplit("/", 1)[-1].startswith("eventlog_v2_")
        log = folder if rolling else _ENDINGS.sub("", uri)
        log_name = unquote(log.rsplit("/", 1)[-1]).removeprefix("eventlog_v2_")
        files.append(LogFile(number, uri, logs.setdefault(log, len(logs)), log_name, int(part[1]) if part else 0))
    return files


def _order(uri: str) -> tuple[str, int, str]:
    """By folder, then by part: 2 before 10."""
    folder, _, name = uri.rpartition("/")
    part = _PART.match(name)
    return folder, int(part[1]) if part else 0, name


def _unreadable(uri: str) -> Damage:
    codec = uri.rsplit(".", 1)[-1]
    remedy = "write logs with spark.eventLog.compression.codec=zstd"
    return Damage(path_of(uri), f"is compressed with {codec}, which only Spark itself can read: {remedy}")


def missing_parts(files: Iterable[LogFile]) -> Iterable[Damage]:
    """A rolling log with a hole: its jobs on either side of it are used, what happened inside is not known."""
    by_log: dict[int, list[LogFile]] = {}
    for file in files:
        if file.part:
            by_log.setdefault(file.log, []).append(file)
    for parts in by_log.values():
        for before, after in pairwise(parts):
            if after.part > before.part + 1:
                hole = f"{before.part + 1} to {after.part - 1}" if after.part > before.part + 2 else str(after.part - 1)
                yield Damage(after.name, f"comes after a part that is missing (part {hole})")
