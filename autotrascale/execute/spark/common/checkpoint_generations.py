"""Which of a job's checkpoints is the live one.

    in the job's folder     what it is
    checkpoint              generation 0, which a job begins with
    checkpoint-1, -2, …     made from a copy of the one before, brought to another parallelism, and caught up with it
    generation.json         names the live one, and says which part of its output is its own

The file is replaced by a rename, and that is the hand-over: before it the old generation is whole and the copy is
rubbish, after it the copy is whole and the old one is rubbish. Rubbish is removed by whoever starts next. A generation
writes nothing before it is the live one, and its predecessor nothing after.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path

from autotrascale import validation
from autotrascale.atomic_files import write_atomically

_FILE = "generation.json"
_FIRST = "checkpoint"


@dataclass(frozen=True)
class VisibleBatches:
    """Batches behind `after` go to the sink, the others were its predecessor's; a sink sees their numbers raised by
    `raised`, so that numbers go on from there."""

    after: int = -1
    raised: int = 0

    def handed_over(self, last: int, muted: int) -> VisibleBatches:
        """Of the successor, which has the input of batch `last` behind it once its own batch `muted` is done.

        >>> Visible(3, 2).handed_over(last=40, muted=12)  # what comes next is 13, and the sink saw 42
        Visible(after=12, raised=30)
        """
        return VisibleBatches(muted, last + self.raised - muted)


@dataclass(frozen=True)
class Generation:
    number: int = 0
    visible: VisibleBatches = field(default_factory=VisibleBatches)

    @property
    def name(self) -> str:
        """Of its checkpoint."""
        return f"{_FIRST}-{self.number}" if self.number else _FIRST

    def next(self, visible: VisibleBatches | None = None) -> Generation:
        return Generation(self.number + 1, visible or VisibleBatches())


def read_generation(folder: Path) -> Generation:
    path = folder / _FILE
    return validation.read_file(path, Generation) if path.exists() else Generation()


def make_live(folder: Path, generation: Generation) -> None:
    """The hand-over."""
    write_atomically(folder / _FILE, json.dumps(asdict(generation)))


def remove_other_generations(folder: Path, live: Generation) -> None:
    """What a hand-over has left behind, or one that never came."""
    for path in folder.glob(f"{_FIRST}*"):
        rest = path.name.removeprefix(_FIRST)
        if path.name != live.name and (not rest or rest.removeprefix("-").isdecimal()):
            shutil.rmtree(path, ignore_errors=True)
