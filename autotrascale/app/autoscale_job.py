"""Control loop of one job: lock the job, open it, and run the loop until its time is over or it is interrupted."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from autotrascale.app import stores
from autotrascale.app.command_context import CommandContext
from autotrascale.app.console import OutputFormat, note
from autotrascale.app.job_file import EngineName, JobFile
from autotrascale.app.loop_session import JobLease, LoopSession, take_lease
from autotrascale.app.metric_recording import open_metric_recorder
from autotrascale.app.sized_job import SizedLiveJob
from autotrascale.app.sizes_section import SizesSection
from autotrascale.app.warm_start import describe_wanted_model
from autotrascale.domain.errors import InputError
from autotrascale.execute.live_job import LiveJob
from autotrascale.knowledge.lease import Lease
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.plan.control.loop_state import State
from autotrascale.tuning import choose_starting_point

DAY_SECONDS = 86_400.0


@dataclass(frozen=True)
class AutoscaleRequest:
    """A request to scale a job, or to advise on it.

    Args:
        file: the job file.
        path: where the job file was read from.
        engine: the engine that runs the job.
        advise: print recommendations, and change nothing.
        event_log: folder of the event log of a Spark application to advise on.
        sizes: judge the sizes of executors too.
        policy: the scaling policy; None: the job file's.
        seconds: duration; None: for ever on Spark, one day on the simulator.
    """

    file: JobFile
    path: Path
    engine: EngineName
    advise: bool = False
    event_log: Path | None = None
    sizes: bool = False
    policy: str | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        is_advice_on_spark = self.advise and self.engine == "spark"
        if self.event_log is not None and not is_advice_on_spark:
            raise InputError("--event-log", "applies to advice on a Spark job", remedy="add --advise, or leave it out")
        if self.event_log is None and is_advice_on_spark:
            raise InputError(
                "--advise",
                "needs a running Spark application, which it does not start",
                remedy="name the event log of the application with --event-log FOLDER",
            )
        if self.sizes and self.engine != "spark":
            raise InputError("--sizes", "applies to jobs on Spark, not to the simulator", remedy="leave it out")


def autoscale_job(
    request: AutoscaleRequest, store: MlflowStore | None, metrics: str | None, form: OutputFormat
) -> State:
    """Run the control loop of a job and return its last state.

    Args:
        request: the job, and what to do.
        store: the store of runs and models, if one is in use.
        metrics: the value of `--metrics`.
        form: how decisions are printed.

    Raises:
        JobBusyError: another process tunes or scales the job.
        InputError: the policy does not exist, or the event log cannot be read.
        EngineError: the engine cannot run the job.
    """
    file, engine = _apply_sizes(request), request.engine
    policy = file.choose_policy(request.policy)
    limit = DAY_SECONDS if request.seconds is None and engine == "simulator" else request.seconds
    decisions = stores.open_decisions(store)
    home = stores.live_job_folder(decisions, file.job)
    with ExitStack() as stack:
        if decisions is not None:
            stack.callback(decisions.close)
        lease, store = take_lease(stack, store, file.job, advise=request.advise)
        recorder = stack.enter_context(open_metric_recorder(metrics, journalled=decisions is not None))
        if request.event_log is not None:
            job, live = file.open_event_log(request.event_log)
        else:
            # A simulated job without a journal starts anew each time, so its state is not kept.
            kept_home = None if decisions is None and engine == "simulator" else home
            job, live = file.open_live_job(engine, kept_home, request.path.parent, file.tuning.seed)
        stack.callback(live.close)
        context = CommandContext(store, decisions, recorder, form, request.advise, policy)
        sized = _with_sizing(live, file, context, lease)
        wanted = describe_wanted_model(file, engine, job, faithful=False)
        initial = choose_starting_point(job, file.tuning.initial)
        sections = file if policy else replace(file, autoscale=file.autoscale.with_cost_aware_planning())
        session = LoopSession(context, sections, job, sized or live, engine, wanted, initial, lease, home)
        if sized is not None:
            sized.explain_hold = lambda: f"{job.name} is paused" if session.loop.state.commands.paused else ""
        ended = "interrupted"
        try:
            session.loop.run(limit)
            ended = "finished"
        except (KeyboardInterrupt, SystemExit):
            note(f"stopped cleanly; continue with: autotrascale autoscale {request.path}")
            raise
        finally:
            session.end(ended)
        return session.loop.state


def _apply_sizes(request: AutoscaleRequest) -> JobFile:
    if request.engine != "spark":
        return replace(request.file, sizes=None)  # the file may be for both engines
    if request.sizes and request.file.sizes is None:
        return replace(request.file, sizes=SizesSection())
    return request.file


def _with_sizing(live: LiveJob, file: JobFile, context: CommandContext, lease: Lease | None) -> SizedLiveJob | None:
    if file.sizes is None:
        return None
    from autotrascale.execute.spark.controller.read_only_job import ReadOnlySparkJob
    from autotrascale.execute.spark.controller.relaunchable_job import RelaunchableJob

    assert isinstance(live, RelaunchableJob | ReadOnlySparkJob)
    relaunchable = live if isinstance(live, RelaunchableJob) and not live.settings.local else None
    if isinstance(live, RelaunchableJob) and relaunchable is None:
        note(f"sizes: on {live.settings.master} the driver runs all tasks, so the job is advised on and not relaunched")
    return SizedLiveJob(live, relaunchable, file.sizes, file.services, context, JobLease(lease))
