"""A thread that refreshes cached files and journals every second, so that requests never read them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from autotrascale.app.run_queue import server_log

SECONDS = 1.0


class PeriodicRefresh:
    """Calls each of `actions` every second from a thread of its own. An action that fails is logged."""

    def __init__(self, actions: Sequence[Callable[[], object]]) -> None:
        self._actions = actions
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="refresh", daemon=True)

    def open(self) -> None:
        self._call_all()
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(SECONDS):
            self._call_all()

    def _call_all(self) -> None:
        for action in self._actions:
            try:
                action()
            except Exception:
                server_log.exception("refresh failed")
