"""A running own job whose driver can be started anew with other executor sizes.

A relaunch closes Spark between two batches and opens it with other settings; the query continues from its checkpoint. A
launch that fails or does not come up while it is on trial is followed by one with the former settings. So is a launch
that a controller left half way. `LaunchLog` keeps the present launch in the job's home.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from autotrascale.analyze.executor_usage import ExecutorUsage
from autotrascale.domain.errors import EngineError
from autotrascale.domain.observation import Observation
from autotrascale.execute.spark.common.launches import Launch, NextLaunch
from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.execute.spark.controller.driver_connection import DriverLostError, QueryFailedError
from autotrascale.execute.spark.controller.launch_log import LaunchLog
from autotrascale.execute.spark.controller.live_own_job import LiveOwnJob
from autotrascale.execute.spark.controller.query_rescaler import QueryRescaler
from autotrascale.plan.executor_size.size_evidence import REQUIRED_SETTINGS

_APPLICATION = "spark.app.name"


@dataclass(frozen=True)
class RestResult:
    """The end of the query before a relaunch.

    Attributes:
        cut_off: whether the batch in flight was cut off; it runs again.
        finish_seconds: seconds that the batch in flight was waited for.
    """

    cut_off: bool
    finish_seconds: float


class RelaunchableJob(LiveOwnJob):
    """A running own job that can be relaunched."""

    with_usage = True

    def __init__(self, name: str, settings: SparkSettings, source_rates: Mapping[str, float], home: Path) -> None:
        """Open the job; see `LiveOwnJob`. `name` is the application name under which its size actions are stored."""
        settings = replace(settings, conf={_APPLICATION: name, **REQUIRED_SETTINGS, **settings.conf})
        super().__init__(settings, source_rates, home)
        self._file_settings, self._trial_failure = self.settings, ""
        self._launches = LaunchLog(self._home.path, settings.conf)
        self._apply_launch_settings()

    @property
    def launch(self) -> Launch:
        return self._launches.launch

    def arrived(self) -> float | None:
        """Return the Unix time at which the first batches of a relaunch were done. None for a first launch."""
        return self._launches.arrived

    @property
    def use(self) -> ExecutorUsage:
        """Return the resource usage of the present executors."""
        connection = self._launcher.connection
        return ExecutorUsage() if connection is None or connection.usage is None else connection.usage

    def start(self, parallelism: Mapping[str, int]) -> Observation:
        if self._trial_failure and not self._is_running():
            self._revert_launch(self._trial_failure)
        try:
            observation = super().start(parallelism)
        except EngineError as problem:
            if not self._revert_launch(str(problem)):
                raise
            observation = super().start(parallelism)
        if observation.running is None and self._revert_launch(observation.detail):
            observation = super().start(parallelism)
        if observation.running is not None and self.launch.former is not None and self.arrived() is None:
            self._launches.mark_arrived(time.time())
        return observation

    def relaunch(self, following: NextLaunch) -> RestResult:
        """Start Spark anew with other settings.

        Returns when the job runs with the new settings or with the former ones, or is down; `launch` says which.
        Raises `EngineError` or `InputError` if the job cannot be relaunched; it is untouched then.
        """
        query, connection = self._query, self._launcher.connection
        if query is None or connection is None or not self._is_running():
            raise EngineError(self._why_down)
        rescaler = QueryRescaler(connection, self.settings)
        rescaler.check_replayable(query)
        self._launches.begin(following)
        waited = 0.0
        with suppress(QueryFailedError, DriverLostError):  # the next launch runs the batch again
            waited = rescaler.come_to_rest(query)
            rescaler.stop(query)
        query.running = False
        self._launches.mark_left(time.time())
        self._launcher.end()
        self._apply_launch_settings()
        self.start(query.parallelism)
        return RestResult(waited >= self.settings.patience.finish_batch, waited)

    def _apply_launch_settings(self) -> None:
        conf = {**self._file_settings.conf, **self.launch.settings}
        self.settings = self._launcher.settings = replace(self._file_settings, conf=conf)
        self._trial_failure = ""

    def _note_failure(self, problem: Exception) -> None:
        super()._note_failure(problem)
        if self._launches.is_on_trial(time.time()):
            self._trial_failure = str(problem)

    def _revert_launch(self, why: str) -> bool:
        """Go back to the former settings if the present launch is on trial. Return whether it is."""
        if not self._launches.is_on_trial(time.time()):
            return False
        self._launches.revert(why)
        if self._launcher.connection is not None:
            self._launcher.drop(self._launcher.connection)
        self._apply_launch_settings()
        return True
