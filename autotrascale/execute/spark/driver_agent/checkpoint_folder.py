"""The folder of a checkpoint, on any file system that Spark can use.

A folder on a local disk is read directly: a query may be stopped meanwhile, and each call to the JVM takes as long as
reading the whole folder. Files are removed through Spark's file systems, which also remove the checksum beside a file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from autotrascale.execute.spark.common.checkpoint_facts import CheckpointFacts, PlannedBatch, StateStoreFacts

_NEWEST_ENTRIES = 16  # of each log; decisions need the newest two
_PARTITIONS = "spark.sql.shuffle.partitions"
STATE_FILE = re.compile(
    r"(\d+)(_[^.]*)?\.(changelog|zip|delta|snapshot)"
)  # name of a state file: its version, and what it is


class CheckpointFolder:
    """A checkpoint that is read and changed through `spark`."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self._jvm: Any = spark._jvm
        self._root = checkpoint.rstrip("/")
        configuration = spark._jsc.hadoopConfiguration()
        self._files: Any = self._path("").getFileSystem(configuration)
        local = str(self._files.getUri().getScheme()) == "file"
        self._local = Path(str(self._path("").toUri().getPath())) if local else None

    def read(self) -> CheckpointFacts:
        """Return the newest entries and the state versions that belong to them."""
        batches = self._numbers("offsets")[-_NEWEST_ENTRIES:]
        planned = tuple(parse_planned_batch(batch, self._text(f"offsets/{batch}")) for batch in batches)
        oldest = min(batches, default=0)
        return CheckpointFacts(planned, tuple(self._numbers("commits")[-_NEWEST_ENTRIES:]), tuple(self._stores(oldest)))

    def newest_commit(self) -> int | None:
        """Return the number of the newest committed batch, if any."""
        return max(self._numbers("commits"), default=None)

    def setting(self, name: str) -> str:
        """Return the Spark setting `name` of the newest planned batch, or an empty string."""
        batches = self._numbers("offsets")
        return parse_batch_settings(self._text(f"offsets/{batches[-1]}")).get(name, "") if batches else ""

    def remove_planned(self, batch: int) -> None:
        """Remove an open batch from the plan, so that Spark plans it anew."""
        self._files.delete(self._path(f"offsets/{batch}"), False)

    def _stores(self, oldest: int) -> Iterable[StateStoreFacts]:
        """Yield the stores. A partition has the files of its one store, or a folder for each of several stores."""
        for operator in self._numbers("state"):
            for part in self._numbers(f"state/{operator}"):
                place = f"state/{operator}/{part}"
                names = self._names(place)
                if versions := _versions(names):
                    yield StateStoreFacts(str(operator), part, _newer_than(oldest, versions))
                    continue
                for name in names:
                    if versions := _versions(self._names(f"{place}/{name}")):
                        yield StateStoreFacts(f"{operator}/{name}", part, _newer_than(oldest, versions))

    def _numbers(self, folder: str) -> list[int]:
        return sorted(int(name) for name in self._names(folder) if name.isdecimal())

    def _names(self, folder: str) -> list[str]:
        """Return the visible names in a folder; none for a file, or if nothing is there."""
        return [name for name in self._all_names(folder) if not name.startswith(".")]

    def _all_names(self, folder: str) -> list[str]:
        if self._local is not None:
            try:
                return os.listdir(self._local / folder)
            except (FileNotFoundError, NotADirectoryError):
                return []
        path = self._path(folder)
        if not self._files.exists(path) or not self._files.getFileStatus(path).isDirectory():
            return []
        paths = self._jvm.org.apache.hadoop.fs.FileUtil.stat2Paths(self._files.listStatus(path))
        # One call for the whole list: state has thousands of files.
        listed = str(self._jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray(paths).mkString("\n"))
        return [line.rpartition("/")[2] for line in listed.splitlines()]

    def _text(self, file: str) -> str:
        if self._local is not None:
            return (self._local / file).read_text(encoding="utf-8")
        stream = self._files.open(self._path(file))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def _path(self, below: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._root}/{below}" if below else self._root)


def parse_planned_batch(batch: int, text: str) -> PlannedBatch:
    """Parse an entry of the offset log: format version, settings of the batch, and one line for each source."""
    _, _, rest = text.partition("\n")
    sources = rest.partition("\n")[2]
    partitions = parse_batch_settings(text).get(_PARTITIONS, "")
    return PlannedBatch(batch, int(partitions) if partitions.isdecimal() else 0, sources.strip())


def parse_batch_settings(text: str) -> dict[str, str]:
    """Return the Spark settings in an entry of the offset log; none if they cannot be read."""
    try:
        settings = json.loads(text.splitlines()[1])["conf"]
        return {str(name): str(value) for name, value in settings.items()}
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return {}


def _versions(names: Iterable[str]) -> set[int]:
    return {int(match.group(1)) for name in names if (match := STATE_FILE.fullmatch(name))}


def _newer_than(oldest: int, versions: set[int]) -> tuple[int, ...]:
    return tuple(sorted(version for version in versions if version > oldest))
