"""`autotrascale autoscale`: the control loop on a running job, on Spark or on the simulator."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotrascale.service.output import Format, FormatOption, note, say
from autotrascale.service.store import MetricsOption, StoreOption
from autotrascale.service.tune import EngineChoice
from autotrascale.service.tuning_output import TARGET_NOT_MET

if TYPE_CHECKING:
    from autotrascale.domain.job import Job
    from autotrascale.knowledge.decisions.journal import Decisions, Session
    from autotrascale.knowledge.decisions.learned import Learned
    from autotrascale.knowledge.lease import Lease
    from autotrascale.knowledge.store import Store
    from autotrascale.plan.control.loop_state import Entry, Rules, State
    from autotrascale.plan.policies import Policy
    from autotrascale.service.jobfile import JobFile

A_DAY = 86_400.0


def autoscale(
    job_file: Annotated[Path, typer.Argument(metavar="JOB.yaml", help="The job file.")],
    advise: Annotated[bool, typer.Option("--advise", help="Say what it would do, and touch nothing.")] = False,
    engine: Annotated[
        EngineChoice | None, typer.Option(help="What runs the job; else what the file describes.")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option("--for", metavar="SECONDS", help="How long; else for ever, or one simulated day.", min=1.0),
    ] = None,
    policy: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who decides, of those that decide knows; else the loop itself.")
    ] = None,
    event_log: Annotated[
        Path | None,
        typer.Option("--event-log", metavar="FOLDER", help="With --advise: of a Spark job that somebody else runs."),
    ] = None,
    store: StoreOption = None,
    metrics: MetricsOption = None,
    form: FormatOption = Format.table,
) -> None:
    """Keep a running job at its latency target with the least parallelism, while its rate goes up and down."""
    from autotrascale.plan.policies import create
    from autotrascale.service import questions, tuning_output
    from autotrascale.service.jobfile import read_job_file
    from autotrascale.service.store import open_store

    file = read_job_file(job_file)
    questions.ask(file, note)
    name = file.engine_name(None if engine is None else engine.value)
    _check_event_log(event_log, advise, name)
    chosen = None if policy is None else create(policy, file.target)
    limit = A_DAY if seconds is None and name == "simulator" else seconds
    with tuning_output.ending_cleanly():
        state = _keep(file, job_file, name, open_store(store), advise, event_log, limit, form, metrics, chosen)
    if state.memory.missed:
        raise typer.Exit(TARGET_NOT_MET)


def register(app: typer.Typer) -> None:
    app.command("autoscale")(autoscale)


def _check_event_log(event_log: Path | None, advise: bool, engine: str) -> None:
    """Advice is for a job that runs without us, and its event log is where such a job can be seen."""
    from autotrascale.domain.errors import InputError

    if event_log is not None and not (advise and engine == "spark"):
        raise InputError("--event-log", "is for advice on a Spark job", remedy="add --advise, or leave it out")
    if event_log is None and advise and engine == "spark":
        raise InputError("--advise", "changes nothing, so it does not start a Spark job either",
                         remedy="name the event log of one that runs, with --event-log FOLDER")  # fmt: skip


def decisions_beside(store: Store | None) -> Decisions | None:
    """The journal of decisions: beside an embedded store's file, in ./mlruns for a served one."""
    from autotrascale.knowledge.decisions.journal import Decisions

    if store is None:
        return None
    uri = store.uri
    folder = Path(uri.removeprefix("sqlite:///")).parent if uri.startswith("sqlite:///") else Path("mlruns")
    return Decisions(folder / "decisions.db")


def _keep(
    file: JobFile, path: Path, engine: Any, store: Store | None, advise: bool, event_log: Path | None,
    limit: float | None, form: Format, metrics: str | None, policy: Policy | None,
) -> State:  # fmt: skip
    from autotrascale.knowledge import claim
    from autotrascale.loop import Loop
    from autotrascale.service.metering import metering
    from autotrascale.tuning import starting_point

    decisions = decisions_beside(store)
    home = (Path("mlruns") if decisions is None else decisions.path.parent) / "live" / _safe(file.job)
    with ExitStack() as stack:
        if decisions is not None:
            stack.callback(decisions.close)
        lease = None if store is None or advise else stack.enter_context(
            claim.take_job(store, file.job, claim.AUTOSCALED, note)
        )  # fmt: skip
        store = store if store is None or lease is None else lease.guarded(store)
        meter = stack.enter_context(metering(metrics, journalled=decisions is not None))
        # A simulated job that nobody journals is begun anew each time.
        kept = None if decisions is None and engine == "simulator" else home
        opened = file.look_on(event_log) if event_log else file.open_live(engine, kept, path.parent, file.tuning.seed)
        job, live = opened
        stack.callback(live.close)
        keep = file.autoscale.keep_looks_days
        session = None if decisions is None else _session(decisions, job, engine, live.simulated, advise, home, keep)
        if session is not None and lease is not None:
            lease.is_of(f"session {session.id}")
        learned = _library(store, job, live.simulated)
        rules = replace(_rules(file, job, engine, store, advise=advise), policy=policy)
        _opening(job, live.simulated, advise, session)
        initial = starting_point(job, file.tuning.initial)
        if advise and live.simulated:  # nothing of it runs before somebody starts it
            live.start(initial)
        loop = Loop(
            live, rules, initial=initial, state=None if session is None else session.state, journal=session,
            library=None if advise else learned, report=_teller(form, job.target.latency_seconds, session, learned),
            slots_left=_slots_left(file, job, decisions), seen=meter.of(live), check_ours=_check_of(lease),
        )  # fmt: skip
        ended = "interrupted"
        try:
            loop.run(limit)
            ended = "finished"
        except (KeyboardInterrupt, SystemExit):
            note(f"stopped in good order; go on with: autotrascale autoscale {path}")
            raise
        finally:
            if session is not None:
                session.end(ended)
            _closing(form, job, loop.state, live.simulated, advise)
        return loop.state


