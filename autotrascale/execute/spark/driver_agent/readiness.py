"""The first batches after a relaunch: when each query has one behind it, or nothing to do, and there are executors, the
program has come up with its new sizes. Its keeper and whoever controls it read so in a file."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from pathlib import Path
from weakref import WeakKeyDictionary

from autotrascale.atomic_files import write_atomically
from autotrascale.execute.spark.controller.supervisor import READY_FILE
from autotrascale.execute.spark.driver_agent.hooks import AdoptedProgram
from autotrascale.execute.spark.driver_agent.interrupts import AGENT_THREAD
from autotrascale.execute.spark.driver_agent.query_handle import QueryHandle
from autotrascale.execute.spark.driver_agent.rescale_in_place import IdleDetector, is_ready

_POLL_SECONDS = 0.2


class ReadinessWatcher:
    def __init__(self, adoption: AdoptedProgram, folder: Path) -> None:
        self._adoption, self._folder = adoption, folder
        self._idle: WeakKeyDictionary[QueryHandle, IdleDetector] = WeakKeyDictionary()
        threading.Thread(target=self._watch, name=AGENT_THREAD, daemon=True).start()

    def _watch(self) -> None:
        up = False
        while not up:
            time.sleep(_POLL_SECONDS)
            with suppress(Exception):  # Spark opens, a query fails: its keeper sees how it ends
                up = self._is_up()
        write_atomically(self._folder / READY_FILE, json.dumps({"at": time.time()}))

    def _is_up(self) -> bool:
        active = [handle for handle in self._adoption.handles.all() if not handle.over]
        return bool(active) and self._has_executors() and all(map(self._has_begun, active))

    def _has_begun(self, handle: QueryHandle) -> bool:
        return is_ready(handle, self._idle.setdefault(handle, IdleDetector()))

    def _has_executors(self) -> bool:
        """Beside the driver, which is one of those that Spark counts."""
        context = self._adoption.context
        return context is not None and int(context._jsc.sc().getExecutorMemoryStatus().size()) > 1
