"""The library of benefit models: one registered MLflow model `autotrascale.<job>` for each job.

A version is a model of the job after a tuning run or a while of autoscaling. It holds the runs at its own rate, and the
runs at other rates that it was learned together with. Its tags are its card (`ModelCard`). The alias `rate-<R>` names
the newest version of a rate. A model is JSON: reading it computes its predictions again and executes none of its
content.
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from autotrascale import __version__
from autotrascale.domain.errors import InputError, RunStoreError
from autotrascale.knowledge import lineage, pyfunc, requested_by, tags
from autotrascale.knowledge.mlflow_store import PAGE, MlflowStore, quiet_warnings, quote_name
from autotrascale.knowledge.model_card import (
    ModelCard,
    ModelChoice,
    ModelRequest,
    StoredModel,
    choose_models,
    describe_too_far,
)
from autotrascale.knowledge.pyfunc import MODEL_FILE
from autotrascale.knowledge.run_json import ModelSource
from autotrascale.plan.search.benefit_model import BenefitModel

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

PREFIX = "autotrascale."
FOLDER = "model"  # folder of a run's artefacts; a run with several models has folders that begin so
WHERE = "artefacts"  # tag of a version in another folder
DEPRECATED, DEPRECATED_BY = "deprecated", "deprecated_by"  # further tags of a version

_URI = re.compile(r"models:/(?P<name>[^/@]+)(?:/(?P<version>\d+)|@(?P<alias>[\w-]+))")


class ModelLibrary:
    """The benefit models in one store."""

    def __init__(self, store: MlflowStore) -> None:
        self.store = store

    # -- reading ------------------------------------------------------------------------------------------------------

    def versions(self, job: str | None = None) -> list[StoredModel]:
        """Return the versions of one job or of all jobs, the oldest first."""
        names = self._names() if job is None else [registered_model_name(job)]
        return [stored for name in names for stored in self._versions(name)]

    def find(self, reference: str, job: str | None = None) -> StoredModel:
        """Return a version by its reference, or raise `InputError`.

        Args:
            reference: `models:/NAME/3`, `models:/NAME@rate-350000`, or `rate-350000` of `job`.
            job: name of the job for a reference without `models:`.
        """
        uri = reference if job is None or ":" in reference else f"models:/{registered_model_name(job)}@{reference}"
        match = _URI.fullmatch(uri)
        if match is None:
            remedy = "give models:/NAME/VERSION, models:/NAME@rate-R, or rate-R"
            raise InputError("model", "is not a reference to a stored model", seen=reference, remedy=remedy)
        for stored in self._versions(match["name"]):
            if match["version"] == str(stored.version) or match["alias"] in stored.aliases:
                return stored
        raise InputError("model", "is not in the store", seen=reference, remedy="list them: autotrascale models ls")

    def load(self, stored: StoredModel) -> BenefitModel:
        """Return the model of a version. Raise `InputError` or `RunStoreError` if it is damaged or unreachable."""
        version = self.store.call(self.store.client.get_model_version, stored.name, str(stored.version))
        if not version.run_id:
            raise RunStoreError(f"{stored.uri}: another program registered it, so its artefact cannot be found")
        folder = version.tags.get(WHERE, FOLDER)
        data = self.store.read_json(version.run_id, f"{folder}/data/{MODEL_FILE}")
        try:
            model = BenefitModel.from_json(json.dumps(data))
            if isinstance(stored.card, ModelCard):
                stored.card.check_matches(model)
        except InputError as error:
            raise error.with_prefix(f"{stored.uri}: ") from None
        return model

    def choose(self, job: str, wanted: ModelRequest) -> ModelChoice:
        """Choose the models of a job that a run can start from."""
        return choose_models(self.versions(job), wanted)

    def load_source(self, stored: StoredModel) -> ModelSource:
        cold_trials = stored.card.cold_trials if isinstance(stored.card, ModelCard) else None
        return ModelSource(stored.uri, self.load(stored), cold_trials)

    def load_sources(self, choice: ModelChoice) -> tuple[tuple[ModelSource, ...], tuple[str, ...]]:
        """Return the chosen models, and one line for each model that was skipped.

        The next nearest model replaces a model that is damaged.
        """
        sources: list[ModelSource] = []
        lines: list[str] = []
        for stored in (*choice.chosen, *choice.spare):
            if len(sources) == len(choice.chosen):
                lines.append(describe_too_far(stored, len(sources)))
                continue
            try:
                sources.append(self.load_source(stored))
            except (InputError, RunStoreError) as error:
                lines.append(str(error))
            except (ArithmeticError, ValueError) as error:  # each number is valid, but not all of them together
                lines.append(f"{stored.uri}: cannot be used: {type(error).__name__}: {error}")
        return tuple(sources), (*lines, *choice.unfit)

    # -- adding -------------------------------------------------------------------------------------------------------

    def register(
        self, model: BenefitModel, card: ModelCard, run_id: str, *, step: int = 0, folder: str = FOLDER
    ) -> StoredModel:
        """Add a version for a model of a run. The same model of the same run is registered once.

        Args:
            model: the model.
            card: its card.
            run_id: MLflow run that made the model and gets its files.
            step: step of the run at which the model was made.
            folder: folder for the files; each model of a run needs its own.
        """
        name = registered_model_name(card.job)
        known = [(each.version, each.card) for each in self._versions(name) if isinstance(each.card, ModelCard)]
        same = [version for version, each in known if (each.digest, each.run_id) == (card.digest, card.run_id)]
        version = same[-1] if same else self._add(name, model, card, run_id, step, folder)
        self._set_alias(name, card.alias, version)
        return StoredModel(name, version, card, (card.alias,))

    def import_model(self, model: BenefitModel, card: ModelCard) -> StoredModel:
        """Add a model of another store. It becomes the current model of its rate."""
        self.refuse_duplicate(card)
        client, experiment = self.store.client, self.store.experiment(card.job)
        run_tags = {tags.KIND: tags.IMPORT, tags.JOB: card.job}
        run = self.store.call(client.create_run, experiment, tags=run_tags, run_name=f"import of {card.alias}")
        self.store.call(client.set_terminated, run.info.run_id, "FINISHED")
        return self.register(model, card, run.info.run_id)

    def refuse_duplicate(self, card: ModelCard) -> None:
        """Raise `InputError` if the store has the model already."""
        for stored in self._versions(registered_model_name(card.job)):
            if isinstance(stored.card, ModelCard) and stored.card.digest == card.digest:
                place = f"model of {card.job} at {card.rate:g}/s"
                raise InputError(place, f"is in the store already, as {stored.uri}", remedy="nothing needs to be done")

    def _add(self, name: str, model: BenefitModel, card: ModelCard, run_id: str, step: int, folder: str) -> int:
        client = self.store.client
        self._make_registered_model(name, card.job)
        with tempfile.TemporaryDirectory() as temporary:
            files = _save(model, card, Path(temporary))
            self.store.call(client.log_artifacts, run_id, str(files), folder)
            logged = lineage.log_model(self.store, files, card, run_id, step)
        version_tags = {**card.as_tags(), lineage.LOGGED_MODEL_TAG: logged.model_id}
        if folder != FOLDER:
            version_tags[WHERE] = folder
        version = self.store.call(
            client.create_model_version,
            name,
            logged.artifact_location,
            run_id,
            version_tags,
            description=lineage.describe_version(model, card),
            model_id=logged.model_id,
        )
        lineage.link_version(self.store, logged.model_id, name, int(version.version))
        return int(version.version)

    # -- removing -----------------------------------------------------------------------------------------------------

    def deprecate(self, stored: StoredModel, why: str, who: str) -> StoredModel:
        """Keep a version, but start no run from it. The version before it takes over the alias of its rate."""
        self._set_tags(stored, {DEPRECATED: why, DEPRECATED_BY: who})
        self._record(stored, who, f"deprecate {stored.uri}")
        return self._read_again(stored)

    def restore(self, stored: StoredModel, who: str) -> StoredModel:
        """Undo `deprecate`."""
        self._set_tags(stored, {DEPRECATED: "", DEPRECATED_BY: who})
        self._record(stored, who, f"restore {stored.uri}")
        return self._read_again(stored)

    def remove(self, stored: StoredModel, who: str) -> None:
        """Delete a version. The runs that it was made of stay."""
        self._record(stored, who, f"remove {stored.uri}")
        self.store.call(self.store.client.delete_model_version, stored.name, str(stored.version))
        self._move_alias(stored)

    def _read_again(self, stored: StoredModel) -> StoredModel:
        self._move_alias(stored)
        return next(each for each in self._versions(stored.name) if each.version == stored.version)

    def _move_alias(self, stored: StoredModel) -> None:
        """Set the alias of the version's rate to the newest version that is not deprecated, or delete the alias."""
        if not isinstance(stored.card, ModelCard):
            return
        alias, versions = stored.card.alias, self._versions(stored.name)
        usable = [s for s in versions if isinstance(s.card, ModelCard) and s.card.alias == alias and not s.deprecated]
        if usable:
            self._set_alias(stored.name, alias, usable[-1].version)
        elif any(alias in each.aliases for each in versions):
            self.store.call(self.store.client.delete_registered_model_alias, stored.name, alias)

    def _set_alias(self, name: str, alias: str, version: int) -> None:
        self.store.call(self.store.client.set_registered_model_alias, name, alias, str(version))

    def _set_tags(self, stored: StoredModel, values: dict[str, str]) -> None:
        for name, value in values.items():
            self.store.call(self.store.client.set_model_version_tag, stored.name, str(stored.version), name, value)

    def _record(self, stored: StoredModel, who: str, what: str) -> None:
        if isinstance(stored.card, ModelCard) and stored.card.run_id:
            requested_by.record_request(self.store, stored.card.run_id, who, what)

    # -- the registry -------------------------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        wanted, search = f"name LIKE '{PREFIX}%'", self.store.client.search_registered_models
        return sorted(model.name for model in self.store.pages(search, filter_string=wanted, max_results=PAGE))

    def _exists(self, name: str) -> bool:
        search = self.store.client.search_registered_models
        return any(True for _ in self.store.pages(search, filter_string=f"name = '{name}'", max_results=1))

    def _make_registered_model(self, name: str, job: str) -> None:
        """Make the registered model if it is missing. An existing one keeps its description."""
        if self._exists(name):
            return
        try:
            description = lineage.describe_job(job)
            self.store.call(self.store.client.create_registered_model, name, description=description)
        except RunStoreError:
            if not self._exists(name):  # else another process was faster
                raise

    def _versions(self, name: str) -> list[StoredModel]:
        if "'" in name or not self._exists(name):
            return []
        model = self.store.call(self.store.client.get_registered_model, name)  # a search leaves out the aliases
        aliases: dict[int, list[str]] = {}
        for each, number in model.aliases.items():
            aliases.setdefault(int(number), []).append(each)
        search = self.store.client.search_model_versions
        found = self.store.pages(search, filter_string=f"name = '{name}'", max_results=PAGE)
        stored = [_parse_version(version, tuple(sorted(aliases.get(int(version.version), ())))) for version in found]
        return sorted(stored, key=lambda each: each.version)


def registered_model_name(job: str) -> str:
    return PREFIX + quote_name(job)


def _parse_version(version: ModelVersion, aliases: tuple[str, ...]) -> StoredModel:
    card: ModelCard | InputError
    try:
        card = ModelCard.from_tags(version.tags)
    except InputError as error:
        card = error
    return StoredModel(version.name, int(version.version), card, aliases, version.tags.get(DEPRECATED) or None)


def _save(model: BenefitModel, card: ModelCard, folder: Path) -> Path:
    """Write the artefact that MLflow loads through `pyfunc`, and return its folder."""
    data, to = folder / MODEL_FILE, folder / FOLDER
    data.write_text(model.to_json(), encoding="utf-8")
    with quiet_warnings():
        from mlflow import pyfunc as flavour

        flavour.save_model(
            str(to),
            loader_module="autotrascale.knowledge.pyfunc",
            data_path=str(data),
            pip_requirements=[f"autotrascale=={__version__}"],  # else MLflow infers them, which takes seconds
            signature=pyfunc.build_signature(model, card.operators),
            metadata=pyfunc.build_metadata(model, card.operators),
        )
    return to
