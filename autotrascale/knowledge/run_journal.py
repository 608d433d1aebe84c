"""The journal of one tuning run, as an MLflow run. Each evaluation is a nested run, stored as soon as it is measured.

    with RunJournal.start(store, opening) as journal:       # or RunJournal.resume(store, run)
        outcome = tune(..., journal=journal, past=journal.past)
        journal.conclude(outcome)
        journal.finish()

A nested run is FINISHED when all of its evaluation is in the store; no other mark counts. The process may die at any
point: FINISHED evaluations stay, all other evaluations run again. Only the holder of the job's lease writes, and it
checks the lease before each write (`lease.py`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from autotrascale.domain.errors import InputError, JobBusyError, RunCancelledError, RunLostError, RunStoreError
from autotrascale.knowledge import job_lock, lineage, run_json, tags
from autotrascale.knowledge.lease import Lease, take_lease
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.process_identity import ProcessIdentity
from autotrascale.knowledge.run_history import read_opening, read_trials
from autotrascale.knowledge.run_json import RunOpening
from autotrascale.knowledge.store_retry import ShowMessage
from autotrascale.tuning import JournalledTrial, Outcome, TrialPhase, TuningProgress, TuningSettings

if TYPE_CHECKING:
    from mlflow.entities import Run

CANCEL_CHECK_SECONDS = 2.0  # at least so long between two reads of the cancel tag

_ACCEPTED = "target-met"  # after this stop reason, further trials are of no use
_PARAM_LIMIT = 100  # parameters and tags that MLflow takes in one call


class RunJournal:
    """The journal of a tuning run, for as long as this process holds the lease of the job.

    Args:
        lease: lease of the job; the journal releases it at the end of its `with` block.
        run_id: id of the MLflow run.
        opening: inputs of the run.
        past: trials of the run so far.
    """

    def __init__(self, lease: Lease, run_id: str, opening: RunOpening, past: Sequence[JournalledTrial]) -> None:
        self.lease, self.store = lease, lease.fence(lease.store)
        self.run_id, self.opening, self.past = run_id, opening, tuple(past)
        self._experiment = self.store.experiment(opening.job.name)
        self._evaluation_id: str | None = None  # nested run under way
        self._unsaved: JournalledTrial | None = None
        self._finished = False
        self._chosen: Mapping[str, int] = {}
        self._cancel_checked = -math.inf

    @property
    def owner(self) -> ProcessIdentity:
        return self.lease.owner

    # -- opening ------------------------------------------------------------------------------------------------------

    @classmethod
    def start(
        cls, store: MlflowStore, opening: RunOpening, queued: str | None = None, lease: Lease | None = None
    ) -> Self:
        """Start a new run.

        Args:
            store: the store.
            opening: inputs of the run.
            queued: id of a queued run to start, instead of a new MLflow run.
            lease: lease of the job, if the caller has taken it; the journal owns it from here on.

        Raises:
            JobBusyError: another process holds the job.
            RunCancelledError: the queued run was cancelled.
        """
        lease = lease or job_lock.lock_job(store, opening.job.name, job_lock.TUNED)
        try:
            if queued is not None and store.call(store.client.get_run, queued).info.status == "KILLED":
                raise RunCancelledError(f"run {queued} was cancelled before it began")
            fenced = lease.fence(store)
            experiment = fenced.experiment(opening.job.name)
            job_lock.end_orphaned_runs(fenced, experiment, spare=queued)
            run_id = _create_run(fenced, experiment, opening, lease.owner, queued)
            return cls(lease, run_id, opening, ())._announce()
        except BaseException:
            lease.release()
            raise

    @classmethod
    def resume(
        cls,
        store: MlflowStore,
        run: Run,
        total_trials: int | None = None,
        max_seconds: float | None = None,
        lease: Lease | None = None,
    ) -> Self:
        """Take over a run that no process works on.

        Args:
            store: the store.
            run: the run.
            total_trials: new limit of trials; None keeps the old one.
            max_seconds: new limit in seconds; None keeps the old one.
            lease: lease of the job, if the caller has taken it; the journal owns it from here on.

        Raises:
            JobBusyError: another process holds the job.
            InputError: the run is finished.
        """
        run_id, experiment = run.info.run_id, str(run.info.experiment_id)
        lease = lease or lock_run_to_resume(store, run)
        try:
            fenced = lease.fence(store)
            run = fenced.call(fenced.client.get_run, run_id)  # its last process may have ended it meanwhile
            _refuse_if_finished(run, is_budget_wider=total_trials is not None or max_seconds is not None)
            job_lock.end_orphaned_runs(fenced, experiment, spare=run_id)
            opening = read_opening(fenced, run_id)
            settings = _widen_budget(opening.settings, total_trials, max_seconds)
            job_lock.end_evaluations(fenced, run_id, "KILLED", orphaned=True)
            past = read_trials(fenced, run)  # from here on only this process adds trials
            for name, value in {**job_lock.owner_tags(lease.owner), tags.ENDED: "", tags.CANCEL: ""}.items():
                fenced.call(fenced.client.set_tag, run_id, name, value)
            fenced.call(fenced.client.update_run, run_id, status="RUNNING")
            journal = cls(lease, run_id, opening, past)._announce()
            if settings != opening.settings:
                journal.opening = replace(opening, settings=settings)
                fenced.write_json(run_id, tags.OPENING_FILE, run_json.opening_to_json(journal.opening))
            return journal
        except BaseException:
            lease.release()
            raise

    def _announce(self) -> Self:
        """Name the run in the lease, and write a heartbeat of the run with each heartbeat of the lease."""
        self.lease.set_work(f"run {self.run_id}")
        self.lease.add_beat_action(self._beat)
        return self

    def _beat(self) -> None:
        self.store.call(self.store.client.set_tag, self.run_id, tags.HEARTBEAT, f"{time.time():.0f}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if not self._finished and not isinstance(error, RunLostError):
                self._end(error)
        except (RunStoreError, RunLostError):
            if error is None:
                raise
        finally:
            self.lease.release()

    # -- one trial ----------------------------------------------------------------------------------------------------

    def begin(self, number: int, phase: TrialPhase, parallelism: Mapping[str, int]) -> None:
        """Make the nested run of an evaluation, before its trial starts.

        Raises:
            RunCancelledError: a user asked to cancel the run.
            RunLostError: another process has taken the job over.
        """
        self._check_cancelled()
        k = tags.format_vector(list(parallelism.values()))
        run_tags = {
            tags.PARENT_RUN: self.run_id,
            tags.KIND: tags.EVALUATION,
            tags.NUMBER: str(number),
            tags.PHASE: phase,
            tags.PARALLELISM: k,
        }
        name = f"{number} {phase} {k}"[:200]
        run = self.store.call(self.store.client.create_run, self._experiment, tags=run_tags, run_name=name)
        self._evaluation_id = run.info.run_id
        try:
            self.lease.check()
        except RunLostError:  # the new holder does not know of this nested run
            self.lease.store.call(self.lease.store.client.delete_run, run.info.run_id)
            raise

    def done(self, trial: JournalledTrial) -> None:
        """Store a measured trial. The store has all of it when this call returns."""
        self._unsaved = trial
        self._save(trial)
        self.lease.check()  # a write that overlapped the takeover must not count

    def _save(self, trial: JournalledTrial) -> None:
        """Store a trial. Saving the same trial twice does no harm."""
        evaluation, evaluation_id = trial.evaluation, self._evaluation_id
        if evaluation_id is None:
            raise RunStoreError(f"run {self.run_id}: evaluation {evaluation.number} was never begun")
        file = tags.trial_file_name(evaluation.number, evaluation_id)
        self.store.write_json(self.run_id, f"{tags.TRIALS}/{file}", run_json.trial_to_json(trial))
        metrics = {
            "latency_seconds": evaluation.latency_seconds,
            "throughput": evaluation.throughput,
            "score": evaluation.score,
            "seconds": evaluation.seconds,
            "standstill_seconds": trial.trial.standstill_seconds,
        }
        names = tags.param_names(list(evaluation.parallelism))
        params = dict(zip(names, evaluation.parallelism.values(), strict=True))
        log_batches(self.store, evaluation_id, params, metrics, {tags.VERDICT: evaluation.verdict.value})
        self.store.call(self.store.client.set_terminated, evaluation_id, "FINISHED")
        self._evaluation_id = self._unsaved = None

    def log_progress(self, progress: TuningProgress) -> None:
        """Log the points of the run's charts after a trial: its result, and the best result so far."""
        done = progress.done
        if done is None:
            return
        metrics = {
            "trial/latency_ms": _milliseconds(done.latency_seconds),
            "trial/score": done.score,
            "trial/throughput": done.throughput,
            "trial/instances": float(sum(done.parallelism.values())),
            "best/latency_ms": _milliseconds(progress.best_latency),
            "best/score": progress.best_score,
        }
        log_batches(self.store, self.run_id, {}, metrics, {}, step=done.number)

    # -- the end ------------------------------------------------------------------------------------------------------

    def conclude(self, outcome: Outcome) -> None:
        """Store the outcome. A run that dies after this reaches the same end when it is resumed."""
        best = outcome.best
        self._chosen = best.parallelism if outcome.stop_reason == _ACCEPTED else {}
        last = {"best/latency_ms": _milliseconds(best.latency_seconds), "best/score": best.score}
        log_batches(self.store, self.run_id, {}, last, {}, step=max(1, len(outcome.evaluations)))
        self.store.write_json(self.run_id, tags.OUTCOME_FILE, run_json.outcome_to_json(outcome))
        metrics = {
            "latency_seconds": best.latency_seconds,
            "throughput": best.throughput,
            "score": best.score,
            "evaluations": float(len(outcome.evaluations)),
        }
        run_tags = {
            tags.MET_TARGET: str(outcome.met_target).lower(),
            tags.STOP_REASON: outcome.stop_reason,
            tags.PARALLELISM: tags.format_vector(list(best.parallelism.values())),
        }
        log_batches(self.store, self.run_id, {}, metrics, run_tags)

    def describe(self, text: str, artefacts: Mapping[str, str]) -> None:
        """Store the text above the run in MLflow's pages, and text files by their names."""
        self.store.call(self.store.client.set_tag, self.run_id, lineage.DESCRIPTION_TAG, text)
        for name, content in artefacts.items():
            self.store.call(self.store.client.log_text, self.run_id, content, name)

    def finish(self) -> None:
        """Mark the run as finished, and store an accepted parallelism as parameters.

        Parameters cannot change, so a run that may still be resumed gets none.
        """
        self.store.call(self.store.client.set_terminated, self.run_id, "FINISHED")
        self._finished = True
        params = dict(zip(tags.param_names(list(self._chosen)), self._chosen.values(), strict=True))
        if params:
            log_batches(self.store, self.run_id, params, {}, {})

    def _end(self, error: BaseException | None) -> None:
        if self._unsaved is not None:  # Ctrl-C came while the trial was being stored
            self._save(self._unsaved)
        if error is None or isinstance(error, RunCancelledError) or not isinstance(error, Exception):
            why = job_lock.CANCELLED if isinstance(error, RunCancelledError) else "interrupted"
            job_lock.end_run(self.store, self.run_id, "KILLED", why)
        else:
            job_lock.end_run(self.store, self.run_id, "FAILED", f"{error}" or type(error).__name__)

    def _check_cancelled(self) -> None:
        if time.monotonic() - self._cancel_checked <= CANCEL_CHECK_SECONDS:
            return
        self._cancel_checked = time.monotonic()
        run = self.store.call(self.store.client.get_run, self.run_id)
        if run.data.tags.get(tags.CANCEL):
            raise RunCancelledError(f"run {self.run_id} was cancelled; autotrascale runs resume {self.run_id}")


