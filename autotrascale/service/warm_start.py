"""Which benefit models a run starts from, and a line on each choice: `--warm-start auto|none|MODEL`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from autotrascale.domain.errors import InputError
from autotrascale.domain.job import Job
from autotrascale.knowledge.cards import Card, Wanted
from autotrascale.knowledge.exchange import is_export
from autotrascale.knowledge.exchange import read_model as read_export
from autotrascale.knowledge.json_forms import Source
from autotrascale.knowledge.library import Library
from autotrascale.knowledge.store import Store
from autotrascale.service.jobfile import JobFile

AUTO, NONE = "auto", "none"
_REFERENCE = re.compile(r"models:/.*|rate-[0-9_]+")


@dataclass(frozen=True)
class WarmStart:
    sources: tuple[Source, ...]
    lines: tuple[str, ...]


def warm_start(wish: str, store: Store | None, job: Job, wanted: Wanted) -> WarmStart:
    if wish == NONE:
        return WarmStart((), ("starting cold, as asked",))
    if wish != AUTO:
        source = _named(wish, store, job, wanted)
        return WarmStart((source,), (f"starting from {source.name}, made at {source.model.rate:g}/s",))
    if store is None:
        return WarmStart((), ("starting cold: no store is in use, so there are no models",))
    library = Library(store)
    choice = library.near(job.name, wanted)
    sources, passed_over = library.sources(choice)
    lines = [f"starting from {source.name}, made at {source.model.rate:g}/s" for source in sources]
    if not sources:
        count = len(passed_over)
        why = f"none of the {count} models of {job.name} fits" if count else f"there is no model of {job.name} yet"
        lines = [f"starting cold: {why}"]
    passed = [f"passed over {line}" for line in passed_over]
    return WarmStart(sources, (*lines, *passed))


def wanted_by(file: JobFile, engine: str, job: Job, *, faithful: bool) -> Wanted:
    simulated = engine == "simulator"
    execution = file.simulator.execution if simulated and file.simulator is not None else "micro-batch"
    return Wanted.by(job, execution=execution, simulated=simulated, faithful=faithful)


def _named(wish: str, store: Store | None, job: Job, wanted: Wanted) -> Source:
    """A model that was asked for by name must fit: leaving it out in silence would not be what was asked for."""
    if not _REFERENCE.fullmatch(wish):
        return _from_file(Path(wish), wanted)
    if store is None:
        raise InputError(
            "--warm-start", "names a stored model, and no store is in use", seen=wish, remedy="give --store, or a file"
        )
    library = Library(store)
    stored = library.find(wish, job.name)
    if stored.deprecated is not None:
        _check(wish, f"it is deprecated: {stored.deprecated}")
    if isinstance(stored.card, Card):
        _check(wish, wanted.why_not(stored.card))
    return library.source(stored)


def _from_file(path: Path, wanted: Wanted) -> Source:
    if is_export(path):
        model, card = read_export(path)
        _check(str(path), wanted.why_not(card))
        return Source(str(path), model, card.cold_trials)
    from autotrascale.service.decide import read_model

    model = read_model(path)
    if len(model.floor) != len(wanted.operators):
        _check(str(path), f"it is of {len(model.floor)} operators, and the job has {len(wanted.operators)}")
    if None not in (model.execution, wanted.execution) and model.execution != wanted.execution:
        _check(str(path), f"it was measured under {model.execution} execution, not {wanted.execution}")
    return Source(str(path), model)


def _check(seen: str, reason: str | None) -> None:
    if reason is not None:
        raise InputError(
            "--warm-start",
            f"names a model that does not fit: {reason}",
            seen=seen,
            remedy="use auto to see what fits, or none",
        )
