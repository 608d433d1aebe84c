"""Job file of a tunable job: its graph, its rates, its latency target and the engine that runs it."""

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
from autotrascale.plan.policies.registry import OURS, PolicyChoice, is_built_in
from autotrascale.tuning import TuningSettings, choose_starting_point

EngineName = Literal["spark", "simulator"]
MAX_TASKS = 100_000  # of a stage: Spark's driver keeps bookkeeping data of each task


@dataclass(frozen=True)
class JobFile:
    """Job file of a tunable job."""

    job: str  # Name of the job, under which its runs and models are kept.
    p_max: int  # Most instances of an operator.
    source_rates: Mapping[str, float]  # Input rate to sustain, records/s, by source.
    target: Target  # Latency target.
    operators: Mapping[str, Operator] = field(default_factory=dict)  # Dataflow graph, if the job's code has none.
    tuning: TuningSettings = field(default_factory=TuningSettings)  # Settings of tuning runs.
    manager: Knobs = field(default_factory=Knobs)  # Guards of the control loop.
    simulator: SimulatedJob | None = None  # Behaviour of a simulated job.
    spark: SparkSettings | None = None  # PySpark job to run, and how.
    autoscale: AutoscaleSection = field(default_factory=AutoscaleSection)  # Planning of the control loop.
    notify: tuple[NotificationTarget, ...] = ()  # Where to post events of the control loop.
    policy: str = OURS  # Scaling policy of tuning runs and of the control loop.
    policy_options: Mapping[str, bool | int | float | str] = field(default_factory=dict)  # Options of the policy.
    services: Mapping[str, Service] = field(
        default_factory=dict
    )  # External services whose latency is watched, by name.
    sizes: SizesSection | None = None  # Executor sizing; the job is relaunched with other sizes.
    version: Literal[1] = 1  # Version of the file format.

    def __post_init__(self) -> None:
        if self.simulator is None and self.spark is None:
            raise InputError("spark", "and simulator are missing", remedy="add the section of the engine to use")
        if self.spark is not None and self.p_max > MAX_TASKS:
            raise InputError(
                "p_max",
                f"is above {MAX_TASKS:,}, the most tasks of a stage in Spark",
                seen=self.p_max,
                remedy="give the number of cores of the cluster",
            )
        for name in () if self.spark is None else self.spark.sources:
            if name not in self.source_rates:
                raise InputError(
                    f"spark.sources.{name}",
                    "names a source that source_rates does not have",
                    remedy=f"use one of {', '.join(self.source_rates)}",
                )
        self.choose_policy(None)
        # Check the job as a whole here, so that the error names the file and comes before an engine starts.
        if self.operators or self.spark is None:
            job = self._build_job(Topology(self.operators))
            choose_starting_point(job, self.tuning.initial)
            if self.simulator is not None:
                self.simulator.check_fits(job.topology)
        else:
            check_p_max(self.p_max)

    def choose_policy(self, name: str | None) -> PolicyChoice:
        """Return the policy `name`, or the file's policy if `name` is None.

        The file's options belong to the file's policy alone. A built-in policy also learns the manager's quota, so that
        it plans within it.

        Raises:
            InputError: the policy does not exist, or one of its options is wrong.
        """
        name = self.policy if name is None else name
        choice = PolicyChoice(name, self.policy_options if name == self.policy else {})
        choice.check(self.target)
        if name == OURS or self.manager.quota is None or "slots" in choice.options or not is_built_in(name):
            return choice
        return replace(choice, options={**choice.options, "slots": self.manager.quota})

    def choose_engine(self, name: EngineName | None) -> EngineName:
        """Return `name`, or the engine that the file has a section for; Spark if it has both.

        Raises:
            InputError: the file has no section for the engine.
        """
        engine: EngineName = name or ("simulator" if self.spark is None else "spark")
        if getattr(self, engine) is None:
            other = "simulator" if engine == "spark" else "spark"
            raise InputError(
                engine, "is a section that this job file does not have", remedy=f"add it, or use --engine {other}"
            )
        return engine

    def with_sink(self, sink: Sink | None) -> JobFile:
        """Return the file with another sink for the output of trials; None keeps the file's sink."""
        if sink is None or self.spark is None:
            return self
        return replace(self, spark=replace(self.spark, sink=sink))

    def sink_for(self, engine: EngineName) -> Sink | None:
        """Return the sink for the output of trials; None for a simulated job, which has no output."""
        return self.spark.sink if engine == "spark" and self.spark is not None else None

    def open_engine(self, engine: EngineName, seed: int) -> tuple[Job, Engine]:
        """Return the job and the engine that runs its trials. The caller closes the engine.

        Args:
            engine: the engine to start.
            seed: seed of a simulated job.
        """
        if engine == "spark":
            return self._open_spark_engine(self._require_spark())
        from autotrascale.execute.simulator.engine import SimulatorEngine

        simulator, job = self._require_simulator(), self._build_job(Topology(self.operators))
        return job, SimulatorEngine(simulator, job.topology, p_max=self.p_max, seed=seed, name=self.job)

    def open_live_job(self, engine: EngineName, home: Path | None, folder: Path, seed: int) -> tuple[Job, LiveJob]:
        """Return the job and its running form for a control loop. The caller closes the live job.

        Args:
            engine: the engine that runs the job.
            home: folder in which a later process finds the job again; None: ./mlruns on Spark, nowhere if simulated.
            folder: folder of the job file.
            seed: seed of a simulated job.
        """
        if engine == "spark":
            return self._open_live_spark_job(self._require_spark(), home or Path("mlruns"))
        from autotrascale.execute.simulator.live_job import SimulatedLiveJob

        simulator, job = self._require_simulator(), self._build_job(Topology(self.operators))
        return job, SimulatedLiveJob(
            simulator,
            job.topology,
            job.source_rates,
            self.autoscale.trace.rate_function(job.rate, folder),
            p_max=self.p_max,
            seed=seed,
            name=self.job,
            home=home,
        )

    def open_event_log(self, log: Path) -> tuple[Job, LiveJob]:
        """Return the job and a read-only view of a Spark application that runs it, by its event log."""
        spark = self._require_spark()
        from autotrascale.execute.spark.controller.read_only_job import ReadOnlySparkJob
        from autotrascale.execute.spark.jobs.job_loading import load_job

        declared = Topology(self.operators) if self.operators else load_job(spark.job, spark.options).topology
        job = self._build_job(declared)
        return job, ReadOnlySparkJob(self.job, job.topology, self.p_max, log, measured=self.sizes is not None)

    def _build_job(self, topology: Topology) -> Job:
        return Job(self.job, topology, self.p_max, self.source_rates, self.target)

    def _require_spark(self) -> SparkSettings:
        if self.spark is None:
            raise InputError("spark", "is a section that this job file does not have", remedy="add it")
        return self.spark

    def _require_simulator(self) -> SimulatedJob:
        if self.simulator is None:
            raise InputError("simulator", "is a section that this job file does not have", remedy="add it")
        return self.simulator

    def _open_spark_engine(self, settings: SparkSettings) -> tuple[Job, Engine]:
        from autotrascale.execute.spark.controller.trial_engine import SparkEngine

        engine = SparkEngine(replace(settings, p_max=self.p_max))
        try:
            topology = Topology(self.operators) if self.operators else engine.topology
            return self._build_job(topology.at_least(engine.floors, self.p_max)), engine
        except BaseException:
            engine.close()
            raise

    def _open_live_spark_job(self, spark: SparkSettings, home: Path) -> tuple[Job, LiveJob]:
        from autotrascale.execute.spark.controller.live_own_job import LiveOwnJob
        from autotrascale.execute.spark.controller.relaunchable_job import RelaunchableJob

        settings = replace(spark, p_max=self.p_max)
        running = (
            LiveOwnJob(settings, self.source_rates, home)
            if self.sizes is None
            else RelaunchableJob(self.job, settings, self.source_rates, home)
        )
        topology = Topology(self.operators) if self.operators else running.topology
        return self._build_job(topology.at_least(running.floors, self.p_max)), running


def read_job_file(path: Path) -> JobFile:
    """Return the job file at `path`, with the overrides of the environment.

    Raises:
        InputError: the file is wrong, describes an adopted program, or needs Spark where it is not installed.
    """
    try:
        return read_with_overrides(path, JobFile)
    except InputError:
        if not is_program_file(path):
            raise
        raise InputError(
            str(path),
            "is the job file of a program, which this verb does not take",
            remedy=f"autotrascale run {path} -- PROGRAM …",
        ) from None
    except ModuleNotFoundError as error:  # pragma: no cover - tests have pyspark installed
        raise InputError(
            str(path), f"needs the package {error.name}", remedy="pip install 'autotrascale[spark]'"
        ) from None


def read_services(path: Path) -> Mapping[str, Service]:
    """Return the section `services:` of a job file, be it that of a job or of a program."""
    return read_program_file(path).services if is_program_file(path) else read_job_file(path).services


def is_program_file(path: Path) -> bool:
    """Return whether the file at `path` is the job file of an adopted program."""
    try:
        read_program_file(path)
    except InputError:
        return False
    return True
