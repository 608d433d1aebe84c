"""Attacks on a server, on the readers of event logs and on the command line, with the results as figures.

Service: 8 clients send `requests` random requests as raw bytes. At the same time `idle` connections send nothing, half
a request head, half a body and then a byte per second, or requests whose answers they do not read. Connections that
the server closes come again, 200 per second. All clients use the loopback, so that they have one address. A process of
its own asks `/healthz` fifty times per second, every other time over a new connection, and times each answer. Other
processes on the machine affect these times: `load_before` and `load_after` show the load.

Event logs: a process of its own reads each hostile log, once as an archive and once as a growing log. The result is the
largest resident memory of the process.

Bad input: the number of cases in tests/bad_input by file. The tests check that each case gives one clear line.

    python -m benchmarks.faults.attack_bench --requests 2000 --idle 3000 --seed 1
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import select
import socket
import tempfile
import time
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import islice
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from benchmarks.speed.service_bench import ready_seconds
from tests.knowledge import mlflow_stores
from tests.monitor import hostile_logs
from tests.web.api import attacks
from tests.web.api.attacks import Attack
from tests.web.api.servers import Server, server

REQUESTS, IDLE, SEED = 2000, 3000, 1
SIZE = 10  # times the size of the logs in the tests
CLIENTS = 8
NEW_PER_SECOND, STEPS = 200, 20  # connections per second, and steps per second
PATIENCE = 60.0
HEALTH_PAUSE = 0.02
LIMITS = {"healthz_p99_ms": 200.0, "server_errors": 0, "log_reading_mb": 1024.0, "bad_inputs": 250}


def figures(requests: int = REQUESTS, idle: int = IDLE, seed: int = SEED, size: int = SIZE) -> dict[str, object]:
    return {
        "limits": LIMITS,
        "service": service(requests, idle, seed),
        "event_logs": event_logs(size),
        "bad_inputs": bad_inputs(),
    }


# --- the service ---------------------------------------------------------------------------------------------------


def service(requests: int, idle: int, seed: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "configs").mkdir()
        mlflow_stores.job_file(folder / "configs", "small")
        with server(folder, folder / "configs", "--queue-limit", "10000") as running:
            base = str(running.start().base_url).rstrip("/")
            _prepare(base)
            quiet = _time_health(base, lambda: time.sleep(5.0))
            told: dict[str, Any] = {}
            before, began, ready = os.getloadavg()[0], time.monotonic(), ready_seconds(running)
            attacked = _time_health(base, lambda: told.update(_attack(base, requests, idle, seed)))
            took, ready = time.monotonic() - began, ready_seconds(running) - ready
            running.alive()
            return {
                "seed": seed,
                **told,
                "seconds": round(took, 1),
                "load_before": before,
                "load_after": os.getloadavg()[0],
                "loop_ready_but_not_run_share": round(ready / took, 3),
                "server_resident_mb": _resident(running),
                "log_bytes": running.log.stat().st_size,
                "healthz_quiet": quiet,
                "healthz_attacked": attacked,
            }


def _prepare(base: str) -> None:
    """Make a finished run with a model, which some requests need."""
    with httpx.Client(base_url=base, timeout=PATIENCE) as client:
        run_id = client.post("/v1/runs", json={"job": "small"}).json()["run_id"]
        until = time.monotonic() + PATIENCE
        while client.get(f"/v1/runs/{run_id}").json()["state"] != "finished":
            assert time.monotonic() < until
            time.sleep(0.1)


def _attack(base: str, requests: int, idle: int, seed: int) -> dict[str, object]:
    counts: Counter[str] = Counter()
    with ExitStack() as stack:
        crowd = stack.enter_context(ThreadPoolExecutor(CLIENTS))
        ended = multiprocessing.Event()
        slow = multiprocessing.Process(target=_slow_clients, args=(base, idle, ended), daemon=True)
        slow.start()
        time.sleep(idle / NEW_PER_SECOND)  # until all are connected
        stack.callback(slow.join)
        stack.callback(ended.set)

        def ask(attack: Attack) -> int:
            return attacks.send(base, attack, PATIENCE).status

        assert slow.is_alive()
        for status in crowd.map(ask, attacks.requests(seed, requests, "small")):
            counts[f"{status // 100}xx" if status else "let go"] += 1
        assert slow.is_alive()
    return {
        "requests": requests,
        "slow_connections": idle,
        "answers": dict(sorted(counts.items())),
        "server_errors": counts["5xx"],
    }


def _slow_clients(base: str, count: int, ended: Event) -> None:
    """Keep `count` slow connections open until `ended` is set."""
    where = urlsplit(base)
    host = f"Host: {where.netloc}\r\n".encode()
    head = b"POST /v1/decide HTTP/1.1\r\n" + host + b"Content-Type: application/json\r\n"
    body = head + b'Content-Length: 900000\r\n\r\n{"snapshot": {'
    begun = [b"", b"G", head, body, b"GET /openapi.json HTTP/1.1\r\n" + host + b"\r\n"]
    connected: deque[socket.socket] = deque()
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    while not ended.wait(1.0 / STEPS):
        fresh = [_connect(where.hostname or "", where.port or 0) for _ in range(NEW_PER_SECOND // STEPS)]
        for number, client in enumerate(fresh):
            _wait_until_connected(client)
            with suppress(OSError):
                client.send(begun[number % len(begun)])
        for client in islice(connected, 0, None, 5 * STEPS):
            with suppress(OSError):
                client.send(b"x")  # byte by byte
        connected.extend(fresh)
        while len(connected) > count:
            connected.popleft().close()
    for client in connected:
        client.close()


def _wait_until_connected(client: socket.socket) -> None:
    ready = select.poll()  # select() works with at most 1,024 files
    ready.register(client, select.POLLOUT)
    ready.poll(1000)


def _connect(host: str, port: int) -> socket.socket:
    client = socket.socket()
    client.setblocking(False)
    client.connect_ex((host, port))
    return client


# --- health during an attack ---------------------------------------------------------------------------------------


def _time_health(base: str, action: Any) -> dict[str, object]:
    """Return the answer times of `/healthz` during `action`, measured by another process."""
    pipe, other_end = multiprocessing.Pipe()
    watcher = multiprocessing.Process(target=_watch, args=(base, other_end), daemon=True)
    watcher.start()
    assert pipe.recv() == "ready"
    action()
    pipe.send("enough")
    took, wrong = pipe.recv()
    watcher.join()
    ordered = sorted(took)
    return {
        "asked": len(ordered),
        "not_200": wrong,
        "p50_ms": round(ordered[len(ordered) // 2] * 1000, 1),
        "p99_ms": round(ordered[int(len(ordered) * 0.99)] * 1000, 1),
        "longest_ms": round(ordered[-1] * 1000, 1),
    }


def _watch(base: str, pipe: Connection) -> None:
    took: list[float] = []
    wrong = 0
    with httpx.Client(base_url=base, timeout=PATIENCE) as kept:
        kept.get("/healthz")
        pipe.send("ready")
        while not pipe.poll():
            began = time.perf_counter()
            try:
                if len(took) % 2:
                    status = kept.get("/healthz").status_code
                else:
                    status = attacks.send(base, Attack("GET", "/healthz"), PATIENCE).status
            except httpx.TransportError:
                status = 0  # the server closed this idle connection for a new client
            took.append(time.perf_counter() - began)
            wrong += status != 200
            time.sleep(HEALTH_PAUSE)
    pipe.send((took, wrong))


def _resident(running: Server) -> int:
    status = Path(f"/proc/{running.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) // 1024


# --- event logs ----------------------------------------------------------------------------------------------------


def event_logs(size: int) -> dict[str, object]:
    """Return size on disk and largest memory for each hostile log, as an archive and as a growing log."""
    results: dict[str, object] = {}
    most = 0
    for name, make in hostile_logs.ZOO.items():
        with tempfile.TemporaryDirectory() as folder:
            archive = Path(folder, "archive")
            archive.mkdir()
            compressed = hostile_logs.write_compressed(make(size), archive / "app.zstd")
            read = hostile_logs.measured("archive", archive)
        with tempfile.TemporaryDirectory() as folder:
            plain = hostile_logs.write_plain(make(size), Path(folder))
            followed = hostile_logs.measured("live", Path(folder))
        most = max(most, int(str(read["most_resident_mb"])), int(str(followed["most_resident_mb"])))
        results[name] = {
            "zstd_bytes": compressed,
            "text_mb": plain // 2**20,
            "archive_mb": read["most_resident_mb"],
            "live_mb": followed["most_resident_mb"],
            "said": [_without_path(each) for each in read["said"]],  # type: ignore[attr-defined]
        }
    return {"size": size, "most_mb": most, **results}


def _without_path(problem: str) -> str:
    return problem.rpartition("app.zstd: ")[2]


# --- bad input -----------------------------------------------------------------------------------------------------


def bad_inputs() -> dict[str, int]:
    folder = Path(__file__).parents[2] / "tests" / "bad_input"
    counts = {path.stem: len(json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))}
    return {**counts, "all": sum(counts.values())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=REQUESTS, metavar="N")
    parser.add_argument("--idle", type=int, default=IDLE, metavar="N")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--size", type=int, default=SIZE, metavar="N", help="of the event logs")
    asked = parser.parse_args()
    print(json.dumps(figures(asked.requests, asked.idle, asked.seed, asked.size), indent=2))


if __name__ == "__main__":
    main()
