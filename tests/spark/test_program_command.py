from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.domain.errors import InputError
from autotrascale.execute.spark.controller.program_command import DRIVER, parse_command

PYTHON = "/usr/bin/python3"
SCRIPTS = st.sampled_from(["app.py", "jobs/my app.py", "/opt/a.b/app.PY", "./x.py"])
# Arguments of the program may have any form.
WORDS = st.lists(st.text(max_size=8) | st.sampled_from(["--conf", "--deploy-mode", "cluster", "-m", "--", "x.jar"]))
VALUES = st.sampled_from(["x", "a=b", "cluster-1", "", "my.jar", "local[2]", "--odd"])
OPTIONS = st.one_of(
    st.tuples(st.sampled_from(["--verbose", "-v", "--supervise"])),
    st.tuples(st.sampled_from(["--master", "--jars", "--py-files", "--files", "--driver-memory", "--queue"]), VALUES),
    st.tuples(st.sampled_from(["--conf", "-c"]), VALUES.map(lambda value: f"spark.some.setting={value}")),
    st.tuples(VALUES.map(lambda value: f"--packages={value}")),
    st.tuples(st.just("--deploy-mode"), st.just("client")),
)


@given(script=SCRIPTS, arguments=WORDS)
def test_a_script_alone_runs_with_our_python_and_all_its_arguments(script: str, arguments: list[str]) -> None:
    command = parse_command([script, *arguments])
    assert command.with_driver(PYTHON) == (PYTHON, str(DRIVER), script, *arguments)


@given(
    python=st.sampled_from(["python", "python3", "/opt/venv/bin/python3.11", "pypy3"]),
    options=st.lists(st.sampled_from([["-u"], ["-X", "dev"], ["-W", "error"], ["-Wignore"], ["-OO"]])),
    script=SCRIPTS,
    arguments=WORDS,
)
def test_a_users_python_keeps_its_options(
    python: str, options: list[list[str]], script: str, arguments: list[str]
) -> None:
    words = [word for option in options for word in option]
    command = parse_command([python, *words, script, *arguments])
    assert command.with_driver(PYTHON) == (python, *words, str(DRIVER), script, *arguments)


@given(
    options=st.sampled_from([(), ("-u",), ("-X", "dev")]),
    apart=st.booleans(),
    arguments=WORDS,
    module=st.sampled_from(["app", "jobs.shop", "a._b.c2"]),
)
def test_a_module_is_run_as_one(options: tuple[str, ...], apart: bool, arguments: list[str], module: str) -> None:
    words = ["-m", module] if apart else [f"-m{module}"]
    command = parse_command(["python3", *options, *words, *arguments])
    assert command.with_driver(PYTHON) == ("python3", *options, str(DRIVER), "-m", module, *arguments)
    assert command.name == module.rpartition(".")[2]


@given(options=st.lists(OPTIONS), script=SCRIPTS, arguments=WORDS)
def test_spark_submit_keeps_its_options_and_the_program_its_arguments(
    options: list[tuple[str, ...]], script: str, arguments: list[str]
) -> None:
    words = tuple(word for option in options for word in option)
    command = parse_command(["/spark/bin/spark-submit", *words, script, *arguments])
    assert (command.options, command.script, command.arguments) == (words, script, tuple(arguments))
    adopted = command.with_driver(PYTHON)
    named = ("--name", script.rpartition("/")[2])
    assert adopted == ("/spark/bin/spark-submit", *words, *named, str(DRIVER), script, *arguments)


@pytest.mark.parametrize("name", [["--name", "mine"], ["--name=mine"], ["--conf", "spark.app.name=mine"]])
def test_a_name_of_the_user_is_kept(name: list[str]) -> None:
    adopted = parse_command(["spark-submit", *name, "app.py"]).with_driver(PYTHON)
    assert adopted == ("spark-submit", *name, str(DRIVER), "app.py")


@pytest.mark.parametrize("word", ["file:/opt/app.py", "file:///opt/app.py", "local:/opt/app.py", "local:///opt/app.py"])
def test_a_file_url_becomes_a_path(word: str) -> None:
    assert parse_command(["spark-submit", word]).script == "/opt/app.py"


@given(
    before=st.lists(OPTIONS),
    refused=st.sampled_from(
        [
            (["--deploy-mode", "cluster"], "app.py", "driver on the cluster"),
            (["--deploy-mode=cluster"], "app.py", "driver on the cluster"),
            (["--conf", "spark.submit.deployMode=cluster"], "app.py", "driver on the cluster"),
            (["-c", "spark.submit.deployMode = cluster"], "app.py", "driver on the cluster"),
            (["--remote", "sc://host"], "app.py", "Spark Connect"),
            (["--conf", "spark.remote=local"], "app.py", "Spark Connect"),
            (["--conf", "spark.api.mode=connect"], "app.py", "Spark Connect"),
            (["--class", "org.Main"], "app.jar", "Java or Scala class"),
            ([], "app.jar", "written in Java or Scala"),
            ([], "app.R", "written in R"),
            ([], "hdfs://host/app.py", "not on this machine"),
            ([], "https://host/app.py", "not on this machine"),
            ([], "spark-internal", "not a Python file"),
            ([], "app.zip", "not a Python file"),
            (["--version"], "app.py", "not started by this"),
            (["--kill", "driver-1"], "app.py", "not started by this"),
            (["--no-such-option"], "app.py", "does not know"),
        ]
    ),
    after=st.lists(OPTIONS),
)
def test_unsupported_programs_are_refused_in_one_line(
    before: list[tuple[str, ...]], refused: tuple[list[str], str, str], after: list[tuple[str, ...]]
) -> None:
    options, script, why = refused
    words = [*(word for option in before for word in option), *options, *(word for option in after for word in option)]
    with pytest.raises(InputError, match=why) as refusal:
        parse_command(["spark-submit", *words, script, "an argument"])
    assert "\n" not in str(refusal.value)
    assert refusal.value.remedy


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "is missing"),
        (["python3"], "is missing"),
        (["spark-submit", "--master", "yarn"], "is missing"),
        (["spark-submit", "--master"], "without a value"),
        (["python3", "-m"], "is not a module name"),
        (["python3", "-m", "my_app.py/x"], "is not a module name"),
        (["python3", "-c", "print()"], "is not in a file"),
        (["pyspark"], "is a shell"),
        (["app"], "not a Python file"),
    ],
)
def test_a_line_without_a_program_is_refused(words: list[str], why: str) -> None:
    with pytest.raises(InputError, match=why):
        parse_command(words)
