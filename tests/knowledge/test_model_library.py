"""The library of benefit models, in an embedded store and in a served one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autotrascale.domain.errors import InputError, RunStoreError
from autotrascale.knowledge import model_files, requested_by
from autotrascale.knowledge.mlflow_store import MlflowStore, quiet_warnings
from autotrascale.knowledge.model_card import ModelCard, ModelRequest, StoredModel
from autotrascale.knowledge.model_library import ModelLibrary, registered_model_name
from autotrascale.plan.search.benefit_model import BenefitModel
from tests.knowledge.mlflow_stores import job, learned


def add(store: MlflowStore, name: str, rate: float = 300_000.0, run: str = "a") -> StoredModel:
    model, card = learned(job(name, rate), run_id=run)
    run_id = store.client.create_run(store.experiment(name)).info.run_id
    return ModelLibrary(store).register(model, card, run_id)


def test_a_model_comes_back_as_it_was(store: MlflowStore, name: str) -> None:
    stored = add(store, name)
    assert (stored.version, stored.aliases) == (1, ("rate-300000",))
    library = ModelLibrary(store)
    assert library.versions(name) == [stored]
    assert stored in library.versions()
    model, card = learned(job(name), run_id="a")
    assert library.load(stored) == model
    assert stored.card == card


def test_models_are_found_by_version_alias_and_rate(store: MlflowStore, name: str) -> None:
    stored, library = add(store, name), ModelLibrary(store)
    for said in (f"models:/{stored.name}/1", f"models:/{stored.name}@rate-300000", "rate-300000"):
        assert library.find(said, name) == stored
    for said in (f"models:/{stored.name}/2", "rate-1", "models:/autotrascale.nobody/1"):
        with pytest.raises(InputError, match="is not in the store"):
            library.find(said, name)
    for said in ("models:/", "no model", "models:/a/b/c"):
        with pytest.raises(InputError, match=r"is not a reference to a stored model|is not in the store"):
            library.find(said, name)


def test_a_run_that_died_while_registering_registers_once(store: MlflowStore, name: str) -> None:
    first = add(store, name)
    store.client.delete_registered_model_alias(first.name, "rate-300000")
    assert add(store, name) == first
    assert [each.aliases for each in ModelLibrary(store).versions(name)] == [("rate-300000",)]


def test_the_alias_follows_the_newest_model_of_its_rate(embedded: MlflowStore, name: str) -> None:
    add(embedded, name)
    add(embedded, name, run="b")
    add(embedded, name, rate=200_000.0)
    found = ModelLibrary(embedded).versions(name)
    assert [(each.version, each.aliases) for each in found] == [(1, ()), (2, ("rate-300000",)), (3, ("rate-200000",))]


def test_the_nearest_models_are_loaded_and_the_damaged_one_is_said(store: MlflowStore, name: str) -> None:
    library = ModelLibrary(store)
    damaged = add(store, name, 100_000.0)
    run_id = store.client.get_model_version(damaged.name, "1").run_id
    assert run_id is not None
    model, _ = learned(job(name, 5.0))
    store.client.log_text(run_id, model.to_json(), "model/data/model.json")
    add(store, name)
    wanted = ModelRequest.for_job(job(name, 120_000.0), execution="pipelined", simulated=True)
    sources, lines = library.load_sources(library.choose(name, wanted))
    assert [source.model.rate for source in sources] == [300_000.0]
    assert lines == (
        f"{damaged.uri}: tags.rate: does not match the model, which has 5.0 (seen: 100000.0); export the model again",
    )


def test_mlflow_itself_can_load_and_ask_a_model(
    embedded: MlflowStore, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = add(embedded, name)
    import pandas as pd

    # Both are needed: without one of them MLflow makes a store in the current folder.
    monkeypatch.setenv("MLFLOW_TRACKING_URI", embedded.uri)
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", embedded.uri)
    with quiet_warnings():
        import mlflow

        loaded = mlflow.pyfunc.load_model(f"models:/{stored.name}@rate-300000")
        answer = loaded.predict(pd.DataFrame([[5, 10], [24, 24]], columns=["source", "count"]))
    mean, std = learned(job(name))[0].predict([[5, 10], [24, 24]])
    assert np.allclose(answer["mean"], mean)
    assert np.allclose(answer["std"], std)


def test_the_artefact_holds_no_code_and_no_pickle(embedded: MlflowStore, name: str) -> None:
    stored = add(embedded, name)
    run_id = embedded.client.get_model_version(stored.name, "1").run_id
    assert run_id is not None
    folder = Path(embedded.client.get_run(run_id).info.artifact_uri or "") / "model"
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files == {"MLmodel", "conda.yaml", "python_env.yaml", "requirements.txt", "data/model.json"}
    assert json.loads((folder / "data" / "model.json").read_text())["rate"] == 300_000.0


def test_a_version_that_somebody_else_registered_is_passed_over(embedded: MlflowStore, name: str) -> None:
    model = registered_model_name(name)
    embedded.client.create_registered_model(model)
    embedded.client.create_model_version(model, source="/nowhere")
    library = ModelLibrary(embedded)
    choice = library.choose(name, ModelRequest.for_job(job(name), execution=None, simulated=True))
    assert choice.skipped_models == (
        f"models:/{model}/1: tags.job: is missing or has an unknown value; register the model again",
    )
    with pytest.raises(RunStoreError, match="another program registered it"):
        library.load(library.versions(name)[0])


def test_files_carry_models_from_store_to_store(store: MlflowStore, name: str, tmp_path: Path) -> None:
    model, card = learned(job(f"{name}: a/b 'c' 漢"), run_id="a")
    path = model_files.write_model(tmp_path / "models", model, card)
    assert path.name == f"{name}__a_b__c___-rate-300000.json"
    assert model_files.write_model(tmp_path / "models", model, card) == path
    assert model_files.is_model_export(path)
    read, said = model_files.read_model(path)
    assert (read, said) == (model, card)
    library = ModelLibrary(store)
    stored = library.import_model(read, said)
    assert library.load(stored) == model
    with pytest.raises(
        InputError, match=rf"is in the store already, as {stored.uri.replace('+', '.')}".replace("(", ".")
    ):
        library.import_model(read, said)
    assert [each.card for each in library.versions(said.job)] == [card]


def test_a_file_is_never_replaced_by_another_model(tmp_path: Path) -> None:
    model, card = learned(job("small"))
    path = model_files.write_model(tmp_path, model, card)
    other, other_card = learned(job("small", latency=0.08))
    with pytest.raises(InputError, match="exists and holds something else"):
        model_files.write_model(tmp_path, other, other_card)
    path.write_text("{}")
    with pytest.raises(InputError, match="exists and holds something else"):
        model_files.write_model(tmp_path, model, card)


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        model_files.write_model(tmp_path / "file", *learned(job("small")))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"card": None}, "card"),
        ({"format": "other"}, "format: is not one of the allowed values"),
        ({"version": 2}, "version: is not one of the allowed values"),
        ({"card": {"rate": 1.0}}, r"tags.rate: does not match the model, which has 300000.0 \(seen: 1.0\)"),
        ({"card": {"operators": ["one"]}}, "tags.operators: does not match the model"),
        ({"card": {"execution": "micro-batch"}}, "tags.execution: does not match the model"),
        ({"card": {"digest": "0"}}, "tags.digest: does not match the model"),
        ({"card": {"statistic": "p42"}}, "card.statistic: is not a latency statistic"),
        ({"model": {"samples": []}}, "samples: is empty"),
        ({"model": {"theta": ["a"]}}, "model.theta: must be a list of numbers"),
        ({"model": {"surprise": 1}}, "model.surprise: is not a known key"),
    ],
)
def test_an_import_is_checked(tmp_path: Path, change: dict[str, object], said: str) -> None:
    path = model_files.write_model(tmp_path, *learned(job("small")))
    data = json.loads(path.read_text())
    for key, value in change.items():
        data[key] = {**data[key], **value} if isinstance(value, dict) else value
    path.write_text(json.dumps(data))
    with pytest.raises(InputError, match=said) as caught:
        model_files.read_model(path)
    assert str(path) in str(caught.value)


def test_a_bare_model_is_no_export(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text(learned(job("small"))[0].to_json())
    assert not model_files.is_model_export(path)
    assert not model_files.is_model_export(tmp_path / "none.json")
    with pytest.raises(InputError, match="format: is missing"):
        model_files.read_model(path)


def test_a_card_cannot_be_put_on_another_model() -> None:
    model, card = learned(job("small"))
    card.check_matches(model)
    with pytest.raises(InputError, match=r"tags.latency_target: does not match the model"):
        replace(card, latency_target=1.0).check_matches(model)
    assert isinstance(card, ModelCard)


def test_a_model_is_deprecated_restored_and_removed(store: MlflowStore, name: str) -> None:
    """The alias of a rate always names the newest version that may be used."""
    library = ModelLibrary(store)
    first, second = add(store, name), add(store, name, run="b")
    wanted = ModelRequest.for_job(job(name), execution="pipelined", simulated=True)

    def current() -> list[int]:
        return [each.version for each in library.versions(name) if "rate-300000" in each.aliases]

    said = library.deprecate(second, "made on a broken machine", "alice at 10.0.0.7")
    assert (said.deprecated, said.aliases, current()) == ("made on a broken machine", (), [1])
    choice = library.choose(name, wanted)
    assert choice.chosen == (library.versions(name)[0],)
    assert choice.skipped_models == (f"{second.uri}: it is deprecated: made on a broken machine",)
    library.deprecate(first, "this one too", "alice at 10.0.0.7")
    assert current() == []
    assert library.choose(name, wanted).chosen == ()
    assert library.restore(second, "bob at 10.0.0.8").deprecated is None
    assert current() == [2]
    library.remove(second, "bob at 10.0.0.8")
    assert [each.version for each in library.versions(name)] == [1]
    assert current() == []
    library.remove(first, "bob at 10.0.0.8")
    assert library.versions(name) == []
    assert add(store, name, run="c").version == 3


def test_who_took_a_model_away_is_kept_with_the_run_that_made_it(embedded: MlflowStore, name: str) -> None:
    library, (model, card) = ModelLibrary(embedded), learned(job(name))
    stored = library.import_model(model, card)
    run_id = embedded.client.get_model_version(stored.name, "1").run_id
    (imported,) = library.versions(name)
    own = replace(imported, card=replace(imported.card, run_id=run_id))  # type: ignore[type-var]
    library.deprecate(own, "why not", "alice at 10.0.0.7")
    library.remove(own, "bob at 10.0.0.8")
    noted = requested_by.read_requests(embedded.client.get_run(str(run_id)).data.tags)
    assert [(who, what) for _, who, what in noted] == [
        ("alice at 10.0.0.7", f"deprecate {stored.uri}"),
        ("bob at 10.0.0.8", f"remove {stored.uri}"),
    ]


@pytest.mark.parametrize("rate", ["5e-324", "1e300", "nan", "inf", "0", "-1", "many"])
def test_a_model_of_no_rate_is_passed_over_and_said(embedded: MlflowStore, name: str, rate: str) -> None:
    """Another program may register a model with such a rate."""
    bad, good = add(embedded, name, 100_000.0), add(embedded, name)
    embedded.client.set_model_version_tag(bad.name, str(bad.version), "rate", rate)
    library = ModelLibrary(embedded)
    wanted = ModelRequest.for_job(job(name, 120_000.0), execution="pipelined", simulated=True)
    sources, (line,) = library.load_sources(library.choose(name, wanted))
    assert [source.name for source in sources] == [good.uri]
    assert line.startswith(f"{bad.uri}: tags")
    assert "\n" not in line


def test_the_next_nearest_stands_in_for_a_model_that_cannot_be_read(
    embedded: MlflowStore, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading may fail in any way."""
    rates = [100_000.0, 110_000.0, 120_000.0, 150_000.0, 400_000.0]
    stored = [add(embedded, name, rate) for rate in rates]
    library, load = ModelLibrary(embedded), ModelLibrary.load
    errors = {stored[0].uri: OverflowError("too large"), stored[2].uri: InputError("samples", "is empty")}

    def read(self: ModelLibrary, each: StoredModel) -> BenefitModel:
        if each.uri in errors:
            raise errors[each.uri]
        return load(self, each)

    monkeypatch.setattr(ModelLibrary, "load", read)
    wanted = ModelRequest.for_job(job(name, 115_000.0), execution="pipelined", simulated=True)
    sources, lines = library.load_sources(library.choose(name, wanted))
    assert [source.model.rate for source in sources] == [110_000.0, 150_000.0, 400_000.0]
    assert sorted(lines) == sorted(["samples: is empty", f"{stored[0].uri}: cannot be used: OverflowError: too large"])
