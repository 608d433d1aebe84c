"""One host at a time, in a folder for temporary files that goes with it, whatever happens.

Hosts are killed and the folder is removed when this ends, also when nobody closes it. After a failure the log stays:
the messages of the failure name it.
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
    """`connection` is to the host that runs; None before the first one, and after one was lost."""

    def __init__(
        self, settings: SparkSettings, owner: str = "", *, trials: bool = True, measured: bool = False
    ) -> None:
        """`trials`: what it runs are trials, which read copies of what sources hold. `measured`: what executors use is
        kept, for whoever asks the connection."""
        self.settings, self._owner, self._trials, self._measured = settings, owner, trials, measured
        self.connection: DriverConnection | None = None
        base = settings.work_dir or tempfile.gettempdir()
        Path(base).mkdir(parents=True, exist_ok=True)
        self.work = Path(tempfile.mkdtemp(prefix="autotrascale-", dir=base))
        self._held: list[DriverConnection] = []
        self._keep_log = False
        self._finalizer = weakref.finalize(self, _end_all, self._held, self.work)

    @property
    def _copies(self) -> Path | None:
        """Where executors elsewhere can read too, as far as we are told of such a folder."""
        if not self._trials:
            return None
        shared = self.settings.checkpoint_dir.removeprefix("file://").rstrip("/")
        return Path(shared, self.work.name) if shared and "://" not in shared else self.work / "copies"

    @property
    def log(self) -> Path:
        """The log of host, JVM and workers."""
        return self.work / "host.log"

    def ready(self) -> DriverConnection:
        """The host's connection; a host is started when there is none."""
        if not self._finalizer.alive:
            raise EngineError("the engine is closed")
        if self.connection is None:
            check_machine(self.settings)
            use = ExecutorUsage() if self._measured else None
            connection = DriverConnection(self.settings, self.work, self.log, self._owner, self._copies, use)
            self._held.append(connection)
            try:
                connection.open()
            except DriverLostError as loss:
                self.drop(connection)
                raise EngineError(self.blamed(loss)) from None
            except QueryFailedError as failure:
                self.drop(connection)
                raise EngineError(str(failure)) from None
            self.connection = connection
        return self.connection

    def end(self) -> None:
        """The host ends in good order; the next one is opened with `settings` as they are then."""
        if self.connection is not None:
            connection = self.connection
            connection.close()
            self._held.remove(connection)
            self.connection = None

    def drop(self, connection: DriverConnection) -> None:
        """This host is of no use any more."""
        connection.kill()
        self._held.remove(connection)
        self.connection = None

    def blamed(self, problem: Exception) -> str:
        """The problem, and the log that tells more: it stays from now on."""
        self._keep_log = True
        return f"{problem}; see {self.log}"

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
        for connection in self._held:
            connection.kill()
        if self._keep_log and self.log.exists():
            for entry in self.work.iterdir():
                if entry != self.log:
                    _remove(entry)
            self._finalizer.detach()
        self._finalizer()
        self.connection = None


def _end_all(held: list[DriverConnection], work: Path) -> None:
    for connection in held:
        connection.kill()
    _remove(work)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
