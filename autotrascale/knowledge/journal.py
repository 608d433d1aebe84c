"""The journal of one tuning run, which is an MLflow run: each evaluation is a nested run, kept when it is measured.

    with RunJournal.start(store, opening) as journal:       # or RunJournal.resume(store, run_id)
        outcome = tune(..., journal=journal, past=journal.past)
        journal.conclude(outcome)                           # what came of it; from here on only formalities
        journal.finish()

A nested run is FINISHED when all of it is in the store, its trial included; that is the one mark that counts. A
process may die at any point: what is FINISHED stays, what is not is run again.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from autotrascale.domain.errors import InputError, RunCancelledError, RunLostError, RunStoreError
from autotrascale.knowledge import claim, json_forms, tags
from autotrascale.knowledge.history import read_opening, read_trials
from autotrascale.knowledge.json_forms import Opening
from autotrascale.knowledge.owner import HEARTBEAT_SECONDS, Owner
from autotrascale.knowledge.store import Store
from autotrascale.tuning import JournalledTrial, Outcome, Phase, Tuning

if TYPE_CHECKING:
    from mlflow.entities import Run

T = TypeVar("T")

LOOK_SECONDS = 2.0  # between looks for a cancellation: trials on a real engine take longer, and look each time

_ACCEPTED = "target-met"  # the stop reason after which more trials would be wasted
_BATCH = 100  # parameters that MLflow takes at once


class RunJournal:
    """`past` are the trials of the run so far, none for a new one."""

    def __init__(
        self, store: Store, run_id: str, opening: Opening, owner: Owner, past: Sequence[JournalledTrial]
    ) -> None:
        self.store, self.run_id, self.opening, self.owner = store, run_id, opening, owner
        self.past = tuple(past)
        self._experiment = store.experiment(opening.job.name)
        self._under_way: str | None = None
        self._measured: JournalledTrial | None = None  # what is about to be kept
        self._finished = False
        self._tags: Mapping[str, str] = {}  # the run's tags when last looked at
        self._looked = -math.inf
        self._beat = _Heartbeat(store, run_id)

    # -- opening ------------------------------------------------------------------------------------------------------

    @classmethod
    def start(cls, store: Store, opening: Opening, queued: str | None = None) -> Self:
        """`queued`: the id of a run that has been waiting for its turn, and is the one to start."""
        experiment = store.experiment(opening.job.name)
        if queued is not None and store.call(store.client.get_run, queued).info.status == "KILLED":
            raise RunCancelledError(f"run {queued} was cancelled before it began")
        claim.refuse_beside_another(store, experiment)
        claim.bury_the_dead(store, experiment, spare=queued)
        owner = Owner.me()
        owner.take()
        try:
            run_id = _create(store, experiment, opening, owner, queued)
            try:
                claim.refuse_beside_another(store, experiment, run_id)
            except InputError:
                _withdraw(store, run_id, queued is not None)
                raise
            return cls(store, run_id, opening, owner, ())
        except BaseException:
            owner.leave()
            raise

    @classmethod
    def resume(cls, store: Store, run: Run, total_trials: int | None = None, max_seconds: float | None = None) -> Self:
        """Take over a run that nobody carries on. `total_trials` and `max_seconds` widen its budget."""
        run_id, experiment = run.info.run_id, str(run.info.experiment_id)
        _refuse_to_resume(run, wider=total_trials is not None or max_seconds is not None)
        claim.refuse_beside_another(store, experiment, run_id)
        claim.bury_the_dead(store, experiment, spare=run_id)
        opening = read_opening(store, run_id)
        past = read_trials(store, run)
        budget: dict[str, Any] = {"total_trials": total_trials, "max_seconds": max_seconds}
        settings = replace(opening.settings, **{name: value for name, value in budget.items() if value is not None})
        owner = Owner.me()
        owner.take()
        try:
            for name, value in {**claim.owner_tags(owner), tags.ENDED: "", tags.CANCEL: ""}.items():
                store.call(store.client.set_tag, run_id, name, value)
            store.call(store.client.update_run, run_id, status="RUNNING")
            journal = cls(store, run_id, opening, owner, past)
            journal._take_over(experiment, settings)
            return journal
        except BaseException:
            owner.leave()
            raise

    def _take_over(self, experiment: str, settings: Tuning) -> None:
        self._still_mine()
        try:
            claim.refuse_beside_another(self.store, experiment, self.run_id)
            claim.end_children(self.store, self.run_id, "KILLED")
            if settings != self.opening.settings:
                self.opening = replace(self.opening, settings=settings)
                self.store.write_json(self.run_id, tags.OPENING_FILE, json_forms.opening_to_json(self.opening))
        except BaseException as error:
            self._end(error)
            raise

    def __enter__(self) -> Self:
        self._beat.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._beat.stop()
        try:
            if not self._finished and not isinstance(error, RunLostError):
                self._end(error)
        except RunStoreError:
            if error is None:
                raise
        finally:
            self.owner.leave()

    # -- one trial ----------------------------------------------------------------------------------------------------

    def begin(self, number: int, phase: Phase, parallelism: Mapping[str, int]) -> None:
        self._still_mine_lately(LOOK_SECONDS)
        self._heed_cancel()
        k = tags.vector(list(parallelism.values()))
        run_tags = {
            tags.PARENT: self.run_id,
            tags.KIND: tags.EVALUATION,
            tags.NUMBER: str(number),
            tags.PHASE: phase,
            tags.PARALLELISM: k,
        }
        run = self.store.call(
            self.store.client.create_run, self._experiment, tags=run_tags, run_name=f"{number} {phase} {k}"[:200]
        )
        self._under_way = run.info.run_id

    def done(self, trial: JournalledTrial) -> None:
        self._still_mine_lately()
        self._measured = trial
        self._keep(trial)

    def _keep(self, trial: JournalledTrial) -> None:
        """Doing it twice does no harm."""
        if self._under_way is None:
            raise RunStoreError(f"run {self.run_id}: evaluation {trial.evaluation.number} was never begun")
        evaluation = trial.evaluation
        file = tags.trial_file(evaluation.number, self._under_way)
        self.store.write_json(self.run_id, f"{tags.TRIALS}/{file}", json_forms.trial_to_json(trial))
        metrics = {
            "latency_seconds": evaluation.latency_seconds,
            "throughput": evaluation.throughput,
            "score": evaluation.score,
            "seconds": evaluation.seconds,
            "downtime_seconds": trial.trial.downtime_seconds,
        }
        names = tags.param_names(list(evaluation.parallelism))
        params = dict(zip(names, evaluation.parallelism.values(), strict=True))
        log_batches(self.store, self._under_way, params, metrics, {tags.VERDICT: evaluation.verdict.value})
        self.store.call(self.store.client.set_terminated, self._under_way, "FINISHED")
        self._under_way = self._measured = None

    # -- the end ------------------------------------------------------------------------------------------------------

    def conclude(self, outcome: Outcome) -> None:
        """What came of it. A run that dies after this reaches the same end when it is resumed."""
        self._still_mine_lately()
        best = outcome.best
        self.store.write_json(self.run_id, tags.OUTCOME_FILE, json_forms.outcome_to_json(outcome))
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
                tags.PARALLELISM: tags.vector(list(best.parallelism.values())),
            },
        )

    def finish(self) -> None:
        self._still_mine_lately()
        self.store.call(self.store.client.set_terminated, self.run_id, "FINISHED")
        self._finished = True

    def _end(self, error: BaseException | None) -> None:
        if self._measured is not None:  # Ctrl-C came while it was being kept
            self._keep(self._measured)
        if error is None or isinstance(error, RunCancelledError) or not isinstance(error, Exception):
            why = claim.CANCELLED if isinstance(error, RunCancelledError) else "interrupted"
            claim.end(self.store, self.run_id, "KILLED", why)
        else:
            claim.end(self.store, self.run_id, "FAILED", f"{error}" or type(error).__name__)

    def _still_mine_lately(self, seconds: float = HEARTBEAT_SECONDS) -> None:
        """A run is lost only by being silent for a lease, so what was true a heartbeat ago is true."""
        if time.monotonic() - self._looked > seconds:
            self._still_mine()

    def _still_mine(self) -> None:
        looked = time.monotonic()
        run = self.store.call(self.store.client.get_run, self.run_id)
        owner = claim.owner_of(run)
        if owner is None or owner.token != self.owner.token or run.info.status != "RUNNING":
            raise RunLostError(f"run {self.run_id} was taken from this process, by {owner or 'nobody it can name'}")
        self._tags, self._looked = run.data.tags, looked

    def _heed_cancel(self) -> None:
        if self._tags.get(tags.CANCEL):
            raise RunCancelledError(f"run {self.run_id} was cancelled; autotrascale runs resume {self.run_id}")


class _Heartbeat:
    """Says every so often that the process lives, whatever a trial takes."""

    def __init__(self, store: Store, run_id: str) -> None:
        self._store, self._run_id = store, run_id
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"heartbeat {run_id}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(HEARTBEAT_SECONDS):
            try:
                self._store.call(self._store.client.set_tag, self._run_id, tags.HEARTBEAT, f"{time.time():.0f}")
            except RunStoreError:
                continue  # a store that is away for a while is the next trial's affair


def log_batches(
    store: Store, run_id: str, params: Mapping[str, object], metrics: Mapping[str, float | None],
    run_tags: Mapping[str, str],
) -> None:  # fmt: skip
    """Numbers that are not known are left out: MLflow has no word for them."""
    from mlflow.entities import Metric, Param, RunTag

    now = int(time.time() * 1000)
    known = [Metric(name, value, now, 0) for name, value in metrics.items() if value is not None]
    spoken = [RunTag(name, value) for name, value in run_tags.items()]
    pairs = [Param(name, str(value)) for name, value in params.items()]
    store.call(store.client.log_batch, run_id, known, pairs[: _BATCH - len(spoken)], spoken)
    for chunk in _chunks(pairs[_BATCH - len(spoken) :]):
        store.call(store.client.log_batch, run_id, params=chunk)


def _chunks(items: Sequence[T]) -> Iterable[Sequence[T]]:
    return (items[i : i + _BATCH] for i in range(0, len(items), _BATCH))


def _create(store: Store, experiment: str, opening: Opening, owner: Owner, queued: str | None) -> str:
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
        **claim.owner_tags(owner),
    }
    name = f"{job.name[:150]} at {job.rate:g}/s"
    if queued is None:
        run_id: str = store.call(store.client.create_run, experiment, tags=run_tags, run_name=name).info.run_id
    else:
        run_id = queued
        log_batches(store, run_id, {}, {}, {**run_tags, tags.NAME: name, tags.ENDED: ""})
        store.call(store.client.update_run, run_id, status="RUNNING")
    store.write_json(run_id, tags.OPENING_FILE, json_forms.opening_to_json(opening))
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
    }
    log_batches(store, run_id, params, {}, {})
    return run_id


def _withdraw(store: Store, run_id: str, queued: bool) -> None:
    """Of a run that was about to begin beside another of its job. One from the queue waits for another turn."""
    if queued:
        store.call(store.client.update_run, run_id, status="SCHEDULED")
        return
    store.call(store.client.set_terminated, run_id, "KILLED")
    store.call(store.client.delete_run, run_id)


def _refuse_to_resume(run: Run, *, wider: bool) -> None:
    run_id = run.info.run_id
    if claim.is_alive(run):
        raise InputError(f"run {run_id}", f"is under way, by {claim.owner_of(run)}",
                         remedy=f"wait, or: autotrascale runs cancel {run_id}")  # fmt: skip
    stop = run.data.tags.get(tags.STOP_REASON, "no reason")
    if run.info.status == "FINISHED" and (not wider or stop == _ACCEPTED):
        remedy = (
            f"see: autotrascale explain {run_id}"
            if stop == _ACCEPTED
            else "give it more with --total-trials or --max-seconds"
        )
        raise InputError(f"run {run_id}", f"is finished ({stop}), so there is nothing to resume", remedy=remedy)
