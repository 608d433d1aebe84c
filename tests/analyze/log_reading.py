"""Reading of test logs: as a running job, and as an archive in this process."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from autotrascale.analyze.archive.measure_log import Measuring
from autotrascale.analyze.archive.measured_archive import MeasuredArchive, measure_archive
from autotrascale.analyze.archive.snapshot_form import MeasuredSnapshot
from autotrascale.analyze.facts import BatchFact, Fact
from autotrascale.analyze.joiner import Joiner
from autotrascale.analyze.log_tasks import RunAll, run_here
from autotrascale.monitor.eventlog.decoding import decode_line
from autotrascale.monitor.eventlog.lines import LogText, blocks
from autotrascale.monitor.eventlog.log_files import find_files, find_logs


def read_lines(path: Path) -> list[bytes]:
    """Return the lines of all logs below `path`."""
    texts = (LogText(file.uri) for file in find_files([str(path)])[0])
    return [line for text in texts for block in blocks(text) for line in block]


def facts(lines: Iterable[str | bytes], joiner: Joiner | None = None) -> list[Fact]:
    """Return the facts of a running job."""
    joiner = joiner or Joiner()
    events = (decode_line(line.encode() if isinstance(line, str) else line) for line in lines)
    return [fact for event in events if event is not None for fact in joiner.take(event)]


def batches(lines: Iterable[str | bytes], joiner: Joiner | None = None) -> list[BatchFact]:
    return [fact for fact in facts(lines, joiner) if isinstance(fact, BatchFact)]


def archived_batches(lines: Iterable[str | bytes]) -> list[BatchFact]:
    """Return the batches and queries of an archived log."""
    joiner = Joiner(every_stage=True, batch_queries=True)
    found = [*facts(lines, joiner), *joiner.finish()]
    return [fact for fact in found if isinstance(fact, BatchFact)]


def measure(
    logs: Path,
    folder: Path,
    seconds: float | None = None,
    *,
    job: str = "",
    p_max: int | None = None,
    run_all: RunAll = run_here,
) -> MeasuredArchive:
    """Measure the logs below `logs`; by default in one window for each run."""
    found, unread = find_logs([str(logs)])
    archive = measure_archive(found, Measuring(str(folder), seconds, job, p_max), run_all)
    return replace(archive, damages=(*unread, *archive.damages))


def measure_text(text: str, folder: Path, p_max: int | None = None) -> dict[str, MeasuredSnapshot]:
    """Return the snapshot of each run of one log."""
    (folder / "log").write_text(text)
    return {one.run: one for one in measure(folder / "log", folder / "measured", p_max=p_max).snapshots()}