def lock_run_to_resume(store: MlflowStore, run: Run, watch: ShowMessage | None = None) -> Lease:
    """Take the lease of a run's job, or raise `JobBusyError`. `watch`: see `take_lease`."""
    job, run_id = run.data.tags.get(tags.JOB, "?"), run.info.run_id
    taken = take_lease(store, job_lock.lease_name(job), job_lock.TUNED, what=f"run {run_id}", watch=watch)
    if isinstance(taken, Lease):
        return taken
    if taken.what == f"run {run_id}":
        remedy = f"wait, or: autotrascale runs cancel {run_id}"
        raise JobBusyError(f"run {run_id}", f"is under way, by {taken}", remedy=remedy)
    raise job_lock.job_busy_error(job, taken)


def log_batches(
    store: MlflowStore,
    run_id: str,
    params: Mapping[str, object],
    metrics: Mapping[str, float | None],
    run_tags: Mapping[str, str],
    *,
    step: int = 0,
) -> None:
    """Log parameters, metrics and tags in as few calls as MLflow allows. Metrics of None are left out."""
    from mlflow.entities import Metric, Param, RunTag

    now = int(time.time() * 1000)
    points = [Metric(name, value, now, step) for name, value in metrics.items() if value is not None]
    new_tags = [RunTag(name, value) for name, value in run_tags.items()]
    pairs = [Param(name, str(value)) for name, value in params.items()]
    first = _PARAM_LIMIT - len(new_tags)
    store.call(store.client.log_batch, run_id, points, pairs[:first], new_tags)
    for start in range(first, len(pairs), _PARAM_LIMIT):
        store.call(store.client.log_batch, run_id, params=pairs[start : start + _PARAM_LIMIT])


