"""A program that somebody else wrote, while it runs: each of its queries is advised on or kept by a loop of its own.

The program decides when it ends, and its exit code is ours. Our end changes nothing for it: what it was given last it
keeps, and another controller may take over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from autotrascale.analyze import unmarked_query as measured
from autotrascale.analyze.partitions import measure_partitions
from autotrascale.analyze.unmarked_query import LATENCY_IS_ESTIMATED, OPERATOR
from autotrascale.app import loop_session, stores
from autotrascale.app.application_summary import ApplicationSummary, write_summary
from autotrascale.app.console import note, print_answer, say
from autotrascale.app.executor_sizing import LiveSizing
from autotrascale.app.loop_session import CommandContext, LoopSession
from autotrascale.app.program_file import ExecutorBounds, ProgramFile, render_program_file
from autotrascale.app.query_advice import QueryAdvice, QueryAdviceReport, advise_query
from autotrascale.app.relauncher import ProgramHost, Relauncher
from autotrascale.app.sizes_section import SizesSection
from autotrascale.atomic_files import write_atomically
from autotrascale.domain.errors import AuTraScaleError, EngineError, InputError
from autotrascale.domain.target import Target
from autotrascale.execute.spark.controller.adopted_application import AdoptedApplication
from autotrascale.execute.spark.controller.adopted_job import AdoptedJob
from autotrascale.execute.spark.controller.agent_client import AgentAwayError
from autotrascale.execute.spark.controller.program_process import ProgramProcess
from autotrascale.execute.spark.protocol.agent_messages import AdoptedQuery
from autotrascale.knowledge.model_card import ModelRequest
from autotrascale.plan.formatting import format_seconds as in_words
from autotrascale.plan.sizing.executor_plan import ExecutorRange
from autotrascale.plan.sizing.learned_target import BatchLatency, learn_target

_START_SECONDS = 60.0  # a Python that loads PySpark, on a busy machine
_GLANCE_SECONDS = 0.5  # between two looks at whether the program still runs
_ENDING_SECONDS = 15.0  # a driver that ends answers no more, and Spark takes its time
_NAMED_SECONDS = 60.0  # after its first query a program has mostly started the others
_LEARNING_SECONDS = 10.0  # between two looks while there is no target yet


def new_program_folder(home: Path) -> Path:
    """For one run of a program: its agent, its event log and its exit code."""
    folder = home.resolve() / f"program-{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() % 1_000_000:06}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    return folder


class ControlledQuery:
    """One query of the program. It has a loop from when it is known what it shall hold."""

    def __init__(
        self, described: AdoptedQuery, application: AdoptedApplication, file: ProgramFile, around: CommandContext
    ):
        limits = application.bounds  # those that there are, where they cannot come and go
        limited = replace(file.program, executors=ExecutorBounds(limits.most, limits.least))
        self.file, self.application, self._around = replace(file, program=limited), application, around
        self.target = file.target_for(described.name)
        self._number = described.id
        self._job = self.file.query_job(described.name, self.target or Target(1.0))
        self.name, self.called = self._job.name, described.name
        self.live = AdoptedJob(self._job, described, application)
        self.due = 0.0
        self.kept: LoopSession | None = None
        self._held = ExitStack()  # its lease, once it has a loop
        if described.not_movable:
            note(f"{self.name}: it {described.not_movable}")

    def turn(self, now: float) -> None:
        if self.target is None:
            self._learn()
            self.due = now + _LEARNING_SECONDS
        if self.target is not None:
            self.kept = self.kept or self._taken(self.target)
            self.kept.loop.run_once()
            self.due = now + self.kept.loop.rules.knobs.interval_seconds

    def end(self, ended: str) -> bool:
        """Whether it was seen to miss its target, at the last."""
        with self._held:
            if self.kept is None:
                return False
            self.kept.end(ended)
            return bool(self.kept.loop.state.memory.missed)

    def advise(self) -> QueryAdvice:
        """Where the time goes, and what to set."""
        if self.target is None:
            note(f"{self.name}: no settings are advised, as there is no target: give one with --target SECONDS")
        self.live.read_on()
        watched, target = self.application.followed, self.target or Target(1.0)
        found = advise_query(
            self.name,
            self.live.recent,
            watched.executors,
            watched.conf,
            target,
            self._job.p_max,
            self.live.source_options,
            self.live.stages,
        )
        found = found if self.target is not None else replace(found, advice=None, why="")
        told = QueryAdviceReport(self.name, found, measure_partitions(self.live.recent), self.file.program.price)
        print_answer(self._around.form, told.as_data(), told.show)
        return found

    def _learn(self) -> None:
        self.live.observe()
        batches = self.live.recent
        rate = measured.estimate_source_rate(batches)
        if rate is None:
            return
        try:
            seen = [BatchLatency(at, latency) for at, latency in measured.estimate_batch_latencies(batches, rate)]
            self.target = learn_target(seen, time.time())
        except InputError:
            return
        note(f"{self.name}: its target is {in_words(self.target.latency_seconds)}, as it held that (--target)")

    def _taken(self, target: Target) -> LoopSession:
        job, around = replace(self._job, target=target), self._around
        with ExitStack() as stack:
            lease, store = loop_session.take_lease(stack, around.store, job.name, advise=around.advise)
            wanted = ModelRequest.for_job(job, execution="micro-batch", simulated=False, faithful=False)
            initial = {OPERATOR: self.application.share(self._number)}
            around = replace(around, store=store)
            size = self.application.executor_size(self.file.program.price)
            kept = LoopSession(
                around, self.file.with_defaults(), job, self.live, "spark", wanted, initial, lease, executor=size
            )
            self._held = stack.pop_all()
        return kept


class ProgramController:
    def __init__(
        self,
        program: ProgramProcess,
        file: ProgramFile,
        around: CommandContext,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._program, self._file, self._around = program, file, around
        self._clock, self._sleep = clock, sleep
        self._application: AdoptedApplication | None = None
        self._queries: dict[str, ControlledQuery] = {}
        self._told = ""  # the last that was said of what is the matter
        self._away_since: float | None = None
        self.missed = False
        self._seen: set[str] = set()  # names of queries
        self._unknown_since: float | None = None  # the first query was seen, and others that the file names were not
        self._told_unknown = False
        self._learned: dict[str, Target] = {}
        self._together = ApplicationSummary()
        acts, section = file.sizes is not None and not around.advise, file.sizes or SizesSection()
        self._sizes = LiveSizing(
            around, file.services, how=section.to_settings(file.program.executors.maximum if acts else None), acts=acts
        )
        self._relaunching = Relauncher(program, section, self._sizes, held=self._paused) if acts else None

    def run(self, seconds: float | None = None) -> None:
        """Until the program ends, or for so long."""
        until = None if seconds is None else self._clock() + seconds
        self._keep_its_keeper()
        try:
            self._client = self._program.client(_START_SECONDS)
        except EngineError as error:
            if self._program.exit_code() is None:
                raise
            note(str(error))
            return
        ended = "interrupted"
        try:
            while self._program.exit_code() is None and (until is None or self._clock() < until):
                self._turn_if_it_answers()
                self._sleep(_GLANCE_SECONDS)
                self._keep_its_keeper()
            ended = "finished"
        finally:
            self._tell_of_unknown(0.0)
            self._end_all(ended)
            self._sum_up()
            self._client.close()

    def _paused(self) -> str:
        """Why people want the program left alone, if they do."""
        loops = ((query.name, query.kept.loop) for query in self._queries.values() if query.kept is not None)
        return next((f"{name} is paused" for name, loop in loops if loop.state.commands.paused), "")

    def _keep_its_keeper(self) -> None:
        """A program that is to have more than one life is never without one."""
        if self._relaunching is not None and self._program.ensure_supervised():
            note("the program's keeper had been killed: another one has taken its place")

    def _turn_if_it_answers(self) -> None:
        """A program that is just beginning or ending does not; nor does one whose driver hangs, which is said. Whatever
        else is the matter, a log that cannot be read or a query that another process keeps, is no reason to leave a
        program without the command that it was started by."""
        try:
            self._turn()
            self._away_since = None
            self._tell_once("" if self._application is None else self._application.executor_counts.trouble)
        except AgentAwayError as error:
            self._away_since = self._away_since or self._clock()
            if self._clock() - self._away_since > _ENDING_SECONDS:
                self._tell_once(str(error))
        except AuTraScaleError as error:
            self._tell_once(str(error))

    def _turn(self) -> None:
        if self._relaunching is not None and self._relaunching.under_way():
            return
        application = self._opened()
        if application is None:
            return
        for described in application.read_queries():
            if described.active and described.id not in self._queries:
                self._queries[described.id] = ControlledQuery(described, application, self._file, self._around)
                self._seen.add(described.name)
        for number, query in list(self._queries.items()):
            if self._clock() >= query.due:
                query.due = self._clock() + _LEARNING_SECONDS  # should its turn fail
                query.turn(self._clock())
                self._learn_from(query)
            if query.live.ended:
                self._end(number, "finished")
        self._together.saw(self._clock(), application.executors, application.cores)
        if self._relaunching is not None:
            self._relaunching.follow(ProgramHost(self._program, application))
        self._sizes.saw(application.followed.use, elastic=application.is_elastic and not self._around.advise)
        if self._relaunching is not None and self._relaunching.turn(ProgramHost(self._program, application)):
            self._let_go("relaunched")
        self._tell_of_unknown(_NAMED_SECONDS)

    def _learn_from(self, query: ControlledQuery) -> None:
        if query.target is not None and self._file.target_for(query.called) is None:
            self._learned[query.called] = query.target

    def _tell_of_unknown(self, after: float) -> None:
        """Once, of queries that the job file names and the program does not have. It may start them late."""
        unknown = [name for name in self._file.queries if name not in self._seen]
        if not unknown or not self._seen or self._told_unknown:
            return
        self._unknown_since = self._unknown_since or self._clock()
        if self._clock() - self._unknown_since >= after:
            self._told_unknown = True
            has = ", ".join(sorted(name or "one without a name" for name in self._seen))
            note(f"queries.{unknown[0]}: the program has started no query of this name; it has {has}")

    def _opened(self) -> AdoptedApplication | None:
        """None before the program has opened Spark. One that closes it and opens it again has another application."""
        about = self._client.application()
        if not about.id:
            return None
        if self._application is None or self._application.info.id != about.id:
            self._end_all("finished")
            limits = self._file.program.executors
            self._application = AdoptedApplication(self._client, about, ExecutorRange(limits.minimum, limits.maximum))
            self._tell_what_it_is(self._application)
        return self._application

    def _end(self, number: str, ended: str) -> None:
        query = self._queries.pop(number)
        self.missed = query.end(ended) or self.missed
        found = query.advise()
        needed = None if found.advice is None else found.advice.then.executors
        self._together.ended(query.called or query.name, needed, held=found.held)

    def _let_go(self, ended: str) -> None:
        """Of all queries: they come again, so that nobody is told what to set."""
        for query in self._queries.values():
            self.missed = query.end(ended) or self.missed
        self._queries.clear()
        self._application = None

    def _end_all(self, ended: str) -> None:
        for number in list(self._queries):
            self._end(number, ended)

    def _sum_up(self) -> None:
        """Of all queries together, where there are several."""
        around, price = self._around, self._file.program.price
        bill = self._together.bill(self._file.job, self._clock(), price, advise=around.advise)
        if bill is not None:
            print_answer(around.form, bill.as_data(), lambda: say(bill.words()))
            if around.decisions is not None:
                write_summary(bill, stores.live_job_folder(around.decisions, self._file.job))

    def _tell_what_it_is(self, application: AdoptedApplication) -> None:
        about, doing = application.info, "advising on" if self._around.advise else "keeping"
        note(
            f"{doing} {about.name} ({about.id}) on {about.master}, Spark {about.spark_version}; {LATENCY_IS_ESTIMATED}"
        )
        if application.executor_counts.not_elastic:
            note(f"its executors stay as they are: {application.executor_counts.not_elastic}")

    def _tell_once(self, line: str) -> None:
        if line and line != self._told:
            note(line)
            self._told = line

    def write_job(self, path: Path) -> None:
        """What is wanted of the program, as a job file."""
        file, held = self._file, "what it held while it was looked at"
        if len(self._learned) == 1:
            (target,) = self._learned.values()
            file, remarks = file.with_target(target), {"target": held}
        else:
            remarks = {"queries": held} if self._learned else {}
            for name, target in self._learned.items():
                file = file.with_target(target, name)
        write_atomically(path, render_program_file(file, remarks))
        note(f"job file written: {path}")