def _session(
    decisions: Decisions, job: Job, engine: str, simulated: bool, advise: bool, home: Path, keep_looks_days: float
) -> Session:
    """A simulated job whose time was over begins anew; everything else is gone on with."""
    from autotrascale.knowledge.decisions.journal import Opening

    opening = Opening.of(job, engine, simulated=simulated, advise=advise)
    session = decisions.open_session(opening, anew=simulated, keep_looks_days=keep_looks_days, held=not advise)
    if simulated and session.state.number == 0:
        (home / "simulated-job.json").unlink(missing_ok=True)
    return session


def _check_of(lease: Lease | None) -> Callable[[bool], None]:
    """Whether the job is still this process' to keep: asked before it is touched, and now and then else. While the
    store is away nobody can say, and the job is kept."""
    from autotrascale.domain.errors import RunStoreError
    from autotrascale.knowledge.owner import HEARTBEAT_SECONDS

    looked = [time.monotonic()]

    def check(touches: bool) -> None:
        if lease is not None and (touches or time.monotonic() - looked[0] > HEARTBEAT_SECONDS):
            looked[0] = time.monotonic()
            with suppress(RunStoreError):
                lease.check()

    return check


def _slots_left(file: JobFile, job: Job, decisions: Decisions | None) -> Callable[[], int | None]:
    """Of the quota that this job shares with others, by what their loops wrote last."""
    quota = file.autoscale.shared_quota
    if quota is None or decisions is None:
        return lambda: None
    return lambda: max(0, quota - decisions.slots_of_others(job.name))


def _rules(file: JobFile, job: Job, engine: str, store: Store | None, *, advise: bool) -> Rules:
    from autotrascale.plan.control.autoscaling.prediction import Settings
    from autotrascale.plan.control.loop_state import Rules
    from autotrascale.service.autoscaling import knobs_for_a_loop
    from autotrascale.service.warm_start import AUTO, wanted_by, warm_start

    tuning, section = file.tuning, file.autoscale
    settings = Settings(job.target, tuning.alpha, tuning.over_allocation, tuning.noise, section.confidence,
                        seed=tuning.seed)  # fmt: skip
    models: tuple[Any, ...] = ()
    wanted = wanted_by(file, engine, job, faithful=False)
    if store is not None and job.rate > 0:
        warm = warm_start(AUTO, store, job, wanted)
        for line in warm.lines:
            note(line)
        models = tuple(source.model for source in warm.sources)
    knobs = knobs_for_a_loop(file.manager, job.target, micro_batch=wanted.execution == "micro-batch")
    return Rules(settings, knobs, section.planning, section.rescales_per_day,
                 section.stale_seconds, advise, models)  # fmt: skip


def _library(store: Store | None, job: Job, simulated: bool) -> Learned | None:
    if store is None:
        return None
    from autotrascale.knowledge.decisions.learned import Learned
    from autotrascale.knowledge.library import Library

    return Learned(Library(store), job, simulated=simulated)


def _safe(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in name)


# --- telling ----------------------------------------------------------------------------------------------------------


def _opening(job: Job, simulated: bool, advise: bool, session: Session | None) -> None:
    from autotrascale.plan.words import seconds
    from autotrascale.views.output import where_output_goes

    what = "a simulated job: every figure below is simulated" if simulated else "a real Spark job"
    does = "advising on" if advise else "autoscaling"
    output = "" if simulated or advise else f"; {where_output_goes('real')}"
    note(f"{does} {job.name}, {what}; latency target {seconds(job.target.latency_seconds)}{output}")
    if session is None:
        note("not journalled: no store is in use, so nothing can be gone on with or explained later")
    else:
        again = f", going on after entry {session.state.number}" if session.state.number else ""
        note(f"session {session.id}{again}")
        if session.renewed:
            note(session.renewed)


def _teller(
    form: Format, target: float, session: Session | None, learned: Learned | None
) -> Callable[[State, Entry], None]:
    from autotrascale.plan.control.loop_state import as_entry
    from autotrascale.views.decisions import code, row

    last, troubles = [""], [""]

    def tell(state: State, entry: Entry) -> None:  # noqa: ARG001 - as a loop reports
        plain = as_entry(entry)
        trouble = (session.trouble if session else "") or (learned.trouble if learned else "")
        if trouble != troubles[0]:
            note(f"not recorded for now: {trouble}" if trouble else "recorded again")
            troubles[0] = trouble
        if form is Format.json:
            print(json.dumps(plain, ensure_ascii=False, allow_nan=False), flush=True)
        elif code(plain) != last[0]:
            print(row(plain, target), flush=True)
        last[0] = code(plain)

    return tell


def _closing(form: Format, job: Job, state: State, simulated: bool, advise: bool) -> None:
    from autotrascale.views.decisions import accuracy, summary

    sentence = summary(job.name, job.target.latency_seconds, state, simulated=simulated, advise=advise)
    for line in (accuracy(state.checked), sentence) if not advise else (sentence,):
        note(line) if form is Format.json else say(line)
    sys.stdout.flush()