def _create_run(
    store: MlflowStore, experiment: str, opening: RunOpening, owner: ProcessIdentity, queued: str | None
) -> str:
    job, settings = opening.job, opening.settings
    run_tags = {
        tags.KIND: tags.TUNING,
        tags.JOB: job.name,
        tags.JOB_FILE: opening.digest,
        tags.TOPOLOGY: job.topology.fingerprint,
        tags.ENGINE: opening.engine,
        tags.SIMULATED: str(opening.simulated).lower(),
        tags.RATE: repr(job.rate),
        tags.LATENCY_TARGET: repr(job.target.latency_seconds),
        tags.POLICY: opening.policy.name,
        **job_lock.owner_tags(owner),
    }
    name = f"{job.name[:150]} at {job.rate:g}/s"
    if queued is None:
        run_id: str = store.call(store.client.create_run, experiment, tags=run_tags, run_name=name).info.run_id
    else:
        run_id = queued
        log_batches(store, run_id, {}, {}, {**run_tags, tags.RUN_NAME: name, tags.ENDED: ""})
        store.call(store.client.update_run, run_id, status="RUNNING")
    store.write_json(run_id, tags.OPENING_FILE, run_json.opening_to_json(opening))
    params = {
        "rate": job.rate,
        "latency_target": job.target.latency_seconds,
        "statistic": job.target.statistic,
        "p_max": job.p_max,
        "alpha": settings.alpha,
        "over_allocation": settings.over_allocation,
        "total_trials": settings.total_trials,
        "seed": settings.seed,
        "faithful": settings.faithful,
        "sources": len(opening.sources),
        "policy": opening.policy.name,
    }
    log_batches(store, run_id, params, {}, {})
    lineage.log_inputs(store, run_id, opening)
    return run_id


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds


def _widen_budget(settings: TuningSettings, total_trials: int | None, max_seconds: float | None) -> TuningSettings:
    limits = {"total_trials": total_trials, "max_seconds": max_seconds}
    changed: dict[str, Any] = {name: value for name, value in limits.items() if value is not None}
    return replace(settings, **changed)


def _refuse_if_finished(run: Run, *, is_budget_wider: bool) -> None:
    run_id = run.info.run_id
    stop = run.data.tags.get(tags.STOP_REASON, "no reason")
    if run.info.status != "FINISHED" or (is_budget_wider and stop != _ACCEPTED):
        return
    remedy = "give it more with --total-trials or --max-seconds"
    if stop == _ACCEPTED:
        remedy = f"see: autotrascale explain {run_id}"
    raise InputError(f"run {run_id}", f"is finished ({stop}), so it cannot be resumed", remedy=remedy)
