"""`autotrascale models ls|show|export|import|deprecate|rm`: the library of benefit models."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotrascale.app.console import OutputFormat, print_answer, print_table, say
from autotrascale.cli.completion import complete_job_files
from autotrascale.cli.options import (
    JOB_FILE,
    EngineChoice,
    FormatOption,
    JobOption,
    StoreOption,
    argument,
    flag,
    option,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autotrascale.knowledge.model_card import StoredModel
    from autotrascale.plan.search.benefit_model import BenefitModel

REFERENCE = "models:/NAME/VERSION, models:/NAME@rate-R, or rate-R with --job"

ModelArgument = Annotated[str, argument(f"Model: {REFERENCE}.", "MODEL")]


def ls(
    job: JobOption = None,
    for_job: Annotated[
        Path | None,
        option(
            "Show which models a run of this job would start from, and why.",
            "JOB.yaml",
            "--for",
            autocompletion=complete_job_files,
        ),
    ] = None,
    rate: Annotated[float | None, option("With --for: input rate, records/s.", "R", default=JOB_FILE)] = None,
    engine: Annotated[EngineChoice | None, option("With --for: engine of the run.", default=JOB_FILE)] = None,
    store: StoreOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """List models, or the warm start of a job."""
    from autotrascale.app.stores import require_store
    from autotrascale.app.warm_start import preview_warm_start
    from autotrascale.knowledge.model_library import ModelLibrary

    if for_job is None and (rate is not None or engine is not None):
        raise typer.BadParameter("needs --for", param_hint="--engine" if rate is None else "--rate")
    opened = require_store(store)
    if for_job is None:
        models = ModelLibrary(opened).versions(job)
        print_answer(form, {"models": [_as_dict(each) for each in models]}, lambda: _print_list(models))
        return
    warm = preview_warm_start(opened, for_job, rate, None if engine is None else engine.value)
    answer = {"sources": [source.name for source in warm.sources], "reasons": list(warm.lines)}
    print_answer(form, answer, lambda: say("\n".join(warm.lines)))


def show(
    name: ModelArgument, job: JobOption = None, store: StoreOption = None, form: FormatOption = OutputFormat.table
) -> None:
    """Show a model and the trials it learned from."""
    from autotrascale.app.stores import require_store
    from autotrascale.knowledge.model_library import ModelLibrary

    library = ModelLibrary(require_store(store))
    stored = library.find(name, job)
    model = library.load(stored)
    samples = [asdict(sample) for sample in model.samples]
    answer = {**_as_dict(stored), "floor": list(model.floor), "p_max": list(model.p_max), "samples": samples}
    print_answer(form, answer, lambda: _print_model(stored, model))


def export(
    names: Annotated[list[str] | None, argument(f"Models: {REFERENCE}.", "MODEL…", "the newest of each rate")] = None,
    to: Annotated[Path, option("Folder for the files.", "FOLDER")] = Path("models"),
    job: JobOption = None,
    store: StoreOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Write models to files, one each."""
    from autotrascale.app.model_files import export_models
    from autotrascale.app.stores import require_store

    files = [str(path) for path in export_models(require_store(store), names or [], job, to)]
    print_answer(form, {"files": files}, lambda: say("\n".join(files or ["the store has no model to export"])))


def import_(
    files: Annotated[list[Path], argument("Files written by `models export`.", "FILE…")],
    store: StoreOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Add models from files to the store.

    All files are checked before the first model is added.
    """
    from autotrascale.app.model_files import import_models
    from autotrascale.app.stores import require_store

    models = [stored.uri for stored in import_models(files, lambda: require_store(store))]
    print_answer(form, {"models": models}, lambda: say("\n".join(models)))


def deprecate(
    name: ModelArgument,
    why: Annotated[str, option("Reason, 1 to 200 characters.", "TEXT")] = "no longer wanted",
    undo: Annotated[bool, flag("--undo", "Let runs start from the model again.")] = False,
    job: JobOption = None,
    store: StoreOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Exclude a model from warm starts.

    The model stays in the store. An older model of the same rate takes its place.
    """
    from autotrascale.app.stores import require_store
    from autotrascale.domain.errors import InputError
    from autotrascale.knowledge.model_library import ModelLibrary
    from autotrascale.knowledge.requested_by import current_user

    if not 0 < len(why) <= 200:
        raise InputError("--why", "must have 1 to 200 characters", seen=len(why), remedy="shorten it")
    library = ModelLibrary(require_store(store))
    stored = library.find(name, job)
    changed = library.restore(stored, current_user()) if undo else library.deprecate(stored, why, current_user())
    text = "can be started from again" if undo else f"is deprecated: {why}"
    print_answer(form, _as_dict(changed), lambda: say(f"{stored.uri} {text}"))


def rm(
    names: Annotated[list[str], argument(f"Models: {REFERENCE}.", "MODEL…")],
    job: JobOption = None,
    store: StoreOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Remove models for good.

    The runs that the models learned from stay in the store.
    """
    from autotrascale.app.stores import require_store
    from autotrascale.knowledge.model_library import ModelLibrary
    from autotrascale.knowledge.requested_by import current_user

    library = ModelLibrary(require_store(store))
    models = list(dict.fromkeys(library.find(name, job) for name in names))  # find all before removing the first
    for stored in models:
        library.remove(stored, current_user())
    removed = [stored.uri for stored in models]
    print_answer(form, {"removed": removed}, lambda: say("\n".join(f"{uri} is removed" for uri in removed)))


def register(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="List, show, copy and remove benefit models.")
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


def _print_list(models: list[StoredModel]) -> None:
    from autotrascale.knowledge.model_card import ModelCard
    from autotrascale.plan.formatting import format_seconds

    if not models:
        say("no models yet; a tuning run that meets its target adds one")
        return
    rows: list[tuple[object, ...]] = []
    for stored in models:
        card, alias = stored.card, ", ".join(stored.aliases) or ("deprecated" if stored.deprecated else "")
        if not isinstance(card, ModelCard):
            rows.append((stored.uri, alias, "", "", "", str(card)))
            continue
        execution = f"{card.execution or 'unknown'}{', simulated' if card.simulated else ''}"
        target = f"{format_seconds(card.latency_target)} {card.statistic}"
        rows.append((stored.uri, alias, f"{card.rate:g}/s", target, card.topology, execution))
    print_table(("model", "alias", "rate", "target", "topology", "execution"), rows)


def _print_model(stored: StoredModel, model: BenefitModel) -> None:
    from autotrascale.knowledge.model_card import ModelCard
    from autotrascale.plan.formatting import format_seconds
    from autotrascale.views.explanation import format_parallelism

    _print_list([stored])
    operators = tuple(f"operator {i + 1}" for i in range(len(model.floor)))
    if isinstance(stored.card, ModelCard):
        operators = tuple(stored.card.operators)
        say(f"from run {stored.card.run_id or 'unknown'}")

    def by_name(k: Sequence[int]) -> str:
        return format_parallelism(dict(zip(operators, k, strict=True)))

    say(f"floor: {by_name(model.floor)}; P_max: {by_name(model.p_max)}")
    say(f"{len(model.samples)} configurations measured at {model.rate:g} records/s")
    for ancestor in model.ancestors:
        say(f"learned together with {len(ancestor.samples)} configurations at {ancestor.rate:g} records/s")
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
