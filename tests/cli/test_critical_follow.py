"""`critical --follow`: a log that is whole is followed to its end, one that grows until the time is over."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import zstandard

from autotrascale.cli import main

NAME = "local-1794993110598"
RECORDED = Path(__file__).parents[1] / "analyze" / "logs" / "marked" / f"eventlog_v2_{NAME}"


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main.main(arguments)
    return int(ended.value.code or 0)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """As it is written when it may be followed."""
    folder = tmp_path / "events" / f"eventlog_v2_{NAME}"
    folder.mkdir(parents=True)
    with (RECORDED / f"events_1_{NAME}.zstd").open("rb") as packed, (folder / f"events_1_{NAME}").open("wb") as plain:
        zstandard.ZstdDecompressor().copy_stream(packed, plain)
    (folder / f"appstatus_{NAME}").touch()
    return folder


def test_each_window_of_an_application_that_has_ended(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("critical", str(log.parent), "--follow", "--window", "10", "--format", "json") == 0
    out, err = capsys.readouterr()
    told = [json.loads(line) for line in out.splitlines()]
    assert err == ""
    assert [one["started_ms"] for one in told] == sorted({one["started_ms"] for one in told})
    assert len(told) > 3
    assert {one["query"] for one in told} == {"counting"}
    assert all(sum(part["participation"] for part in one["kinds"]) == pytest.approx(1) for one in told)
    assert any(part["name"] == "state-commit" for one in told for part in one["kinds"])


def test_a_program_that_is_kept_is_known_by_its_name(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its newest start, whatever its folder is called; while that has no log yet, no other stands in for it."""
    asked = ("--follow", "--window", "10", "--format", "json", "--store", f"sqlite:///{tmp_path}/kept/runs.db")
    assert run("critical", str(log), *asked) == 0
    of_the_log = capsys.readouterr().out
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "kept" / "live" / "my_shop"
    for at, start in enumerate(("program-20270101-b", "program-20270101-c", "program-20270101-a")):
        events = home / start / "events"
        shutil.copytree(log, events / log.name)
        if at < 2:  # earlier ones, that did nothing
            (events / log.name / f"events_1_{NAME}").write_text("")
        os.utime(events, (at, at))
    assert run("critical", "my shop", *asked) == 0
    out, err = capsys.readouterr()
    assert (out, err) == (of_the_log, "")
    (home / "program-20270102-d" / "events").mkdir(parents=True)
    assert run("critical", "my shop", *asked) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("autotrascale: my shop: ")
    assert err.count("\n") == 1


def test_one_that_runs_is_followed_for_as_long_as_asked(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (log / f"appstatus_{NAME}").rename(log / f"appstatus_{NAME}.inprogress")
    assert run("critical", str(log), "--follow", "--for", "0", "--query", "nobody") == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "nobody" in err


def test_what_cannot_be_followed_is_said_in_one_line(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = tmp_path / "packed"
    shutil.copytree(RECORDED, packed / RECORDED.name)
    cases = {
        (str(packed),): "is compressed",
        (str(log), str(packed)): "(seen: 2)",
        (str(log), "--plots"): "--plots: ",
        (str(tmp_path / "events" / f"eventlog_v2_{NAME}" / f"events_1_{NAME}"),): "eventlog_v2_",
    }
    for arguments, expected in cases.items():
        assert run("critical", "--follow", *arguments) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert expected in err
        assert err.count("\n") == 1
