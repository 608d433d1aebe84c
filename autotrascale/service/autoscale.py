"""`autotrascale autoscale`: the control loop on a running job, on Spark or on the simulator."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotrascale.service.output import Format, FormatOption, note
from autotrascale.service.store import MetricsOption, StoreOption
from autotrascale.service.tune import EngineChoice
from autotrascale.service.tuning_output import TARGET_NOT_MET

if TYPE_CHECKING:
    from autotrascale.knowledge.store import Store
    from autotrascale.plan.control.loop_state import State
    from autotrascale.plan.policies import PolicyChoice
    from autotrascale.service.jobfile import EngineName, JobFile

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
        str | None,
        typer.Option(metavar="NAME", help="Who decides, of those that decide knows; else what the file says."),
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
    from autotrascale.service import notifying, questions, tuning_output
    from autotrascale.service.jobfile import read_job_file
    from autotrascale.service.store import open_store

    file = read_job_file(job_file)
    questions.ask(file, note)
    notifying.check(file.notify or notifying.of_the_environment())
    name = file.engine_name(None if engine is None else engine.value)
    _check_event_log(event_log, advise, name)
    chosen = file.policy_named(policy)
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


def _keep(
    file: JobFile, path: Path, engine: EngineName, store: Store | None, advise: bool, event_log: Path | None,
    limit: float | None, form: Format, metrics: str | None, policy: PolicyChoice,
) -> State:  # fmt: skip
    from autotrascale.service import keeping
    from autotrascale.service.metering import metering
    from autotrascale.service.warm_start import wanted_by
    from autotrascale.tuning import starting_point

    decisions = keeping.decisions_beside(store)
    home = keeping.home_of(decisions, file.job)
    with ExitStack() as stack:
        if decisions is not None:
            stack.callback(decisions.close)
        lease, store = keeping.lease_of(stack, store, file.job, advise=advise)
        meter = stack.enter_context(metering(metrics, journalled=decisions is not None))
        # A simulated job that nobody journals is begun anew each time.
        kept_in = None if decisions is None and engine == "simulator" else home
        opened = (
            file.look_on(event_log) if event_log else file.open_live(engine, kept_in, path.parent, file.tuning.seed)
        )
        job, live = opened
        stack.callback(live.close)
        around = keeping.Around(store, decisions, meter, form, advise, policy)
        wanted = wanted_by(file, engine, job, faithful=False)
        initial = starting_point(job, file.tuning.initial)
        sections = file if policy else replace(file, autoscale=file.autoscale.weighing())
        kept = keeping.Kept(around, sections, job, live, engine, wanted, initial, lease, home)
        ended = "interrupted"
        try:
            kept.loop.run(limit)
            ended = "finished"
        except (KeyboardInterrupt, SystemExit):
            note(f"stopped in good order; go on with: autotrascale autoscale {path}")
            raise
        finally:
            kept.end(ended)
        return kept.loop.state
