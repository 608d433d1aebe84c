"""`autotrascale models ls|show|export|import|deprecate|rm`: the library of benefit models."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotrascale.app.console import FormatOption, OutputFormat, note, print_answer, print_table, say
from autotrascale.app.stores import StoreOption
from autotrascale.cli.completion import complete_job_files, complete_job_names
from autotrascale.cli.tune import EngineChoice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autotrascale.app.warm_start import WarmStart
    from autotrascale.knowledge.model_card import StoredModel
    from autotrascale.knowledge.model_library import ModelLibrary
    from autotrascale.plan.search.benefit_model import BenefitModel

JobOption = Annotated[
    str | None,
    typer.Option("--job", metavar="JOB", help="Only the models of this job.", autocompletion=complete_job_names),
]
ModelName = Annotated[
    str, typer.Argument(metavar="MODEL", help="models:/NAME/VERSION, models:/NAME@rate-R, or with --job rate-R.")
]


def ls(
    job: JobOption = None,
    for_job: Annotated[
        Path | None,
        typer.Option(
            "--for",
            metavar="JOB.yaml",
            help="Say which a run of this job would start from.",
            autocompletion=complete_job_files,
        ),
    ] = None,
    rate: Annotated[float | None, typer.Option(metavar="R", help="With --for: at this rate.")] = None,
    engine: Annotated[EngineChoice | None, typer.Option(help="With --for: on this engine.")] = None,
    store: StoreOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """List the stored models, or what a run of a job would start from and why."""
    from autotrascale.app.stores import require_store
    from autotrascale.knowledge.model_library import ModelLibrary

    if for_job is None and (rate is not None or engine is not None):
        raise typer.BadParameter("says nothing without --for", param_hint="--engine" if rate is None else "--rate")
    library = ModelLibrary(require_store(store))
    if for_job is None:
        found = library.versions(job)
        print_answer(form, {"models": [_as_dict(each) for each in found]}, lambda: _show_list(found))
        return
    warm = _choice(library, for_job, rate, None if engine is None else engine.value)
    answer = {"sources": [source.name for source in warm.sources], "reasons": list(warm.lines)}
    print_answer(form, answer, lambda: say("\n".join(warm.lines)))


def show(
    name: ModelName, job: JobOption = None, store: StoreOption = None, form: FormatOption = OutputFormat.table
) -> None:
    """Show one model: what it is of, and the runs it learned from."""
    from autotrascale.app.stores import require_store
    from autotrascale.knowledge.model_library import ModelLibrary

    library = ModelLibrary(require_store(store))
    stored = library.find(name, job)
    model = library.load(stored)
    samples = [asdict(sample) for sample in model.samples]
    answer = {**_as_dict(stored), "floor": list(model.floor), "p_max": list(model.p_max), "samples": samples}
    print_answer(form, answer, lambda: _show(stored, model))


def export(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[MODEL…]", help="Which; else the newest of each rate.")
    ] = None,
    to: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to put the files.")] = Path("models"),
    job: JobOption = None,
    store: StoreOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Write models to files, one each."""
    from autotrascale.app.stores import require_store
    from autotrascale.domain.errors import InputError
    from autotrascale.knowledge.model_card import ModelCard
    from autotrascale.knowledge.model_files import write_model
    from autotrascale.knowledge.model_library import ModelLibrary

    library = ModelLibrary(require_store(store))
    chosen = [library.find(name, job) for name in names or ()] or [s for s in library.versions(job) if s.aliases]
    files: list[str] = []
    for stored in chosen:
        if not isinstance(stored.card, ModelCard):
            raise InputError(stored.uri, f"cannot be exported: {stored.card}", remedy="name the others one by one")
        model = library.load(stored)
        files.append(str(write_model(to, model, stored.card)))
    print_answer(form, {"files": files}, lambda: say("\n".join(files or ["there is no model to export"])))


def import_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Files that `models export` wrote.")],
    store: StoreOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Take models from files into the store; all are checked before the first is taken."""
    from autotrascale.app.stores import require_store
    from autotrascale.knowledge.model_files import read_model
    from autotrascale.knowledge.model_library import ModelLibrary

    read = [read_model(path) for path in files]
    library = ModelLibrary(require_store(store))
    for _, card in read:
        library.refuse_duplicate(card)
    taken = [library.import_model(model, card).uri for model, card in read]
    print_answer(form, {"models": taken}, lambda: say("\n".join(taken)))


def deprecate(
    name: ModelName,
    why: Annotated[str, typer.Option(metavar="TEXT", help="What is wrong with it.")] = "no longer wanted",
    undo: Annotated[bool, typer.Option("--undo", help="Let runs start from it again.")] = False,
    job: JobOption = None,
    store: StoreOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Let no run start from a model any more. It is kept; an older one of its rate takes its place."""
    from autotrascale.app.stores import require_store
    from autotrascale.domain.errors import InputError
    from autotrascale.knowledge import requested_by
    from autotrascale.knowledge.model_library import ModelLibrary

    if not 0 < len(why) <= 200:
        raise InputError("--why", "must have 1 to 200 characters", seen=len(why), remedy="say it shorter")
    library = ModelLibrary(require_store(store))
    stored = library.find(name, job)
    who = requested_by.current_user()
    changed = library.restore(stored, who) if undo else library.deprecate(stored, why, who)
    said = "may be started from again" if undo else f"is deprecated: {why}"
    print_answer(form, _as_dict(changed), lambda: say(f"{stored.uri} {said}"))


