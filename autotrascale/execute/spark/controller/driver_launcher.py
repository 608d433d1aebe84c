"""One Spark driver at a time, in a folder for temporary files.

Drivers are killed and the folder is removed when the controller ends, even without `close`. After a failure the log
stays, because the error message names it.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path

from autotrascale.analyze.executor_usage import ExecutorUsage
from autotrascale.domain.errors import EngineError
from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.execute.spark.controller.driver_connection import DriverConnection, DriverLostError, QueryFailedError
from autotrascale.execute.spark.controller.preflight import check_machine


class DriverLauncher:
    """Starts drivers. `connection` is None before the first driver and after one was lost."""

    def __init__(
        self, settings: SparkSettings, owner: str = "", *, for_trials: bool = True, with_usage: bool = False
    ) -> None:
        """Make the folder for temporary files.

        Args:
            settings: settings of the next driver.
            owner: name by which a later controller finds processes that are left over.
            for_trials: the driver runs trials, which read copies of topics.
            with_usage: collect the resource usage of the executors in the connection.
        """
        self.settings, self._owner, self._for_trials, self._with_usage = settings, owner, for_trials, with_usage
        self.connection: DriverConnection | None = None
        base = settings.work_dir or tempfile.gettempdir()
        Path(base).mkdir(parents=True, exist_ok=True)
        self.work = Path(tempfile.mkdtemp(prefix="autotrascale-", dir=base))
        self._connections: list[DriverConnection] = []
        self._keep_log = False
        self._finalizer = weakref.finalize(self, _end_all, self._connections, self.work)

    @property
    def log(self) -> Path:
        """Return the log of driver, JVM and workers."""
        return self.work / "driver.log"

    def connect(self) -> DriverConnection:
        """Return the connection to the driver. Start a driver if none runs.

        Raises `EngineError` if no driver can be started.
        """
        if not self._finalizer.alive:
            raise EngineError("the engine is closed")
        if self.connection is None:
            check_machine(self.settings)
            usage = ExecutorUsage() if self._with_usage else None
            connection = DriverConnection(self.settings, self.work, self.log, self._owner, self._copies_folder(), usage)
            self._connections.append(connection)
            try:
                connection.open()
            except DriverLostError as loss:
                self.drop(connection)
                raise EngineError(self.explain(loss)) from None
            except QueryFailedError as failure:
                self.drop(connection)
                raise EngineError(str(failure)) from None
            self.connection = connection
        return self.connection

    def end(self) -> None:
        """End the driver in order. The next driver gets the `settings` of that time."""
        if self.connection is not None:
            connection = self.connection
            connection.close()
            self._connections.remove(connection)
            self.connection = None

    def drop(self, connection: DriverConnection) -> None:
        """Kill a driver that is of no use any more."""
        connection.kill()
        self._connections.remove(connection)
        self.connection = None

    def explain(self, problem: Exception) -> str:
        """Return the problem and the path of the log. The log is kept from now on."""
        self._keep_log = True
        return f"{problem}; see {self.log}"

    def close(self) -> None:
        """End all drivers and remove the folder, or all of it but the log after a failure."""
        if self.connection is not None:
            self.connection.close()
        for connection in self._connections:
            connection.kill()
        if self._keep_log and self.log.exists():
            for entry in self.work.iterdir():
                if entry != self.log:
                    _remove(entry)
            self._finalizer.detach()
        self._finalizer()
        self.connection = None

    def _copies_folder(self) -> Path | None:
        """Return the folder for copies of topics, where executors on other machines can read it if possible."""
        if not self._for_trials:
            return None
        shared = self.settings.checkpoint_dir.removeprefix("file://").rstrip("/")
        return Path(shared, self.work.name) if shared and "://" not in shared else self.work / "copies"


def _end_all(connections: list[DriverConnection], work: Path) -> None:
    for connection in connections:
        connection.kill()
    _remove(work)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
