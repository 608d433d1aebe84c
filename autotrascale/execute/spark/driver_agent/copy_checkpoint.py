"""A copy of a checkpoint on this machine's disk, while its query runs: as of a batch that is committed, and from then
on given the input of the original's batches to run.

    of the original        in the copy
    metadata               another id: Spark takes two queries of one id for the same
    sources                as they are, and again before each batch that is given: a source of files notes there
                           what each of its offsets means
    offsets, commits       those up to the batch
    state                  what the batch's version needs: the newest snapshot and the changes after it; links, as no
                           such file is ever written to again

The original goes on meanwhile: it makes new files and removes old ones, and nothing that the copy needs is among them.
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

_KEPT = 10  # entries of each log: a query reads the newest two


def list_entries(checkpoint: Path, folder: str) -> list[int]:
    """The entries of a log, the newest last."""
    with suppress(FileNotFoundError):
        return sorted(int(name) for name in os.listdir(checkpoint / folder) if name.isdecimal())
    return []


def newest_entry(checkpoint: Path, folder: str) -> int:
    return max(list_entries(checkpoint, folder), default=-1)


def copy_checkpoint(original: Path, target: Path) -> int:
    """As of its newest commit, and which one that is."""
    batch = newest_entry(original, "commits")
    if batch < 0:
        raise EngineError(f"{original}: has no commit that it could be copied as of")
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for folder in ("offsets", "commits"):
        (target / folder).mkdir()
        for number in [each for each in list_entries(original, folder) if each <= batch][-_KEPT:]:
            _copy(original / folder / str(number), target / folder / str(number))
    _copy_sources(original, target)
    if (original / "state").is_dir():
        _copy_state(original / "state", target / "state", batch + 1)
    (target / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    return batch


def plan_to_same_input(original: Path, target: Path, batch: int) -> int:
    """Plans a batch of the copy whose input ends where the original's batch ended, and says its number; the newest
    one's where the copy has come so far already. The one before must be committed."""
    own = newest_entry(target, "offsets")
    if _input(_entry(target, own)) == _input(_entry(original, batch)):
        _copy_sources(original, target)
        return own
    plan_same_batch(original, target, batch, own + 1)
    return own + 1


def plan_same_batch(original: Path, target: Path, batch: int, number: int) -> None:
    """Plans the original's batch in the copy under this number, whatever is in it. The one before must be committed."""
    _copy_sources(original, target)
    text = build_offsets_entry(_entry(target, number - 1), _entry(original, batch))
    draft = target / "offsets" / f".{number}.draft"
    draft.write_text(text)
    draft.rename(target / "offsets" / str(number))


def build_offsets_entry(own: str, others: str) -> str:
    """The next entry of an offset log: it runs with the settings of the entry before it, and its input ends where the
    other log's entry says, at that one's watermark and time.

    >>> planned_like('v1\\n{"conf": {"n": "4"}}\\n{"at": 7}', 'v1\\n{"conf": {"n": "2"}}\\n{"at": 9}')
    'v1\\n{"conf": {"n": "4"}}\\n{"at": 9}'
    """
    (version, told, _), (_, theirs, sources) = own.split("\n", 2), others.split("\n", 2)
    return "\n".join([version, json.dumps({**json.loads(theirs), "conf": json.loads(told)["conf"]}), sources])


def _input(entry: str) -> str:
    return entry.split("\n", 2)[2].strip()


def _entry(checkpoint: Path, batch: int) -> str:
    try:
        return (checkpoint / "offsets" / str(batch)).read_text()
    except FileNotFoundError:
        raise EngineError(f"{checkpoint}: batch {batch} is not in its log of offsets, or not any more") from None


def _copy_sources(original: Path, target: Path) -> None:
    for folder, _, names in os.walk(original / "sources"):
        place = target / Path(folder).relative_to(original)
        place.mkdir(parents=True, exist_ok=True)
        for name in _shown(names):
            if not (place / name).exists():  # no entry of a log is ever written again
                _copy(Path(folder, name), place / name)


def _copy_state(original: Path, target: Path, version: int) -> None:
    """What belongs to no version last: a snapshot is there once all that it is made of is."""
    for folder, _, names in os.walk(original):
        place = target / Path(folder).relative_to(original)
        place.mkdir(parents=True, exist_ok=True)
        found = {name: match for name in _shown(names) if (match := STATE_FILE.fullmatch(name))}
        snapshots = [int(match.group(1)) for match in found.values() if match.group(3) in ("zip", "snapshot")]
        since = max((number for number in snapshots if number <= version), default=0)
        for name, match in found.items():
            if since <= int(match.group(1)) <= version:
                _link(Path(folder, name), place / name)
    for folder, _, names in os.walk(original):
        place = target / Path(folder).relative_to(original)
        place.mkdir(parents=True, exist_ok=True)
        for name in _shown(names):
            if not STATE_FILE.fullmatch(name):
                _link(Path(folder, name), place / name)


def _shown(names: Iterable[str]) -> list[str]:
    """Without what is hidden: checksums, which go with their files, and what is being written."""
    return [name for name in names if not name.startswith(".")]


def _copy(file: Path, to: Path) -> None:
    with suppress(FileNotFoundError):  # an old one, just removed
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
