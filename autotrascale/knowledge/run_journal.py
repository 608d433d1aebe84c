"""The journal of one tuning run, which is an MLflow run: each evaluation is a nested run, kept when it is measured.

    with RunJournal.start(store, opening) as journal:       # or RunJournal.resume(store, run_id)
        outcome = tune(..., journal=journal, past=journal.past)
        journal.conclude(outcome)                           # what came of it; from here on only formalities
        journal.finish()

A nested run is FINISHED when all of it is in the store, its trial included; that is the one mark that counts. A
process may die at any point: what is FINISHED stays, what is not is run again. Only the holder of the job's lease
writes, and asks before each write whether it still is (`lease.py`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from autotrascale.domain.errors import InputError, JobBusyError, RunCancelledError, RunLostError, RunStoreError
from autotrascale.knowledge import job_lock, lineage, run_json, tags
from autotrascale.knowledge.lease import Lease, ShowMessage, take_lease
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.process_identity import ProcessIdentity
from autotrascale.knowledge.run_history import read_opening, read_trials
from autotrascale.knowledge.run_json import RunOpening
from autotrascale.tuning import JournalledTrial, Outcome, TrialPhase, TuningProgress, TuningSettings

if TYPE_CHECKING:
    from mlflow.entities import Run

T = TypeVar("T")

CANCEL_CHECK_SECONDS = 2.0  # between looks for a cancellation: trials on a real engine take longer, and look each time

_ACCEPTED = "target-met"  # the stop reason after which more trials would be wasted
_BATCH = 100  # parameters that MLflow takes at once


class RunJournal:
    """`past` are the trials of the run so far, none for a new one."""

    def __init__(self, lease: Lease, run_id: str, opening: RunOpening, past: Sequence[JournalledTrial]) -> None:
        self.lease, self.store = lease, lease.guarded(lease.store)
        self.run_id, self.opening, self.past = run_id, opening, tuple(past)
        self._experiment = self.store.experiment(opening.job.name)
        self._under_way: str | None = None
        self._measured: JournalledTrial | None = None  # what is about to be kept
        self._finished = False
        self._chosen: Mapping[str, int] = {}
        self._looked = -math.inf

    @property
    def owner(self) -> ProcessIdentity:
        return self.lease.owner

    # -- opening ------------------------------------------------------------------------------------------------------

    @classmethod
    def start(
        cls, store: MlflowStore, opening: RunOpening, queued: str | None = None, lease: Lease | None = None
    ) -> Self:
        """`queued`: the id of a run that has been waiting for its turn, and is the one to start. `lease`: the job's,
        where it has been taken already; from here on it is the journal's."""
        lease = lease or job_lock.lock_job(store, opening.job.name, job_lock.TUNED)
        try:
            if queued is not None and store.call(store.client.get_run, queued).info.status == "KILLED":
                raise RunCancelledError(f"run {queued} was cancelled before it began")
            guarded = lease.guarded(store)
            experiment = guarded.experiment(opening.job.name)
            job_lock.end_orphaned_runs(guarded, experiment, spare=queued)
            run_id = _create(guarded, experiment, opening, lease.owner, queued)
            return cls(lease, run_id, opening, ())._opened()
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
        """Take over a run that nobody carries on. `total_trials` and `max_seconds` widen its budget."""
        run_id, experiment = run.info.run_id, str(run.info.experiment_id)
        lease = lease or lock_run_to_resume(store, run)
        try:
            guarded = lease.guarded(store)
            now = guarded.call(guarded.client.get_run, run_id)  # whoever had it may have ended it meanwhile
            _refuse_to_resume(now, wider=total_trials is not None or max_seconds is not None)
            job_lock.end_orphaned_runs(guarded, experiment, spare=run_id)
            opening = read_opening(guarded, run_id)
            settings = _wider(opening.settings, total_trials, max_seconds)
            job_lock.end_evaluations(guarded, run_id, "KILLED", forsaken=True)
            past = read_trials(guarded, now)  # from here on nothing can be added but by us
            for name, value in {**job_lock.owner_tags(lease.owner), tags.ENDED: "", tags.CANCEL: ""}.items():
                guarded.call(guarded.client.set_tag, run_id, name, value)
            guarded.call(guarded.client.update_run, run_id, status="RUNNING")
            journal = cls(lease, run_id, opening, past)._opened()
            journal._widen(settings)
            return journal
        except BaseException:
            lease.release()
            raise

    def _opened(self) -> Self:
        self.lease.set_work(f"run {self.run_id}")
        self.lease.add_beat_action(self._beat)
        return self

    def _widen(self, settings: TuningSettings) -> None:
        if settings != self.opening.settings:
            self.opening = replace(self.opening, settings=settings)
            self.store.write_json(self.run_id, tags.OPENING_FILE, run_json.opening_to_json(self.opening))

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
        self._heed_cancel()
        k = tags.format_vector(list(parallelism.values()))
        run_tags = {
            tags.PARENT_RUN: self.run_id,
            tags.KIND: tags.EVALUATION,
            tags.NUMBER: str(number),
            tags.PHASE: phase,
            tags.PARALLELISM: k,
        }
        run = self.store.call(
            self.store.client.create_run, self._experiment, tags=run_tags, run_name=f"{number} {phase} {k}"[:200]
        )
        self._under_way = run.info.run_id
        try:
            self.lease.check()
        except RunLostError:  # begun a moment too late: nobody else knows of it
            self.lease.store.call(self.lease.store.client.delete_run, run.info.run_id)
            raise

    def done(self, trial: JournalledTrial) -> None:
        self._measured = trial
        self._keep(trial)
        self.lease.check()  # what was kept a moment too late was kept by somebody who has lost the run

    def _keep(self, trial: JournalledTrial) -> None:
        """Doing it twice does no harm."""
        if self._under_way is None:
            raise RunStoreError(f"run {self.run_id}: evaluation {trial.evaluation.number} was never begun")
        evaluation = trial.evaluation
        file = tags.trial_file_name(evaluation.number, self._under_way)
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
        log_batches(self.store, self._under_way, params, metrics, {tags.VERDICT: evaluation.verdict.value})
        self.store.call(self.store.client.set_terminated, self._under_way, "FINISHED")
        self._under_way = self._measured = None

    def told(self, progress: TuningProgress) -> None:
        """What the run's charts are drawn of, a step for each trial: how it came out, and the best so far."""
        done = progress.done
        if done is None:
            return
        steps = {
            "trial/latency_ms": _milliseconds(done.latency_seconds),
            "trial/score": done.score,
            "trial/throughput": done.throughput,
            "trial/instances": float(sum(done.parallelism.values())),
            "best/latency_ms": _milliseconds(progress.best_latency),
            "best/score": progress.best_score,
        }
        log_batches(self.store, self.run_id, {}, steps, {}, step=done.number)

    # -- the end ------------------------------------------------------------------------------------------------------

    def conclude(self, outcome: Outcome) -> None:
        """What came of it. A run that dies after this reaches the same end when it is resumed."""
        best = outcome.best
        self._chosen = best.parallelism if outcome.stop_reason == _ACCEPTED else {}
        last = {"best/latency_ms": _milliseconds(best.latency_seconds), "best/score": best.score}
        log_batches(self.store, self.run_id, {}, last, {}, step=max(1, len(outcome.evaluations)))
        self.store.write_json(self.run_id, tags.OUTCOME_FILE, run_json.outcome_to_json(outcome))
        log_batches(
            self.store,
            self.run_id,
            {},
            {
                "latency_seconds": best.latency_seconds,
                "throughput": best.throughput,
                "score": best.score,
                "evaluations": float(len(outcome.evaluations)),
            },
            {
                tags.MET_TARGET: str(outcome.met_target).lower(),
                tags.STOP_REASON: outcome.stop_reason,
                tags.PARALLELISM: tags.format_vector(list(best.parallelism.values())),
            },
        )

    def describe(self, text: str, artefacts: Mapping[str, str]) -> None:
        """What stands above the run in MLflow's pages, and what may be looked at there."""
        self.store.call(self.store.client.set_tag, self.run_id, lineage.DESCRIPTION_TAG, text)
        for name, content in artefacts.items():
            self.store.call(self.store.client.log_text, self.run_id, content, name)

    def finish(self) -> None:
        """What was chosen for good is a parameter too. Not before the run is over: parameters stay as they are, and as
        long as a run can be resumed another one may be found."""
        self.store.call(self.store.client.set_terminated, self.run_id, "FINISHED")
        self._finished = True
        params = dict(zip(tags.param_names(list(self._chosen)), self._chosen.values(), strict=True))
        if params:
            log_batches(self.store, self.run_id, params, {}, {})

    def _end(self, error: BaseException | None) -> None:
        if self._measured is not None:  # Ctrl-C came while it was being kept
            self._keep(self._measured)
        if error is None or isinstance(error, RunCancelledError) or not isinstance(error, Exception):
            why = job_lock.CANCELLED if isinstance(error, RunCancelledError) else "interrupted"
            job_lock.end_run(self.store, self.run_id, "KILLED", why)
        else:
            job_lock.end_run(self.store, self.run_id, "FAILED", f"{error}" or type(error).__name__)

    def _heed_cancel(self) -> None:
        if time.monotonic() - self._looked <= CANCEL_CHECK_SECONDS:
            return
        self._looked = time.monotonic()
        run = self.store.call(self.store.client.get_run, self.run_id)
        if run.data.tags.get(tags.CANCEL):
            raise RunCancelledError(f"run {self.run_id} was cancelled; autotrascale runs resume {self.run_id}")


