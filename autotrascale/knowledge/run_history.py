"""Stored tuning runs: lists, single runs with all their measurements, and the outcome so far."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from autotrascale.closeable import Closeable
from autotrascale.domain.errors import EngineError, InputError, RunStoreError
from autotrascale.knowledge import job_lock, requested_by, run_json, tags
from autotrascale.knowledge.mlflow_store import PAGE, MlflowStore
from autotrascale.knowledge.run_json import RunOpening
from autotrascale.tuning import JournalledTrial, Outcome, tune

if TYPE_CHECKING:
    from mlflow.entities import Run

RunState = Literal["queued", "running", "crashed", "interrupted", "failed", "finished"]

_STATE_BY_STATUS: dict[str, RunState] = {
    "SCHEDULED": "queued",
    "KILLED": "interrupted",
    "FAILED": "failed",
    "FINISHED": "finished",
}
_MIN_ID_LENGTH = 4  # characters of a run's id that may name it
_NEWEST_FIRST = ["attributes.start_time DESC"]


@dataclass(frozen=True)
class RunSummary:
    """A line about a run. Values that are not known yet are None.

    Args:
        run_id: id of the MLflow run.
        job: name of the job.
        state: state of the run.
        rate: input rate in records per second.
        latency_target: target in seconds.
        engine: name of the engine.
        simulated: whether the engine simulates.
        started: start time, ISO 8601 in UTC.
        ended: end time, or None while the run is queued or under way.
        why: the process that runs it, the cause of its end, or the stop reason.
        evaluations: number of finished evaluations.
        parallelism: best parallelism, such as "(2,4)".
        latency_seconds: latency of the best configuration.
        met_target: whether that latency meets the target.
        asked_by: user of the first request.
    """

    run_id: str
    job: str
    state: RunState
    rate: float | None
    latency_target: float | None
    engine: str | None
    simulated: bool
    started: str
    ended: str | None
    why: str | None
    evaluations: int
    parallelism: str | None
    latency_seconds: float | None
    met_target: bool | None
    asked_by: str | None = None


@dataclass(frozen=True)
class RunRecord:
    """A run with its trials. `outcome` is None until the run has concluded."""

    summary: RunSummary
    opening: RunOpening
    trials: tuple[JournalledTrial, ...]
    outcome: Outcome | None

    def _repr_html_(self) -> str | None:
        # `views.notebook` gives outcomes their HTML form; a run without a trial has none.
        show = getattr(compute_outcome(self), "_repr_html_", None) if self.trials else None
        return None if show is None else str(show())


def list_runs(store: MlflowStore, job: str | None = None, limit: int = 20) -> list[RunSummary]:
    """Return the latest runs of a job, or of all jobs, the newest first."""
    return [summarise_run(store, run) for run in islice(_runs(store, job, min(limit, PAGE)), limit)]


def search_runs(store: MlflowStore, wanted: str = "") -> Iterator[Run]:
    """Yield the tuning runs of all jobs, the newest first. `wanted` is a further condition in MLflow's language."""
    return _search(store, store.experiments(), wanted)


def find_run(store: MlflowStore, name: str) -> Run:
    """Return a run by its id, by the beginning of its id, by its job (the last run of it), or by `last`.

    Raises:
        InputError: no run or several runs have this name.
    """
    if re.fullmatch(r"[0-9a-f]{32}", name):
        try:
            run = store.call(store.client.get_run, name)
        except RunStoreError as error:
            raise _unknown_run(name, str(error)) from None
        if run.data.tags.get(tags.KIND) != tags.TUNING or run.info.lifecycle_stage != "active":
            raise _unknown_run(name, "it is not a tuning run, or was deleted")
        return run
    found = list(islice(_runs(store, None if name == "last" else name, 1), 1))
    # A job may be called `cafe`, which could also begin an id: the job wins.
    if not found and re.fullmatch(r"[0-9a-f]+", name) and len(name) >= _MIN_ID_LENGTH:
        found = [run for run in _runs(store) if run.info.run_id.startswith(name)]
    if not found:
        raise _unknown_run(name, "no run has this id, and no job of this name has runs")
    if len(found) > 1:
        raise InputError("run", f"is the beginning of {len(found)} ids", seen=name, remedy="give more of it")
    return found[0]


def summarise_run(store: MlflowStore, run: Run, counted: int | None = None) -> RunSummary:
    """Return one line about a run. `counted` is the number of its evaluations, if the caller knows it."""
    run_tags, metrics, state = run.data.tags, run.data.metrics, _state_of(run)
    evaluations = metrics.get("evaluations") if state == "finished" else None
    count = counted if evaluations is None else int(evaluations)
    why = run_tags.get(tags.STOP_REASON) if state == "finished" else run_tags.get(tags.ENDED)
    if state in ("running", "crashed"):
        why = f"{job_lock.read_owner(run) or 'an unknown process'}{' is gone' if state == 'crashed' else ''}"
    met = run_tags.get(tags.MET_TARGET)
    return RunSummary(
        run_id=run.info.run_id,
        job=run_tags.get(tags.JOB, "?"),
        state=state,
        rate=_read_number(run_tags, tags.RATE),
        latency_target=_read_number(run_tags, tags.LATENCY_TARGET),
        engine=run_tags.get(tags.ENGINE),
        simulated=run_tags.get(tags.SIMULATED) == "true",
        started=_format_time(run.info.start_time) or "",
        ended=None if run.info.status in ("RUNNING", "SCHEDULED") else _format_time(run.info.end_time),
        why=why or None,
        evaluations=count_evaluations(store, run) if count is None else count,
        parallelism=run_tags.get(tags.PARALLELISM),
        latency_seconds=metrics.get("latency_seconds"),
        met_target=None if met is None else met == "true",
        asked_by=next((who for _, who, _ in requested_by.read_requests(run_tags)), None),
    )


