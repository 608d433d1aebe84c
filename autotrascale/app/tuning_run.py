"""A tuning run from start to end with its journal, its warm start and its model: what `tune` and `runs resume` do.

Nothing here prints; who calls gives the functions that do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import yaml

from autotrascale.app import unit_warnings
from autotrascale.app.job_file import EngineName, JobFile
from autotrascale.app.job_file_overrides import apply_overrides
from autotrascale.app.metric_recording import NO_RECORDER, MetricRecorder
from autotrascale.app.warm_start import WarmStart, choose_warm_start, describe_wanted_model
from autotrascale.domain.errors import InputError, RunLostError
from autotrascale.domain.job import Job
from autotrascale.domain.trial import Sink
from autotrascale.execute.engine import Engine
from autotrascale.execute.simulator.engine import SimulatorEngine
from autotrascale.knowledge import job_lock, requested_by
from autotrascale.knowledge.lease import Lease, ShowMessage
from autotrascale.knowledge.mlflow_store import STORE_RETRY, MlflowStore
from autotrascale.knowledge.model_card import ModelCard, StoredModel
from autotrascale.knowledge.model_library import ModelLibrary
from autotrascale.knowledge.run_history import find_run, read_opening
from autotrascale.knowledge.run_journal import RunJournal, lock_run_to_resume
from autotrascale.knowledge.run_json import ModelSource, RunOpening
from autotrascale.plan.policies import OURS
from autotrascale.tuning import Outcome, ReportProgress, TuningProgress, TuningSettings, tune
from autotrascale.validation import read_text, validate
from autotrascale.views import notebook
from autotrascale.views.verdict import summarize_outcome

if TYPE_CHECKING:
    from mlflow.entities import Run

REPORT_FILE = "report.html"
_SHOWN = 5  # differences of a changed job file


@dataclass(frozen=True)
class TuningRequest:
    """A new run, as it was asked for."""

    file: JobFile
    path: Path
    engine: EngineName
    settings: TuningSettings
    rate: float | None = None
    warm_start: str = "auto"
    queued: str | None = None  # the run that has been waiting for its turn, when there is one
    sink: Sink | None = None  # where the output of trials goes, when not where the job file says
    policy: str | None = None  # who decides, when not whom the job file names

    def opened(self) -> JobFile:
        return self.file.writing_to(self.sink)


@dataclass(frozen=True)
class RunListener:
    """What is said on the way: before the first trial, about each trial, about a run that did not get through, and
    while somebody else's silence is watched."""

    opening: Callable[[Job, Sink | None, WarmStart], None]  # the sink: none of a simulated job
    progress: ReportProgress
    unfinished: Callable[[str], None]
    trouble: Callable[[str], None] = lambda _: None  # what had better be known: of the store, of units
    waiting: ShowMessage | None = None  # None: whoever is silent counts as alive


@dataclass(frozen=True)
class TuningResult:
    outcome: Outcome
    run_id: str | None = None
    model: StoredModel | None = None
    warm_start: tuple[str, ...] = ()
    cold: ModelSource | None = None  # of the models it started from, the nearest that was made from nothing
    sink: Sink | None = None  # where output went, of a real job, and how much of it where that is known
    output_records: int | None = None


def start(
    asked: TuningRequest, store: MlflowStore | None, listener: RunListener, meter: MetricRecorder = NO_RECORDER
) -> TuningResult:
    if store is None:
        return _start(asked, None, None, listener, meter)
    with job_lock.lock_job(store, asked.file.job, job_lock.TUNED, listener.waiting) as lease:
        return _start(asked, store, lease, listener, meter)


