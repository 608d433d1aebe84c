"""What executors used, from logs of applications that ended or still run: in this process, line by line.

An archive's other questions are asked of millions of tasks and need Spark. Here each task adds to a few sums, and the
log of one application is read in one go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from autotrascale.analyze.executor_conf import ExecutorConf
from autotrascale.analyze.executor_usage import ExecutorUsage
from autotrascale.domain.executor_window import ExecutorWindow
from autotrascale.monitor.eventlog.damage import Damage
from autotrascale.monitor.eventlog.decoding import decode_line
from autotrascale.monitor.eventlog.lines import Text, blocks
from autotrascale.monitor.eventlog.log_files import LogFile, Piece, find_files


@dataclass(frozen=True)
class ApplicationUse:
    """The windows of one log, oldest first."""

    application: str
    windows: tuple[ExecutorWindow, ...]
    conf: ExecutorConf


def applications(paths: Sequence[str], seconds: float) -> tuple[list[ApplicationUse], list[Damage]]:
    """Of each log that has any window, by when they began; and what of the logs could not be used."""
    files, damages = find_files(paths)
    found = []
    for _, parts in groupby(files, key=lambda file: file.log):
        use, windows = ExecutorUsage(), list[ExecutorWindow]()
        for file in parts:
            for part in _read(file, use):
                if isinstance(part, Damage):
                    damages.append(part)
                else:
                    windows += part.windows(seconds)
            use.application = use.application or file.log_name
        windows += use.windows(seconds, ended=True)
        if windows:
            name = use.application  # told at the beginning of a log, but a part of one may lack it
            found.append(ApplicationUse(name, tuple(replace(each, application=name) for each in windows), use.conf))
    return sorted(found, key=lambda each: each.windows[0].began), damages


def _read(file: LogFile, use: ExecutorUsage) -> Iterator[ExecutorUsage | Damage]:
    """After each block of lines, and what is wrong with the file."""
    piece = Piece(file.number, file.log, file.uri)
    text, bad = Text(piece), 0
    for block in blocks(text, piece):
        for line in block:
            try:
                event = decode_line(line)
                if event is not None:
                    use.take(event)
            except (ValueError, RecursionError):
                bad += 1
        yield use
    if text.problem:
        yield Damage(file.uri, text.problem)
    if bad:
        yield Damage(file.uri, f"{bad} lines are no whole event and left out", bad)
