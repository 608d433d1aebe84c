"""A job of ours under its control loop, whose executors are judged beside it: what is wrong with their sizes is said
with what to set, and where they may be changed the job is relaunched, between two looks or right after a rescale.

Its slots are the loop's to plan, by the job file's `p_max`; sizes change the memory of an executor alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Protocol, Self

from autotrascale.analyze.executor_conf import ExecutorConf
from autotrascale.analyze.executor_usage import ExecutorUsage
from autotrascale.app.console import note
from autotrascale.app.executor_sizing import LiveSizing
from autotrascale.app.loop_session import CommandContext
from autotrascale.app.relauncher import LaunchView, Relauncher, StopResult
from autotrascale.app.sizes_section import SizesSection
from autotrascale.domain.errors import AuTraScaleError, RunLostError
from autotrascale.domain.topology import Topology
from autotrascale.execute.live_job import LiveJob, Observation, RescaleResult
from autotrascale.execute.spark.common.launches import NextLaunch
from autotrascale.monitor.service_latency import Service

# Of Spark's names those that the engine sets itself; the others are in the `conf` of a job file.
_IN_JOB_FILE = {"spark.driver.memory": "spark.driver_memory", "spark.master": "spark.master"}


class MeasuredLiveJob(LiveJob, Protocol):
    @property
    def use(self) -> ExecutorUsage:
        """Of its executors, as they are now."""
        ...


class RelaunchableLiveJob(MeasuredLiveJob, LaunchView, Protocol):
    def relaunch(self, following: NextLaunch) -> StopResult:
        """Returns when it runs again, with these settings or those of before, or does not."""
        ...


class SizedLiveJob:
    def __init__(
        self,
        live: MeasuredLiveJob,
        sized: RelaunchableLiveJob | None,
        section: SizesSection,
        services: Mapping[str, Service],
        around: CommandContext,
        check_ours: Callable[[bool], None],
        tell: Callable[[str], None] = note,
    ) -> None:
        """`sized`: the same job, where it may be relaunched; `check_ours` raises when another process keeps it."""
        self.live, self.simulated, self.moves, self.executors = live, live.simulated, 0, 0
        self.held: Callable[[], str] = str  # why people want it left alone, if they do
        self._check_ours, self._tell, self._told = check_ours, tell, ""
        self._sized = sized
        self._sizes = LiveSizing(around, services, tell, section.how(), acts=sized is not None, setting=to_job_file_key)
        self._relaunching = None
        if sized is not None:
            self._relaunching = Relauncher(sized, section, self._sizes, tell, held=lambda: self.held())

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

    def look(self) -> Observation:
        look = self.live.look()
        return self.live.look() if look.running is not None and self._turned() else look

    def rescale(self, parallelism: Mapping[str, int]) -> RescaleResult:
        """A relaunch that waits for its part of the day goes with it: it stands still anyway."""
        done = self.live.rescale(parallelism)
        self.moves += done.standstill_seconds > 0
        if done.done:
            self._turned()
        return done

    def wait(self, seconds: float) -> None:
        self.live.wait(seconds)

    def close(self) -> None:
        self.live.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- as a host of relaunches ---------------------------------------------------------------------------------------

    @property
    def conf(self) -> ExecutorConf:
        return self.live.use.conf

    def relaunch(self, following: NextLaunch) -> StopResult:
        assert self._sized is not None
        self._check_ours(True)
        return self._sized.relaunch(following)

    def scale_to(self, executors: int) -> None:
        """It begins with all that it had."""

    def _turned(self) -> bool:
        """Whether it was relaunched. What is the matter with its sizes, or with where they are written down, is no
        reason to leave the job alone."""
        try:
            self._sizes.saw(self.live.use, elastic=True)
            relaunched = self._relaunching is not None and self._relaunching.turn(self)
            if relaunched and self._relaunching is not None:
                self._relaunching.turn(self)  # what became of it
        except RunLostError:
            raise
        except AuTraScaleError as problem:
            if str(problem) != self._told:
                self._tell(f"sizes: {problem}")
            self._told = str(problem)
            return False
        return relaunched


def to_job_file_key(name: str) -> str:
    """Where a job file of ours has a setting of Spark's."""
    return _IN_JOB_FILE.get(name, f"spark.conf.{name}")
