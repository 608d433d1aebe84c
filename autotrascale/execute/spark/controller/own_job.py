"""The common base of trial engine and live job: the facts about an own job that its Spark driver reports."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from autotrascale.closeable import Closeable
from autotrascale.domain.topology import Topology
from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.execute.spark.controller.driver_connection import DriverConnection
from autotrascale.execute.spark.controller.driver_launcher import DriverLauncher


class OwnJob(Closeable):
    """An own job with a driver, which is started when it is needed."""

    simulated = False
    settings: SparkSettings
    _launcher: DriverLauncher

    @property
    def name(self) -> str:
        return self._connect().ready.job

    @property
    def topology(self) -> Topology:
        return self._connect().topology

    @property
    def p_max(self) -> int:
        """Return the upper bound of each operator: `p_max` of the settings, or else the slots of the master."""
        return self.settings.p_max or self._connect().ready.slots

    @property
    def floors(self) -> Mapping[str, int]:
        """Return the smallest number of tasks of each source that reads a topic: its partitions."""
        return self._connect().floors if self.settings.sources else {}

    @property
    def log(self) -> Path:
        """Return the log of driver, JVM and workers."""
        return self._launcher.log

    def _connect(self) -> DriverConnection:
        """Return the connection to a driver that lives. Start a driver if there is none."""
        raise NotImplementedError
