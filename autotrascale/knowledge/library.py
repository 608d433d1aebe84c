"""The library of benefit models: MLflow's registry, one registered model `autotrascale.<job>` for each job.

Each version is what one tuning run learned at one rate. Its tags say what of (`Card`); the alias `rate-<R>` names the
newest version of a rate. A model is JSON: reading one computes, and runs no code of the artefact's.
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from autotrascale import __version__
from autotrascale.domain.errors import InputError, RunStoreError
from autotrascale.knowledge import tags
from autotrascale.knowledge.cards import Card, Choice, Stored, Wanted, choose
from autotrascale.knowledge.json_forms import Source
from autotrascale.knowledge.pyfunc import MODEL_FILE
from autotrascale.knowledge.store import PAGE, Store, quiet_warnings, quoted
from autotrascale.plan.search.benefit_model import BenefitModel

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

PREFIX = "autotrascale."
FOLDER = "model"  # in a run's artefacts

_URI = re.compile(r"models:/(?P<name>[^/@]+)(?:/(?P<version>\d+)|@(?P<alias>[\w-]+))")


class Library:
    def __init__(self, store: Store) -> None:
        self.store = store

    # -- reading ------------------------------------------------------------------------------------------------------

    def versions(self, job: str | None = None) -> list[Stored]:
        """Of one job or of all, the oldest first."""
        names = self._names() if job is None else [registered_name(job)]
        return [stored for name in names for stored in self._versions(name)]

    def find(self, reference: str, job: str | None = None) -> Stored:
        """`models:/NAME/3`, `models:/NAME@rate-350000`, or `rate-350000` of this job."""
        uri = reference if job is None or ":" in reference else f"models:/{registered_name(job)}@{reference}"
        match = _URI.fullmatch(uri)
        if match is None:
            raise InputError("model", "is no reference to a stored model", seen=reference,
                             remedy="give models:/NAME/VERSION, models:/NAME@rate-R, or rate-R")  # fmt: skip
        for stored in self._versions(match["name"]):
            if match["version"] == str(stored.version) or match["alias"] in stored.aliases:
                return stored
        raise InputError("model", "is not in the store", seen=reference, remedy="list them: autotrascale models ls")

    def load(self, stored: Stored) -> BenefitModel:
        version = self.store.call(self.store.client.get_model_version, stored.name, str(stored.version))
        if not version.run_id:
            raise RunStoreError(
                f"{stored.uri}: it was not put there by this program, so where its artefact is is not known"
            )
        data = self.store.read_json(version.run_id, f"{FOLDER}/data/{MODEL_FILE}")
        try:
            model = BenefitModel.from_json(json.dumps(data))
            if isinstance(stored.card, Card):
                stored.card.check_describes(model)
        except InputError as error:
            raise error.under(f"{stored.uri}: ") from None
        return model

    def near(self, job: str, wanted: Wanted) -> Choice:
        return choose(self.versions(job), wanted)

    def source(self, stored: Stored) -> Source:
        cold_trials = stored.card.cold_trials if isinstance(stored.card, Card) else None
        return Source(stored.uri, self.load(stored), cold_trials)

    def sources(self, choice: Choice) -> tuple[tuple[Source, ...], tuple[str, ...]]:
        """The chosen models themselves, and a line on each that turned out to be damaged."""
        sources, damaged = [], []
        for stored in choice.chosen:
            try:
                sources.append(self.source(stored))
            except (InputError, RunStoreError) as error:
                damaged.append(str(error))
        return tuple(sources), tuple(damaged)

    # -- adding -------------------------------------------------------------------------------------------------------

    def register(self, model: BenefitModel, card: Card, run_id: str) -> Stored:
        """A version of its own, kept with the run; the same model of the same run is registered once."""
        name = registered_name(card.job)
        known = [s for s in self._versions(name) if isinstance(s.card, Card) and s.card.digest == card.digest]
        same = [s for s in known if isinstance(s.card, Card) and s.card.run_id == card.run_id]
        version = same[-1].version if same else self._add(name, model, card, run_id)
        self.store.call(self.store.client.set_registered_model_alias, name, card.alias, str(version))
        return Stored(name, version, card, (card.alias,))

    def import_model(self, model: BenefitModel, card: Card) -> Stored:
        """A model from elsewhere. It becomes the current one of its rate."""
        self.refuse_duplicate(card)
        client, experiment = self.store.client, self.store.experiment(card.job)
        run_tags = {tags.KIND: tags.IMPORT, tags.JOB: card.job}
        run = self.store.call(client.create_run, experiment, tags=run_tags, run_name=f"import of {card.alias}")
        self.store.call(client.set_terminated, run.info.run_id, "FINISHED")
        return self.register(model, card, run.info.run_id)

    def refuse_duplicate(self, card: Card) -> None:
        for stored in self._versions(registered_name(card.job)):
            if isinstance(stored.card, Card) and stored.card.digest == card.digest:
                raise InputError(f"model of {card.job} at {card.rate:g}/s", f"is in the store already, as {stored.uri}",
                                 remedy="nothing needs to be done")  # fmt: skip

    def _add(self, name: str, model: BenefitModel, card: Card, run_id: str) -> int:
        client = self.store.client
        if not self._exists(name):
            self._make(name)
        with tempfile.TemporaryDirectory() as folder:
            _save(model, Path(folder))
            self.store.call(client.log_artifacts, run_id, str(Path(folder) / FOLDER), FOLDER)
        run = self.store.call(client.get_run, run_id)
        version = self.store.call(
            client.create_model_version, name, f"{run.info.artifact_uri}/{FOLDER}", run_id, card.as_tags()
        )
        return int(version.version)

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

    def _make(self, name: str) -> None:
        try:
            self.store.call(self.store.client.create_registered_model, name)
        except RunStoreError:
            if not self._exists(name):  # else somebody was faster
                raise

    def _versions(self, name: str) -> list[Stored]:
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


def registered_name(job: str) -> str:
    return PREFIX + quoted(job)


def _stored(version: ModelVersion, aliases: tuple[str, ...]) -> Stored:
    card: Card | InputError
    try:
        card = Card.from_tags(version.tags)
    except InputError as error:
        card = error
    return Stored(version.name, int(version.version), card, aliases)


def _save(model: BenefitModel, folder: Path) -> None:
    """The artefact that MLflow loads by way of `flavour`. Named requirements spare it a search of seconds."""
    data = folder / MODEL_FILE
    data.write_text(model.to_json(), encoding="utf-8")
    with quiet_warnings():
        from mlflow import pyfunc

        pyfunc.save_model(
            str(folder / FOLDER), loader_module="autotrascale.knowledge.pyfunc", data_path=str(data),
            pip_requirements=[f"autotrascale=={__version__}"],
        )  # fmt: skip
