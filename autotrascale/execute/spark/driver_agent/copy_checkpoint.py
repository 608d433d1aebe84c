"""A copy of a checkpoint on a local disk, made while its query runs, and batches planned in the copy.

    original               copy
    metadata               a new id: Spark takes two queries with one id for the same query
    sources                copied, and again before each planned batch: a file source notes there what its offsets mean
    offsets, commits       entries up to the batch that the copy is made as of
    state                  the newest snapshot up to that batch and the changes after it, as hard links: Spark never
                           writes to such a file again

The original goes on meanwhile. It makes new files and removes old ones, but none that the copy needs.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.driver_agent.checkpoint_folder import STATE_FILE

_COPIED_ENTRIES = 10  # of each log; a query reads the newest two


def list_entries(checkpoint: Path, folder: str) -> list[int]:
    """Return the batch numbers in a log (`offsets` or `commits`), in ascending order."""
    with suppress(FileNotFoundError):
        return sorted(int(name) for name in os.listdir(checkpoint / folder) if name.isdecimal())
    return []


def newest_entry(checkpoint: Path, folder: str) -> int:
    """Return the newest batch number in a log, or −1."""
    return max(list_entries(checkpoint, folder), default=-1)


def copy_checkpoint(original: Path, target: Path) -> int:
    """Copy the checkpoint as of its newest commit and return the number of that batch.

    Raises `EngineError` if no batch is committed.
    """
    batch = newest_entry(original, "commits")
    if batch < 0:
        raise EngineError(f"{original}: has no committed batch, so it cannot be copied yet")
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for folder in ("offsets", "commits"):
        (target / folder).mkdir()
        for number in [each for each in list_entries(original, folder) if each <= batch][-_COPIED_ENTRIES:]:
            _copy(original / folder / str(number), target / folder / str(number))
    _copy_sources(original, target)
    if (original / "state").is_dir():
        _copy_state(original / "state", target / "state", batch + 1)
    (target / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    return batch


def plan_to_same_input(original: Path, target: Path, batch: int) -> int:
    """Plan a batch of the copy whose input ends where the input of the original's `batch` ends.

    Returns its number, or the newest number if the copy has planned that input already. All planned batches of the copy
    must be committed.
    """
    own = newest_entry(target, "offsets")
    if _input_of(_read_entry(target, own)) == _input_of(_read_entry(original, batch)):
        _copy_sources(original, target)
        return own
    plan_same_batch(original, target, batch, own + 1)
    return own + 1


def plan_same_batch(original: Path, target: Path, batch: int, number: int) -> None:
    """Plan the original's `batch` in the copy under `number`. The batch before must be committed."""
    _copy_sources(original, target)
    text = build_offsets_entry(_read_entry(target, number - 1), _read_entry(original, batch))
    draft = target / "offsets" / f".{number}.draft"
    draft.write_text(text)
    draft.rename(target / "offsets" / str(number))


def build_offsets_entry(own: str, other: str) -> str:
    """Return an entry of an offset log with the settings of `own` and the input, watermark and time of `other`.

    >>> planned_like('v1\\n{"conf": {"n": "4"}}\\n{"at": 7}', 'v1\\n{"conf": {"n": "2"}}\\n{"at": 9}')
    'v1\\n{"conf": {"n": "4"}}\\n{"at": 9}'
    """
    (version, own_settings, _), (_, settings, sources) = own.split("\n", 2), other.split("\n", 2)
    merged = {**json.loads(settings), "conf": json.loads(own_settings)["conf"]}
    return "\n".join([version, json.dumps(merged), sources])


def _input_of(entry: str) -> str:
    return entry.split("\n", 2)[2].strip()


def _read_entry(checkpoint: Path, batch: int) -> str:
    try:
        return (checkpoint / "offsets" / str(batch)).read_text()
    except FileNotFoundError:
        raise EngineError(f"{checkpoint}: batch {batch} is not in its offset log (any more)") from None


def _copy_sources(original: Path, target: Path) -> None:
    for folder, _, names in os.walk(original / "sources"):
        place = target / Path(folder).relative_to(original)
        place.mkdir(parents=True, exist_ok=True)
        for name in _visible(names):
            if not (place / name).exists():  # Spark never changes an entry of a log
                _copy(Path(folder, name), place / name)


def _copy_state(original: Path, target: Path, version: int) -> None:
    """Link the state files of `version`. Files without a version come last: snapshots refer to them."""
    for folder, _, names in os.walk(original):
        place = target / Path(folder).relative_to(original)
        place.mkdir(parents=True, exist_ok=True)
        found = {name: match for name in _visible(names) if (match := STATE_FILE.fullmatch(name))}
        snapshots = [int(match.group(1)) for match in found.values() if match.group(3) in ("zip", "snapshot")]
        since = max((number for number in snapshots if number <= version), default=0)
        for name, match in found.items():
            if since <= int(match.group(1)) <= version:
                _link(Path(folder, name), place / name)
    for folder, _, names in os.walk(original):
        place = target / Path(folder).relative_to(original)
        place.mkdir(parents=True, exist_ok=True)
        for name in _visible(names):
            if not STATE_FILE.fullmatch(name):
                _link(Path(folder, name), place / name)


def _visible(names: Iterable[str]) -> list[str]:
    """Leave out hidden files: checksums, which go with their files, and files that are being written."""
    return [name for name in names if not name.startswith(".")]


def _copy(file: Path, to: Path) -> None:
    with suppress(FileNotFoundError):  # an old entry that Spark has just removed
        shutil.copyfile(file, to)
    with suppress(FileNotFoundError):
        shutil.copyfile(_checksum(file), _checksum(to))


def _link(file: Path, to: Path) -> None:
    for one, other in ((file, to), (_checksum(file), _checksum(to))):
        with suppress(FileNotFoundError):
            try:
                os.link(one, other)
            except OSError as problem:
                if isinstance(problem, FileNotFoundError):
                    raise
                shutil.copyfile(one, other)


def _checksum(file: Path) -> Path:
    return file.with_name(f".{file.name}.crc")