def lock_run_to_resume(store: MlflowStore, run: Run, watch: ShowMessage | None = None) -> Lease:
    """The lease of the run's job. `watch`: see `lease.take`."""
    job, run_id = run.data.tags.get(tags.JOB, "?"), run.info.run_id
    taken = take_lease(store, job_lock.lease_name(job), job_lock.TUNED, what=f"run {run_id}", watch=watch)
    if isinstance(taken, Lease):
        return taken
    if taken.what == f"run {run_id}":
        raise JobBusyError(
            f"run {run_id}", f"is under way, by {taken}", remedy=f"wait, or: autotrascale runs cancel {run_id}"
        )
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
    """Numbers that are not known are left out: MLflow has no word for them."""
    from mlflow.entities import Metric, Param, RunTag

    now = int(time.time() * 1000)
    known = [Metric(name, value, now, step) for name, value in metrics.items() if value is not None]
    spoken = [RunTag(name, value) for name, value in run_tags.items()]
    pairs = [Param(name, str(value)) for name, value in params.items()]
    store.call(store.client.log_batch, run_id, known, pairs[: _BATCH - len(spoken)], spoken)
    for chunk in _chunks(pairs[_BATCH - len(spoken) :]):
        store.call(store.client.log_batch, run_id, params=chunk)


def _chunks(items: Sequence[T]) -> Iterable[Sequence[T]]:
    return (items[i : i + _BATCH] for i in range(0, len(items), _BATCH))


def _create(
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


def _wider(settings: TuningSettings, total_trials: int | None, max_seconds: float | None) -> TuningSettings:
    given = {"total_trials": total_trials, "max_seconds": max_seconds}
    wider: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return replace(settings, **wider)


def _refuse_to_resume(run: Run, *, wider: bool) -> None:
    run_id = run.info.run_id
    stop = run.data.tags.get(tags.STOP_REASON, "no reason")
    if run.info.status == "FINISHED" and (not wider or stop == _ACCEPTED):
        remedy = (
            f"see: autotrascale explain {run_id}"
            if stop == _ACCEPTED
            else "give it more with --total-trials or --max-seconds"
        )
        raise InputError(f"run {run_id}", f"is finished ({stop}), so there is nothing to resume", remedy=remedy)
