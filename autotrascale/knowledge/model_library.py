"""The library of benefit models: MLflow's registry, one registered model `autotrascale.<job>` for each job.

A version is what is known of the job after a tuning run or a while of autoscaling: the runs at its own rate, and those
at other rates that it was learned together with. Its tags say what of (`Card`); the alias `rate-<R>` names the newest
version of a rate. A model is JSON: reading one computes, and runs no code of the artefact's.
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
FOLDER = "model"  # in the artefacts of a run that leaves one model; of several, each has a folder that begins so
WHERE = "artefacts"  # tag of a version whose folder has another name
DEPRECATED, DEPRECATED_BY = "deprecated", "deprecated_by"  # tags of a version, beside its card

_URI = re.compile(r"models:/(?P<name>[^/@]+)(?:/(?P<version>\d+)|@(?P<alias>[\w-]+))")


class ModelLibrary:
    def __init__(self, store: MlflowStore) -> None:
        self.store = store

    # -- reading ------------------------------------------------------------------------------------------------------

    def versions(self, job: str | None = None) -> list[StoredModel]:
        """Of one job or of all, the oldest first."""
        names = self._names() if job is None else [registered_model_name(job)]
        return [stored for name in names for stored in self._versions(name)]

    def find(self, reference: str, job: str | None = None) -> StoredModel:
        """`models:/NAME/3`, `models:/NAME@rate-350000`, or `rate-350000` of this job."""
        uri = reference if job is None or ":" in reference else f"models:/{registered_model_name(job)}@{reference}"
        match = _URI.fullmatch(uri)
        if match is None:
            raise InputError(
                "model",
                "is no reference to a stored model",
                seen=reference,
                remedy="give models:/NAME/VERSION, models:/NAME@rate-R, or rate-R",
            )
        for stored in self._versions(match["name"]):
            if match["version"] == str(stored.version) or match["alias"] in stored.aliases:
                return stored
        raise InputError("model", "is not in the store", seen=reference, remedy="list them: autotrascale models ls")

    def load(self, stored: StoredModel) -> BenefitModel:
        version = self.store.call(self.store.client.get_model_version, stored.name, str(stored.version))
        if not version.run_id:
            raise RunStoreError(
                f"{stored.uri}: it was not put there by this program, so where its artefact is is not known"
            )
        data = self.store.read_json(version.run_id, f"{version.tags.get(WHERE, FOLDER)}/data/{MODEL_FILE}")
        try:
            model = BenefitModel.from_json(json.dumps(data))
            if isinstance(stored.card, ModelCard):
                stored.card.check_matches(model)
        except InputError as error:
            raise error.under(f"{stored.uri}: ") from None
        return model

    def near(self, job: str, wanted: ModelRequest) -> ModelChoice:
        return choose_models(self.versions(job), wanted)

    def source(self, stored: StoredModel) -> ModelSource:
        cold_trials = stored.card.cold_trials if isinstance(stored.card, ModelCard) else None
        return ModelSource(stored.uri, self.load(stored), cold_trials)

    def sources(self, choice: ModelChoice) -> tuple[tuple[ModelSource, ...], tuple[str, ...]]:
        """The models themselves, the next nearest in the place of one that turned out to be damaged; and a line on each
        that was passed over. Whatever is wrong with one, the others are of use."""
        sources: list[ModelSource] = []
        lines: list[str] = []
        for stored in (*choice.chosen, *choice.spare):
            if len(sources) == len(choice.chosen):
                lines.append(describe_too_far(stored, len(sources)))
                continue
            try:
                sources.append(self.source(stored))
            except (InputError, RunStoreError) as error:
                lines.append(str(error))
            except (ArithmeticError, ValueError) as error:  # its numbers make sense one by one, and not together
                lines.append(f"{stored.uri}: cannot be used: {type(error).__name__}: {error}")
        return tuple(sources), (*lines, *choice.unfit)

    # -- adding -------------------------------------------------------------------------------------------------------

    def register(
        self, model: BenefitModel, card: ModelCard, run_id: str, *, step: int = 0, folder: str = FOLDER
    ) -> StoredModel:
        """A version of its own, kept with the run; the same model of the same run is registered once. A run that leaves
        several names a `folder` for each, and the step at which it came to be."""
        name = registered_model_name(card.job)
        known = [s for s in self._versions(name) if isinstance(s.card, ModelCard) and s.card.digest == card.digest]
        same = [s for s in known if isinstance(s.card, ModelCard) and s.card.run_id == card.run_id]
        version = same[-1].version if same else self._add(name, model, card, run_id, step, folder)
        self._point(name, card.alias, version)
        return StoredModel(name, version, card, (card.alias,))

    def import_model(self, model: BenefitModel, card: ModelCard) -> StoredModel:
        """A model from elsewhere. It becomes the current one of its rate."""
        self.refuse_duplicate(card)
        client, experiment = self.store.client, self.store.experiment(card.job)
        run_tags = {tags.KIND: tags.IMPORT, tags.JOB: card.job}
        run = self.store.call(client.create_run, experiment, tags=run_tags, run_name=f"import of {card.alias}")
        self.store.call(client.set_terminated, run.info.run_id, "FINISHED")
        return self.register(model, card, run.info.run_id)

    def refuse_duplicate(self, card: ModelCard) -> None:
        for stored in self._versions(registered_model_name(card.job)):
            if isinstance(stored.card, ModelCard) and stored.card.digest == card.digest:
                raise InputError(
                    f"model of {card.job} at {card.rate:g}/s",
                    f"is in the store already, as {stored.uri}",
                    remedy="nothing needs to be done",
                )

    def _add(self, name: str, model: BenefitModel, card: ModelCard, run_id: str, step: int, folder: str) -> int:
        client = self.store.client
        self._make_described(name, card.job)
        with tempfile.TemporaryDirectory() as temporary:
            files = _save(model, card, Path(temporary))
            self.store.call(client.log_artifacts, run_id, str(files), folder)
            logged = lineage.log_model(self.store, files, card, run_id, step)
        version_tags = {
            **card.as_tags(),
            lineage.LOGGED_MODEL_TAG: logged.model_id,
            **({} if folder == FOLDER else {WHERE: folder}),
        }
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

    # -- taking away --------------------------------------------------------------------------------------------------

    def deprecate(self, stored: StoredModel, why: str, who: str) -> StoredModel:
        """Kept and shown, but no run starts from it: the version before it stands in for its rate."""
        self._tag(stored, {DEPRECATED: why, DEPRECATED_BY: who})
        self._note(stored, who, f"deprecate {stored.uri}")
        return self._settled(stored)

    def restore(self, stored: StoredModel, who: str) -> StoredModel:
        self._tag(stored, {DEPRECATED: "", DEPRECATED_BY: who})
        self._note(stored, who, f"restore {stored.uri}")
        return self._settled(stored)

    def remove(self, stored: StoredModel, who: str) -> None:
        """For good. What it was made of stays with its run."""
        self._note(stored, who, f"remove {stored.uri}")
        self.store.call(self.store.client.delete_model_version, stored.name, str(stored.version))
        self._point_anew(stored)

    def _settled(self, stored: StoredModel) -> StoredModel:
        self._point_anew(stored)
        return next(each for each in self._versions(stored.name) if each.version == stored.version)

    def _point_anew(self, stored: StoredModel) -> None:
        """The alias of its rate, at the newest version that may be used; where there is none, at nothing."""
        if not isinstance(stored.card, ModelCard):
            return
        alias, versions = stored.card.alias, self._versions(stored.name)
        fit = [s for s in versions if isinstance(s.card, ModelCard) and s.card.alias == alias and s.deprecated is None]
        if fit:
            self._point(stored.name, alias, fit[-1].version)
        elif any(alias in each.aliases for each in versions):
            self.store.call(self.store.client.delete_registered_model_alias, stored.name, alias)

    def _point(self, name: str, alias: str, version: int) -> None:
        self.store.call(self.store.client.set_registered_model_alias, name, alias, str(version))

    def _tag(self, stored: StoredModel, told: dict[str, str]) -> None:
        for name, value in told.items():
            self.store.call(self.store.client.set_model_version_tag, stored.name, str(stored.version), name, value)

    def _note(self, stored: StoredModel, who: str, what: str) -> None:
        if isinstance(stored.card, ModelCard) and stored.card.run_id:
            requested_by.record_request(self.store, stored.card.run_id, who, what)

    # -- the registry -------------------------------------------------------------------------------------------------

    def _names(self) -> list[str]:
        found = self.store.pages(
            self.store.client.search_registered_models, filter_string=f"name LIKE '{PREFIX}%'", max_results=PAGE
        )
        return sorted(model.name for model in found)

    def _exists(self, name: str) -> bool:
        found = self.store.pages(
            self.store.client.search_registered_models, filter_string=f"name = '{name}'", max_results=1
        )
        return any(True for _ in found)

    def _make_described(self, name: str, job: str) -> None:
        """One that is there keeps what somebody wrote of it; those that earlier versions made have nothing."""
        if self._exists(name):
            if not self.store.call(self.store.client.get_registered_model, name).description:
                self.store.call(self.store.client.update_registered_model, name, lineage.describe_job(job))
            return
        try:
            self.store.call(self.store.client.create_registered_model, name, description=lineage.describe_job(job))
        except RunStoreError:
            if not self._exists(name):  # else somebody was faster
                raise

    def _versions(self, name: str) -> list[StoredModel]:
        if "'" in name or not self._exists(name):
            return []
        model = self.store.call(self.store.client.get_registered_model, name)  # a search would leave out the aliases
        aliases: dict[int, list[str]] = {}
        for each, number in model.aliases.items():
            aliases.setdefault(int(number), []).append(each)
        found = self.store.pages(
            self.store.client.search_model_versions, filter_string=f"name = '{name}'", max_results=PAGE
        )
        stored = [_stored(version, tuple(sorted(aliases.get(int(version.version), ())))) for version in found]
        return sorted(stored, key=lambda each: each.version)


def registered_model_name(job: str) -> str:
    return PREFIX + quote_name(job)


def _stored(version: ModelVersion, aliases: tuple[str, ...]) -> StoredModel:
    card: ModelCard | InputError
    try:
        card = ModelCard.from_tags(version.tags)
    except InputError as error:
        card = error
    return StoredModel(version.name, int(version.version), card, aliases, version.tags.get(DEPRECATED) or None)


def _save(model: BenefitModel, card: ModelCard, folder: Path) -> Path:
    """The artefact that MLflow loads by way of `pyfunc`, and where. Named requirements spare it a search of seconds."""
    data, to = folder / MODEL_FILE, folder / FOLDER
    data.write_text(model.to_json(), encoding="utf-8")
    with quiet_warnings():
        from mlflow import pyfunc as flavour

        flavour.save_model(
            str(to),
            loader_module="autotrascale.knowledge.pyfunc",
            data_path=str(data),
            pip_requirements=[f"autotrascale=={__version__}"],
            signature=pyfunc.build_signature(model, card.operators),
            metadata=pyfunc.build_metadata(model, card.operators),
        )
    return to
