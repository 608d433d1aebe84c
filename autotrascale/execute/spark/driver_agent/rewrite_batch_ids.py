"""A copy of a checkpoint with other batch numbers, which continues where another checkpoint ended.

Spark, sinks that know batch numbers, and a later start of the query see one sequence of numbers without a gap.

The copy is made in a folder that no query has used. In a used folder, a thread of Spark may still write a snapshot
under an old number.

    file                          number in its name          negative numbers after the shift
    offsets/b, commits/b          its batch                   dropped: a query reads the newest two
    state/…/v.zip, v.changelog    the version after a batch   dropped: the newest version begins with a snapshot
    other files                   none                        kept as they are
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
    """Copy `original` as of its newest commit, and add `by` to each batch number."""
    copy_checkpoint(original, target)
    for folder in ("offsets", "commits"):
        _rename(target / folder, _ENTRY, by, first=0)
    for place, _, _ in os.walk(target / "state"):
        _rename(Path(place), STATE_FILE, by, first=1)


def _rename(folder: Path, names: re.Pattern[str], by: int, first: int) -> None:
    """Rename the files of a folder, in an order that never overwrites a file."""
    found = [(int(match.group(1)), match) for name in os.listdir(folder) if (match := names.fullmatch(name))]
    for number, match in sorted(found, key=lambda each: each[0], reverse=by > 0):
        name = match.group(0)
        if match.group(2):
            raise EngineError(f"{folder / name}: has an id in its name, so its version cannot be changed")
        to = f"{number + by}{name.removeprefix(match.group(1))}"
        for file, new in _with_checksum(folder, name, to):
            if number + by < first:
                file.unlink()
            else:
                file.rename(new)


def _with_checksum(folder: Path, name: str, to: str) -> Iterable[tuple[Path, Path]]:
    """Return the renames of a file and its checksum. The checksum is first: a file without one is not checked."""
    pairs = [(folder / f".{name}.crc", folder / f".{to}.crc"), (folder / name, folder / to)]
    return [pair for pair in pairs if pair[0].exists()]
