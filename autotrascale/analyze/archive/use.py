"""What executors used, from logs of applications that ended or still run: in this process, line by line.

An archive's other questions are asked of millions of tasks and need Spark. Here each task adds to a few sums, and the
log of one application is read in one go: some hundred thousand tasks a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from autotrascale.analyze.executor_use import ExecutorUse
from autotrascale.monitor.eventlog.damage import Damage
from autotrascale.monitor.eventlog.decoding import decoded
from autotrascale.monitor.eventlog.files import LogFile, Piece, find_files
from autotrascale.monitor.eventlog.lines import Text, blocks


def applications(paths: Sequence[str]) -> tuple[list[ExecutorUse], list[Damage]]:
    """Of each log, in the order of the logs; and what of them could not be used."""
    files, damages = find_files(paths)
    found = []
    for _, parts in groupby(files, key=lambda file: file.log):
        use = ExecutorUse()
        for file in parts:
            damages += _read(file, use)
            use.application = use.application or file.log_name
        if use.facts:
            found.append(use)
    return found, damages


def _read(file: LogFile, use: ExecutorUse) -> Iterator[Damage]:
    piece = Piece(file.number, file.log, file.uri)
    text, bad = Text(piece), 0
    for block in blocks(text, piece):
        for line in block:
            try:
                event = decoded(line)
                if event is not None:
                    use.take(event)
            except (ValueError, RecursionError):
                bad += 1
    if text.problem:
        yield Damage(file.uri, text.problem)
    if bad:
        yield Damage(file.uri, f"has {bad} lines that are no whole event: passed over", bad)
