"""`autotrascale critical`: what it refuses before anything is started, and what the guide shows of it. What it tells on
recorded logs: `test_critical_archive.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotrascale.analyze.critical.edge_files import write_edges
from autotrascale.analyze.critical.measured_paths import measure_paths
from autotrascale.monitor.eventlog.log_files import find_logs
from autotrascale.views.critical_path_text import explain_participation
from tests.cli.command import complaint, run

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
        (["/no/such/log"], "/no/such/log: "),
        (["nobody"], "LOG|JOB: is neither a file nor a folder nor a program (seen: 'nobody')"),
        ([PLAIN, "--output", "file/below"], "--output: is not a folder"),
        ([PLAIN, "--driver-memory", "2x"], "--driver-memory: "),
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
    assert "0.001 to 10,000,000" in capsys.readouterr().err


def test_what_the_guide_shows_is_what_it_says_of_that_log(tmp_path: Path) -> None:
    (log,), _ = find_logs([str(LOGS / "marked")])
    write_edges(str(tmp_path / "edges"), log)
    (report,) = measure_paths(str(tmp_path / "edges"), str(tmp_path / "parts"), 10.0).reports()
    guide = (Path(__file__).parents[2] / "docs" / "how-to" / "critical-path.md").read_text(encoding="utf-8")
    assert "".join(f"    {line}\n" for line in explain_participation(report)) in guide
