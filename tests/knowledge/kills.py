"""Kill a tuning process, check the journal that it left, resume the run, and compare it with an undisturbed run."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from autotrascale.app import tuning_run
from autotrascale.app.job_file import read_job_file
from autotrascale.execute.simulator.engine import SimulatorEngine
from autotrascale.knowledge import job_lock, run_history, tags
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.model_library import ModelLibrary
from autotrascale.tuning import Evaluation
from tests.knowledge import mlflow_stores, victim

SILENT = tuning_run.RunListener(lambda *_: None, lambda _: None, lambda _: None)
PATIENCE = 300.0  # seconds; the machine may be busy

# Name and occurrence of the write before which the process dies: the end of a phase or the begin of the next one.
BOUNDARIES = {
    "opening not kept": ("log_text", 0),
    "before the floor": ("create_run", 1),
    "floor kept, not marked": ("set_terminated", 0),
    "before the search": ("search", 0),
    "search measured, half kept": ("search", 2),
    "before the confirmation": ("confirm", 0),
    "search over": ("conclude", 0),
    "model kept, not registered": ("create_model_version", 0),
    "registered, no alias": ("set_registered_model_alias", 0),
    "all but finished": ("last", 0),
}


@dataclass(frozen=True)
class Moment:
    """A moment: some seconds after a number of accepted evaluations."""

    accepted: int = 0
    seconds: float = 0.0


START = Moment()


@dataclass(frozen=True)
class Expected:
    """The measurements, writes and duration of an undisturbed run of the same job."""

    evaluations: tuple[Evaluation, ...]
    writes: tuple[str, ...]
    seconds: float

    def write(self, name: str, occurrence: int) -> int:
        """Return the number of the write before which a process must die."""
        opening, each = 4, 4  # writes of the opening (lease, run, run.json, parameters) and of one evaluation
        after = opening + each * len(self.evaluations)
        if name in ("search", "confirm"):
            first = next(e.number for e in self.evaluations if e.phase == name)
            return opening + each * (first - 1) + occurrence
        if name == "conclude":
            return after + occurrence
        if name == "last":
            return len(self.writes) - 1
        return [i for i, written in enumerate(self.writes) if written == name][occurrence]

    def moment(self, rng: random.Random) -> Moment:
        """Return a random moment, relative to the progress of the victim, which may be slower than the measured run."""
        place = rng.uniform(0.0, len(self.evaluations))
        whole = min(int(place), len(self.evaluations) - 1)
        return Moment(whole, (place - whole) * self.seconds / len(self.evaluations))


def expected_run(store: MlflowStore, folder: Path) -> Expected:
    # A new name, or the run would start from the model of an earlier run of that name.
    path = mlflow_stores.job_file(folder, f"undisturbed-{folder.name}")
    counted = MlflowStore(store.uri)
    writes = victim.count_writes(counted, lambda *_: None)
    began = time.monotonic()
    finished = _tune(counted, path)
    assert {e.phase for e in finished.outcome.evaluations} == {"floor", "search", "confirm"}
    return Expected(_timeless(finished.outcome.evaluations), tuple(writes), time.monotonic() - began)


def kill_and_resume(
    store: MlflowStore, folder: Path, expected: Expected, name: str, *, call: int | None = None, moment: Moment = START
) -> int:
    """Return how many evaluations ran again. Raise AssertionError if one of them was not under way."""
    path, diary = mlflow_stores.job_file(folder, name), folder / "diary"
    process = victim.start_victim(store.uri, path, diary, call)
    if call is None:
        kill_at(process, diary, moment)
    process.join(PATIENCE)
    assert process.exitcode is not None, "the victim hangs"
    kept = _check_journal(store, name, victim.written(diary), expected)
    again = go_on(store, path, name)
    left = list(expected.evaluations[len(kept) :])
    assert again == len(left), "an evaluation that was kept was run again, or one is missing"
    check_end(store, name, expected)
    return again


def kill_at(process: victim.ForkServerProcess, diary: Path, moment: Moment) -> None:
    """Kill the process at a moment. It may have finished before."""
    until = time.monotonic() + PATIENCE
    while process.is_alive() and time.monotonic() < until:
        if diary.exists() and len(victim.written(diary)) >= moment.accepted:
            break
        time.sleep(0.005)
    time.sleep(moment.seconds)
    process.kill()


def _check_journal(store: MlflowStore, name: str, accepted: Sequence[int], expected: Expected) -> list[Evaluation]:
    """Check the journal after the kill: it has all accepted evaluations, and no evaluation that was not measured."""
    runs = run_history.list_runs(store, name)
    assert all(run.state in ("crashed", "finished") for run in runs)
    kept = [
        e.evaluation for run in runs for e in run_history.read_trials(store, run_history.find_run(store, run.run_id))
    ]
    assert set(accepted) <= {evaluation.number for evaluation in kept}, "an evaluation that was kept is lost"
    assert list(_timeless(kept)) == list(expected.evaluations[: len(kept)])
    assert len(kept) <= len(accepted) + 1
    return kept


def go_on(store: MlflowStore, path: Path, name: str) -> int:
    """Resume the run, or start a new one if there is none. Return the number of new evaluations."""
    ran = 0
    run = SimulatorEngine.run

    def counted(self: SimulatorEngine, *given: object) -> object:
        nonlocal ran
        ran += 1
        return run(self, *given)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SimulatorEngine, "run", counted)
        runs = run_history.list_runs(store, name)
        if runs and runs[0].state == "finished":
            return 0
        if runs and victim.has_opening(store, runs[0].run_id):
            tuning_run.resume(store, name, SILENT)
        else:
            assert not any(run.evaluations for run in runs)
            _tune(store, path)
    return ran


def check_end(store: MlflowStore, name: str, expected: Expected) -> None:
    run = run_history.find_run(store, name)
    record = run_history.read_run(store, run)
    assert record.summary.state == "finished"
    assert record.outcome is not None
    assert _timeless(record.outcome.evaluations) == expected.evaluations
    assert not list(job_lock.search_running(store, store.experiment(name)))
    children = store.client.search_runs(
        [store.experiment(name)], f"attributes.status = 'RUNNING' AND tags.`{tags.KIND}` = '{tags.EVALUATION}'"
    )
    assert children == []
    (model,) = ModelLibrary(store).versions(name)
    assert model.aliases == ("rate-300000",)
    assert ModelLibrary(store).load(model) == record.outcome.model


def _tune(store: MlflowStore, path: Path) -> tuning_run.TuningResult:
    file = read_job_file(path)
    return tuning_run.start(tuning_run.TuningRequest(file, path, "simulator", file.tuning), store, SILENT)


def _timeless(evaluations: Sequence[Evaluation]) -> tuple[Evaluation, ...]:
    return tuple(replace(each, seconds=0.0) for each in evaluations)
