"""Make the checkpoint name of a user's query a symbolic link, so that another query can take over in one rename.

    path                       while the query runs                   before and after
    checkpoint                 link to the live generation            the checkpoint itself
    .checkpoint.generations/   the live generation and new copies     missing

The program names `checkpoint` in its script. Spark follows that name with AuTraScale and without. A hand-over points
the link to another generation in one rename. A generation without a link to it is rubbish, which the next opener
removes. A query runs in the folder of its generation and never by the name, so a leftover of an earlier run writes to
rubbish. Link and folder change places in one step too, and only while no query runs.
"""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from autotrascale.atomic_files import exchange_paths
from autotrascale.domain.errors import EngineError

_MAX_LINKS = 40  # that Linux follows one after the other
_opened: dict[Path, CheckpointLink] = {}  # a program may start its query again before the end of the last run is seen
_changing = threading.RLock()


class CheckpointLink:
    """The checkpoint name of one query and the generations behind it.

    `name` is the path in the script. A link of the author's own is followed to its target.
    """

    def __init__(self, name: Path) -> None:
        self.name = _follow_author_links(name)
        self._generations = _generations_folder(self.name)

    @property
    def live(self) -> Path:
        """Folder of the live generation."""
        return self._generations / os.readlink(self.name).rpartition("/")[2] if self.name.is_symlink() else self.name

    def open(self) -> Path:
        """Make the name a link, and return the folder for a query to run in. Raises `EngineError` if that fails."""
        with _changing:
            try:
                self._make_link()
            except OSError as problem:
                raise EngineError(f"{self.name}: cannot be made a link ({problem.strerror or problem})") from problem
            _opened[self.name] = self
            self.remove_others()
            return self.live

    def new_generation(self) -> Path:
        """Return a path for a new generation. No name is used twice."""
        return self._generations / uuid4().hex[:12]

    def make_live(self, generation: Path) -> None:
        """Point the name to `generation`: this is the hand-over."""
        draft = self.new_generation()
        draft.symlink_to(self._target(generation))
        draft.replace(self.name)

    def remove_others(self) -> None:
        """Remove all generations except the live generation."""
        with _changing, suppress(OSError):
            if not self.name.is_symlink():
                return
            for path in self._generations.iterdir():
                if path == self.live:
                    continue
                if path.is_symlink():
                    path.unlink()
                else:
                    shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        """Make the name the folder again, unless a later run of the query has the link open."""
        with _changing:
            if _opened.get(self.name, self) is not self:
                return
            _opened.pop(self.name, None)
            live = self.live
            if live != self.name:
                live.mkdir(exist_ok=True)  # it may have been removed by hand
                exchange_paths(live, self.name)
            shutil.rmtree(self._generations, ignore_errors=True)

    def _make_link(self) -> None:
        self._generations.mkdir(parents=True, exist_ok=True)
        if not self.name.is_symlink():
            self.name.mkdir(exist_ok=True)
            generation = self.new_generation()
            generation.symlink_to(self._target(generation))
            exchange_paths(generation, self.name)
        self.live.mkdir(exist_ok=True)

    def _target(self, generation: Path) -> str:
        # Relative, so that the folder around name and generations can be moved.
        return f"{self._generations.name}/{generation.name}"


def find_checkpoint_link(spark: SparkSession, checkpoint: str) -> CheckpointLink | None:
    """Return the link for a checkpoint on this machine's disk, or None for any other file system."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(checkpoint)
    files = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    if str(files.getUri().getScheme()) != "file":
        return None
    return CheckpointLink(Path(str(files.makeQualified(path).toUri().getPath())))


def _generations_folder(name: Path) -> Path:
    return name.with_name(f".{name.name}.generations")


def _follow_author_links(name: Path) -> Path:
    for _ in range(_MAX_LINKS):
        name = name.parent.resolve() / name.name
        if not name.is_symlink() or (name.parent / os.readlink(name)).parent == _generations_folder(name):
            return name
        name = name.parent / os.readlink(name)
    raise EngineError(f"{name}: is a link that leads in a circle")
