"""Charts, inputs, outputs, parameters and descriptions of runs in MLflow."""

from __future__ import annotations

import json
from dataclasses import replace

from autotrascale.knowledge.learned_models import LearnedModels
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.model_card import ModelCard
from autotrascale.knowledge.model_library import ModelLibrary
from autotrascale.knowledge.run_history import read_run
from autotrascale.knowledge.run_journal import RunJournal
from autotrascale.knowledge.run_json import ModelSource
from autotrascale.tuning import Outcome, tune
from autotrascale.views.notebook import as_html, install_html_reprs
from tests.knowledge.mlflow_stores import engine, job, learned, opening, tuned


def through(store: MlflowStore, name: str, **changed: object) -> tuple[str, Outcome]:
    at = job(name)
    with RunJournal.start(store, replace(opening(at), **changed)) as journal:  # type: ignore[arg-type]
        outcome = tune(at, engine(), journal.opening.settings, journal=journal, report=journal.log_progress)
        journal.conclude(outcome)
        journal.describe("what came of it", {"report.html": "<html>"})
        if outcome.model is not None:
            ModelLibrary(store).register(
                outcome.model,
                ModelCard.for_model(outcome.model, at, simulated=True, run_id=journal.run_id),
                journal.run_id,
            )
        journal.finish()
    return journal.run_id, outcome


def test_a_run_draws_its_charts_and_says_what_was_chosen(store: MlflowStore, name: str) -> None:
    run_id, outcome = through(store, name)
    client = store.client
    measured = [each for each in outcome.evaluations if each.latency_seconds is not None]
    steps = client.get_metric_history(run_id, "trial/latency_ms")
    assert [each.step for each in steps] == [each.number for each in measured]
    assert [each.value for each in steps] == [1000 * (each.latency_seconds or 0) for each in measured]
    best = client.get_metric_history(run_id, "best/latency_ms")
    assert best[-1].value == 1000 * (outcome.best.latency_seconds or 0)
    assert client.get_metric_history(run_id, "best/score")[-1].value == outcome.best.score
    run = client.get_run(run_id)
    assert run.data.metrics["latency_seconds"] == outcome.best.latency_seconds
    assert {key: value for key, value in run.data.params.items() if key.startswith("k.")} == {
        f"k.{operator}": str(k) for operator, k in outcome.best.parallelism.items()
    }
    assert run.data.tags["mlflow.note.content"] == "what came of it"
    install_html_reprs()
    shown = read_run(store, run)._repr_html_()
    assert shown is not None
    assert shown == as_html(outcome)
    assert "report.html" in {each.path for each in client.list_artifacts(run_id)}


def test_from_the_source_model_over_the_run_to_the_model(store: MlflowStore, name: str) -> None:
    library, (model, card) = ModelLibrary(store), learned(job(name, 100_000.0))
    before = library.import_model(model, card)
    logged = store.client.get_model_version(before.name, str(before.version)).tags["model_id"]
    sources = (
        ModelSource(before.uri, model),
        ModelSource("a/file.json", model),
        ModelSource(f"models:/{before.name}/99", model),
    )
    run_id, outcome = through(store, name, sources=sources)
    run = store.client.get_run(run_id)
    assert [each.model_id for each in run.inputs.model_inputs] == [logged]
    (dataset,) = run.inputs.dataset_inputs
    assert (dataset.dataset.name, dataset.dataset.digest) == (name, opening(job(name)).digest)
    (made,) = run.outputs.model_outputs
    newest = library.versions(name)[-1]
    version = store.client.get_model_version(newest.name, str(newest.version))
    assert version.tags["model_id"] == made.model_id
    assert json.loads(store.client.get_logged_model(made.model_id).tags["mlflow.modelVersions"]) == [
        {"name": newest.name, "version": newest.version}
    ]
    assert store.client.get_logged_model(made.model_id).source_run_id == run_id
    assert outcome.model is not None
    assert library.load(newest) == outcome.model
    assert f"{len(outcome.model.samples)} parallelisms were run" in (version.description or "")
    registered = store.client.get_registered_model(newest.name)
    assert f"streaming job {name}" in (registered.description or "")


def test_what_somebody_wrote_of_a_model_stays(embedded: MlflowStore, name: str) -> None:
    library, (model, card) = ModelLibrary(embedded), learned(job(name))
    first = library.import_model(model, card)
    embedded.client.update_registered_model(first.name, "ours")
    other, other_card = learned(job(name, 200_000.0))
    library.import_model(other, other_card)
    assert embedded.client.get_registered_model(first.name).description == "ours"


def test_a_nearest_miss_is_no_parameter(embedded: MlflowStore, name: str) -> None:
    """A wider budget may find a better configuration, and parameters cannot change."""
    at, settings = job(name, latency=0.01), replace(opening(job(name)).settings, total_trials=3)
    with RunJournal.start(embedded, opening(at, settings)) as journal:
        outcome = tuned(at)
        assert not outcome.met_target
        journal.conclude(replace(outcome, stop_reason="budget"))
        journal.conclude(replace(outcome, stop_reason="budget", best=outcome.evaluations[0]))
        journal.finish()
    assert not [key for key in embedded.client.get_run(journal.run_id).data.params if key.startswith("k.")]


def test_a_control_session_has_one_run_whatever_it_learns(store: MlflowStore, name: str) -> None:
    at, library = job(name), ModelLibrary(store)
    loop = LearnedModels(library, at, simulated=True, session="abc123")
    models = [learned(job(name, rate))[0] for rate in (100_000.0, 200_000.0, 300_000.0)]
    for model in models[:2]:
        loop.keep(model)
    loop.end(finished=False)
    again = LearnedModels(library, at, simulated=True, session="abc123")  # the process that continues the session
    again.keep(models[2])
    again.end(finished=True)
    assert (loop.trouble, again.trouble) == ("", "")
    found = store.client.search_runs([store.experiment(name)])
    (run,) = found
    assert (run.info.status, run.data.tags["autotrascale.session"]) == ("FINISHED", "abc123")
    stored = library.versions(name)
    assert [library.load(each) for each in stored] == models
    assert {store.client.get_model_version(each.name, str(each.version)).run_id for each in stored} == {run.info.run_id}
    history = store.client.get_metric_history(run.info.run_id, "model/rate")
    assert [(each.step, each.value) for each in history] == [(1, 1e5), (2, 2e5), (3, 3e5)]
    assert len(run.outputs.model_outputs) == 3


def test_a_session_that_learned_nothing_leaves_no_run(embedded: MlflowStore, name: str) -> None:
    LearnedModels(ModelLibrary(embedded), job(name), simulated=True, session="nothing").end(finished=True)
    assert not embedded.client.search_runs([embedded.experiment(name)])
