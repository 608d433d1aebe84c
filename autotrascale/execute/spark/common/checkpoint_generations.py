"""Generations of a job's checkpoint, and the file that names the live one.

    file in the job's folder   content
    checkpoint                 generation 0, the first one
    checkpoint-1, -2, …        a copy of the generation before, moved to another parallelism and caught up
    generation.json            number of the live generation, and the batches that it shows to the sink

Replacing generation.json by a rename is the hand-over. Before it, the old generation is complete and the copy is
garbage; after it, the copy is complete and the old generation is garbage. The next start removes garbage. A generation
writes to the sink only while it is the live one.
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
    """The batches of a generation that go to the sink: those with a number above `after`.

    Earlier batches were written by the generation before. The sink sees numbers that are higher by `raised`, so its
    numbers continue without a gap.
    """

    after: int = -1
    raised: int = 0

    def handed_over(self, last: int, muted: int) -> VisibleBatches:
        """Return the visible batches of the successor.

        Args:
            last: last batch that this generation writes.
            muted: batch of the successor with the same end of input as `last`; the successor does not write it.

        >>> VisibleBatches(3, 2).handed_over(last=40, muted=12)  # the next batch is 13, and the sink has seen 42
        VisibleBatches(after=12, raised=30)
        """
        return VisibleBatches(muted, last + self.raised - muted)


@dataclass(frozen=True)
class Generation:
    """A generation of the checkpoint."""

    number: int = 0
    visible: VisibleBatches = field(default_factory=VisibleBatches)

    @property
    def name(self) -> str:
        """Return the name of its folder."""
        return f"{_FIRST}-{self.number}" if self.number else _FIRST

    def next(self, visible: VisibleBatches | None = None) -> Generation:
        """Return the following generation."""
        return Generation(self.number + 1, visible or VisibleBatches())


def read_generation(folder: Path) -> Generation:
    """Return the live generation of the job in `folder`."""
    path = folder / _FILE
    return validation.read_file(path, Generation) if path.exists() else Generation()


def make_live(folder: Path, generation: Generation) -> None:
    """Hand over to `generation`."""
    write_atomically(folder / _FILE, json.dumps(asdict(generation)))


def remove_other_generations(folder: Path, live: Generation) -> None:
    """Remove the checkpoints of all generations but `live`."""
    for path in folder.glob(f"{_FIRST}*"):
        suffix = path.name.removeprefix(_FIRST)
        if path.name != live.name and (not suffix or suffix.removeprefix("-").isdecimal()):
            shutil.rmtree(path, ignore_errors=True)
