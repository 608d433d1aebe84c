"""Own job whose executor sizes are judged beside its control loop, and changed by a relaunch where that is allowed.

A relaunch takes place between two observations or right after a rescale. The control loop plans the slots, by the job
file's `p_max`. Sizing changes the memory of an executor only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from autotrascale.analyze.executor_conf import ExecutorConf
from autotrascale.analyze.executor_usage import ExecutorUsage
from autotrascale.app.command_context import CommandContext
from autotrascale.app.console import note
from autotrascale.app.executor_sizing import LiveSizing
from autotrascale.app.relauncher import LaunchView, Relauncher, StopResult
from autotrascale.app.sizes_section import SizesSection
from autotrascale.closeable import Closeable
from autotrascale.domain.errors import AuTraScaleError, RunLostError
from autotrascale.domain.observation import Observation, RescaleResult
from autotrascale.domain.topology import Topology
from autotrascale.execute.live_job import LiveJob
from autotrascale.execute.spark.common.launches import NextLaunch
from autotrascale.loop import LoopLease
from autotrascale.monitor.service_latency import Service

# Spark settings that have a key of their own in a job file. All others are keys of `spark.conf`.
JOB_FILE_KEYS = {"spark.driver.memory": "spark.driver_memory", "spark.master": "spark.master"}


class MeasuredLiveJob(LiveJob, Protocol):
    """A live job with measured executors."""

    @property
    def use(self) -> ExecutorUsage: ...


class RelaunchableLiveJob(MeasuredLiveJob, LaunchView, Protocol):
    """A live job that can be relaunched with other settings."""

    def relaunch(self, following: NextLaunch) -> StopResult:
        """Return when the job runs again, with the new or the former settings, or does not come up."""
        ...


class SizedLiveJob(Closeable):
    """A live job with sizing. It passes all calls of the control loop on to the job."""

    def __init__(
        self,
        live: MeasuredLiveJob,
        relaunchable: RelaunchableLiveJob | None,
        section: SizesSection,
        services: Mapping[str, Service],
        context: CommandContext,
        lease: LoopLease,
        tell: Callable[[str], None] = note,
    ) -> None:
        """Create the sizing of `live`.

        Args:
            live: the job.
            relaunchable: the same job if it may be relaunched, else None.
            section: settings of sizing.
            services: external services whose latency is watched, by name.
            context: stores of the command.
            lease: the right to change the job.
            tell: prints a line.
        """
        self.live, self.simulated, self.moves, self.executors = live, live.simulated, 0, 0
        self.explain_hold: Callable[[], str] = str  # returns why the user wants no relaunch now, or ""
        self._lease, self._tell, self._last_problem = lease, tell, ""
        self._relaunchable = relaunchable
        can_relaunch = relaunchable is not None
        settings = section.to_settings()
        self._sizes = LiveSizing(context, services, tell, settings, can_relaunch=can_relaunch, to_key=to_job_file_key)
        self._relauncher = None
        if relaunchable is not None:
            self._relauncher = Relauncher(
                relaunchable, section, self._sizes, tell, explain_hold=lambda: self.explain_hold()
            )

    @property
    def name(self) -> str:
        return self.live.name

    @property
    def topology(self) -> Topology:
        return self.live.topology

    @property
    def p_max(self) -> int:
        return self.live.p_max

    def start(self, parallelism: Mapping[str, int]) -> Observation:
        return self.live.start(parallelism)

    def observe(self) -> Observation:
        """Return an observation. If sizing relaunched the job, it is one of the new launch."""
        observation = self.live.observe()
        was_relaunched = observation.running is not None and self._judge_sizes()
        return self.live.observe() if was_relaunched else observation

    def rescale(self, parallelism: Mapping[str, int]) -> RescaleResult:
        """Rescale the job. A relaunch that waits for its time of day follows: the job stands still anyway."""
        result = self.live.rescale(parallelism)
        self.moves += result.standstill_seconds > 0
        if result.done:
            self._judge_sizes()
        return result

    def wait(self, seconds: float) -> None:
        self.live.wait(seconds)

    def close(self) -> None:
        self.live.close()

    # -- host of relaunches --------------------------------------------------------------------------------------------

    @property
    def conf(self) -> ExecutorConf:
        return self.live.use.conf

    def relaunch(self, following: NextLaunch) -> StopResult:
        assert self._relaunchable is not None
        self._lease.check(is_change=True)
        return self._relaunchable.relaunch(following)

    def scale_to(self, executors: int) -> None:
        """Do nothing: an own job starts with all its executors."""

    def _judge_sizes(self) -> bool:
        """Return whether the job was relaunched. A problem with sizes or their journal does not stop the loop."""
        try:
            self._sizes.observe(self.live.use, elastic=True)
            relauncher = self._relauncher
            was_relaunched = relauncher is not None and relauncher.relaunch_if_due(self)
            if was_relaunched and relauncher is not None:
                relauncher.relaunch_if_due(self)  # records the result
        except RunLostError:
            raise
        except AuTraScaleError as problem:
            if str(problem) != self._last_problem:
                self._tell(f"sizes: {problem}")
            self._last_problem = str(problem)
            return False
        return was_relaunched


def to_job_file_key(name: str) -> str:
    """Return the key of a job file that holds the Spark setting `name`."""
    return JOB_FILE_KEYS.get(name, f"spark.conf.{name}")
