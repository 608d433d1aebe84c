"""A job of ours whose executors may be given other sizes: its Spark is closed between two batches and opened anew with
other settings, and the query goes on from its checkpoint.

A launch that fails or does not come up while it is on trial is followed by one with the settings of before; so is one
that another process left half way. Which launch it is stands in the job's home (`launches.py`).
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
from autotrascale.execute.spark.common.launches import Launch, LaunchLog, NextLaunch
from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.execute.spark.controller.driver_connection import DriverLostError, QueryFailedError
from autotrascale.execute.spark.controller.live_own_job import LiveOwnJob
from autotrascale.execute.spark.controller.query_rescaler import QueryRescaler
from autotrascale.plan.executor_size.size_evidence import REQUIRED_SETTINGS

_APPLICATION = "spark.app.name"


@dataclass(frozen=True)
class RestResult:
    """`cut_off`: the batch in flight, which runs again; `finish_seconds`: how long it was waited for."""

    cut_off: bool
    finish_seconds: float


class RelaunchableJob(LiveOwnJob):
    measured = True

    def __init__(self, name: str, settings: SparkSettings, source_rates: Mapping[str, float], home: Path) -> None:
        """`name` is the application's, by which its sizes are known."""
        settings = replace(settings, conf={_APPLICATION: name, **REQUIRED_SETTINGS, **settings.conf})
        super().__init__(settings, source_rates, home)
        self._as_its_file_says, self._failed = self.settings, ""
        self._launches = LaunchLog(self._home, settings.conf)
        self._take_settings()

    @property
    def launch(self) -> Launch:
        return self._launches.launch

    def arrived(self) -> float | None:
        """When the first batches of the present launch were done; None of one that nobody relaunched."""
        return self._launches.arrived

    @property
    def use(self) -> ExecutorUsage:
        """Of the executors that there are now."""
        connection = self._hosting.connection
        return ExecutorUsage() if connection is None or connection.use is None else connection.use

    def start(self, parallelism: Mapping[str, int]) -> Observation:
        if self._failed and not self._runs():
            self._go_back(self._failed)
        try:
            look = super().start(parallelism)
        except EngineError as problem:
            if not self._go_back(str(problem)):
                raise
            look = super().start(parallelism)
        if look.running is None and self._go_back(look.detail):
            look = super().start(parallelism)
        if look.running is not None and self.launch.former is not None and self.arrived() is None:
            self._launches.arrive(time.time())
        return look

    def relaunch(self, following: NextLaunch) -> RestResult:
        """Returns when it runs with these settings, or with those of before, or not at all: `launch` says which. Raises
        where it cannot be relaunched, and nothing has been done then."""
        query, connection = self._query, self._hosting.connection
        if query is None or connection is None or not self._runs():
            raise EngineError(self._why_down)
        changes = QueryRescaler(connection, self.settings)
        changes.check_replayable(query)
        self._launches.begin(following)
        rested = 0.0
        with suppress(QueryFailedError, DriverLostError):  # the next launch has the batch again
            rested = changes.come_to_rest(query)
            changes.stop(query)
        query.running = False
        self._launches.left(time.time())
        self._hosting.end()
        self._take_settings()
        self.start(query.parallelism)
        return RestResult(rested >= self.settings.patience.finish_batch, rested)

    def _take_settings(self) -> None:
        file = self._as_its_file_says
        self.settings = self._hosting.settings = replace(file, conf={**file.conf, **self.launch.settings})
        self._failed = ""

    def _broke(self, problem: Exception) -> None:
        super()._broke(problem)
        if self._launches.is_on_trial(time.time()):
            self._failed = str(problem)

    def _go_back(self, why: str) -> bool:
        """To the settings of before, where those of now are on trial."""
        if not self._launches.is_on_trial(time.time()):
            return False
        self._launches.back(why)
        if self._hosting.connection is not None:
            self._hosting.drop(self._hosting.connection)
        self._take_settings()
        return True