def count_evaluations(store: MlflowStore, run: Run) -> int:
    """Return the number of finished evaluations."""
    return sum(1 for _ in _finished_evaluations(store, run))


def read_run(store: MlflowStore, run: Run) -> RunRecord:
    trials = read_trials(store, run)
    outcome = None
    if run.info.status == "FINISHED":
        place = f"run {run.info.run_id}: {tags.OUTCOME_FILE}"
        data = store.read_json(run.info.run_id, tags.OUTCOME_FILE)
        outcome = run_json.outcome_from_json(data, [each.evaluation for each in trials], place)
    return RunRecord(summarise_run(store, run), read_opening(store, run.info.run_id), trials, outcome)


def read_opening(store: MlflowStore, run_id: str) -> RunOpening:
    """Return the inputs of a run. Raise `InputError` if it ended before it stored them."""
    try:
        data = store.read_json(run_id, tags.OPENING_FILE)
    except RunStoreError as error:
        problem = f"has no opening: it ended before its first evaluation, or its artefacts cannot be read ({error})"
        raise InputError(f"run {run_id}", problem, remedy="start a new run with: autotrascale tune") from None
    return run_json.opening_from_json(data, f"run {run_id}: {tags.OPENING_FILE}")


def read_trials(store: MlflowStore, run: Run) -> tuple[JournalledTrial, ...]:
    """Return the finished trials in their order. Raise `RunStoreError` if the file of one is missing."""
    children = list(_finished_evaluations(store, run))
    files = store.read_folder(run.info.run_id, tags.TRIALS) if children else {}
    by_number: dict[int, JournalledTrial] = {}
    for child in children:
        name = tags.trial_file_name(int(child.data.tags.get(tags.NUMBER, 0)), child.info.run_id)
        place = f"run {run.info.run_id}: {tags.TRIALS}/{name}"
        if name not in files:
            raise RunStoreError(f"{place} is missing, so a finished evaluation is lost")
        trial = run_json.trial_from_json(files[name], place)
        by_number.setdefault(trial.evaluation.number, trial)
    return tuple(by_number[number] for number in sorted(by_number))


def compute_outcome(record: RunRecord) -> Outcome:
    """Return the outcome of a run. A run under way gets the outcome of its trials so far."""
    if record.outcome is not None:
        return record.outcome
    if not record.trials:
        remedy = f"autotrascale runs resume {record.summary.run_id}"
        raise InputError(f"run {record.summary.run_id}", "has no finished evaluation to explain yet", remedy=remedy)
    opening = record.opening
    outcome = tune(
        opening.job,
        _NoEngine(opening.simulated),
        replace(opening.settings, total_trials=len(record.trials)),
        sources=[source.model for source in opening.sources],
        past=record.trials,
        policy=opening.policy,
    )
    return outcome if outcome.concluded else replace(outcome, stop_reason=record.summary.state)


class _NoEngine(Closeable):
    """An engine for a replay of past trials, which starts no trial."""

    def __init__(self, simulated: bool) -> None:
        self.simulated = simulated

    def run(self, parallelism: Mapping[str, int], source_rates: Mapping[str, float]) -> NoReturn:
        raise EngineError(f"a replay cannot run {dict(parallelism)} at {dict(source_rates)}")


def _runs(store: MlflowStore, job: str | None = None, page: int = PAGE) -> Iterator[Run]:
    if job is None:
        return _search(store, store.experiments(), page=page)
    experiment = store.find_experiment(job)
    return _search(store, [] if experiment is None else [experiment], page=page)


def _search(store: MlflowStore, experiments: Sequence[str], wanted: str = "", page: int = PAGE) -> Iterator[Run]:
    if not experiments:
        return iter(())
    condition = f"tags.`{tags.KIND}` = '{tags.TUNING}'" + (f" AND {wanted}" if wanted else "")
    return store.pages(store.client.search_runs, experiments, condition, max_results=page, order_by=list(_NEWEST_FIRST))


def _finished_evaluations(store: MlflowStore, run: Run) -> Iterator[Run]:
    wanted = f"attributes.status = 'FINISHED' AND tags.`{tags.PARENT_RUN}` = '{run.info.run_id}'"
    order = ["attributes.start_time ASC"]
    return store.pages(store.client.search_runs, [run.info.experiment_id], wanted, max_results=PAGE, order_by=order)


def _state_of(run: Run) -> RunState:
    if run.info.status == "RUNNING":
        return "running" if job_lock.is_run_alive(run) else "crashed"
    return _STATE_BY_STATUS.get(run.info.status, "failed")


def _read_number(run_tags: Mapping[str, str], name: str) -> float | None:
    try:
        return float(run_tags[name])
    except (KeyError, ValueError):
        return None


def _format_time(milliseconds: Any) -> str | None:
    if not milliseconds:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _unknown_run(name: str, why: str) -> InputError:
    return InputError("run", f"is not in the store: {why}", seen=name, remedy="list runs with: autotrascale runs ls")
