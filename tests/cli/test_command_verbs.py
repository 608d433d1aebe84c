"""`autotrascale status | pause | resume | pin | apply`: from the command line to a loop in another process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from autotrascale.app import loop_session
from autotrascale.app.command_context import CommandContext
from autotrascale.app.console import OutputFormat
from autotrascale.app.metric_recording import NO_RECORDER
from autotrascale.app.stores import open_decisions
from autotrascale.cli import commands, completion, options
from autotrascale.domain.errors import JobBusyError
from autotrascale.knowledge import job_lock
from autotrascale.knowledge.decision_journal.journal import FINISHED, DecisionJournal
from autotrascale.knowledge.decision_journal.session_writer import JournalSession
from autotrascale.knowledge.decision_journal.sessions import SessionHeader
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.loop import Loop, LoopCollaborators
from tests.cli.test_autoscale import entries, job_file, run
from tests.knowledge import mlflow_stores
from tests.loop.scripts import RULES, START, TOPOLOGY, live

MAIN = "from autotrascale.cli.main import main; main()"
PATIENCE = 60.0


@pytest.fixture
def decisions(store: MlflowStore) -> Iterator[DecisionJournal]:
    opened = open_decisions(store)
    assert opened is not None
    yield opened
    opened.close()


def begun(decisions: DecisionJournal, job: str, *, advise: bool = False) -> tuple[JournalSession, Loop]:
    """A loop of this very process."""
    bounds = dict.fromkeys(TOPOLOGY, (1, 16))
    opening = SessionHeader(job, "simulator", True, TOPOLOGY.fingerprint, 0.5, "mean", advise, None, bounds)
    session = decisions.open_session(opening)
    loop = Loop(live(), RULES, initial=START, state=session.state, around=LoopCollaborators(journal=session))
    loop.run(300)
    return session, loop


@pytest.fixture
def kept(decisions: DecisionJournal, name: str) -> Iterator[Loop]:
    session, loop = begun(decisions, name)
    yield loop
    session.end(FINISHED)


Capture = pytest.CaptureFixture[str]


def one_line(capsys: Capture, says: str) -> None:
    out, err = capsys.readouterr()
    assert says in err
    assert (out, err.count("\n")) == ("", 1)


def test_orders_are_taken_in_and_the_status_says_who_asked(kept: Loop, name: str, capsys: Capture) -> None:
    assert run("pin", name, "work=7", "--yes") == 0
    assert f"to {name}: pin work 7; " in capsys.readouterr().out
    assert run("status", name) == 0
    assert "pin work 7, by " in capsys.readouterr().out
    kept.run_once()
    assert run("status", name, "--format", "json") == 0
    (told,) = json.loads(capsys.readouterr().out)["loops"]
    assert (told["state"], told["running"]["work"], told["recommended"]["work"]) == ("pinned", 7, 7)
    assert told["waiting"] == []
    assert "@" in told["order"]["asked_by"]
    assert run("pause", name, "--yes", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["what"] == "pause"
    kept.run_once()
    assert run("status") == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if name in line]
    assert "paused" in row
    assert "source 1, work 7" in row
    assert run("resume", name, "-y") == 0
    kept.run_once()
    assert kept.state.commands.standing is None
    assert completion.complete_loop_names(name) == [name]  # for the shell


def test_it_is_asked_once_and_not_without_a_terminal(
    kept: Loop, name: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("pause", name) == options.BAD_USAGE
    one_line(capsys, "--yes: ")
    questions: list[str] = []

    def answering(answer: bool) -> Callable[..., bool]:
        def confirm(question: str, **_: Any) -> bool:
            questions.append(question)
            return answer

        return confirm

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    for answer, code in ((False, 1), (True, 0)):
        monkeypatch.setattr(commands.typer, "confirm", answering(answer))
        assert run("pause", name) == code
        kept.run_once()
        assert kept.state.commands.paused is answer
    assert len(questions) == 2
    assert f"pause {name}: " in questions[0]
    assert run("apply", name) == 0  # it is paused now
    assert "once (now: no change). Continue?" in questions[-1]


def test_what_cannot_be_asked_is_one_line_and_no_order(kept: Loop, name: str, capsys: Capture) -> None:
    wrong = name[:-1] + "x"
    for words, says in (
        (["pause", wrong], f"did you mean {name}"),
        (["status", wrong], f"did you mean {name}"),
        (["pin", name, "wrok=3"], "did you mean work?"),
        (["pin", name, "work=99"], "parallelism.work: is outside [1, 16] (seen: 99)"),
        (["apply", name], f"job {name}: "),
    ):
        assert run(*words, *([] if words[0] == "status" else ["--yes"])) == 1
        one_line(capsys, says)
    for pins in (["work"], ["work=x"], ["=3"], ["work=3", "work=4"]):
        assert run("pin", name, *pins, "--yes") == options.BAD_USAGE
    kept.run_once()
    assert kept.state.commands.last_number == 0


def test_a_loop_that_ended_cannot_be_asked_and_one_that_advises_only_to_apply(
    decisions: DecisionJournal, name: str, capsys: Capture
) -> None:
    session, _ = begun(decisions, name, advise=True)
    assert run("pause", name, "--yes") == 1
    one_line(capsys, f"autotrascale apply {name}")
    assert run("apply", name, "--yes") == 0
    capsys.readouterr()
    session.end(FINISHED)
    assert run("apply", name, "--yes") == 1
    one_line(capsys, f"job {name}: has no running control loop")


def test_who_advises_takes_the_job_to_carry_out_what_it_recommends_and_leaves_it_again(
    store: MlflowStore, name: str
) -> None:
    around = CommandContext(store, None, NO_RECORDER, OutputFormat.table, advise=True)
    lease = loop_session.make_loop_lease(around, mlflow_stores.job(name), None)
    with lease.for_rescale():
        assert job_lock.is_job_locked(store, name)
    assert not job_lock.is_job_locked(store, name)
    with (
        job_lock.lock_job(store, name, job_lock.AUTOSCALED),
        pytest.raises(JobBusyError, match="autoscaled already by process"),
        lease.for_rescale(),
    ):
        raise AssertionError("it is somebody else's")


def test_without_a_store_there_is_nothing_to_steer(capsys: Capture) -> None:
    for words in (["status"], ["pause", "words", "--yes"]):
        assert run(*words) == 1
        one_line(capsys, "--store: is none")


def test_a_pause_reaches_another_process_and_outlives_its_death(
    decisions: DecisionJournal, name: str, tmp_path: Path, capsys: Capture
) -> None:
    """`kill -9` in between: the loop that goes on is paused, and says who asked."""
    path = job_file(tmp_path, name)

    def looked(wanted: str) -> None:
        """Until an entry of the journal gives that reason."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            found = decisions.find(name)
            last = [] if found is None else decisions.entries(found.id, last=200)
            if any(wanted in str(each["reasons"]) for each in last):
                return
            assert process.poll() is None, process.stderr.read() if process.stderr else ""
            time.sleep(0.05)
        raise AssertionError(f"no entry with {wanted}")

    command = [sys.executable, "-c", MAIN, "autoscale", str(path), "--for", "100000000", "--format", "json"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        looked("first-look")
        assert run("pause", name, "--yes") == 0
        looked("asked: pause")
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    capsys.readouterr()
    assert run("status", name, "--format", "json") == 0
    (told,) = json.loads(capsys.readouterr().out)["loops"]
    assert (told["state"], told["order"]["what"]) == ("killed", "pause")
    assert run("autoscale", path, "--for", "3600", "--format", "json") in (0, 3)
    out, err = capsys.readouterr()
    assert f"autotrascale resume {name}" in err
    after = entries(out)
    assert all("paused" in {reason["code"] for reason in each["reasons"]} for each in after)
    assert {each["action"] for each in after} <= {"stay", "would-rescale"}
    assert run("explain", name) == 0
    assert "asked: pause" in capsys.readouterr().out
