"""`autotrascale run`: its command line, and programs without Spark. With it: tests/spark/test_program_on_cluster.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.app.program_run import ProgramRequest, apply_options
from autotrascale.cli import main
from autotrascale.domain.target import Target


def run(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main.main(["run", "--store", "none", "--metrics", "none", *(str(argument) for argument in arguments)])
    return int(ended.value.code or 0)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


WORDS = st.lists(st.sampled_from(["a.yaml", "--", "-x", "--apply", "app.py", "b.yml", "--target=3"]), max_size=4)


@given(words=WORDS, job_file=st.sampled_from(["", "job.yaml", "job.yml"]), dashes=st.booleans())
def test_what_is_the_programs_stays_the_programs(words: list[str], job_file: str, dashes: bool) -> None:
    """Whatever follows the program's name, and however it looks."""
    line = [*([job_file] if job_file else []), *(["--"] if dashes else []), "my_app.py", *words]
    request = ProgramRequest(line)
    assert (request.job_file, request.command_line) == (Path(job_file) if job_file else None, ["my_app.py", *words])


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "program: is missing"),
        (["--advise", "--apply", "--", "app.py"], "--apply: "),
        (["--rescale", "overlap", "--", "app.py"], "--rescale: needs --apply (seen: 'overlap')"),
        (["--apply", "--rescale", "fast", "--", "app.py"], "(seen: 'fast')"),
        (["--sizes", "--", "app.py"], "--sizes: needs --apply"),
        (["--", "app.jar"], "(seen: 'app.jar')"),
        (["--executors", "4:2", "--", "app.py"], "maximum: is below the minimum of 4 (seen: 2)"),
        (["--executors", "some", "--", "app.py"], "--executors: is not MIN:MAX (seen: 'some')"),
        (["--executors", "0", "--", "app.py"], "minimum: "),
        (["--target", "-1", "--", "app.py"], "--target: latency_seconds: "),
        (["--target", "orders=0", "--", "app.py"], "--target: latency_seconds: "),
        (["--target", "orders", "--", "app.py"], "--target: is not SECONDS or QUERY=SECONDS (seen: 'orders')"),
        (["--target", "orders=soon", "--", "app.py"], "--target: is not SECONDS or QUERY=SECONDS"),
        (["--target", "=2", "--", "app.py"], "(seen: '=2')"),
        (["--target", "nan", "--", "app.py"], "--target: latency_seconds: "),
        (["--price", "-1", "--", "app.py"], "price: "),
        (["missing.yaml", "--", "app.py"], "missing.yaml: "),
        (["--program", "nowhere"], "(seen: "),
        (["--program", "nowhere", "--", "app.py"], "program: is given twice"),
        (["--", "spark-submit", "--deploy-mode", "cluster", "app.py"], "cluster"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_started(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 1
    said = capsys.readouterr()
    assert line in said.err
    assert len([each for each in said.err.splitlines() if each.startswith("autotrascale:")]) == 1
    assert not list(Path().glob("mlruns/live/*/program-*"))


def test_targets_are_those_of_the_line_over_those_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(
        "{job: shop, program: {executors: {maximum: 4}}, target: {latency_seconds: 9, statistic: p95},"
        " queries: {clicks: {target: {latency_seconds: 7}}}}"
    )
    words = [str(tmp_path / "shop.yaml"), "--", "app.py"]
    file = apply_options(ProgramRequest(words, targets=("5", "orders=2", "a=b=3")), "shop")
    found = {name: file.target_for(name) for name in ("", "orders", "clicks", "a=b")}
    assert found == {
        "": Target(5.0, "p95"),
        "orders": Target(2.0, "p95"),
        "clicks": Target(7.0),
        "a=b": Target(3.0, "p95"),
    }
    assert apply_options(ProgramRequest(["app.py"], targets=("orders=2",)), "app").target is None


@pytest.mark.parametrize(
    ("source", "code"), [("import sys; sys.exit(7)", 7), ("print('done')", 0), ("raise ValueError('no')", 1)]
)
def test_a_program_ends_in_its_own_exit_code(source: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(source)
    assert run("--target", "5", "--", "app.py") == code


def test_a_file_that_is_not_there_is_said_as_python_says_it(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("--", "nothing.py") == 2
    assert "can't open file 'nothing.py'" in capfd.readouterr().err
