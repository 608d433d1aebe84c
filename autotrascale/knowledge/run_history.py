"""Tuning runs read back: which there are, what became of them, and everything that one of them measured."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from autotrascale.domain.errors import EngineError, InputError, RunStoreError
from autotrascale.knowledge import job_lock, requested_by, run_json, tags
from autotrascale.knowledge.mlflow_store import PAGE, MlflowStore
from autotrascale.knowledge.run_json import RunOpening
from autotrascale.tuning import JournalledTrial, Outcome, tune

if TYPE_CHECKING:
    from mlflow.entities import Run

RunState = Literal["queued", "running", "crashed", "interrupted", "failed", "finished"]

_ENDED: dict[str, RunState] = {
    "SCHEDULED": "queued",
    "KILLED": "interrupted",
    "FAILED": "failed",
    "FINISHED": "finished",
}
_SHORTEST = 4  # characters of a run's id that may name it


@dataclass(frozen=True)
class RunSummary:
    """One line about a run. What is not known yet is None."""

    run_id: str
    job: str
    state: RunState
    rate: float | None
    latency_target: float | None
    engine: str | None
    simulated: bool
    started: str
    ended: str | None
    why: str | None  # why it is where it is: who runs it, what ended it, why the search stopped
    evaluations: int
    parallelism: str | None
    latency_seconds: float | None
    met_target: bool | None
    asked_by: str | None = None  # who asked for it first


@dataclass(frozen=True)
class RunRecord:
    """All of one run. `outcome` is None until the run has come to one."""

    summary: RunSummary
    opening: RunOpening
    trials: tuple[JournalledTrial, ...]
    outcome: Outcome | None

    def _repr_html_(self) -> str | None:
        """As it stands; nothing to draw before its first trial."""
        return compute_outcome(self)._repr_html_() if self.trials else None


def list_runs(store: MlflowStore, job: str | None = None, limit: int = 20) -> list[RunSummary]:
    """The latest first."""
    return [summarise_run(store, run) for run in islice(_runs(store, job, min(limit, PAGE)), limit)]


def search_runs(store: MlflowStore, wanted: str = "") -> Iterator[Run]:
    """The tuning runs of all jobs, those that MLflow finds by `wanted` where that is given."""
    experiments = store.experiments()
    if not experiments:
        return iter(())
    also = f" AND {wanted}" if wanted else ""
    return store.pages(
        store.client.search_runs,
        experiments,
        f"tags.`{tags.KIND}` = '{tags.TUNING}'{also}",
        max_results=PAGE,
        order_by=["attributes.start_time DESC"],
    )


def find_run(store: MlflowStore, name: str) -> Run:
    """A run by its id, the beginning of its id, or `last`; or the last run of the job of that name."""
    if re.fullmatch(r"[0-9a-f]{32}", name):
        try:
            run = store.call(store.client.get_run, name)
        except RunStoreError as error:
            raise _unknown(name, str(error)) from None
        if run.data.tags.get(tags.KIND) != tags.TUNING or run.info.lifecycle_stage != "active":
            raise _unknown(name, "it is no tuning run, or was deleted")
        return run
    found = list(islice(_runs(store, None if name == "last" else name, 1), 1))
    # A job may be called `cafe`, which might also begin an id: the job wins.
    if not found and re.fullmatch(r"[0-9a-f]+", name) and len(name) >= _SHORTEST:
        found = [run for run in _runs(store) if run.info.run_id.startswith(name)]
    if not found:
        raise _unknown(name, "no run is called so, and no job has runs under this name")
    if len(found) > 1:
        raise InputError("run", f"is the beginning of {len(found)} ids", seen=name, remedy="give more of it")
    return found[0]


def summarise_run(store: MlflowStore, run: Run, counted: int | None = None) -> RunSummary:
    """`counted`: its evaluations, where they are known already."""
    run_tags, metrics, state = run.data.tags, run.data.metrics, _state(run)
    evaluations = metrics.get("evaluations") if state == "finished" else None
    count = counted if evaluations is None else int(evaluations)
    why = run_tags.get(tags.STOP_REASON) if state == "finished" else run_tags.get(tags.ENDED)
    if state in ("running", "crashed"):
        why = f"{job_lock.read_owner(run) or 'nobody'}{' is gone' if state == 'crashed' else ''}"
    met = run_tags.get(tags.MET_TARGET)
    return RunSummary(
        run_id=run.info.run_id,
        job=run_tags.get(tags.JOB, "?"),
        state=state,
        rate=_number(run_tags, tags.RATE),
        latency_target=_number(run_tags, tags.LATENCY_TARGET),
        engine=run_tags.get(tags.ENGINE),
        simulated=run_tags.get(tags.SIMULATED) == "true",
        started=_time(run.info.start_time) or "",
        ended=None if run.info.status in ("RUNNING", "SCHEDULED") else _time(run.info.end_time),
        why=why or None,
        evaluations=count_evaluations(store, run) if count is None else count,
        parallelism=run_tags.get(tags.PARALLELISM),
        latency_seconds=metrics.get("latency_seconds"),
        met_target=None if met is None else met == "true",
        asked_by=next((who for _, who, _ in requested_by.read_requests(run_tags)), None),
    )


def count_evaluations(store: MlflowStore, run: Run) -> int:
    """The finished ones."""
    return sum(1 for _ in _children(store, run))


def read_run(store: MlflowStore, run: Run) -> RunRecord:
    trials = read_trials(store, run)
    outcome = None
    if run.info.status == "FINISHED":
        place = f"run {run.info.run_id}: {tags.OUTCOME_FILE}"
        data = store.read_json(run.info.run_id, tags.OUTCOME_FILE)
        outcome = run_json.outcome_from_json(data, [each.evaluation for each in trials], place)
    return RunRecord(summarise_run(store, run), read_opening(store, run.info.run_id), trials, outcome)


def read_opening(store: MlflowStore, run_id: str) -> RunOpening:
    try:
        data = store.read_json(run_id, tags.OPENING_FILE)
    except RunStoreError as error:
        raise InputError(
            f"run {run_id}",
            f"has no opening: it ended before its first evaluation, or its artefacts are out of reach ({error})",
            remedy="start a new run with: autotrascale tune",
        ) from None
    return run_json.opening_from_json(data, f"run {run_id}: {tags.OPENING_FILE}")


def read_trials(store: MlflowStore, run: Run) -> tuple[JournalledTrial, ...]:
    """The finished evaluations, in their order."""
    children = list(_children(store, run))
    trials = store.read_folder(run.info.run_id, tags.TRIALS) if children else {}
    by_number: dict[int, JournalledTrial] = {}
    for child in children:
        name = tags.trial_file_name(int(child.data.tags.get(tags.NUMBER, 0)), child.info.run_id)
        place = f"run {run.info.run_id}: {tags.TRIALS}/{name}"
        if name not in trials:
            raise RunStoreError(f"{place} is missing, and with it an evaluation that was finished")
        trial = run_json.trial_from_json(trials[name], place)
        by_number.setdefault(trial.evaluation.number, trial)
    return tuple(by_number[number] for number in sorted(by_number))


def compute_outcome(record: RunRecord) -> Outcome:
    """What came of the run, or would have if it had ended after its last evaluation."""
    if record.outcome is not None:
        return record.outcome
    if not record.trials:
        raise InputError(
            f"run {record.summary.run_id}",
            "has no finished evaluation yet to explain it by",
            remedy=f"autotrascale runs resume {record.summary.run_id}",
        )
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


class _NoEngine:
    """For a run that is only remembered."""

    def __init__(self, simulated: bool) -> None:
        self.simulated = simulated

    def run(self, parallelism: Mapping[str, int], source_rates: Mapping[str, float]) -> NoReturn:
        raise EngineError(f"a run that is only remembered cannot run {dict(parallelism)} at {dict(source_rates)}")

    def close(self) -> None:
        """Nothing was opened."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _runs(store: MlflowStore, job: str | None = None, page: int = PAGE) -> Iterator[Run]:
    if job is None:
        experiments: Sequence[str] = store.experiments()
    else:
        found = store.find_experiment(job)
        experiments = [] if found is None else [found]
    if not experiments:
        return iter(())
    return store.pages(
        store.client.search_runs,
        experiments,
        f"tags.`{tags.KIND}` = '{tags.TUNING}'",
        max_results=page,
        order_by=["attributes.start_time DESC"],
    )


def _children(store: MlflowStore, run: Run) -> Iterator[Run]:
    wanted = f"attributes.status = 'FINISHED' AND tags.`{tags.PARENT_RUN}` = '{run.info.run_id}'"
    return store.pages(
        store.client.search_runs,
        [run.info.experiment_id],
        wanted,
        max_results=PAGE,
        order_by=["attributes.start_time ASC"],
    )


def _state(run: Run) -> RunState:
    if run.info.status == "RUNNING":
        return "running" if job_lock.is_run_alive(run) else "crashed"
    return _ENDED.get(run.info.status, "failed")


def _number(run_tags: Mapping[str, str], name: str) -> float | None:
    try:
        return float(run_tags[name])
    except (KeyError, ValueError):
        return None


def _time(milliseconds: Any) -> str | None:
    if not milliseconds:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _unknown(name: str, why: str) -> InputError:
    return InputError("run", f"is not in the store: {why}", seen=name, remedy="list them: autotrascale runs ls")
