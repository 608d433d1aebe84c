"""Where the checkpoint of an adopted query stands, when another query may take over from it.

    beside each other           while its query runs                              before and after
    checkpoint                  a link to the live one                            the checkpoint itself
    .checkpoint.generations/    the live one, and those that are made of copies   not there

The program names `checkpoint` in its script, and that name is the truth: Spark follows it, with us and without. A
hand-over points it to another generation, in one rename; what it does not point to is rubbish, which whoever opens it
next removes. A query runs in the folder of its generation and never by the name, so that what is left of an earlier run
of it writes to rubbish. The name and the folder change places in one step too, and only while no query runs.
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

_MOST_LINKS = 40  # that follow one another, as Linux has it
_opened: dict[
    Path, CheckpointLink
] = {}  # a program may start its query again before it is known that its last run has ended
_changing = threading.RLock()


class CheckpointLink:
    """`name` is the path in the script; a link of the author's own is followed to where it leads."""

    def __init__(self, name: Path) -> None:
        self.name = _without_links(name)
        self._generations = _generations(self.name)

    @property
    def live(self) -> Path:
        """The folder itself, wherever it stands now."""
        return self._generations / os.readlink(self.name).rpartition("/")[2] if self.name.is_symlink() else self.name

    def open(self) -> Path:
        """The name is a link from now on. The folder that it leads to, for a query to run in."""
        with _changing:
            try:
                self._open()
            except OSError as problem:
                raise EngineError(f"{self.name}: cannot be made a link ({problem.strerror or problem})") from problem
            _opened[self.name] = self
            self.remove_others()
            return self.live

    def fresh(self) -> Path:
        """For a generation to come. No name is used twice."""
        return self._generations / uuid4().hex[:12]

    def make_live(self, generation: Path) -> None:
        """The hand-over."""
        draft = self.fresh()
        draft.symlink_to(self._target(generation))
        draft.replace(self.name)

    def remove_others(self) -> None:
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
        """The name is the folder again, and nothing is beside it. Not while a later run of the query has it open."""
        with _changing:
            if _opened.get(self.name, self) is not self:
                return
            _opened.pop(self.name, None)
            live = self.live
            if live != self.name:
                live.mkdir(exist_ok=True)  # should somebody have removed it
                exchange_paths(live, self.name)
            shutil.rmtree(self._generations, ignore_errors=True)

    def _open(self) -> None:
        self._generations.mkdir(parents=True, exist_ok=True)
        if not self.name.is_symlink():
            self.name.mkdir(exist_ok=True)
            generation = self.fresh()
            generation.symlink_to(self._target(generation))
            exchange_paths(generation, self.name)
        self.live.mkdir(exist_ok=True)

    def _target(self, generation: Path) -> str:
        """As it is seen from the name, so that both can be moved together with the folder that they stand in."""
        return f"{self._generations.name}/{generation.name}"


def find_checkpoint_link(spark: SparkSession, checkpoint: str) -> CheckpointLink | None:
    """None where it is not on this machine's disk."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(checkpoint)
    files = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    if str(files.getUri().getScheme()) != "file":
        return None
    return CheckpointLink(Path(str(files.makeQualified(path).toUri().getPath())))


def _generations(name: Path) -> Path:
    return name.with_name(f".{name.name}.generations")


def _without_links(name: Path) -> Path:
    for _ in range(_MOST_LINKS):
        name = name.parent.resolve() / name.name
        if not name.is_symlink() or (name.parent / os.readlink(name)).parent == _generations(name):
            return name
        name = name.parent / os.readlink(name)
    raise EngineError(f"{name}: is a link that leads in a circle")
