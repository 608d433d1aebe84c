"""Session of a control loop: the loop with its journal, the job's lease, models, notifications and output."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from autotrascale.app.autoscale_section import AutoscaleSection, build_loop_rules, fill_loop_knobs
from autotrascale.app.command_context import CommandContext
from autotrascale.app.console import note
from autotrascale.app.loop_output import LoopOutput
from autotrascale.app.notifications import NotificationTarget, Notifier, read_targets_from_environment
from autotrascale.app.warm_start import AUTO, choose_warm_start
from autotrascale.domain.errors import RunStoreError
from autotrascale.domain.job import Job
from autotrascale.execute.live_job import LiveJob
from autotrascale.knowledge import job_lock
from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.knowledge.decision_journal.session_writer import JournalSession
from autotrascale.knowledge.decision_journal.sessions import SessionHeader
from autotrascale.knowledge.learned_models import LearnedModels
from autotrascale.knowledge.lease import Lease
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.model_card import ModelRequest
from autotrascale.knowledge.model_library import ModelLibrary
from autotrascale.knowledge.process_identity import HEARTBEAT_SECONDS
from autotrascale.loop import Loop, LoopCollaborators, LoopInputs, LoopLease
from autotrascale.monitor.service_latency import Service, ServiceLatencies
from autotrascale.plan.control.autoscaling.prediction import AutoscalingSettings
from autotrascale.plan.control.loop_state import Rules
from autotrascale.plan.control.manager.knobs import Knobs
from autotrascale.plan.policies.registry import OURS
from autotrascale.plan.search.benefit_model import BenefitModel
from autotrascale.plan.sizing.executor_plan import ExecutorSize
from autotrascale.tuning import TuningSettings


class LoopSections(Protocol):
    """Sections of a job file that a control loop reads: those of a job or of a program."""

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


def take_lease(
    stack: ExitStack, store: MlflowStore | None, job: str, *, advise: bool
) -> tuple[Lease | None, MlflowStore | None]:
    """Take the job's lease until `stack` closes, and return it with the store that only its holder may write to.

    A loop that only advises takes no lease.

    Raises:
        JobBusyError: another process tunes or scales the job.
    """
    if store is None or advise:
        return None, store
    lease = stack.enter_context(job_lock.lock_job(store, job, job_lock.AUTOSCALED, note))
    return lease, lease.fence(store)


class LoopSession:
    """A job's control loop with everything around it. The caller runs `loop`, then calls `end`."""

    def __init__(
        self,
        context: CommandContext,
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
        """Open the session, and print its start.

        Args:
            context: stores and output format of the command.
            sections: the job file.
            job: the job.
            live: its running form.
            engine: name of the engine.
            wanted: what a model must match for a warm start.
            initial: parallelism for the first start of the job.
            lease: the job's lease, unless the loop only advises.
            home: folder with the state of a simulated job.
            executor: size and price of one instance of an adopted program.
        """
        self._session = None
        if context.decisions is not None:
            header = SessionHeader.of(job, engine, simulated=live.simulated, advise=context.advise, executor=executor)
            self._session = _open_journal_session(context.decisions, sections, header, home)
        if self._session is not None and lease is not None:
            lease.set_work(f"session {self._session.id}")
        self._learned = _open_learned_models(context, job, live.simulated, self._session)
        self._notifier = Notifier(sections.notify or read_targets_from_environment())
        rules = _build_rules(context, sections, job, wanted)
        self._output = LoopOutput(context, job, live, self._session, self._learned, executor, self._notifier)
        self._output.print_start()
        if context.advise and live.simulated:  # no other process runs a simulated job
            live.start(initial)
        self.loop = Loop(
            live,
            rules,
            initial=initial,
            state=None if self._session is None else self._session.state,
            around=LoopCollaborators(
                journal=self._session,
                models=self._learned,
                inputs=SessionInputs(context, sections, job, simulated=live.simulated),
                lease=make_loop_lease(context, job, lease),
                listener=self._output,
            ),
        )

    def end(self, ended: str) -> None:
        """Close the journal and print the summary. `ended`: `finished`, `interrupted` or `relaunched`."""
        self._notifier.close()
        if self._session is not None:
            self._session.end(ended)
        if self._learned is not None:
            self._learned.end(finished=ended == "finished")
        self._output.print_end(self.loop.state)


class JobLease(LoopLease):
    """The lease that a process holds on a job.

    The lease is checked before each change of the job, and once per heartbeat otherwise. While the store is away the
    process keeps the job.

    Args:
        lease: None: the process holds no lease, and `check` never refuses.
        rescale_lock: returns a lock that is held during each rescale.
    """

    def __init__(
        self, lease: Lease | None, rescale_lock: Callable[[], AbstractContextManager[object]] = nullcontext
    ) -> None:
        self._lease, self._rescale_lock, self._checked_at = lease, rescale_lock, time.monotonic()

    def check(self, *, is_change: bool) -> None:
        if self._lease is not None and (is_change or time.monotonic() - self._checked_at > HEARTBEAT_SECONDS):
            self._checked_at = time.monotonic()
            with suppress(RunStoreError):
                self._lease.check()

    def for_rescale(self) -> AbstractContextManager[object]:
        return self._rescale_lock()


def make_loop_lease(context: CommandContext, job: Job, lease: Lease | None) -> JobLease:
    """Return the loop's lease. A loop that advises holds none, and locks the job while it applies a recommendation."""
    store = context.store
    if store is None or not context.advise:
        return JobLease(lease)
    return JobLease(lease, lambda: job_lock.lock_job(store, job.name, job_lock.AUTOSCALED))


class SessionInputs(LoopInputs):
    """The watched services of a job, and the quota that it shares. A simulated job calls no service."""

    def __init__(self, context: CommandContext, sections: LoopSections, job: Job, *, simulated: bool) -> None:
        self._decisions, self._job = context.decisions, job.name
        self._quota = sections.autoscale.shared_quota
        self._latencies = None
        if sections.services and not simulated:
            self._latencies = ServiceLatencies(sections.services, context.recorder.store, note)

    def service_latencies(self) -> Mapping[str, float]:
        return {} if self._latencies is None else self._latencies.at(time.time())

    def slots_left(self) -> int | None:
        if self._quota is None or self._decisions is None:
            return None
        return max(0, self._quota - self._decisions.slots_of_other_jobs(self._job))


def _open_journal_session(
    decisions: DecisionJournal, sections: LoopSections, header: SessionHeader, home: Path | None
) -> JournalSession:
    """Continue the last session, or start a new one if a simulated job had finished."""
    session = decisions.open_session(
        header,
        restart_finished=header.simulated,
        keep_events_days=sections.autoscale.keep_looks_days,
        has_lease=not header.advise,
    )
    if header.simulated and session.state.number == 0 and home is not None:
        (home / "simulated-job.json").unlink(missing_ok=True)
    return session


def _build_rules(context: CommandContext, sections: LoopSections, job: Job, wanted: ModelRequest) -> Rules:
    tuning, section, policy = sections.tuning, sections.autoscale, context.policy
    settings = AutoscalingSettings(job.target, tuning.alpha, tuning.over_allocation, tuning.noise, seed=tuning.seed)
    models: tuple[BenefitModel, ...] = ()
    if context.store is not None and job.rate > 0:
        warm = choose_warm_start(AUTO, context.store, job, wanted)
        for line in warm.lines:
            note(line)
        models = tuple(source.model for source in warm.sources)
    knobs = fill_loop_knobs(
        sections.manager,
        job.target,
        is_micro_batch=wanted.execution == "micro-batch",
        is_cost_aware=section.planning.late_worth is not None,
    )
    return replace(
        build_loop_rules(section, settings, knobs, advise=context.advise),
        models=models,
        policy_options=policy.options,
        policy=None if policy.name == OURS else policy.create(job.target),
    )


def _open_learned_models(
    context: CommandContext, job: Job, simulated: bool, session: JournalSession | None
) -> LearnedModels | None:
    # A loop stores models only if it acts and has a journal.
    if context.store is None or session is None or context.advise:
        return None
    return LearnedModels(ModelLibrary(context.store), job, simulated=simulated, session=session.id)
