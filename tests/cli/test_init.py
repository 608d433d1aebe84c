"""`autotrascale init`: what it makes is read by the reader that every verb uses, says what was found, and replaces
nothing; what it cannot use is one line and no file."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.app.job_file import JobFile, read_job_file
from autotrascale.app.program_file import ExecutorBounds, ProgramFile, ProgramSettings, read_program_file
from autotrascale.app.scaffold import job_file_text
from autotrascale.app.scaffold.event_log_facts import ApplicationFacts, QueryFacts
from autotrascale.app.scaffold.read_script import ScriptJob, ScriptProgram, read_script
from autotrascale.cli import main
from autotrascale.domain.errors import InputError
from autotrascale.validation import read_yaml

ROOT = Path(__file__).parents[2]
SHOP = ROOT / "examples" / "own_job" / "shop.py"
GALLERY = ROOT / "examples" / "gallery"
LOGS = ROOT / "tests" / "analyze" / "logs"


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main.main(list(words))
    return int(ended.value.code or 0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_job_of_a_script_is_what_its_code_declares(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--script", str(SHOP), "--rate", "100", "--target", "5", "--p-max", "4"]
    assert run("init", "shop.yaml", *words) == 0
    file = read_job_file(here / "shop.yaml")
    assert file.spark is not None
    assert (file.job, file.spark.job, file.spark.python_path) == ("shop", "shop:shop", (str(SHOP.parent),))
    assert (dict(file.source_rates), file.p_max, file.target.latency_seconds) == ({"orders": 100.0}, 4, 5.0)
    said = (here / "shop.yaml").read_text()
    assert "#   per_second: 100" in said
    assert "# Not given" not in said
    assert "autotrascale doctor --job shop.yaml" in capsys.readouterr().out
    from autotrascale.execute.spark.jobs.job_loading import load_job

    sys.path.insert(0, str(SHOP.parent))
    try:
        loaded = load_job("shop:shop", {})
    finally:
        sys.path.remove(str(SHOP.parent))
    read = read_script(str(SHOP))
    assert isinstance(read, ScriptJob)
    assert read.topology == loaded.topology


def test_a_job_beside_its_script_needs_no_path(here: Path) -> None:
    (here / "shop.py").write_text(SHOP.read_text())
    assert run("init", "shop.yaml", "--script", "shop.py", "--yes") == 0
    file = read_job_file(here / "shop.yaml")
    assert file.spark is not None
    assert file.spark.python_path == ()
    assert "# Not given: --rate, --target, --p-max." in (here / "shop.yaml").read_text()


def test_an_option_without_a_default_is_left_to_be_set(here: Path) -> None:
    (here / "it.py").write_text(
        'from autotrascale import Operator, job\n@job({"s": Operator()})\n'
        "def it(flow, *, topic: str, least: int = 3, made=str(1)):\n    ...\n"
    )
    assert run("init", "it.yaml", "--script", "it.py", "--yes") == 0
    file = read_job_file(here / "it.yaml")
    assert file.spark is not None
    assert dict(file.spark.options) == {"topic": None}
    said = (here / "it.yaml").read_text()
    assert "topic: null   # has no default: set it" in said
    assert "#   least: 3" in said
    assert "made" not in said


@pytest.mark.parametrize("program", sorted(GALLERY.glob("*.py")), ids=lambda path: path.stem)
def test_every_program_of_the_gallery_gets_a_file(program: Path, here: Path) -> None:
    assert run("init", "job.yaml", "--script", str(program), "--target", "4") == 0
    file = read_program_file(here / "job.yaml")
    assert file.job == program.stem
    assert file.target is not None
    assert f"autotrascale run job.yaml -- {program}" in (here / "job.yaml").read_text()


def test_an_event_log_tells_queries_rates_and_executors(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("init", "job.yaml", "--event-log", str(LOGS / "plain"), "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["next"] == "autotrascale run job.yaml -- my_app.py"
    file = read_program_file(here / "job.yaml")
    said = (here / "job.yaml").read_text()
    assert "# Its event log: 1 executor of 4 cores." in said
    assert "records/s," in said
    assert file.target is not None


def test_a_few_answers_make_a_simulated_job_that_is_tuned(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = "\nsmall\nin, work out\nmany\n2000\n\n1.5\n"
    monkeypatch.setattr(sys, "stdin", Terminal(answers))
    assert run("init", "small.yaml") == 1  # 1.5 is no count; and then the answers are over
    assert not (here / "small.yaml").exists()
    monkeypatch.setattr(sys, "stdin", Terminal(answers + "12\n"))
    assert run("init", "small.yaml") == 0
    file = read_job_file(here / "small.yaml")
    assert (file.job, list(file.operators), dict(file.source_rates)) == ("small", ["in", "work", "out"], {"in": 2000.0})
    assert (file.target.latency_seconds, file.p_max) == (0.5, 12)
    assert run("tune", "small.yaml") == 0


def test_nothing_is_replaced(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "job.yaml").write_text("mine")
    assert run("init", "--yes") == 1
    assert capsys.readouterr().err.startswith("autotrascale: job.yaml: exists")
    assert (here / "job.yaml").read_text() == "mine"
    (here / "gone.yaml").symlink_to(here / "nowhere")
    assert run("init", "gone.yaml", "--yes") == 1
    assert not (here / "nowhere").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["job.txt"], "JOB.yaml: "),
        (["no/job.yaml"], "is in a folder that does not exist"),
        (["--script", "nowhere.py"], "nowhere.py: cannot be read"),
        (["--script", "empty.py"], "empty.py: "),
        (["--script", "wrong.py"], "wrong.py:1: "),
        (["--script", "two.py"], "--script two.py:a"),
        (["--script", "two.py:c"], "(seen: 'c'); use one of a, b"),
        (["--script", "made.py"], "made.py:2: "),
        (["--script", "cycle.py"], "cycle.py:2: operators"),
        (["--script", "two.py:a", "--rate", "-1", "--yes"], "--rate: "),
        (["--yes", "--rate", "nan"], "--rate: "),
        (["--yes", "--target", "0"], "--target: "),
        (["--yes", "--p-max", "0"], "p_max: "),
        (["--event-log", "nowhere"], "nowhere: "),
        (["--event-log", "empty.py", "--script", "two.py"], "--event-log: contradicts --script"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_used_is_one_line_and_no_file(
    words: list[str], says: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = "from autotrascale import job, Operator\n"
    one = '@job({{"s": Operator(), "t": Operator(("s",))}})\ndef {0}(flow):\n    ...\n'
    (here / "empty.py").write_text("print('no stream')\n")
    (here / "wrong.py").write_text("def (:\n")
    (here / "two.py").write_text(head + one.format("a") + one.format("b"))
    (here / "made.py").write_text(head + "@job(operators())\ndef a(flow):\n    ...\n")
    (here / "cycle.py").write_text(head + '@job({"s": Operator(("s",))})\ndef a(flow):\n    ...\n')
    before = set(here.iterdir())
    assert run("init", *words) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert says in said.err
    assert set(here.iterdir()) == before


# Names as people may give them, and as nobody should: what YAML, a comment or a line could trip over.
NAMES = st.text(min_size=1, max_size=12).filter(str.strip) | st.sampled_from(
    ["yes", "null", "1.5", "- a", "a: b", "# a", "a\nb", "{a}", "'", '"', "é", "\x85", "\u2028", "x" * 200]
)
NUMBERS = st.floats(1e-3, 1e6)


@given(
    name=NAMES,
    operators=st.lists(NAMES, min_size=1, max_size=4, unique=True),
    rate=NUMBERS,
    target=NUMBERS,
    p_max=st.integers(1, 1000),
    path=NAMES,
)
def test_whatever_things_are_called_the_file_says_just_that(
    name: str, operators: list[str], rate: float, target: float, p_max: int, path: str
) -> None:
    wishes = job_file_text.JobGoals(name, {operators[0]: rate}, target, p_max)
    file = read_yaml(job_file_text.render_simulated_job(operators, wishes, path, ["--rate"]), JobFile, place="job.yaml")
    assert (file.job, list(file.operators), dict(file.source_rates)) == (name, operators, {operators[0]: rate})
    assert (file.target.latency_seconds, file.p_max) == (target, p_max)


@given(name=NAMES, query=NAMES, path=NAMES, most=st.integers(1, 1000))
def test_a_program_file_says_just_what_was_found(name: str, query: str, path: str, most: int) -> None:
    seen = ApplicationFacts(name, {"q": QueryFacts(query, 3, [10.0], [0.5])}, most, 2, path)
    wanted = ProgramFile(name, ProgramSettings(ExecutorBounds(most)), job_file_text.estimate_target(seen))
    made = job_file_text.render_program(wanted, path, path, [query], seen)
    assert read_yaml(made, ProgramFile, place="job.yaml") == wanted


@pytest.mark.parametrize("code", ["x = 1\n" * 3, "s.readStream", "q.queryName('a').queryName(b)\nw.writeStream"])
def test_programs_are_told_from_other_files(code: str, here: Path) -> None:
    (here / "it.py").write_text(code)
    if "Stream" not in code:
        with pytest.raises(InputError, match=r"it\.py"):
            read_script("it.py")
        return
    found = read_script("it.py")
    assert isinstance(found, ScriptProgram)
    assert found.queries == (("a",) if "queryName" in code else ())