def _start(
    asked: TuningRequest, store: MlflowStore | None, lease: Lease | None, listener: RunListener, meter: MetricRecorder
) -> TuningResult:
    file, policy = asked.opened(), asked.file.policy_named(asked.policy)
    sink = file.sink(asked.engine)
    job, engine = file.open(asked.engine, asked.settings.seed)
    with engine:
        job = job if asked.rate is None else job.at_rate(asked.rate)
        wanted = describe_wanted_model(asked.file, asked.engine, job, faithful=asked.settings.faithful)
        warm = choose_warm_start(asked.warm_start, store, job, wanted) if policy.name == OURS else WarmStart((), ())
        listener.opening(job, sink, warm)
        _tell(engine, job, listener.trouble)
        if store is None:
            sources = [source.model for source in warm.sources]
            seen = meter.of(engine)
            report = unit_warnings.warn_about_latency(job.target, listener.trouble, listener.progress)
            outcome = tune(job, engine, asked.settings, sources=sources, report=report, seen=seen, policy=policy)
            return TuningResult(
                outcome,
                warm_start=warm.lines,
                cold=_cold(warm.sources, job),
                sink=sink,
                output_records=_output_records(engine),
            )
        opening = RunOpening(
            job,
            asked.engine,
            engine.simulated,
            asked.settings,
            asked.rate,
            str(asked.path.absolute()),
            read_job_content(asked.path),
            warm.sources,
            warm.lines,
            sink,
            policy,
        )
        journal = RunJournal.start(store, opening, asked.queued, lease)
        if asked.queued is None:
            requested_by.record_request(store, journal.run_id, requested_by.current_user(), "start")
        return _through(journal, engine, listener, meter)


def resume(
    store: MlflowStore,
    name: str,
    listener: RunListener,
    total_trials: int | None = None,
    max_seconds: float | None = None,
    meter: MetricRecorder = NO_RECORDER,
    asked_by: str = "",
) -> TuningResult:
    """The rest of a run, under the very job file that it was started with."""
    run = find_run(store, name)
    opening = read_opening(store, run.info.run_id)
    check_job_file_unchanged(opening)
    with lock_run_to_resume(store, run, listener.waiting) as lease:
        return _resume(store, run, opening, lease, listener, total_trials, max_seconds, meter, asked_by)


def _resume(
    store: MlflowStore,
    run: Run,
    opening: RunOpening,
    lease: Lease,
    listener: RunListener,
    total_trials: int | None,
    max_seconds: float | None,
    meter: MetricRecorder,
    asked_by: str,
) -> TuningResult:
    file = validate(dict(opening.job_file), JobFile, place=opening.job_path).writing_to(opening.sink)
    job, engine = file.open(cast(EngineName, opening.engine), opening.settings.seed)
    with engine:
        _check_same(job if opening.rate is None else job.at_rate(opening.rate), opening.job)
        sink = file.sink(cast(EngineName, opening.engine))
        listener.opening(opening.job, sink, WarmStart(opening.sources, opening.warm_start))
        _tell(engine, opening.job, listener.trouble)
        journal = RunJournal.resume(store, run, total_trials, max_seconds, lease)
        if asked_by:
            requested_by.record_request(store, run.info.run_id, asked_by, "resume")
        if isinstance(engine, SimulatorEngine):
            engine.runs = len(journal.past)  # its noise goes on where it was
        return _through(journal, engine, listener, meter)


def _through(journal: RunJournal, engine: Engine, listener: RunListener, meter: MetricRecorder) -> TuningResult:
    opening = journal.opening
    tell = unit_warnings.warn_about_latency(opening.job.target, listener.trouble, listener.progress)

    def report(progress: TuningProgress) -> None:
        journal.told(progress)
        tell(progress)

    try:
        with STORE_RETRY.waiting(listener.trouble), journal:
            outcome = tune(
                opening.job,
                engine,
                opening.settings,
                sources=[source.model for source in opening.sources],
                report=report,
                journal=journal,
                past=journal.past,
                seen=meter.of(engine),
                policy=opening.policy,
            )
            journal.conclude(outcome)
            journal.describe(summarize_outcome(outcome), {REPORT_FILE: notebook.render_report(outcome)})
            model = _register(journal, outcome)
            journal.finish()
    except RunLostError:
        raise
    except BaseException:
        listener.unfinished(journal.run_id)
        raise
    return TuningResult(
        outcome,
        journal.run_id,
        model,
        opening.warm_start,
        _cold(opening.sources, opening.job),
        opening.sink,
        _output_records(engine),
    )


