"""`autotrascale critical --follow`: window by window of an application that runs, as its event log grows. It reads that
log and nothing else, in a process of its own: no Spark is started, and the application is asked nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autotrascale.domain.critical_path_report import CriticalPathReport

_POLL = 1.0  # seconds
_PREFIX = "eventlog_v2_"


def follow_critical_path(
    log: Path, seconds: float, query: str, tell: Callable[[CriticalPathReport], None], limit: float | None
) -> int:
    """Tells of each window when it ends, until the application or `limit` seconds are over. How many there were."""
    from autotrascale.analyze.live.critical_windows import CriticalWindows
    from autotrascale.app.console import note
    from autotrascale.execute.spark.controller.read_only_job import find_application_log
    from autotrascale.monitor.eventlog.follower import Follower

    folder = find_application_log(log, "LOG|JOB")
    application = folder.name.removeprefix(_PREFIX)
    windows = CriticalWindows(
        Follower(folder.parent, application, consume=False, latest=True), application, seconds, query=query
    )
    until = None if limit is None else time.monotonic() + limit
    count = 0
    while True:
        over = _is_over(folder, application)  # asked first: what was written before it is then read
        for window in windows.poll():
            count += 1
            tell(window)
        if over or (until is not None and time.monotonic() >= until):
            break
        time.sleep(_POLL)
    if windows.damaged:
        lines = "1 line" if windows.damaged == 1 else f"{windows.damaged} lines"
        note(f"{lines} of the log could not be read and are left out")
    if query and query not in windows.queries:
        seen = ", ".join(windows.queries) or "none"
        note(f"no query called {query} was seen; seen: {seen}")
    return count


def _is_over(folder: Path, application: str) -> bool:
    """Spark takes `.inprogress` off this file when an application ends in good order."""
    return (folder / f"appstatus_{application}").exists()
