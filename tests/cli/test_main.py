"""The command line as a whole: what it imports, what a shell may offer, and what it says of wrong words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autotrascale.cli import completion, main
from autotrascale.knowledge.run_journal import RunJournal
from tests.knowledge import mlflow_stores

BAD = json.loads((Path(__file__).parents[1] / "bad_input" / "commands.json").read_text())
SNAPSHOT = Path(__file__).parents[2] / "examples" / "snapshot.json"
MAIN = "from autotrascale.cli.main import main; main()"
# Typer's newest releases read a verb's options by way of pydantic; before a verb is named nothing needs it.
OF_TYPER = {"pydantic"}
HEAVY = {"numpy", "scipy", "sklearn", "skopt", "pydantic", "pyspark", "mlflow", "fastapi", "uvicorn", "yaml", "pandas"}


def command_line(code: str, *arguments: str, cwd: Path | None = None, **environment: str) -> tuple[str, set[str]]:
    """What it prints, and the heavy packages that it imported on the way."""
    told = f"import sys\ntry:\n    {code}\nfinally:\n    print(*sys.modules, file=sys.stderr)\n"
    done = subprocess.run(
        [sys.executable, "-c", told, *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=cwd,
        env={**os.environ, **environment},
    )
    return done.stdout, HEAVY & set(done.stderr.split())


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    out, heavy = command_line(MAIN, *arguments)
    assert out
    assert heavy == set()


@pytest.mark.parametrize("arguments", [["tune", "--help"], ["runs", "ls", "--help"], ["doctor", "--help"]])
def test_help_of_a_verb_imports_nothing_of_what_the_verb_needs(arguments: list[str]) -> None:
    out, heavy = command_line(MAIN, *arguments)
    assert out
    assert heavy <= OF_TYPER


def completed(words: str, cwd: Path, **environment: str) -> list[str]:
    """What bash would offer for the last word, by the protocol that its script speaks."""
    asked = {"_AUTOTRASCALE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    out, heavy = command_line(MAIN, cwd=cwd, **asked, **environment)
    assert heavy <= OF_TYPER
    return out.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("autotrascale tu", ["tune"]),
        ("autotrascale runs ", ["ls", "show", "resume", "cancel"]),
        ("autotrascale tune --eng", ["--engine"]),
        ("autotrascale tune --engine s", ["spark", "simulator"]),
        ("autotrascale decide --format ", ["table", "json"]),
        ("autotrascale tune a", ["a.yaml", "apart/b.yml"]),
        ("autotrascale tune apart/", ["apart/b.yml"]),
        ("autotrascale tune nowhere/", []),
        ("autotrascale doctor --job ", ["a.yaml", "apart/b.yml"]),
        ("autotrascale runs show l", ["last"]),
    ],
)
def test_a_shell_completes_verbs_options_values_and_job_files(tmp_path: Path, words: str, offered: list[str]) -> None:
    (tmp_path / "apart").mkdir()
    for name in ("a.yaml", "apart/b.yml", "apart/notes.txt", "all.json", ".hidden.yaml"):
        (tmp_path / name).touch()
    assert completed(words, tmp_path) == offered


def test_a_shell_completes_the_jobs_and_runs_of_an_embedded_store(
    empty_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = mlflow_stores.embedded(empty_database, tmp_path / "own")
    run_ids = []
    for name in ("small", "smaller", "other"):
        with RunJournal.start(store, mlflow_stores.opening(mlflow_stores.job(name))) as journal:
            run_ids.append(journal.run_id)
    assert completed("autotrascale runs show sm", tmp_path, AUTOTRASCALE_STORE=store.uri) == ["small", "smaller"]
    assert completed("autotrascale runs ls --job o", tmp_path, AUTOTRASCALE_STORE=store.uri) == ["other"]
    monkeypatch.setenv("AUTOTRASCALE_STORE", store.uri)
    assert completion.complete_run_names("") == ["last", "other", "small", "smaller"]
    assert run_ids[1] in completion.complete_run_names(run_ids[1][:6])


def test_completion_never_complains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = tmp_path / "mlflow.db"
    damaged.write_text("no database, but long enough to be looked at" * 50)
    for uri in (f"sqlite:///{damaged}", f"sqlite:///{tmp_path}/none.db", "http://127.0.0.1:1", "none"):
        monkeypatch.setenv("AUTOTRASCALE_STORE", uri)
        assert completion.complete_job_names("") == []
        assert completion.complete_run_names("") == ["last"]
    assert not (tmp_path / "none.db").exists()


def test_completion_leaves_a_store_as_it_was(empty_database: Path, tmp_path: Path) -> None:
    store = mlflow_stores.embedded(empty_database, tmp_path / "own")
    before = (tmp_path / "own" / "mlflow.db").read_bytes()
    assert completed("autotrascale runs show sm", tmp_path, AUTOTRASCALE_STORE=store.uri) == []
    assert (tmp_path / "own" / "mlflow.db").read_bytes() == before


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_is_shown(shell: str) -> None:
    out, _ = command_line(MAIN, "--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "_AUTOTRASCALE_COMPLETE" in out


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """What the words of the cases stand for."""
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 16)
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "device")
    paths = {name: str(tmp_path / name) for name in ("binary", "folder", "device")}
    job, deep = str(mlflow_stores.job_file(tmp_path)), str(tmp_path / "deep.json")
    return {**paths, "job": job, "deep": deep, "snapshot": str(SNAPSHOT), "long": "x" * 300, "digits": "9" * 5000}


@pytest.mark.parametrize("case", BAD, ids=lambda case: case["name"])
def test_wrong_words_are_answered_in_one_line(
    case: dict[str, Any], places: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(places["folder"])
    with pytest.raises(SystemExit) as ended:
        main.main([word.format(**places) for word in case["arguments"]])
    out, err = capsys.readouterr()
    assert ended.value.code == case.get("code", 1)
    assert (out, "opensesame" in err) == ("", False)
    assert all(token.format(**places) in err for token in case["says"])
    if ended.value.code == 1:
        assert err.startswith("autotrascale: ")
        assert err.count("\n") == 1
    assert os.listdir(places["folder"]) == []  # nothing half-written
    assert not list(Path(places["folder"]).parent.glob("*.lock"))