def _tell(engine: Engine, job: Job, say: Callable[[str], None]) -> None:
    """What an engine has to say before the first trial, if it is one that has."""
    for line in getattr(engine, "remarks", lambda _rates: ())(job.source_rates):
        say(line)


def _output_records(engine: Engine) -> int | None:
    """Of this sitting."""
    return getattr(engine, "output_records", None)


def _register(journal: RunJournal, outcome: Outcome) -> StoredModel | None:
    """Only a run that met its target may teach later runs by itself."""
    if outcome.model is None or not outcome.met_target:
        return None
    card = ModelCard.of(
        outcome.model,
        outcome.job,
        simulated=outcome.simulated,
        run_id=journal.run_id,
        cold_trials=None if journal.opening.sources else len(outcome.evaluations),
    )
    return ModelLibrary(journal.store).register(outcome.model, card, journal.run_id)


def _cold(sources: Sequence[ModelSource], job: Job) -> ModelSource | None:
    """What this run may be compared with: the same target, another rate, nothing known before."""
    target = job.target.latency_seconds
    return next((s for s in sources if s.cold_trials is not None and s.model.latency_target == target), None)


def cancel(store: MlflowStore, run: Run, watch: ShowMessage | None = None) -> bool:
    return job_lock.cancel_run(store, run, watch)


# --- is it still the same job? ------------------------------------------------------------------------------------


def read_job_content(path: Path) -> Mapping[str, Any]:
    """A job file that has been read and found good, as plain data, with what the environment says over it. Who is told
    of what happens makes no other job of it, and the addresses are secrets: they are left out."""
    text = read_text(path)
    content = json.loads(json.dumps(apply_overrides(yaml.safe_load(text)), default=str))
    return {name: each for name, each in content.items() if name != "notify"}


def check_job_file_unchanged(opening: RunOpening) -> None:
    """Comments may change, and a job file that is gone is in the journal; anything else is another job."""
    path = Path(opening.job_path)
    if not path.is_file():
        return
    try:
        now = read_job_content(path)
    except (InputError, yaml.YAMLError) as error:
        raise InputError(
            str(path), f"cannot be compared with what the run began under: {error}", remedy="restore it"
        ) from None
    found = list(list_differences(opening.job_file, now))
    if found:
        more = f", and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise InputError(
            str(path),
            f"has changed since the run began: {'; '.join(found[:_SHOWN])}{more}",
            remedy="undo that to resume, or start a new run",
        )


def list_differences(before: object, now: object, place: str = "") -> Iterator[str]:
    """`target.latency_seconds: 0.18 → 0.2`, for every place where two job files differ."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in dict.fromkeys([*before, *now]):
            inner = f"{place}.{name}" if place else str(name)
            if name not in now:
                yield f"{inner} is gone (was {before[name]!r})"
            elif name not in before:
                yield f"{inner} is new ({now[name]!r})"
            else:
                yield from list_differences(before[name], now[name], inner)
        if list(before) != list(now) and set(before) == set(now) and place == "operators":
            yield f"{place} come in another order"
    elif before != now:
        yield f"{place}: {before!r} → {now!r}"


def _check_same(now: Job, before: Job) -> None:
    """The job's own code may have changed under an unchanged job file."""
    if now != before or list(now.topology) != list(before.topology):
        raise InputError(
            f"job {before.name}",
            "does not declare the operators any more that the run began with",
            seen=", ".join(now.topology),
            remedy="undo that to resume, or start a new run",
        )
