"""A control loop with all that stands around it: the journal of its decisions, the job's lease, the models that it
starts from and leaves behind, the metric store, and whoever is told.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from autotrascale.app.autoscale_section import AutoscaleSection, build_loop_rules, fill_loop_knobs
from autotrascale.app.console import OutputFormat, note, say
from autotrascale.app.metric_recording import MetricRecorder
from autotrascale.app.notifications import NotificationTarget, Notifier, read_targets_from_environment
from autotrascale.app.warm_start import AUTO, choose_warm_start
from autotrascale.domain.errors import RunStoreError
from autotrascale.domain.job import Job
from autotrascale.execute.live_job import LiveJob
from autotrascale.knowledge import job_lock
from autotrascale.knowledge.decision_journal.journal import DecisionJournal, JournalSession, SessionHeader
from autotrascale.knowledge.learned_models import LearnedModels
from autotrascale.knowledge.lease import Lease
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.model_card import ModelRequest
from autotrascale.knowledge.model_library import ModelLibrary
from autotrascale.knowledge.process_identity import HEARTBEAT_SECONDS
from autotrascale.loop import Loop
from autotrascale.monitor.service_latency import Service, ServiceLatencies
from autotrascale.plan.control.autoscaling.prediction import AutoscalingSettings
from autotrascale.plan.control.loop_state import DecisionEntry, Rules, State, entry_to_dict
from autotrascale.plan.control.manager.knobs import Knobs
from autotrascale.plan.formatting import format_seconds
from autotrascale.plan.policies import OURS, PolicyChoice
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.plan.sizing.executor_plan import ExecutorSize
from autotrascale.tuning import TuningSettings
from autotrascale.views.decision_text import (
    decision_kind,
    describe_accuracy,
    format_cost_change,
    format_decision,
    summarize_session,
)
from autotrascale.views.loop_events import observe_condition
from autotrascale.views.sink_text import describe_sink


class LoopSections(Protocol):
    """What a job's file says of how it is kept."""

    @property
    def tuning(self) -> TuningSettings: ...
    @property
    def manager(self) -> Knobs: ...
    @property
    def autoscale(self) -> AutoscaleSection: ...
    @property
    def notify(self) -> tuple[NotificationTarget, ...]: ...
    @property
    def services(self) -> Mapping[str, Service]: ...


@dataclass(frozen=True)
class CommandContext:
    """What is the same for all jobs of one command."""

    store: MlflowStore | None
    decisions: DecisionJournal | None
    meter: MetricRecorder
    form: OutputFormat
    advise: bool
    policy: PolicyChoice = field(default_factory=PolicyChoice)


def open_decisions(store: MlflowStore | None) -> DecisionJournal | None:
    """The journal of decisions: beside an embedded store's file, in ./mlruns for a served one."""
    if store is None:
        return None
    uri = store.uri
    folder = Path(uri.removeprefix("sqlite:///")).parent if uri.startswith("sqlite:///") else Path("mlruns")
    return DecisionJournal(folder / "decisions.db")


def live_job_folder(decisions: DecisionJournal | None, name: str) -> Path:
    """Where what a later process needs of a live job is kept."""
    return (Path("mlruns") if decisions is None else decisions.path.parent) / "live" / _safe(name)


def take_lease(
    stack: ExitStack, store: MlflowStore | None, job: str, *, advise: bool
) -> tuple[Lease | None, MlflowStore | None]:
    """Held until the stack is left, and the store as whoever holds it may write to it. Advice needs none."""
    if store is None or advise:
        return None, store
    lease = stack.enter_context(job_lock.lock_job(store, job, job_lock.AUTOSCALED, note))
    return lease, lease.guarded(store)


