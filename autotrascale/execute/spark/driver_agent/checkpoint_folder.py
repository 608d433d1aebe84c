"""Reading and mending the folder of a checkpoint, wherever it is: by the file systems that Spark itself uses. They also
keep the checksums beside the files in order. `query/checkpoint.py` says what is found there.

A folder on this machine's disk is read without them: a query stands still meanwhile, and each question to the JVM takes
as long as reading the whole folder."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from autotrascale.execute.spark.common.checkpoint_facts import CheckpointFacts, LogEntry, PlannedBatch, StateStoreFacts

_NEWEST = 16  # entries of each folder: a job that an earlier version left behind was started again a few times
_PARTITIONS = "spark.sql.shuffle.partitions"
STATE_FILE = re.compile(r"(\d+)(_[^.]*)?\.(changelog|zip|delta|snapshot)")  # of state, as its files are called


class CheckpointFolder:
    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self._jvm: Any = spark._jvm
        self._root = checkpoint.rstrip("/")
        configuration = spark._jsc.hadoopConfiguration()
        self._files: Any = self._path("").getFileSystem(configuration)
        local = str(self._files.getUri().getScheme()) == "file"
        self._here = Path(str(self._path("").toUri().getPath())) if local else None

    def read(self) -> CheckpointFacts:
        batches = _newest(self._numbers("offsets"))
        planned = tuple(parse_planned_batch(batch, self._text(f"offsets/{batch}")) for batch in batches)
        oldest = min(batches, default=0)
        return CheckpointFacts(planned, tuple(_newest(self._numbers("commits"))), tuple(self._stores(oldest)))

    def newest_commit(self) -> int | None:
        return max(self._numbers("commits"), default=None)

    def setting(self, name: str) -> str:
        """What the newest batch that is planned runs with; empty where nothing is said."""
        batches = self._numbers("offsets")
        return parse_batch_settings(self._text(f"offsets/{batches[-1]}")).get(name, "") if batches else ""

    def forget(self, entries: Iterable[LogEntry]) -> None:
        for entry in entries:
            self._files.delete(self._path(f"{entry.folder}/{entry.batch}"), False)

    def _stores(self, oldest: int) -> Iterable[StateStoreFacts]:
        """A partition holds the versions of its one store, or a folder for each of several."""
        for operator in self._numbers("state"):
            for part in self._numbers(f"state/{operator}"):
                place = f"state/{operator}/{part}"
                names = self._names(place)
                if versions := _versions(names):
                    yield StateStoreFacts(str(operator), part, _after(oldest, versions))
                    continue
                for name in names:
                    if versions := _versions(self._names(f"{place}/{name}")):
                        yield StateStoreFacts(f"{operator}/{name}", part, _after(oldest, versions))

    def _numbers(self, folder: str) -> list[int]:
        return sorted(int(name) for name in self._names(folder) if name.isdecimal())

    def _names(self, folder: str) -> list[str]:
        """Without hidden ones. Of a file, or where there is nothing: none."""
        return [name for name in self._all_names(folder) if not name.startswith(".")]

    def _all_names(self, folder: str) -> list[str]:
        """The whole list is one answer of the JVM's: state has thousands of files."""
        if self._here is not None:
            try:
                return os.listdir(self._here / folder)
            except (FileNotFoundError, NotADirectoryError):
                return []
        path = self._path(folder)
        if not self._files.exists(path) or not self._files.getFileStatus(path).isDirectory():
            return []
        paths = self._jvm.org.apache.hadoop.fs.FileUtil.stat2Paths(self._files.listStatus(path))
        listed = str(self._jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray(paths).mkString("\n"))
        return [line.rpartition("/")[2] for line in listed.splitlines()]

    def _text(self, file: str) -> str:
        if self._here is not None:
            return (self._here / file).read_text(encoding="utf-8")
        stream = self._files.open(self._path(file))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def _path(self, below: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._root}/{below}" if below else self._root)


def parse_planned_batch(batch: int, text: str) -> PlannedBatch:
    """An entry of the offset log: a line for the version of its format, one for what the batch ran with, and one for
    each source."""
    _, _, rest = text.partition("\n")
    sources = rest.partition("\n")[2]
    partitions = parse_batch_settings(text).get(_PARTITIONS, "")
    return PlannedBatch(batch, int(partitions) if partitions.isdecimal() else 0, sources.strip())


def parse_batch_settings(text: str) -> dict[str, str]:
    """Those of Spark's that such an entry says."""
    try:
        said = json.loads(text.splitlines()[1])["conf"]
        return {str(name): str(value) for name, value in said.items()}
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return {}


def _newest(numbers: list[int]) -> list[int]:
    return numbers[-_NEWEST:]


def _versions(names: Iterable[str]) -> set[int]:
    return {int(match.group(1)) for name in names if (match := STATE_FILE.fullmatch(name))}


def _after(oldest: int, versions: set[int]) -> tuple[int, ...]:
    return tuple(sorted(version for version in versions if version > oldest))
