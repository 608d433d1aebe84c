"""`autotrascale models ls|show|export|import|deprecate|rm`: the library of benefit models."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotrascale.service.completing import job_files, job_names
from autotrascale.service.output import Format, FormatOption, emit, note, say, table
from autotrascale.service.store import StoreOption
from autotrascale.service.tune import EngineChoice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autotrascale.knowledge.cards import Stored
    from autotrascale.knowledge.library import Library
    from autotrascale.plan.search.benefit_model import BenefitModel
    from autotrascale.service.warm_start import WarmStart

JobOption = Annotated[
    str | None, typer.Option("--job", metavar="JOB", help="Only the models of this job.", autocompletion=job_names)
]
ModelName = Annotated[
    str, typer.Argument(metavar="MODEL", help="models:/NAME/VERSION, models:/NAME@rate-R, or with --job rate-R.")
]


def ls(
    job: JobOption = None,
    for_job: Annotated[
        Path | None,
        typer.Option(
            "--for", metavar="JOB.yaml", help="Say which a run of this job would start from.", autocompletion=job_files
        ),
    ] = None,
    rate: Annotated[float | None, typer.Option(metavar="R", help="With --for: at this rate.")] = None,
    engine: Annotated[EngineChoice | None, typer.Option(help="With --for: on this engine.")] = None,
    store: StoreOption = None,
    form: FormatOption = Format.table,
) -> None:
    """List the stored models, or what a run of a job would start from and why."""
    from autotrascale.knowledge.library import Library
    from autotrascale.service.store import need_store

    if for_job is None and (rate is not None or engine is not None):
        raise typer.BadParameter("says nothing without --for", param_hint="--engine" if rate is None else "--rate")
    library = Library(need_store(store))
    if for_job is None:
        found = library.versions(job)
        emit(form, {"models": [_as_dict(each) for each in found]}, lambda: _show_list(found))
        return
    warm = _choice(library, for_job, rate, None if engine is None else engine.value)
    answer = {"sources": [source.name for source in warm.sources], "reasons": list(warm.lines)}
    emit(form, answer, lambda: say("\n".join(warm.lines)))


def show(name: ModelName, job: JobOption = None, store: StoreOption = None, form: FormatOption = Format.table) -> None:
    """Show one model: what it is of, and the runs it learned from."""
    from autotrascale.knowledge.library import Library
    from autotrascale.service.store import need_store

    library = Library(need_store(store))
    stored = library.find(name, job)
    model = library.load(stored)
    samples = [asdict(sample) for sample in model.samples]
    answer = {**_as_dict(stored), "floor": list(model.floor), "p_max": list(model.p_max), "samples": samples}
    emit(form, answer, lambda: _show(stored, model))


def export(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[MODEL…]", help="Which; else the newest of each rate.")
    ] = None,
    to: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to put the files.")] = Path("models"),
    older: Annotated[bool, typer.Option("--older", help="As programs can read them that only kept latencies.")] = False,
    job: JobOption = None,
    store: StoreOption = None,
    form: FormatOption = Format.table,
) -> None:
    """Write models to files, one each."""
    from autotrascale.domain.errors import InputError
    from autotrascale.knowledge.cards import Card
    from autotrascale.knowledge.exchange import write_model
    from autotrascale.knowledge.library import Library
    from autotrascale.service.store import need_store

    library = Library(need_store(store))
    chosen = [library.find(name, job) for name in names or ()] or [s for s in library.versions(job) if s.aliases]
    files: list[str] = []
    for stored in chosen:
        if not isinstance(stored.card, Card):
            raise InputError(stored.uri, f"cannot be exported: {stored.card}", remedy="name the others one by one")
        model = library.load(stored)
        files.append(str(write_model(to, model.as_older() if older else model, stored.card)))
    emit(form, {"files": files}, lambda: say("\n".join(files or ["there is no model to export"])))


def import_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Files that `models export` wrote.")],
    store: StoreOption = None,
    form: FormatOption = Format.table,
) -> None:
    """Take models from files into the store; all are checked before the first is taken."""
    from autotrascale.knowledge.exchange import read_model
    from autotrascale.knowledge.library import Library
    from autotrascale.service.store import need_store

    read = [read_model(path) for path in files]
    library = Library(need_store(store))
    for _, card in read:
        library.refuse_duplicate(card)
    taken = [library.import_model(model, card).uri for model, card in read]
    emit(form, {"models": taken}, lambda: say("\n".join(taken)))


def deprecate(
    name: ModelName,
    why: Annotated[str, typer.Option(metavar="TEXT", help="What is wrong with it.")] = "no longer wanted",
    undo: Annotated[bool, typer.Option("--undo", help="Let runs start from it again.")] = False,
    job: JobOption = None,
    store: StoreOption = None,
    form: FormatOption = Format.table,
) -> None:
    """Let no run start from a model any more. It is kept; an older one of its rate takes its place."""
    from autotrascale.domain.errors import InputError
    from autotrascale.knowledge import asking
    from autotrascale.knowledge.library import Library
    from autotrascale.service.store import need_store

    if not 0 < len(why) <= 200:
        raise InputError("--why", "must have 1 to 200 characters", seen=len(why), remedy="say it shorter")
    library = Library(need_store(store))
    stored = library.find(name, job)
    who = asking.this_user()
    changed = library.restore(stored, who) if undo else library.deprecate(stored, why, who)
    said = "may be started from again" if undo else f"is deprecated: {why}"
    emit(form, _as_dict(changed), lambda: say(f"{stored.uri} {said}"))


def rm(
    names: Annotated[list[str], typer.Argument(metavar="MODEL…", help="models:/NAME/VERSION, or with --job rate-R.")],
    job: JobOption = None,
    store: StoreOption = None,
    form: FormatOption = Format.table,
) -> None:
    """Remove models for good. The runs that they learned from stay."""
    from autotrascale.knowledge import asking
    from autotrascale.knowledge.library import Library
    from autotrascale.service.store import need_store

    library = Library(need_store(store))
    found = list(dict.fromkeys(library.find(name, job) for name in names))  # all, before the first is removed
    for stored in found:
        library.remove(stored, asking.this_user())
    removed = [stored.uri for stored in found]
    emit(form, {"removed": removed}, lambda: say("\n".join(f"{uri} is removed" for uri in removed)))


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="The library of benefit models.")
    for name, verb in (
        ("ls", ls),
        ("show", show),
        ("export", export),
        ("import", import_),
        ("deprecate", deprecate),
        ("rm", rm),
    ):
        group.command(name)(verb)
    app.add_typer(group, name="models")


def _choice(library: Library, path: Path, rate: float | None, engine: Any) -> WarmStart:
    from autotrascale.domain.job import Job
    from autotrascale.domain.topology import Topology
    from autotrascale.service.jobfile import read_job_file
    from autotrascale.service.warm_start import AUTO, wanted_by, warm_start

    file = read_job_file(path)
    name = file.engine_name(engine)
    if file.operators:
        job = Job(file.job, Topology(file.operators), file.p_max, file.source_rates, file.target)
    else:
        note("the job file names no operators: asking the job itself")
        job, opened = file.open(name, file.tuning.seed)
        opened.close()
    job = job if rate is None else job.at_rate(rate)
    return warm_start(AUTO, library.store, job, wanted_by(file, name, job, faithful=file.tuning.faithful))


def _as_dict(stored: Stored) -> dict[str, Any]:
    from autotrascale.knowledge.cards import Card

    card = asdict(stored.card) if isinstance(stored.card, Card) else {"unreadable": str(stored.card)}
    return {
        "uri": stored.uri,
        "version": stored.version,
        "aliases": list(stored.aliases),
        "deprecated": stored.deprecated,
        **card,
    }


def _show_list(found: list[Stored]) -> None:
    from autotrascale.knowledge.cards import Card
    from autotrascale.plan.words import seconds

    if not found:
        say("no models yet; an accepted tuning run leaves one")
        return
    rows: list[tuple[object, ...]] = []
    for stored in found:
        card, names = stored.card, ", ".join(stored.aliases) or ("deprecated" if stored.deprecated else "")
        if not isinstance(card, Card):
            rows.append((stored.uri, names, "", "", "", str(card)))
            continue
        made = f"{card.execution or 'unknown execution'}{', simulated' if card.simulated else ''}"
        rows.append(
            (
                stored.uri,
                names,
                f"{card.rate:g}/s",
                f"{seconds(card.latency_target)} {card.statistic}",
                card.topology,
                made,
            )
        )
    table(("model", "alias", "rate", "target", "topology", "made under"), rows)


def _show(stored: Stored, model: BenefitModel) -> None:
    from autotrascale.knowledge.cards import Card
    from autotrascale.plan.words import seconds
    from autotrascale.views.explanation import named

    _show_list([stored])
    operators = tuple(f"operator {i + 1}" for i in range(len(model.floor)))
    if isinstance(stored.card, Card):
        operators = tuple(stored.card.operators)
        say(f"from run {stored.card.run_id or 'unknown'}")

    def by_name(k: Sequence[int]) -> str:
        return named(dict(zip(operators, k, strict=True)))

    say(f"floor: {by_name(model.floor)}; P_max: {by_name(model.p_max)}")
    say(f"{len(model.samples)} parallelisms were measured at {model.rate:g}/s")
    for other in model.ancestors:
        say(f"learned together with {len(other.samples)} at {other.rate:g}/s")
    table(
        ("parallelism", "latency", "benefit score", "windows"),
        [
            (
                by_name(sample.k),
                "failed" if sample.latency is None else seconds(sample.latency),
                f"{sample.score:.3f}",
                sample.windows,
            )
            for sample in model.samples
        ],
    )
