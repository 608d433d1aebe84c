"""The windows of executors in archived logs. Each task adds to a few sums, so one process reads a log in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from msgspec import Struct

from autotrascale.analyze.executor_conf import ExecutorConf
from autotrascale.analyze.executor_usage import ExecutorUsage
from autotrascale.domain.executor_window import ExecutorWindow
from autotrascale.monitor.eventlog.archived_log import ArchivedLog
from autotrascale.monitor.eventlog.damage import Damage
from autotrascale.monitor.eventlog.log_files import LogFile, find_logs

_EVENTS = 100  # between two looks for windows that are over: each look goes through the open window


@dataclass(frozen=True)
class ApplicationWindows:
    """The windows of one log, oldest first, and the settings of its executors."""

    application: str
    windows: tuple[ExecutorWindow, ...]
    conf: ExecutorConf


def read_executor_windows(paths: Sequence[str], seconds: float) -> tuple[list[ApplicationWindows], list[Damage]]:
    """Return the windows of each log that has any, oldest log first, and the parts that could not be used."""
    logs, damages = find_logs(paths)
    found = []
    for log in logs:
        application, unread = _read(log, seconds)
        damages += unread
        if application.windows:
            found.append(application)
    return sorted(found, key=lambda each: each.windows[0].began), damages


def _read(log: Sequence[LogFile], seconds: float) -> tuple[ApplicationWindows, list[Damage]]:
    usage, source, count = ExecutorUsage(), ArchivedLog(log), 0

    def take(event: Struct) -> list[ExecutorWindow]:
        nonlocal count
        usage.take(event)
        count += 1
        return [] if count % _EVENTS else list(usage.windows(seconds))

    windows = [*source.read(take), *usage.windows(seconds, ended=True)]
    name = usage.application or log[0].log_name  # only the beginning of a log says the application's name
    return ApplicationWindows(
        name, tuple(replace(each, application=name) for each in windows), usage.conf
    ), source.damages