class LoopSession:
    """One job and its loop."""

    def __init__(
        self,
        around: CommandContext,
        sections: LoopSections,
        job: Job,
        live: LiveJob,
        engine: str,
        wanted: ModelRequest,
        initial: Mapping[str, int],
        lease: Lease | None = None,
        home: Path | None = None,
        executor: ExecutorSize | None = None,
    ) -> None:
        """`home`: of a simulated job, which begins anew where its time was over. `executor`: one instance, of a
        program."""
        self.job, self._around, self._simulated, self._executor = job, around, live.simulated, executor
        self._session = None
        if around.decisions is not None:
            opening = SessionHeader.of(job, engine, simulated=live.simulated, advise=around.advise, executor=executor)
            self._session = _session(around.decisions, sections, opening, home)
        if self._session is not None and lease is not None:
            lease.set_work(f"session {self._session.id}")
        self._learned = learned = _library(around, job, live.simulated, self._session)
        choice = around.policy
        rules = replace(
            _rules(around, sections, job, wanted),
            policy_options=choice.options,
            policy=None if choice.name == OURS else choice.create(job.target),
        )
        self._notifier = Notifier(sections.notify or read_targets_from_environment())
        told = _teller(around.form, job.target.latency_seconds, self._session, learned, executor)
        _opening(job, live.simulated, around.advise, self._session)
        if around.advise and live.simulated:  # nothing of it runs before somebody starts it
            live.start(initial)
        self.loop = Loop(
            live,
            rules,
            initial=initial,
            state=None if self._session is None else self._session.state,
            journal=self._session,
            library=learned,
            report=_reports(told, self._notifier, job, live.simulated),
            services=_services(sections, around.meter, simulated=live.simulated),
            slots_left=_slots_left(sections, job, around.decisions),
            seen=around.meter.of(live),
            check_ours=make_lease_check(lease),
            orders=(lambda _: ()) if self._session is None else self._session.orders_after,
            rescaling=_rescaling(around, job),
        )

    def end(self, ended: str) -> None:
        self._notifier.close()
        if self._session is not None:
            self._session.end(ended)
        if self._learned is not None:
            self._learned.end(finished=ended == "finished")
        state, job = self.loop.state, self.job
        sentence = summarize_session(
            job.name,
            job.target.latency_seconds,
            state,
            simulated=self._simulated,
            advise=self._around.advise,
            size=self._executor,
        )
        _closing(
            self._around.form, sentence if self._around.advise else f"{describe_accuracy(state.checked)}\n{sentence}"
        )


def _session(
    decisions: DecisionJournal, sections: LoopSections, opening: SessionHeader, home: Path | None
) -> JournalSession:
    """A simulated job whose time was over begins anew; everything else is gone on with."""
    keep, simulated = sections.autoscale.keep_looks_days, opening.simulated
    session = decisions.open_session(opening, anew=simulated, keep_looks_days=keep, held=not opening.advise)
    if simulated and session.state.number == 0 and home is not None:
        (home / "simulated-job.json").unlink(missing_ok=True)
    return session


def make_lease_check(lease: Lease | None) -> Callable[[bool], None]:
    """Whether the job is still this process' to keep: asked before it is touched, and now and then else. While the
    store is away nobody can say, and the job is kept."""
    looked = [time.monotonic()]

    def check(touches: bool) -> None:
        if lease is not None and (touches or time.monotonic() - looked[0] > HEARTBEAT_SECONDS):
            looked[0] = time.monotonic()
            with suppress(RunStoreError):
                lease.check()

    return check


def _services(sections: LoopSections, meter: MetricRecorder, *, simulated: bool) -> Callable[[], Mapping[str, float]]:
    """The latency of each service now. A simulated job calls none, and has a clock of its own."""
    if simulated or not sections.services:
        return dict
    latencies = ServiceLatencies(sections.services, meter.store, note)
    return lambda: latencies.at(time.time())


def _rescaling(around: CommandContext, job: Job) -> Callable[[], AbstractContextManager[object]]:
    """Who advises has no lease of the job. To carry out what it recommends it takes one, for as long as that lasts."""
    store = around.store
    if store is None or not around.advise:
        return nullcontext
    return lambda: job_lock.lock_job(store, job.name, job_lock.AUTOSCALED)


