"""Benefit models in files: read one, export models of a store, and import them into a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from autotrascale.domain.errors import InputError
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.model_card import ModelCard, StoredModel
from autotrascale.knowledge.model_files import is_model_export, read_model, write_model
from autotrascale.knowledge.model_library import ModelLibrary
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.validation import read_text


def read_model_file(path: Path) -> BenefitModel:
    """Return the model of a file that `models export` or `--save-model` wrote.

    Raises:
        InputError: the file is not a model.
    """
    text = read_text(path)
    if is_model_export(path):
        return read_model(path)[0]
    try:
        return BenefitModel.from_json(text)
    except InputError as error:
        raise error.with_prefix(f"{path}: ") from None


def export_models(store: MlflowStore, names: list[str], job: str | None, folder: Path) -> Iterator[Path]:
    """Write models to files and yield their paths.

    Args:
        store: the store of models.
        names: references to models; empty: the newest model of each rate.
        job: name of the job, for references without it.
        folder: where to write.

    Raises:
        InputError: a model does not exist or cannot be read.
    """
    library = ModelLibrary(store)
    models = [library.find(name, job) for name in names] or [each for each in library.versions(job) if each.aliases]
    for stored in models:
        if not isinstance(stored.card, ModelCard):
            raise InputError(
                stored.uri, f"cannot be exported: {stored.card}", remedy="name the other models one by one"
            )
        yield write_model(folder, library.load(stored), stored.card)


def import_models(files: Iterable[Path], open_store: Callable[[], MlflowStore]) -> list[StoredModel]:
    """Add models from files to a store. All files are checked before the store is opened.

    Raises:
        InputError: a file is not a model, or the store has the model already.
    """
    models = [read_model(path) for path in files]
    library = ModelLibrary(open_store())
    for _, card in models:
        library.refuse_duplicate(card)
    return [library.import_model(model, card) for model, card in models]
