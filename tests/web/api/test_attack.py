"""A server keeps answering under attack: silent, slow and half-sent requests, many connections, hostile bodies.

A small, seeded part of `benchmarks/faults/attack_bench.py`, against the application in this process.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.web.api.connections import ConnectionLimits
from autotrascale.web.api.job_catalog import JobCatalog
from autotrascale.web.api.server_state import ServerState
from autotrascale.web.app import create_app
from tests.web.api import attacks
from tests.web.api.clients import serving

LIMITS = ConnectionLimits(head_seconds=0.5, body_seconds=0.8, unread_seconds=0.8, max_connections=60)
HEAD = b"POST /v1/decide HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 500\r\n"
PATIENCE = 20.0


@pytest.fixture(scope="module")
def base(store: MlflowStore, configs: Path) -> Iterator[str]:
    with serving(create_app(ServerState.of(store, JobCatalog(configs), "attacked", parallel_runs=0)), LIMITS) as base:
        yield base


def connection(base: str) -> socket.socket:
    where = urlsplit(base)
    return socket.create_connection((where.hostname or "", where.port or 0), timeout=PATIENCE)


def received(client: socket.socket) -> bytes:
    """Return all bytes until the server closes the connection."""
    got = b""
    with suppress(ConnectionResetError):
        while more := client.recv(65536):
            got += more
    return got


def answered(client: socket.socket) -> bytes:
    """Return one answer and leave the connection open."""
    got = b""
    while not got.endswith(b"}"):
        got += client.recv(65536)
    return got


@pytest.mark.parametrize(
    "sent",
    [b"", b"G", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n", HEAD, HEAD + b"\r\n", HEAD + b'\r\n{"snapshot"'],
    ids=["nothing", "a letter", "half a head", "half a head of a body", "no body", "half a body"],
)
def test_a_half_sent_request_is_disconnected(base: str, sent: bytes) -> None:
    with connection(base) as client:
        client.sendall(sent)
        began = time.monotonic()
        answer = received(client)
    assert time.monotonic() - began < PATIENCE
    assert answer.startswith(b"HTTP/1.1 408 ")


def test_single_bytes_do_not_extend_the_deadline(base: str) -> None:
    with connection(base) as client:
        with pytest.raises(OSError):  # noqa: PT012 - whichever of them finds the connection closed
            for byte in HEAD * 3:
                client.sendall(bytes([byte]))
                time.sleep(0.02)
            raise AssertionError("it goes on for ever")
        assert client.fileno() >= 0


def test_two_requests_on_one_connection_may_have_a_pause_between_them(base: str) -> None:
    with connection(base) as client:
        for _ in range(2):
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert answered(client).startswith(b"HTTP/1.1 200 ")
            time.sleep(LIMITS.head_seconds * 1.5)  # idle for longer than a head may take
        client.sendall(b"GET /heal")
        assert received(client).startswith(b"HTTP/1.1 408 ")


def test_idle_connections_are_dropped_for_new_requests(base: str) -> None:
    with ExitStack() as stack:
        for _ in range(5 * LIMITS.max_connections):
            stack.enter_context(connection(base))
            if _ % 20 == 0:
                with httpx.Client(base_url=base, timeout=PATIENCE) as client:
                    assert client.get("/healthz").status_code == 200


def test_an_unread_answer_is_given_up(base: str) -> None:
    """Requests are sent without reading answers, until the buffers of both sides are full."""
    ask = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with connection(base) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        began = time.monotonic()
        with pytest.raises(OSError):  # noqa: PT012
            while time.monotonic() - began < PATIENCE:
                client.sendall(ask * 50)
                time.sleep(0.01)
            raise AssertionError("it is answered for ever")


def test_random_requests_cause_no_server_error(base: str) -> None:
    for attack in attacks.requests(seed=11, count=200, job="small"):
        answer = attacks.send(base, attack, PATIENCE)
        assert 100 <= answer.status < 500, (attack, answer)
        assert "Traceback" not in answer.text
        if answer.status >= 400:
            assert len(answer.text) < 20_000
    assert httpx.get(f"{base}/healthz", timeout=PATIENCE).json()["status"] == "ok"


BAD = json.loads((Path(__file__).parents[2] / "bad_input" / "requests.json").read_text())


@pytest.mark.parametrize("case", BAD, ids=lambda case: case["name"])
def test_a_bad_request_is_answered_in_one_line(base: str, case: dict[str, str]) -> None:
    with httpx.Client(base_url=base, timeout=PATIENCE) as client:
        body = case["body"] if isinstance(case.get("body"), str) else json.dumps(case.get("body"))
        told = {"Content-Type": "application/json", **case.get("headers", {})}  # type: ignore[dict-item]
        answer = client.request(case.get("method", "POST"), case["path"], content=body, headers=told)
    assert answer.status_code == case.get("status", 422), answer.text
    detail = answer.json()["detail"]
    assert case["says"] in detail
    assert "\n" not in detail