def _slots_left(sections: LoopSections, job: Job, decisions: DecisionJournal | None) -> Callable[[], int | None]:
    """Of the quota that this job shares with others, by what their loops wrote last."""
    quota = sections.autoscale.shared_quota
    if quota is None or decisions is None:
        return lambda: None
    return lambda: max(0, quota - decisions.slots_of_others(job.name))


def _rules(around: CommandContext, sections: LoopSections, job: Job, wanted: ModelRequest) -> Rules:
    tuning, section = sections.tuning, sections.autoscale
    settings = AutoscalingSettings(job.target, tuning.alpha, tuning.over_allocation, tuning.noise, seed=tuning.seed)
    models: tuple[BenefitModel, ...] = ()
    if around.store is not None and job.rate > 0:
        warm = choose_warm_start(AUTO, around.store, job, wanted)
        for line in warm.lines:
            note(line)
        models = tuple(source.model for source in warm.sources)
    weighed = section.planning.late_worth is not None
    knobs = fill_loop_knobs(
        sections.manager, job.target, micro_batch=wanted.execution == "micro-batch", weighed=weighed
    )
    return replace(build_loop_rules(section, settings, knobs, advise=around.advise), models=models)


def _library(around: CommandContext, job: Job, simulated: bool, session: JournalSession | None) -> LearnedModels | None:
    """Of a loop that acts and is journalled."""
    if around.store is None or session is None or around.advise:
        return None
    return LearnedModels(ModelLibrary(around.store), job, simulated=simulated, session=session.id)


def _safe(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in name)


# --- telling ----------------------------------------------------------------------------------------------------------


def _opening(job: Job, simulated: bool, advise: bool, session: JournalSession | None) -> None:
    what = "a simulated job: every figure below is simulated" if simulated else "a real Spark job"
    does = "advising on" if advise else "autoscaling"
    output = "" if simulated or advise else f"; {describe_sink('real')}"
    note(f"{does} {job.name}, {what}; latency target {format_seconds(job.target.latency_seconds)}{output}")
    if session is None:
        note("not journalled: no store is in use, so nothing can be gone on with or explained later")
    else:
        again = f", going on after entry {session.state.number}" if session.state.number else ""
        note(f"session {session.id}{again}")
        if session.renewed:
            note(session.renewed)
        for reason in session.state.orders.reasons():
            note(f"{reason.text} (autotrascale resume {job.name})")


def _reports(
    told: Callable[[State, DecisionEntry], None], notifier: Notifier, job: Job, simulated: bool
) -> Callable[[State, DecisionEntry], None]:
    """To whoever reads along, and to those who are told of what is new."""

    def report(state: State, entry: DecisionEntry) -> None:
        told(state, entry)
        reasons = tuple(reason.text for reason in entry.reasons)
        notifier.saw(
            observe_condition(
                job.name, state, job.target.latency_seconds, reasons, simulated=simulated, latency=entry.latency_seconds
            )
        )

    return report


def _teller(
    form: OutputFormat,
    target: float,
    session: JournalSession | None,
    learned: LearnedModels | None,
    executor: ExecutorSize | None,
) -> Callable[[State, DecisionEntry], None]:
    last, troubles = [""], [""]

    def tell(state: State, entry: DecisionEntry) -> None:  # noqa: ARG001 - as a loop reports
        plain = entry_to_dict(entry)
        trouble = (session.trouble if session else "") or (learned.trouble if learned else "")
        if trouble != troubles[0]:
            note(f"not recorded for now: {trouble}" if trouble else "recorded again")
            troubles[0] = trouble
        if form is OutputFormat.json:
            print(json.dumps(plain, ensure_ascii=False, allow_nan=False), flush=True)
        elif decision_kind(plain) != last[0]:
            print(format_decision(plain, target), flush=True)
        if (
            entry.action in ("rescaled", "would-rescale")
            and decision_kind(plain) != last[0]
            and (line := format_cost_change(plain, executor))
        ):
            note(line)
        last[0] = decision_kind(plain)

    return tell


def _closing(form: OutputFormat, text: str) -> None:
    for line in text.splitlines():
        note(line) if form is OutputFormat.json else say(line)
    sys.stdout.flush()
