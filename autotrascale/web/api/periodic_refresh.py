"""Files that may change while the server runs, looked at every second by a thread of its own, never by a request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from autotrascale.app.run_queue import server_log

SECONDS = 1.0


class PeriodicRefresh:
    def __init__(self, looks: Sequence[Callable[[], object]]) -> None:
        self._looks = looks
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._keep_up, name="rereading", daemon=True)

    def open(self) -> None:
        self._look()
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def _keep_up(self) -> None:
        while not self._closing.wait(SECONDS):
            self._look()

    def _look(self) -> None:
        for look in self._looks:
            try:
                look()
            except Exception:
                server_log.exception("rereading stumbled")
