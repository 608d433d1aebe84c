"""One query of an adopted program with its own control loop, which scales it or advises on it."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace

from autotrascale.analyze import unmarked_query as measured
from autotrascale.analyze.partitions import measure_partitions
from autotrascale.analyze.unmarked_query import OPERATOR
from autotrascale.app.command_context import CommandContext
from autotrascale.app.console import note, print_answer
from autotrascale.app.loop_session import LoopSession, take_lease
from autotrascale.app.program_file import ExecutorBounds, ProgramFile
from autotrascale.app.query_advice import QueryAdvice, QueryAdviceReport, advise_query
from autotrascale.domain.errors import InputError
from autotrascale.domain.target import Target
from autotrascale.execute.spark.controller.adopted_application import AdoptedApplication
from autotrascale.execute.spark.controller.adopted_job import AdoptedJob
from autotrascale.execute.spark.protocol.agent_messages import AdoptedQuery
from autotrascale.knowledge.model_card import ModelRequest
from autotrascale.plan.formatting import format_seconds
from autotrascale.plan.sizing.learned_target import BatchLatency, learn_target

LEARNING_SECONDS = 10.0  # between two observations while the query has no target
UNKNOWN_TARGET = Target(1.0)  # stands in where a target is required and none is known


class ControlledQuery:
    """A query of the program. Its control loop starts as soon as it has a latency target."""

    def __init__(
        self, query: AdoptedQuery, application: AdoptedApplication, file: ProgramFile, context: CommandContext
    ) -> None:
        # If executors cannot come and go, the application's present number replaces the bounds of the file.
        limits = application.bounds
        bounded = replace(file.program, executors=ExecutorBounds(limits.most, limits.least))
        self.file, self.application, self._context = replace(file, program=bounded), application, context
        self.target = file.target_for(query.name)
        self._id = query.id
        self._job = self.file.query_job(query.name, self.target or UNKNOWN_TARGET)
        self.job_name, self.name = self._job.name, query.name
        self.live = AdoptedJob(self._job, query, application)
        self.due = 0.0  # time of the next step
        self.session: LoopSession | None = None
        self._lease = ExitStack()
        if query.not_movable:
            note(f"{self.job_name}: it {query.not_movable}")

    @property
    def is_paused(self) -> bool:
        return self.session is not None and bool(self.session.loop.state.commands.paused)

    def step(self, now: float) -> None:
        """Learn the target if it is unknown, else let the control loop take one step. `now` is monotonic time."""
        if self.target is None:
            self._learn_target()
            self.due = now + LEARNING_SECONDS
        if self.target is not None:
            self.session = self.session or self._start_session(self.target)
            self.session.loop.run_once()
            self.due = now + self.session.loop.rules.knobs.interval_seconds

    def end(self, ended: str) -> bool:
        """End the control loop, and return whether the query missed its target at the end."""
        with self._lease:
            if self.session is None:
                return False
            self.session.end(ended)
            return bool(self.session.loop.state.memory.missed)

    def advise(self) -> QueryAdvice:
        """Print where the time of a batch goes and which settings to change, and return the same."""
        if self.target is None:
            note(f"{self.job_name}: no advice, as the latency target is unknown; give one with --target SECONDS")
        self.live.read_on()
        followed = self.application.followed
        result = advise_query(
            self.job_name,
            self.live.recent,
            followed.executors,
            followed.conf,
            self.target or UNKNOWN_TARGET,
            self._job.p_max,
            self.live.source_options,
            self.live.stages,
        )
        result = result if self.target is not None else replace(result, advice=None, why="")
        sources, price = measure_partitions(self.live.recent), self.file.program.price
        report = QueryAdviceReport(self.job_name, result, sources, price)
        print_answer(self._context.form, report.as_data(), report.show)
        return result

    def _learn_target(self) -> None:
        self.live.observe()
        batches = self.live.recent
        rate = measured.estimate_source_rate(batches)
        if rate is None:
            return
        latencies = [BatchLatency(at, latency) for at, latency in measured.estimate_batch_latencies(batches, rate)]
        try:
            self.target = learn_target(latencies, time.time())
        except InputError:  # too few batches
            return
        target = format_seconds(self.target.latency_seconds)
        note(f"{self.job_name}: learned the target {target} from its present latency; --target sets another one")

    def _start_session(self, target: Target) -> LoopSession:
        job, context = replace(self._job, target=target), self._context
        with ExitStack() as stack:
            lease, store = take_lease(stack, context.store, job.name, advise=context.advise)
            wanted = ModelRequest.for_job(job, execution="micro-batch", simulated=False, faithful=False)
            session = LoopSession(
                replace(context, store=store),
                self.file.with_defaults(),
                job,
                self.live,
                "spark",
                wanted,
                {OPERATOR: self.application.share(self._id)},
                lease,
                executor=self.application.executor_size(self.file.program.price),
            )
            self._lease = stack.pop_all()
        return session
