"""`autotrascale critical`: what it refuses before anything is started, and what the guide shows of it. What it tells on
Spark: `tests/analyze/critical/test_told.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.service.command import complaint, run

from autotrascale.analyze.critical.archive import blocks_of, groups_below, parts_of_block
from autotrascale.analyze.critical.participation_table import read_participations
from autotrascale.analyze.critical.staging import Files, stage_log
from autotrascale.domain.critical_path_report import average_reports
from autotrascale.monitor.eventlog.log_files import find_files
from autotrascale.views.critical_path_text import explain_participation

LOGS = Path(__file__).parents[1] / "analyze" / "logs"
PLAIN = str(next(LOGS.glob("plain/*.zstd")))


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["/no/such/log"], "/no/such/log: does not exist; give an event log's file"),
        (["nobody"], "LOG|JOB: is no file, no folder and no program that is kept (seen: 'nobody'); give the path of"),
        ([PLAIN, "--output", "file/below"], "--output: is no folder"),
        ([PLAIN, "--driver-memory", "2x"], "--driver-memory: is no amount of memory (seen: '2x')"),
        ([PLAIN, "--metrics", "none.yaml"], "none.yaml: "),
    ],
)
@pytest.mark.usefixtures("nowhere")
def test_what_cannot_be_done_is_said_in_one_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("critical", *arguments) == 1
    assert complaint(capsys).startswith(f"autotrascale: {says}")


@pytest.mark.parametrize("window", ["0", "-3", "inf", "nan", "1e9", "0.0001"])
def test_a_window_that_is_no_length(window: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("critical", PLAIN, "--window", window) == 2
    assert "is no number of seconds from 0.001 to 10,000,000" in capsys.readouterr().err


def test_what_the_guide_shows_is_what_it_says_of_that_log(tmp_path: Path) -> None:
    """Without Spark, by the functions that Spark calls."""
    files, _ = find_files([str(LOGS / "marked")])
    with Files(str(tmp_path / "application=app"), 0) as written:
        stage_log(files, written, [])
    ((of, groups),) = groups_below(str(tmp_path)).items()
    rows = [row for block in blocks_of(*of, groups, 10**7) for row in parts_of_block(block, 10**7).to_pylist()]
    guide = (Path(__file__).parents[2] / "docs" / "critical.md").read_text(encoding="utf-8")
    assert (
        "".join(f"    {line}\n" for line in explain_participation(average_reports(list(read_participations(rows)))))
        in guide
    )