def rm(
    names: Annotated[list[str], typer.Argument(metavar="MODEL…", help="models:/NAME/VERSION, or with --job rate-R.")],
    job: JobOption = None,
    store: StoreOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Remove models for good. The runs that they learned from stay."""
    from autotrascale.app.stores import require_store
    from autotrascale.knowledge import requested_by
    from autotrascale.knowledge.model_library import ModelLibrary

    library = ModelLibrary(require_store(store))
    found = list(dict.fromkeys(library.find(name, job) for name in names))  # all, before the first is removed
    for stored in found:
        library.remove(stored, requested_by.current_user())
    removed = [stored.uri for stored in found]
    print_answer(form, {"removed": removed}, lambda: say("\n".join(f"{uri} is removed" for uri in removed)))


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


def _choice(library: ModelLibrary, path: Path, rate: float | None, engine: Any) -> WarmStart:
    from autotrascale.app.job_file import read_job_file
    from autotrascale.app.warm_start import AUTO, choose_warm_start, describe_wanted_model
    from autotrascale.domain.job import Job
    from autotrascale.domain.topology import Topology

    file = read_job_file(path)
    name = file.engine_name(engine)
    if file.operators:
        job = Job(file.job, Topology(file.operators), file.p_max, file.source_rates, file.target)
    else:
        note("the job file names no operators: asking the job itself")
        job, opened = file.open(name, file.tuning.seed)
        opened.close()
    job = job if rate is None else job.at_rate(rate)
    return choose_warm_start(
        AUTO, library.store, job, describe_wanted_model(file, name, job, faithful=file.tuning.faithful)
    )


def _as_dict(stored: StoredModel) -> dict[str, Any]:
    from autotrascale.knowledge.model_card import ModelCard

    card = asdict(stored.card) if isinstance(stored.card, ModelCard) else {"unreadable": str(stored.card)}
    return {
        "uri": stored.uri,
        "version": stored.version,
        "aliases": list(stored.aliases),
        "deprecated": stored.deprecated,
        **card,
    }


def _show_list(found: list[StoredModel]) -> None:
    from autotrascale.knowledge.model_card import ModelCard
    from autotrascale.plan.formatting import format_seconds

    if not found:
        say("no models yet; an accepted tuning run leaves one")
        return
    rows: list[tuple[object, ...]] = []
    for stored in found:
        card, names = stored.card, ", ".join(stored.aliases) or ("deprecated" if stored.deprecated else "")
        if not isinstance(card, ModelCard):
            rows.append((stored.uri, names, "", "", "", str(card)))
            continue
        made = f"{card.execution or 'unknown execution'}{', simulated' if card.simulated else ''}"
        rows.append(
            (
                stored.uri,
                names,
                f"{card.rate:g}/s",
                f"{format_seconds(card.latency_target)} {card.statistic}",
                card.topology,
                made,
            )
        )
    print_table(("model", "alias", "rate", "target", "topology", "made under"), rows)


def _show(stored: StoredModel, model: BenefitModel) -> None:
    from autotrascale.knowledge.model_card import ModelCard
    from autotrascale.plan.formatting import format_seconds
    from autotrascale.views.explanation import format_parallelism

    _show_list([stored])
    operators = tuple(f"operator {i + 1}" for i in range(len(model.floor)))
    if isinstance(stored.card, ModelCard):
        operators = tuple(stored.card.operators)
        say(f"from run {stored.card.run_id or 'unknown'}")

    def by_name(k: Sequence[int]) -> str:
        return format_parallelism(dict(zip(operators, k, strict=True)))

    say(f"floor: {by_name(model.floor)}; P_max: {by_name(model.p_max)}")
    say(f"{len(model.samples)} parallelisms were measured at {model.rate:g}/s")
    for other in model.ancestors:
        say(f"learned together with {len(other.samples)} at {other.rate:g}/s")
    print_table(
        ("parallelism", "latency", "benefit score", "windows"),
        [
            (
                by_name(sample.k),
                "failed" if sample.latency is None else format_seconds(sample.latency),
                f"{sample.score:.3f}",
                sample.windows,
            )
            for sample in model.samples
        ],
    )
