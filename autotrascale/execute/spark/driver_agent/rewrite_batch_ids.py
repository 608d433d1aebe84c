"""A copy of a checkpoint in which batches have other numbers, so that it goes on from where another one ended: for
Spark, for sinks that go by numbers, and for whoever starts it next and need know of nothing.

It is made in a folder that no query has run on. Of one that has, a thread of Spark's may be about to write a snapshot,
under the number that was right before.

    file                          is named by                 below its first number
    offsets/b, commits/b          its batch                   dropped: a query reads the newest two
    state/…/v.zip, v.changelog    the version after a batch   dropped: what the newest needs begins with a snapshot
    all others                    what is in them             as they are
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.driver_agent.checkpoint_folder import STATE_FILE
from autotrascale.execute.spark.driver_agent.copy_checkpoint import copy_checkpoint

_ENTRY = re.compile(r"(\d+)()()")


def rewrite_batch_ids(original: Path, target: Path, by: int) -> None:
    """As of the newest commit, each batch with a number that is higher by so much, or lower."""
    copy_checkpoint(original, target)
    for folder in ("offsets", "commits"):
        _rename(target / folder, _ENTRY, by, first=0)
    for place, _, _ in os.walk(target / "state"):
        _rename(Path(place), STATE_FILE, by, first=1)


def _rename(folder: Path, names: re.Pattern[str], by: int, first: int) -> None:
    """Those that are in each other's way last."""
    found = [(int(match.group(1)), match) for name in os.listdir(folder) if (match := names.fullmatch(name))]
    for number, match in sorted(found, key=lambda each: each[0], reverse=by > 0):
        name = match.group(0)
        if match.group(2):
            raise EngineError(f"{folder / name}: names its version by an id of its own, and cannot be given another")
        to = f"{number + by}{name.removeprefix(match.group(1))}"
        for file, new in _with_checksum(folder, name, to):
            if number + by < first:
                file.unlink()
            else:
                file.rename(new)


def _with_checksum(folder: Path, name: str, to: str) -> Iterable[tuple[Path, Path]]:
    """The checksum first: a file without one is not checked, one with another's does not fit it."""
    pairs = [(folder / f".{name}.crc", folder / f".{to}.crc"), (folder / name, folder / to)]
    return [pair for pair in pairs if pair[0].exists()]
