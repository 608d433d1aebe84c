"""A job of ours under its control loop, whose executors are judged beside it: what is wrong with their sizes is said
with what to set, and where they may be changed the job is relaunched, between two looks or right after a rescale.

Its slots are the loop's to plan, by the job file's `p_max`; sizes change the memory of an executor alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Protocol, Self

from autotrascale.analyze.executor_sizes import Conf
from autotrascale.analyze.executor_use import ExecutorUse
from autotrascale.domain.errors import AuTraScaleError, RunLostError
from autotrascale.domain.topology import Topology
from autotrascale.execute.live import LiveJob, Look, Rescaled
from autotrascale.execute.spark.lives import Next
from autotrascale.monitor.services import Service
from autotrascale.service.keeping import Around
from autotrascale.service.output import note
from autotrascale.service.relaunching import Lives, Relaunching, Stopped
from autotrascale.service.sizes_section import SizesSection
from autotrascale.service.sizing import WhileItRuns

# Of Spark's names those that the engine sets itself; the others are in the `conf` of a job file.
_IN_JOB_FILE = {"spark.driver.memory": "spark.driver_memory", "spark.master": "spark.master"}


class Measured(LiveJob, Protocol):
    @property
    def use(self) -> ExecutorUse:
        """Of its executors, as they are now."""
        ...


class Relaunchable(Measured, Lives, Protocol):
    def relaunch(self, following: Next) -> Stopped:
        """Returns when it runs again, with these settings or those of before, or does not."""
        ...


class SizedJob:
    def __init__(
        self,
        live: Measured,
        sized: Relaunchable | None,
        section: SizesSection,
        services: Mapping[str, Service],
        around: Around,
        check_ours: Callable[[bool], None],
        tell: Callable[[str], None] = note,
    ) -> None:
        """`sized`: the same job, where it may be relaunched; `check_ours` raises when another process keeps it."""
        self.live, self.simulated, self.moves, self.executors = live, live.simulated, 0, 0
        self.held: Callable[[], str] = str  # why people want it left alone, if they do
        self._check_ours, self._tell, self._told = check_ours, tell, ""
        self._sized = sized
        self._sizes = WhileItRuns(around, services, tell, section.how(), acts=sized is not None, setting=in_job_file)
        self._relaunching = None
        if sized is not None:
            self._relaunching = Relaunching(sized, section, self._sizes, tell, held=lambda: self.held())

    @property
    def name(self) -> str:
        return self.live.name

    @property
    def topology(self) -> Topology:
        return self.live.topology

    @property
    def p_max(self) -> int:
        return self.live.p_max

    def start(self, parallelism: Mapping[str, int]) -> Look:
        return self.live.start(parallelism)

    def look(self) -> Look:
        look = self.live.look()
        return self.live.look() if look.running is not None and self._turned() else look

    def rescale(self, parallelism: Mapping[str, int]) -> Rescaled:
        """A relaunch that waits for its part of the day goes with it: it stands still anyway."""
        done = self.live.rescale(parallelism)
        self.moves += done.downtime_seconds > 0
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
    def conf(self) -> Conf:
        return self.live.use.conf

    def relaunch(self, following: Next) -> Stopped:
        assert self._sized is not None
        self._check_ours(True)
        return self._sized.relaunch(following)

    def bring_to(self, executors: int) -> None:
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


def in_job_file(name: str) -> str:
    """Where a job file of ours has a setting of Spark's."""
    return _IN_JOB_FILE.get(name, f"spark.conf.{name}")
