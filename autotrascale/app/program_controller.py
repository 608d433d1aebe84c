"""Controller of an adopted program: one control loop for each of its queries, and executor sizing for the whole.

The program decides when it ends, and its exit code becomes that of the command. When the controller ends, the program
keeps its executors and partitions, and another controller may take over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from autotrascale.analyze.unmarked_query import LATENCY_IS_ESTIMATED
from autotrascale.app import stores
from autotrascale.app.application_summary import ApplicationSummary, write_summary
from autotrascale.app.command_context import CommandContext
from autotrascale.app.console import note, print_answer, say
from autotrascale.app.controlled_query import LEARNING_SECONDS, ControlledQuery
from autotrascale.app.executor_sizing import LiveSizing
from autotrascale.app.program_file import ProgramFile, render_program_file
from autotrascale.app.relauncher import ProgramHost, Relauncher
from autotrascale.app.sizes_section import SizesSection
from autotrascale.atomic_files import write_atomically
from autotrascale.domain.errors import AuTraScaleError, EngineError
from autotrascale.domain.target import Target
from autotrascale.execute.spark.controller.adopted_application import AdoptedApplication
from autotrascale.execute.spark.controller.agent_client import AgentAwayError
from autotrascale.execute.spark.controller.program_process import ProgramProcess
from autotrascale.plan.sizing.executor_plan import ExecutorRange

START_SECONDS = 60.0  # for a Python that loads PySpark on a busy machine
POLL_SECONDS = 0.5  # between two checks that the program runs
ENDING_SECONDS = 15.0  # in which a driver that ends does not answer
NAMING_SECONDS = 60.0  # from the first query until the program has started the others


class ProgramController:
    """Control loops of a program's queries."""

    def __init__(
        self,
        program: ProgramProcess,
        file: ProgramFile,
        context: CommandContext,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._program, self._file, self._context = program, file, context
        self._clock, self._sleep = clock, sleep
        self._application: AdoptedApplication | None = None
        self._queries: dict[str, ControlledQuery] = {}  # by id
        self._last_problem = ""
        self._away_since: float | None = None
        self.missed = False  # whether a query missed its target at the end
        self._seen_names: set[str] = set()
        self._missing_since: float | None = None  # queries of the job file that the program has not started
        self._missing_reported = False
        self._learned: dict[str, Target] = {}  # by name of the query
        self._summary = ApplicationSummary()
        can_relaunch, section = file.sizes is not None and not context.advise, file.sizes or SizesSection()
        settings = section.to_settings(file.program.executors.maximum if can_relaunch else None)
        self._sizes = LiveSizing(context, file.services, settings=settings, can_relaunch=can_relaunch)
        self._relauncher = None
        if can_relaunch:
            self._relauncher = Relauncher(program, section, self._sizes, explain_hold=self._explain_hold)

    def run(self, seconds: float | None = None) -> None:
        """Control the program until it ends, or for `seconds`."""
        until = None if seconds is None else self._clock() + seconds
        self._ensure_supervised()
        try:
            self._client = self._program.client(START_SECONDS)
        except EngineError as error:
            if self._program.exit_code() is None:
                raise
            note(str(error))
            return
        ended = "interrupted"
        try:
            while self._program.exit_code() is None and (until is None or self._clock() < until):
                self._step_if_it_answers()
                self._sleep(POLL_SECONDS)
                self._ensure_supervised()
            ended = "finished"
        finally:
            self._report_missing_queries(0.0)
            self._end_all(ended)
            self._print_summary()
            self._client.close()

    def write_job(self, path: Path) -> None:
        """Write a job file with the learned targets."""
        file, comment = self._file, "learned from the latency while the program was observed"
        if len(self._learned) == 1:
            (target,) = self._learned.values()
            file, comments = file.with_target(target), {"target": comment}
        else:
            comments = {"queries": comment} if self._learned else {}
            for name, target in self._learned.items():
                file = file.with_target(target, name)
        write_atomically(path, render_program_file(file, comments))
        note(f"job file written: {path}")

    def _explain_hold(self) -> str:
        return next((f"{query.job_name} is paused" for query in self._queries.values() if query.is_paused), "")

    def _ensure_supervised(self) -> None:
        # Without its supervisor a program that is relaunched would not start again.
        if self._relauncher is not None and self._program.ensure_supervised():
            note("the program's supervisor was killed; a new one has replaced it")

    def _step_if_it_answers(self) -> None:
        # No problem of a step may end the command that started the program: the next step tries again.
        try:
            self._step()
            self._away_since = None
            self._report_once("" if self._application is None else self._application.executor_counts.trouble)
        except AgentAwayError as error:
            self._away_since = self._away_since or self._clock()
            if self._clock() - self._away_since > ENDING_SECONDS:
                self._report_once(str(error))
        except AuTraScaleError as error:
            self._report_once(str(error))

    def _step(self) -> None:
        relauncher = self._relauncher
        if relauncher is not None and relauncher.is_under_way():
            return
        application = self._find_application()
        if application is None:
            return
        for query in application.read_queries():
            if query.active and query.id not in self._queries:
                self._queries[query.id] = ControlledQuery(query, application, self._file, self._context)
                self._seen_names.add(query.name)
        for query_id, controlled in list(self._queries.items()):
            if self._clock() >= controlled.due:
                controlled.due = self._clock() + LEARNING_SECONDS  # stays if the step fails
                controlled.step(self._clock())
                if controlled.target is not None and self._file.target_for(controlled.name) is None:
                    self._learned[controlled.name] = controlled.target
            if controlled.live.ended:
                self._end_query(query_id, "finished")
        self._summary.add_executors(self._clock(), application.executors, application.cores)
        host = ProgramHost(self._program, application)
        if relauncher is not None:
            relauncher.record_result(host)
        self._sizes.observe(application.followed.use, elastic=application.is_elastic and not self._context.advise)
        if relauncher is not None and relauncher.relaunch_if_due(host):
            self._release_all("relaunched")
        self._report_missing_queries(NAMING_SECONDS)

    def _find_application(self) -> AdoptedApplication | None:
        """Return the program's Spark application, or None before it has one. A program may open several in turn."""
        info = self._client.application()
        if not info.id:
            return None
        if self._application is None or self._application.info.id != info.id:
            self._end_all("finished")
            limits = self._file.program.executors
            self._application = AdoptedApplication(self._client, info, ExecutorRange(limits.minimum, limits.maximum))
            self._print_application(self._application)
        return self._application

    def _end_query(self, query_id: str, ended: str) -> None:
        query = self._queries.pop(query_id)
        self.missed = query.end(ended) or self.missed
        result = query.advise()
        advised = None if result.advice is None else result.advice.then.executors
        self._summary.add_query(query.name or query.job_name, advised, target_held=result.target_held)

    def _end_all(self, ended: str) -> None:
        for query_id in list(self._queries):
            self._end_query(query_id, ended)

    def _release_all(self, ended: str) -> None:
        """End all control loops without advice, as the queries start again after the relaunch."""
        for query in self._queries.values():
            self.missed = query.end(ended) or self.missed
        self._queries.clear()
        self._application = None

    def _print_application(self, application: AdoptedApplication) -> None:
        info, doing = application.info, "advising on" if self._context.advise else "scaling"
        note(f"{doing} {info.name} ({info.id}) on {info.master}, Spark {info.spark_version}; {LATENCY_IS_ESTIMATED}")
        if application.executor_counts.not_elastic:
            note(f"the number of executors is fixed: {application.executor_counts.not_elastic}")

    def _print_summary(self) -> None:
        context, job = self._context, self._file.job
        cost = self._summary.compute_cost(job, self._clock(), self._file.program.price, advise=context.advise)
        if cost is None:
            return
        print_answer(context.form, cost.as_data(), lambda: say(cost.words()))
        if context.decisions is not None:
            write_summary(cost, stores.live_job_folder(context.decisions, job))

    def _report_missing_queries(self, after: float) -> None:
        """Report once that the program lacks a query of the job file, `after` seconds from its first query."""
        missing = [name for name in self._file.queries if name not in self._seen_names]
        if not missing or not self._seen_names or self._missing_reported:
            return
        self._missing_since = self._missing_since or self._clock()
        if self._clock() - self._missing_since >= after:
            self._missing_reported = True
            names = ", ".join(sorted(name or "a query without a name" for name in self._seen_names))
            note(f"queries.{missing[0]}: the program has not started a query of this name; it has {names}")

    def _report_once(self, problem: str) -> None:
        if problem and problem != self._last_problem:
            note(problem)
            self._last_problem = problem
