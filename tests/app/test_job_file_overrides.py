"""Settings of a job and of the server from the environment: over the file, under the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.main import get_command

from autotrascale.app import environment_variables
from autotrascale.app.job_file import read_job_file
from autotrascale.app.job_file_changes import read_job_content
from autotrascale.app.job_file_overrides import PREFIX, apply_overrides
from autotrascale.cli import main, serve
from autotrascale.domain.errors import InputError
from tests.cli.test_autoscale import job_file, run

NAMES = st.text("abcdefgh", min_size=1, max_size=6)
PATHS = st.lists(NAMES, min_size=1, max_size=3)
PLAIN = st.recursive(st.integers(), lambda inner: st.dictionaries(NAMES, inner, max_size=3), max_leaves=8)


def at(content: object, path: list[str]) -> object:
    for name in path:
        assert isinstance(content, dict)
        content = content[name]
    return content


def leads_nowhere(content: object, path: list[str]) -> bool:
    """Through a value that is no section."""
    for name in path[:-1]:
        content = content.get(name, {}) if isinstance(content, dict) else content
    return not isinstance(content, dict)


@given(st.dictionaries(NAMES, PLAIN), PATHS, st.integers())
def test_one_variable_changes_one_setting_and_nothing_else(
    content: dict[str, object], path: list[str], new: int
) -> None:
    before = repr(content)
    variable = {f"{PREFIX}{'__'.join(path).upper()}": str(new)}
    if leads_nowhere(content, path):
        with pytest.raises(InputError, match="not a section"):
            apply_overrides(content, variable)
        return
    changed = apply_overrides(content, variable)
    assert repr(content) == before
    assert at(changed, path) == new
    again = apply_overrides(changed, {f"{PREFIX}{'__'.join(path)}": str(new)})
    assert again == changed
    assert isinstance(changed, dict)
    assert {name: each for name, each in changed.items() if name != path[0]} == {
        name: each for name, each in content.items() if name != path[0]
    }


def test_the_environment_counts_for_more_than_the_file_and_is_held_to_its_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = job_file(tmp_path, "words")
    assert read_job_file(path).target.latency_seconds != 9.5
    monkeypatch.setenv("AUTOTRASCALE_JOB__TARGET__LATENCY_SECONDS", "9.5")
    monkeypatch.setenv("AUTOTRASCALE_JOB__manager__MAXIMUM__Count", "7")
    monkeypatch.setenv("AUTOTRASCALE_JOB__NOTIFY", "[{kind: chat, url: 'http://127.0.0.1/', when: [down]}]")
    file = read_job_file(path)
    assert (file.target.latency_seconds, file.manager.maximum, file.notify[0].kind) == (9.5, {"count": 7}, "chat")
    assert read_job_content(path)["target"]["latency_seconds"] == 9.5  # what a run began under
    monkeypatch.setenv("AUTOTRASCALE_JOB__TARGET__LATENCY_SECOND", "1")
    assert run("autoscale", path, "--for", "60") == 1
    error = capsys.readouterr().err
    assert "AUTOTRASCALE_JOB__TARGET__LATENCY_SECOND" in error
    assert "target.latency_second: is not a known key" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("AUTOTRASCALE_JOB__", "1", "AUTOTRASCALE_JOB__: "),
        ("AUTOTRASCALE_JOB__TARGET____X", "1", "AUTOTRASCALE_JOB__TARGET____X: "),
        ("AUTOTRASCALE_JOB__JOB__NAME", "1", "AUTOTRASCALE_JOB__JOB__NAME: "),
        ("AUTOTRASCALE_JOB__TARGET", "{a: ", "AUTOTRASCALE_JOB__TARGET: "),
    ],
)
def test_a_variable_that_cannot_be_is_named(
    name: str, value: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=says):
        read_job_file(job_file(tmp_path, "words"))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("AUTOTRASCALE_SERVE_PROT", "AUTOTRASCALE_SERVE_PROT: "),
        ("AUTOTRASCALE_JOB_TARGET", "AUTOTRASCALE_JOB_TARGET: "),
        ("AUTOTRASCALE_JOB__TARGET__LATENCY_SECONDS", ""),
        ("AUTOTRASCALE_DRIVER_OF", ""),
        ("AUTOTRASCALES", ""),
    ],
)
def test_a_variable_that_nothing_reads_is_said_by_every_verb(
    name: str, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, "1")
    assert run("status", "--store", "sqlite:////nowhere/mlflow.db") == 0
    err = capsys.readouterr().err
    assert err.startswith(says)
    assert err.count("\n") == bool(says)


def test_the_variables_of_our_own_processes_are_known() -> None:
    from autotrascale.execute.spark.common import processes, program_environment

    assert set(environment_variables.INTERNAL_VARIABLES) == {
        program_environment.FOLDER_VARIABLE,
        program_environment.EXECUTORS_VARIABLE,
        program_environment.APPLY_VARIABLE,
        program_environment.RESCALE_VARIABLE,
        program_environment.MEMORY_METRICS_VARIABLE,
        processes.OWNER_VARIABLE,
    }


def test_every_variable_is_documented() -> None:
    told = (Path(__file__).parents[2] / "docs" / "how-to" / "monitor.md").read_text(encoding="utf-8")
    for name in environment_variables.USER_VARIABLES:
        assert f"`{name}`" in told


def test_every_option_of_the_server_has_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    command = get_command(main.app).commands["serve"]  # type: ignore[attr-defined]
    said = {each.envvar for each in command.params if each.name not in ("store", "help")}
    assert said == set(environment_variables.SERVE_VARIABLES)
    assert all(each.envvar in (None, f"{serve.PREFIX}{each.name.upper()}") for each in command.params)
    monkeypatch.setenv("AUTOTRASCALE_SERVE_PORT", "9001")
    monkeypatch.setenv("AUTOTRASCALE_SERVE_NAME", "night")
    context = command.make_context("serve", ["--name", "day"])
    assert (context.params["port"], context.params["name"]) == (9001, "day")
