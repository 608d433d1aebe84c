"""Tell the supervisor and the controller when a relaunched program is ready.

It is ready when executors are there and each query has committed a batch, or has nothing to do.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path
from weakref import WeakKeyDictionary

from autotrascale.execute.spark.common.program_folder import READY_FILE, write_json
from autotrascale.execute.spark.driver_agent.hooks import AdoptedProgram
from autotrascale.execute.spark.driver_agent.interrupts import AGENT_THREAD
from autotrascale.execute.spark.driver_agent.query_handle import QueryHandle
from autotrascale.execute.spark.driver_agent.rescale_in_place import IdleDetector, is_ready

_POLL_SECONDS = 0.2


class ReadinessWatcher:
    """A thread that writes `ready.json` once the program is ready."""

    def __init__(self, program: AdoptedProgram, folder: Path) -> None:
        self._program, self._folder = program, folder
        self._idle: WeakKeyDictionary[QueryHandle, IdleDetector] = WeakKeyDictionary()
        threading.Thread(target=self._watch, name=AGENT_THREAD, daemon=True).start()

    def _watch(self) -> None:
        ready = False
        while not ready:
            time.sleep(_POLL_SECONDS)
            with suppress(Exception):  # Spark is just opening, or a query fails: the supervisor sees the end
                ready = self._is_ready()
        write_json(self._folder / READY_FILE, {"at": time.time()})

    def _is_ready(self) -> bool:
        active = self._program.handles.active()
        return bool(active) and self._has_executors() and all(map(self._has_begun, active))

    def _has_begun(self, handle: QueryHandle) -> bool:
        return is_ready(handle, self._idle.setdefault(handle, IdleDetector()))

    def _has_executors(self) -> bool:
        context = self._program.context
        # Spark counts the driver too.
        return context is not None and int(context._jsc.sc().getExecutorMemoryStatus().size()) > 1
