"""Notifications to a real HTTP server on loopback: what is told, when, how often, and that nobody waits for it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotrascale.app import environment_variables, notifications
from autotrascale.app.job_file import read_job_file
from autotrascale.app.job_file_changes import read_job_content
from autotrascale.app.notifications import NotificationTarget, Notifier, check_address, read_notifications
from autotrascale.domain.errors import InputError
from autotrascale.validation import validate
from autotrascale.views.loop_events import LoopCondition, carry_over, find_events
from tests.cli.test_autoscale import job_file, run

PATIENCE = 20.0
SECRET = "T0K3N-in-the-path"
CALM = LoopCondition("words", False, 0.5, {"work": 3}, 0.1, met=True)
MISSING = replace(CALM, met=False, latency_seconds=1.0)


@dataclass
class Post:
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Receiver:
    """`answers` are taken one after the other, the last for ever; `silent` keeps its clients waiting."""

    answers: list[int] = field(default_factory=lambda: [200])
    silent: bool = False
    posts: list[Post] = field(default_factory=list)
    base: str = ""

    def wait(self, count: int) -> list[Post]:
        until = time.monotonic() + PATIENCE
        while len(self.posts) < count and time.monotonic() < until:
            time.sleep(0.01)
        return self.posts


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    let_go = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            found.posts.append(Post(self.path, dict(self.headers), json.loads(self.rfile.read(length))))
            if found.silent:
                let_go.wait(PATIENCE)
                return
            status = found.answers.pop(0) if len(found.answers) > 1 else found.answers[0]
            self.send_response(status)
            if status == 302:
                self.send_header("Location", f"{found.base}/elsewhere")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    found.base = f"http://127.0.0.1:{server.server_port}"
    yield found
    let_go.set()
    server.shutdown()
    thread.join()
    server.server_close()


def notifier(receiver: Receiver, tell: Callable[[str], None] = lambda _: None, **given_: Any) -> Notifier:
    wanted = NotificationTarget(url=f"{receiver.base}/{SECRET}", **given_)
    return Notifier([wanted], tell, pauses=(0.01, 0.01), attempt_seconds=1.0)


def test_a_webhook_gets_what_is_new_and_nothing_twice(receiver: Receiver) -> None:
    told = notifier(receiver)
    grown = replace(CALM, running={"work": 5}, rescales=1, met=None)
    for view in (CALM, CALM, MISSING, MISSING, grown, replace(grown, met=True), replace(grown, met=True)):
        told.observe(view)
    posts = receiver.wait(3)
    told.close()
    assert [(each.body["event"], each.body["over"]) for each in posts] == [
        ("miss", False),
        ("rescale", False),
        ("miss", True),
    ]
    assert posts[0].body["text"] == "words misses its target: latency 1.00 s, target 500 ms"
    assert posts[1].body["text"] == "words rescaled: work 3 → 5"
    assert (posts[1].body["before"], posts[1].body["running"]) == ({"work": 3}, {"work": 5})
    assert {each.path for each in posts} == {f"/{SECRET}"}


def test_a_chat_gets_a_text_and_a_template_is_filled_in(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAT", f"{receiver.base}/chat")
    monkeypatch.setenv("OPS_TOKEN", "bearer-token")
    wanted = [
        NotificationTarget(url_env="CHAT", kind="chat"),
        NotificationTarget(url_env="CHAT", kind="chat", template="$event: $text ($$1)", when=("down",)),
        NotificationTarget(url=f"{receiver.base}/hook", token_env="OPS_TOKEN", template='{"a": ["$job", "$text"]}'),
    ]
    told = Notifier(wanted)
    told.observe(replace(CALM, down=True, reasons=('the job "words" \\ does not run',)))
    posts = receiver.wait(3)
    told.close()
    text = 'words is down: the job "words" \\ does not run'
    assert [each.body for each in posts] == [{"text": text}, {"text": f"down: {text} ($1)"}, {"a": ["words", text]}]
    assert [each.headers.get("Authorization") for each in posts] == [None, None, "Bearer bearer-token"]


def test_a_failure_is_tried_again_and_a_refusal_is_not(receiver: Receiver) -> None:
    said: list[str] = []
    receiver.answers = [503, 429, 204, 404]
    told = notifier(receiver, said.append)
    told.observe(MISSING)
    receiver.wait(3)
    told.observe(CALM)
    told.observe(MISSING)
    receiver.wait(5)
    told.close()
    assert len(receiver.posts) == 5  # three for the first, one each for those that are refused
    assert said == ["notifications to http://127.0.0.1: refused with status 404"]


def test_a_redirection_is_not_followed(receiver: Receiver) -> None:
    said: list[str] = []
    receiver.answers = [302]
    told = notifier(receiver, said.append)
    told.observe(MISSING)
    receiver.wait(1)
    told.close()
    assert [each.path for each in receiver.posts] == [f"/{SECRET}"]
    assert said == ["notifications to http://127.0.0.1: refused with status 302"]


def test_nobody_waits_for_a_server_that_is_silent_and_what_does_not_fit_is_said_once(receiver: Receiver) -> None:
    said: list[str] = []
    receiver.silent = True
    told = Notifier([NotificationTarget(url=receiver.base)], said.append, pauses=(), attempt_seconds=30.0)
    began = time.monotonic()
    for at in range(3 * notifications.MAX_QUEUED):
        told.observe(MISSING if at % 2 else CALM)
    told.close(0.1)
    assert time.monotonic() - began < PATIENCE / 2
    assert said == [f"notifications: dropping new events, as {notifications.MAX_QUEUED} are waiting already"]


def test_an_address_that_is_away_is_said_without_its_secret_and_again_when_it_is_back(receiver: Receiver) -> None:
    said: list[str] = []
    there, receiver.base = receiver.base, "http://127.0.0.1:1"
    told = notifier(receiver, said.append)
    told.observe(MISSING)
    until = time.monotonic() + PATIENCE
    while not said and time.monotonic() < until:
        time.sleep(0.01)
    for target in told._targets:
        target._address = check_address("url", there)
    told.observe(CALM)
    receiver.wait(1)
    told.close()
    assert said == [
        "notifications to http://127.0.0.1: not reached: ConnectionRefusedError",
        "notifications to http://127.0.0.1: working again",
    ]
    assert SECRET not in "".join(said)


# --- what is new ------------------------------------------------------------------------------------------------------

VIEWS = st.builds(
    LoopCondition,
    st.just("words"),
    st.booleans(),
    st.just(0.5),
    st.none() | st.fixed_dictionaries({"work": st.integers(1, 3)}),
    st.none() | st.floats(0.0, 9.0),
    st.integers(0, 5),
    st.sampled_from([True, False, None]),
    st.floats(0.0, 2000.0),
    st.just(""),
    st.booleans(),
    st.booleans(),
)


@given(st.lists(VIEWS, max_size=20))
@settings(max_examples=150)
def test_what_begins_is_over_before_it_begins_again(views: list[LoopCondition]) -> None:
    open_: dict[str, bool] = {}
    before: LoopCondition | None = None
    for each in views:
        now = carry_over(before, each)
        for told in find_events(before, now, 600.0):
            if told.kind != "rescale":
                assert told.over == open_.get(told.kind, False)
                open_[told.kind] = not told.over
        wrong = {"miss": now.met is False, "hold": now.held_seconds >= 600.0, "down": now.down or now.lost}
        assert all(open_.get(name, False) == value for name, value in wrong.items())
        assert list(find_events(now, now, 600.0)) == []
        before = now


# --- what a job file says ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ({}, "url: "),
        ({"url": "http://a/", "url_env": "A"}, "url: "),
        ({"url": f"ftp://host/{SECRET}"}, "url: "),
        ({"url": f"file:///{SECRET}"}, "url: "),
        ({"url": f"https:///{SECRET}"}, "url: "),
        ({"url": f"http://host:99999/{SECRET}"}, "url: "),
        ({"url": f"http://host/{SECRET}\r\nX: y"}, "url: "),
        ({"url": f"http://user:{SECRET}@host/"}, "url: "),
        ({"url": "http://a/", "template": '{"a": "$nothing"}'}, "template: "),
        ({"url": "http://a/", "template": "$text"}, "template: "),
        ({"url": "http://a/", "template": '{"a": "$"}'}, "template: "),
        ({"url": "http://a/", "when": []}, "when: "),
        ({"url": "http://a/", "when": ["noon"]}, "when.0: "),
        ({"url": "http://a/", "kind": "post"}, "kind: "),
        ({"url": "http://a/", "hold_seconds": 0}, "hold_seconds: "),
    ],
)
def test_what_cannot_be_told_is_refused_and_no_secret_shown(said: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError) as refused:
        validate(said, NotificationTarget, place="notify")
    assert problem in str(refused.value)
    assert SECRET not in str(refused.value)


def test_a_variable_that_is_not_set_is_named_before_the_loop_begins(tmp_path: Path) -> None:
    for given_, problem in (
        ({"url_env": "NOWHERE"}, "notify.url_env: names a variable that is not set"),
        ({"url": "http://127.0.0.1/", "token_env": "NOWHERE"}, "notify.token_env: names a variable that is not set"),
    ):
        with pytest.raises(InputError, match=problem):
            Notifier([NotificationTarget(**given_)])
    (tmp_path / "notify.yaml").write_text("notify:\n  - {kind: chat, url_env: CHAT}\n")
    assert read_notifications(tmp_path / "notify.yaml") == (NotificationTarget(url_env="CHAT", kind="chat"),)


def test_a_loop_tells_of_its_rescales_and_its_addresses_are_kept_nowhere(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = job_file(tmp_path, "told", notify=[{"url": f"{receiver.base}/{SECRET}", "when": ["rescale"]}])
    assert read_job_file(path).notify
    assert "notify" not in read_job_content(path)
    assert run("autoscale", path, "--for", "3600", "--format", "json") in (0, 3)
    out, err = capsys.readouterr()
    rescaled = [line for line in out.splitlines() if json.loads(line)["action"] == "rescaled"]
    assert len(receiver.posts) == len(rescaled) > 0
    assert receiver.posts[0].body["text"].startswith("told (simulated) rescaled: ")
    assert SECRET not in out + err
    (tmp_path / "notify.yaml").write_text(f"notify: [{{url: '{receiver.base}/other', when: [rescale]}}]\n")
    monkeypatch.setenv(environment_variables.NOTIFY, str(tmp_path / "notify.yaml"))
    receiver.posts.clear()
    assert run("autoscale", job_file(tmp_path, "told"), "--for", "3600", "--format", "json") in (0, 3)
    assert {each.path for each in receiver.posts} == {"/other"}
