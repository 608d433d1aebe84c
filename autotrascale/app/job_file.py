"""A job file, as YAML: what a job is, what is wanted of it, and what may run it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from autotrascale.app.autoscale_section import AutoscaleSection
from autotrascale.app.job_file_overrides import read_with_overrides
from autotrascale.app.notifications import NotificationTarget
from autotrascale.app.program_file import read_program_file
from autotrascale.app.sizes_section import SizesSection
from autotrascale.domain.errors import InputError
from autotrascale.domain.job import Job, check_p_max
from autotrascale.domain.target import Target
from autotrascale.domain.topology import Operator, Topology
from autotrascale.domain.trial import Sink
from autotrascale.execute.engine import Engine
from autotrascale.execute.live_job import LiveJob
from autotrascale.execute.simulator.simulated_job import SimulatedJob
from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.monitor.service_latency import Service
from autotrascale.plan.control.manager.knobs import Knobs
from autotrascale.plan.policies import OURS, PolicyChoice, is_built_in
from autotrascale.tuning import TuningSettings, choose_starting_point

EngineName = Literal["spark", "simulator"]
MAX_TASKS = 100_000  # of one stage: its driver keeps books of each


@dataclass(frozen=True)
class JobFile:
    """`operators` may be left out where the job's own code declares them, as PySpark jobs do."""

    job: str
    p_max: int
    source_rates: Mapping[str, float]
    target: Target
    operators: Mapping[str, Operator] = field(default_factory=dict)
    tuning: TuningSettings = field(default_factory=TuningSettings)
    manager: Knobs = field(default_factory=Knobs)
    simulator: SimulatedJob | None = None
    spark: SparkSettings | None = None
    autoscale: AutoscaleSection = field(default_factory=AutoscaleSection)
    notify: tuple[NotificationTarget, ...] = ()
    policy: str = OURS
    policy_options: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    services: Mapping[str, Service] = field(default_factory=dict)
    sizes: SizesSection | None = (
        None  # given: its executors are judged, and it is relaunched when they are of a wrong size
    )
    version: Literal[1] = 1

    def __post_init__(self) -> None:
        if self.simulator is None and self.spark is None:
            raise InputError("spark", "is missing, and so is simulator", remedy="say what runs the job")
        if self.spark is not None and self.p_max > MAX_TASKS:
            raise InputError(
                "p_max",
                f"is above {MAX_TASKS:,}, more tasks than Spark has room for in a stage",
                seen=self.p_max,
                remedy="give the cores that the cluster has",
            )
        for name in () if self.spark is None else self.spark.sources:
            if name not in self.source_rates:
                raise InputError(
                    f"spark.sources.{name}",
                    "is no source of the job: source_rates does not have it",
                    remedy=f"use one of {', '.join(self.source_rates)}",
                )
        self.policy_named(None)
        # What holds of the job as a whole is said with the file's name, and before an engine is started for nothing.
        if self.operators or self.spark is None:
            job = self._job(Topology(self.operators))
            choose_starting_point(job, self.tuning.initial)
            if self.simulator is not None:
                self.simulator.check_fits(job.topology)
        else:
            check_p_max(self.p_max)

    def _job(self, topology: Topology) -> Job:
        return Job(self.job, topology, self.p_max, self.source_rates, self.target)

    def policy_named(self, name: str | None) -> PolicyChoice:
        """The policy asked for, else the file's. Its options are the file's where it is the one that they are for, and
        it keeps to the manager's quota, so that it can plan within it."""
        name = self.policy if name is None else name
        choice = PolicyChoice(name, self.policy_options if name == self.policy else {})
        choice.check(self.target)
        if name == OURS or self.manager.quota is None or "slots" in choice.options or not is_built_in(name):
            return choice
        return replace(choice, options={**choice.options, "slots": self.manager.quota})

    def engine_name(self, wanted: EngineName | None) -> EngineName:
        """The engine asked for, or the one that the file describes; Spark where it describes both."""
        name: EngineName = wanted or ("simulator" if self.spark is None else "spark")
        if getattr(self, name) is None:
            other = "simulator" if name == "spark" else "spark"
            raise InputError(
                name, "is a section that this job file does not have", remedy=f"add it, or use --engine {other}"
            )
        return name

    def writing_to(self, sink: Sink | None) -> JobFile:
        """The same job, its trials' output going there; None: where the file says."""
        if sink is None or self.spark is None:
            return self
        return replace(self, spark=replace(self.spark, sink=sink))

    def sink(self, name: EngineName) -> Sink | None:
        """Where the output of trials goes; None for a simulated job, which has none."""
        return self.spark.sink if name == "spark" and self.spark is not None else None

    def open(self, name: EngineName, seed: int) -> tuple[Job, Engine]:
        """The job, and the engine that runs it; close the engine when done."""
        if name == "spark":
            return self._on_spark()
        if self.simulator is None:
            raise InputError("simulator", "is missing", remedy="describe how the job behaves")
        from autotrascale.execute.simulator.engine import SimulatorEngine

        job = self._job(Topology(self.operators))
        return job, SimulatorEngine(self.simulator, job.topology, p_max=self.p_max, seed=seed, name=self.job)

    def open_live(self, name: EngineName, home: Path | None, folder: Path, seed: int) -> tuple[Job, LiveJob]:
        """The job, and the running one behind the port; `home` keeps what a later process finds it by, `folder` is
        the job file's own."""
        if name == "spark" and self.spark is not None:
            from autotrascale.execute.spark.controller.live_own_job import LiveOwnJob
            from autotrascale.execute.spark.controller.relaunchable_job import RelaunchableJob

            settings, home = replace(self.spark, p_max=self.p_max), home or Path("mlruns")
            running = (
                LiveOwnJob(settings, self.source_rates, home)
                if self.sizes is None
                else RelaunchableJob(self.job, settings, self.source_rates, home)
            )
            topology = Topology(self.operators) if self.operators else running.topology
            return self._job(topology.at_least(running.floors, self.p_max)), running
        if self.simulator is None:
            raise InputError("simulator", "is missing", remedy="describe how the job behaves")
        from autotrascale.execute.simulator.live_job import SimulatedLiveJob

        job = self._job(Topology(self.operators))
        schedule = self.autoscale.trace.schedule(job.rate, folder)
        return job, SimulatedLiveJob(
            self.simulator,
            job.topology,
            job.source_rates,
            schedule,
            p_max=self.p_max,
            seed=seed,
            name=self.job,
            home=home,
        )

    def look_on(self, log: Path) -> tuple[Job, LiveJob]:
        """The job as somebody else runs it, seen through its event log."""
        if self.spark is None:
            raise InputError("spark", "is a section that this job file does not have", remedy="an event log is Spark's")
        from autotrascale.execute.spark.controller.read_only_job import ReadOnlySparkJob
        from autotrascale.execute.spark.jobs.job_loading import load_job

        declared = Topology(self.operators) if self.operators else load_job(self.spark.job, self.spark.options).topology
        job = self._job(declared)
        return job, ReadOnlySparkJob(self.job, job.topology, self.p_max, log, measured=self.sizes is not None)

    def _on_spark(self) -> tuple[Job, Engine]:
        if self.spark is None:
            raise InputError("spark", "is missing", remedy="say which PySpark job to run")
        from autotrascale.execute.spark.controller.trial_engine import SparkEngine

        engine = SparkEngine(replace(self.spark, p_max=self.p_max))
        try:
            topology = Topology(self.operators) if self.operators else engine.topology
            return self._job(topology.at_least(engine.floors, self.p_max)), engine
        except BaseException:
            engine.close()
            raise


def read_job_file(path: Path) -> JobFile:
    try:
        return read_with_overrides(path, JobFile)
    except InputError:
        if not is_program_file(path):
            raise
        raise InputError(
            str(path),
            "describes a program, and not a job that can be started from its file",
            remedy=f"autotrascale run {path} -- PROGRAM …",
        ) from None
    except ModuleNotFoundError as error:  # pragma: no cover - pyspark is only missing where it was left out on purpose
        raise InputError(
            str(path),
            f"needs a package that is not installed: {error.name}",
            remedy="pip install 'autotrascale[spark]'",
        ) from None


def is_program_file(path: Path) -> bool:
    try:
        read_program_file(path)
    except InputError:
        return False
    return True
