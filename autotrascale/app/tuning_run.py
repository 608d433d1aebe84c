"""A tuning run from start to end: lock the job, choose models to start from, run trials, keep a journal and the model.

`tune`, `runs resume` and the run queue of the server use it. Nothing here prints: the caller passes a `RunListener`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from autotrascale.app import unit_warnings
from autotrascale.app.job_file import EngineName, JobFile
from autotrascale.app.job_file_changes import check_job_file_unchanged, check_operators_unchanged, read_job_content
from autotrascale.app.metric_recording import NO_RECORDER, MetricRecorder
from autotrascale.app.warm_start import WarmStart, choose_warm_start, describe_wanted_model
from autotrascale.domain.errors import RunLostError
from autotrascale.domain.job import Job
from autotrascale.domain.trial import Sink
from autotrascale.execute.engine import Engine
from autotrascale.execute.simulator.engine import SimulatorEngine
from autotrascale.knowledge import job_lock, requested_by
from autotrascale.knowledge.lease import Lease
from autotrascale.knowledge.mlflow_store import STORE_RETRY, MlflowStore
from autotrascale.knowledge.model_card import ModelCard, StoredModel
from autotrascale.knowledge.model_library import ModelLibrary
from autotrascale.knowledge.run_history import find_run, read_opening
from autotrascale.knowledge.run_journal import RunJournal, lock_run_to_resume
from autotrascale.knowledge.run_json import ModelSource, RunOpening
from autotrascale.knowledge.store_retry import ShowMessage
from autotrascale.plan.policies.registry import OURS
from autotrascale.tuning import Outcome, ReportProgress, TuningProgress, TuningSettings, tune
from autotrascale.validation import validate
from autotrascale.views import notebook
from autotrascale.views.verdict import summarize_outcome

if TYPE_CHECKING:
    from mlflow.entities import Run

REPORT_FILE = "report.html"


@dataclass(frozen=True)
class TuningRequest:
    """A request for a new run.

    Args:
        file: the job file.
        path: where the job file was read from.
        engine: the engine that runs the trials.
        settings: settings of the search.
        rate: input rate of all sources together, records/s; None: the job file's rates.
        warm_start: `auto`, `none`, or the name of a model to start from.
        queued: id of the run if it waited in a server's queue.
        sink: where the output of trials goes; None: as the job file says.
        policy: the scaling policy; None: the job file's.
    """

    file: JobFile
    path: Path
    engine: EngineName
    settings: TuningSettings
    rate: float | None = None
    warm_start: str = "auto"
    queued: str | None = None
    sink: Sink | None = None
    policy: str | None = None


@dataclass(frozen=True)
class RunListener:
    """Functions that a run calls on its way.

    Args:
        on_start: before the first trial, with the job, its sink (None if simulated) and the warm start.
        on_progress: before and after each trial.
        on_unfinished: when the run ends by an error or interrupt, with its id.
        warn: about the store and about unlikely units.
        on_wait: while a silent process holds the job's lock; None treats a silent process as alive.
    """

    on_start: Callable[[Job, Sink | None, WarmStart], None]
    on_progress: ReportProgress
    on_unfinished: Callable[[str], None]
    warn: Callable[[str], None] = lambda _: None
    on_wait: ShowMessage | None = None


@dataclass(frozen=True)
class TuningResult:
    """The result of a run.

    Args:
        outcome: the configurations tried, and the best.
        run_id: id of the run in the store.
        model: the stored model, if the run met its target.
        warm_start: one line for each choice of a model to start from.
        cold: the model to compare with: same target, another rate, started from nothing.
        sink: where the output of trials went; None for a simulated job.
        output_records: number of output records of this process, if known.
    """

    outcome: Outcome
    run_id: str | None = None
    model: StoredModel | None = None
    warm_start: tuple[str, ...] = ()
    cold: ModelSource | None = None
    sink: Sink | None = None
    output_records: int | None = None


def start(
    request: TuningRequest, store: MlflowStore | None, listener: RunListener, recorder: MetricRecorder = NO_RECORDER
) -> TuningResult:
    """Run a new tuning run to its end. Without a store there is no journal, no lock and no stored model.

    Raises:
        JobBusyError: another process tunes or scales the job.
        InputError: the request does not fit the job file.
        EngineError: the engine cannot run the job.
    """
    if store is None:
        return _start(request, None, None, listener, recorder)
    with job_lock.lock_job(store, request.file.job, job_lock.TUNED, listener.on_wait) as lease:
        return _start(request, store, lease, listener, recorder)


def _start(
    request: TuningRequest,
    store: MlflowStore | None,
    lease: Lease | None,
    listener: RunListener,
    recorder: MetricRecorder,
) -> TuningResult:
    file, policy = request.file.with_sink(request.sink), request.file.choose_policy(request.policy)
    sink = file.sink_for(request.engine)
    job, engine = file.open_engine(request.engine, request.settings.seed)
    with engine:
        job = job if request.rate is None else job.at_rate(request.rate)
        wanted = describe_wanted_model(request.file, request.engine, job, faithful=request.settings.faithful)
        warm = choose_warm_start(request.warm_start, store, job, wanted) if policy.name == OURS else WarmStart((), ())
        _report_start(engine, job, sink, warm, listener)
        opening = RunOpening(
            job,
            request.engine,
            engine.simulated,
            request.settings,
            request.rate,
            str(request.path.absolute()),
            {} if store is None else read_job_content(request.path),
            warm.sources,
            warm.lines,
            sink,
            policy,
        )
        if store is None:
            return _build_result(opening, engine, _run_trials(opening, engine, listener, recorder))
        journal = RunJournal.start(store, opening, request.queued, lease)
        if request.queued is None:
            requested_by.record_request(store, journal.run_id, requested_by.current_user(), "start")
        return _run_journalled(journal, engine, listener, recorder)


def resume(
    store: MlflowStore,
    name: str,
    listener: RunListener,
    total_trials: int | None = None,
    max_seconds: float | None = None,
    recorder: MetricRecorder = NO_RECORDER,
    asked_by: str = "",
) -> TuningResult:
    """Run the rest of an interrupted run, under the job file that it began with.

    Args:
        store: the store that holds the run.
        name: the run's id or its beginning, a job's name for its last run, or `last`.
        listener: what to call on the way.
        total_trials: a new limit for trials, those of earlier processes included.
        max_seconds: a new limit for the duration in seconds, earlier processes included.
        recorder: where to record measurements.
        asked_by: name of the requester, for the run's history.

    Raises:
        InputError: the run does not exist, cannot be resumed, or its job file has changed.
        JobBusyError: another process tunes or scales the job.
    """
    run = find_run(store, name)
    opening = read_opening(store, run.info.run_id)
    check_job_file_unchanged(opening)
    file = validate(dict(opening.job_file), JobFile, place=opening.job_path).with_sink(opening.sink)
    engine_name = cast(EngineName, opening.engine)
    with lock_run_to_resume(store, run, listener.on_wait) as lease:
        job, engine = file.open_engine(engine_name, opening.settings.seed)
        with engine:
            check_operators_unchanged(job if opening.rate is None else job.at_rate(opening.rate), opening.job)
            warm = WarmStart(opening.sources, opening.warm_start)
            _report_start(engine, opening.job, file.sink_for(engine_name), warm, listener)
            journal = RunJournal.resume(store, run, total_trials, max_seconds, lease)
            if asked_by:
                requested_by.record_request(store, run.info.run_id, asked_by, "resume")
            if isinstance(engine, SimulatorEngine):
                engine.runs = len(journal.past)  # continue the sequence of its noise
            return _run_journalled(journal, engine, listener, recorder)


def cancel(store: MlflowStore, run: Run, watch: ShowMessage | None = None) -> bool:
    """End a run: at once if its process is gone, else before its next trial.

    Returns:
        Whether the run has ended.
    """
    return job_lock.cancel_run(store, run, watch)


def _report_start(engine: Engine, job: Job, sink: Sink | None, warm: WarmStart, listener: RunListener) -> None:
    listener.on_start(job, sink, warm)
    for line in getattr(engine, "remarks", lambda _rates: ())(job.source_rates):
        listener.warn(line)


def _run_journalled(
    journal: RunJournal, engine: Engine, listener: RunListener, recorder: MetricRecorder
) -> TuningResult:
    try:
        with STORE_RETRY.waiting(listener.warn), journal:
            outcome = _run_trials(journal.opening, engine, listener, recorder, journal)
            journal.conclude(outcome)
            journal.describe(summarize_outcome(outcome), {REPORT_FILE: notebook.render_report(outcome)})
            model = _register_model(journal, outcome)
            journal.finish()
    except RunLostError:
        raise
    except BaseException:
        listener.on_unfinished(journal.run_id)
        raise
    return _build_result(journal.opening, engine, outcome, journal.run_id, model)


def _run_trials(
    opening: RunOpening,
    engine: Engine,
    listener: RunListener,
    recorder: MetricRecorder,
    journal: RunJournal | None = None,
) -> Outcome:
    show = unit_warnings.warn_about_latency(opening.job.target, listener.warn, listener.on_progress)

    def report(progress: TuningProgress) -> None:
        if journal is not None:
            journal.log_progress(progress)
        show(progress)

    return tune(
        opening.job,
        engine,
        opening.settings,
        sources=[source.model for source in opening.sources],
        report=report,
        journal=journal,
        past=() if journal is None else journal.past,
        seen=recorder.recorder_for(engine),
        policy=opening.policy,
    )


def _build_result(
    opening: RunOpening, engine: Engine, outcome: Outcome, run_id: str | None = None, model: StoredModel | None = None
) -> TuningResult:
    return TuningResult(
        outcome,
        run_id,
        model,
        opening.warm_start,
        _find_cold_source(opening.sources, opening.job),
        opening.sink,
        getattr(engine, "output_records", None),
    )


def _register_model(journal: RunJournal, outcome: Outcome) -> StoredModel | None:
    # A model of a run that missed its target must not teach later runs.
    if outcome.model is None or not outcome.met_target:
        return None
    card = ModelCard.for_model(
        outcome.model,
        outcome.job,
        simulated=outcome.simulated,
        run_id=journal.run_id,
        cold_trials=None if journal.opening.sources else len(outcome.evaluations),
    )
    return ModelLibrary(journal.store).register(outcome.model, card, journal.run_id)


def _find_cold_source(sources: Sequence[ModelSource], job: Job) -> ModelSource | None:
    target = job.target.latency_seconds
    return next((s for s in sources if s.cold_trials is not None and s.model.latency_target == target), None)
