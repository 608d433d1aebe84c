"""`autotrascale autoscale`: the control loop on a running job, on Spark or on the simulator."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotrascale.app.console import FormatOption, OutputFormat, note
from autotrascale.app.stores import MetricsOption, StoreOption
from autotrascale.cli.tune import EngineChoice
from autotrascale.cli.tuning_output import TARGET_NOT_MET

if TYPE_CHECKING:
    from autotrascale.app.job_file import EngineName, JobFile
    from autotrascale.app.loop_session import CommandContext
    from autotrascale.app.sized_job import SizedLiveJob
    from autotrascale.execute.live_job import LiveJob
    from autotrascale.knowledge.lease import Lease
    from autotrascale.knowledge.mlflow_store import MlflowStore
    from autotrascale.plan.control.loop_state import State
    from autotrascale.plan.policies import PolicyChoice

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
    sizes: Annotated[
        bool, typer.Option("--sizes", help="Judge the memory of its executors too, and relaunch it when that pays.")
    ] = False,
    store: StoreOption = None,
    metrics: MetricsOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Keep a running job at its latency target with the least parallelism, while its rate goes up and down."""
    from autotrascale.app import notifications, unit_warnings
    from autotrascale.app.job_file import read_job_file
    from autotrascale.app.stores import open_store
    from autotrascale.cli import tuning_output

    file = read_job_file(job_file)
    unit_warnings.warn_about_units(file, note)
    notifications.check_targets(file.notify or notifications.read_targets_from_environment())
    name = file.engine_name(None if engine is None else engine.value)
    _check_event_log(event_log, advise, name)
    file = _with_sizes(file, name, asked=sizes)
    chosen = file.policy_named(policy)
    limit = A_DAY if seconds is None and name == "simulator" else seconds
    with tuning_output.exit_on_sigterm():
        state = _keep(file, job_file, name, open_store(store), advise, event_log, limit, form, metrics, chosen)
    if state.memory.missed:
        raise typer.Exit(TARGET_NOT_MET)


def _sized(live: LiveJob, file: JobFile, around: CommandContext, lease: Lease | None) -> SizedLiveJob | None:
    """With the sizes of its executors judged, where that is asked for."""
    if file.sizes is None:
        return None
    from autotrascale.app.loop_session import make_lease_check
    from autotrascale.app.sized_job import SizedLiveJob
    from autotrascale.execute.spark.controller.read_only_job import ReadOnlySparkJob
    from autotrascale.execute.spark.controller.relaunchable_job import RelaunchableJob

    assert isinstance(live, RelaunchableJob | ReadOnlySparkJob)
    sized = live if isinstance(live, RelaunchableJob) and not live.settings.local else None
    if isinstance(live, RelaunchableJob) and sized is None:
        note(f"sizes: its driver runs all tasks on {live.settings.master}, and is not relaunched: what to set is said")
    return SizedLiveJob(live, sized, file.sizes, file.services, around, make_lease_check(lease))


def register(app: typer.Typer) -> None:
    app.command("autoscale")(autoscale)


def _check_event_log(event_log: Path | None, advise: bool, engine: str) -> None:
    """Advice is for a job that runs without us, and its event log is where such a job can be seen."""
    from autotrascale.domain.errors import InputError

    if event_log is not None and not (advise and engine == "spark"):
        raise InputError("--event-log", "is for advice on a Spark job", remedy="add --advise, or leave it out")
    if event_log is None and advise and engine == "spark":
        raise InputError(
            "--advise",
            "changes nothing, so it does not start a Spark job either",
            remedy="name the event log of one that runs, with --event-log FOLDER",
        )


def _with_sizes(file: JobFile, engine: str, *, asked: bool) -> JobFile:
    """A simulated job has no executors; its file may be for both."""
    from autotrascale.app.sizes_section import SizesSection
    from autotrascale.domain.errors import InputError

    if engine == "spark":
        return replace(file, sizes=SizesSection()) if asked and file.sizes is None else file
    if asked:
        raise InputError("--sizes", "is for a job on Spark: a simulated one has no executors", remedy="leave it out")
    return replace(file, sizes=None)


def _keep(
    file: JobFile,
    path: Path,
    engine: EngineName,
    store: MlflowStore | None,
    advise: bool,
    event_log: Path | None,
    limit: float | None,
    form: OutputFormat,
    metrics: str | None,
    policy: PolicyChoice,
) -> State:
    from autotrascale.app import loop_session
    from autotrascale.app.metric_recording import open_metric_recorder
    from autotrascale.app.warm_start import describe_wanted_model
    from autotrascale.tuning import choose_starting_point

    decisions = loop_session.open_decisions(store)
    home = loop_session.live_job_folder(decisions, file.job)
    with ExitStack() as stack:
        if decisions is not None:
            stack.callback(decisions.close)
        lease, store = loop_session.take_lease(stack, store, file.job, advise=advise)
        meter = stack.enter_context(open_metric_recorder(metrics, journalled=decisions is not None))
        # A simulated job that nobody journals is begun anew each time.
        kept_in = None if decisions is None and engine == "simulator" else home
        opened = (
            file.look_on(event_log) if event_log else file.open_live(engine, kept_in, path.parent, file.tuning.seed)
        )
        job, live = opened
        stack.callback(live.close)
        around = loop_session.CommandContext(store, decisions, meter, form, advise, policy)
        sized = _sized(live, file, around, lease)
        wanted = describe_wanted_model(file, engine, job, faithful=False)
        initial = choose_starting_point(job, file.tuning.initial)
        sections = file if policy else replace(file, autoscale=file.autoscale.weighing())
        kept = loop_session.LoopSession(around, sections, job, sized or live, engine, wanted, initial, lease, home)
        if sized is not None:
            sized.held = lambda: f"{job.name} is paused" if kept.loop.state.orders.paused else ""
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
