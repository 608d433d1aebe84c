"""Hostile requests from a random seed, for every route and with many kinds of damage."""

from __future__ import annotations

import json
import random
import socket
import string
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from autotrascale.web.api.schemas import EXAMPLE_SNAPSHOT

NOBODY = "0" * 32  # a run that there is none of
JSON = {"Content-Type": "application/json"}
# In the place of any value. None of them is one that the server may choke on.
HOSTILE: list[Any] = [
    None,
    True,
    "",
    "3",
    "3e5",
    "\x00",
    "x" * 5000,
    "\ud800",
    "'; DROP TABLE runs; --",
    "../../etc/passwd",
    "{{7*7}}",
    -1,
    0,
    1.5,
    5e-324,
    1e-300,
    1e308,
    -1e308,
    float("nan"),
    float("inf"),
    10**19,
    10**400,
    [],
    {},
    [[]],
    [0] * 1000,
    {"": None},
    {"a": {"a": {"a": {}}}},
    ["x"] * 300,
]
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"]


@dataclass(frozen=True)
class Attack:
    method: str
    path: str
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """`status` 0: the server closed the connection without an answer."""

    status: int
    text: str


def send(base: str, attack: Attack, seconds: float) -> Answer:
    """Send raw bytes over a connection of its own, because a proper client refuses to send some requests."""
    where = urlsplit(base)
    headers = {"Host": where.netloc, "Content-Length": str(len(attack.body)), "Connection": "close", **attack.headers}
    lines = [
        f"{attack.method} {attack.path} HTTP/1.1",
        *(f"{name}: {value}" for name, value in headers.items()),
        "",
        "",
    ]
    got = b""
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=seconds) as client:
        with suppress(ConnectionResetError, BrokenPipeError):  # it may be answered before it is all there
            client.sendall("\r\n".join(lines).encode("latin-1") + attack.body)
        with suppress(ConnectionResetError):
            while more := client.recv(65536):
                got += more
    while got.startswith(b"HTTP/1.1 1"):  # it was told to go on
        got = got.partition(b"\r\n\r\n")[2]
    head, _, text = got.partition(b"\r\n\r\n")
    return Answer(int(head.split(b" ", 2)[1]) if head else 0, text.decode("utf-8", "replace"))


def requests(seed: int, count: int, job: str) -> Iterator[Attack]:
    """Yield requests. Some are nearly valid, with the existing job `job`."""
    rng = random.Random(seed)
    makers = [_spoilt, _spoilt, _spoilt, _shapes, _shapes, _paths, _queries, _headers]
    for _ in range(count):
        yield rng.choice(makers)(rng, job)


def _bodies(job: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("/v1/decide", {"snapshot": EXAMPLE_SNAPSHOT, "policy": "ds2", "latency_target": 0.2, "statistic": "p95"}),
        ("/v1/decide", {"snapshot": EXAMPLE_SNAPSHOT, "policy": "autrascale"}),
        (
            "/v1/decide",
            {"snapshot": {**EXAMPLE_SNAPSHOT, "execution": "micro-batch"}, "policy": "drs", "latency_target": 1.0},
        ),
        ("/v1/decide", {"snapshot": EXAMPLE_SNAPSHOT, "policy": "queueing", "latency_target": 0.5}),
        ("/v1/runs", {"job": f"{job}-of-nobody", "rate": 1000.0, "seed": 1, "total_trials": 3, "max_seconds": 5.0}),
        (f"/v1/runs/{NOBODY}/resume", {"total_trials": 30, "max_seconds": 60.0}),
        (f"/v1/models/{job}/1/predict", {"parallelism": [[1, 2], [3, 4]]}),
        (f"/v1/models/{job}/1/deprecate", {"why": "a bad one", "undo": False}),
        (f"/v1/loops/{job}/pin", {"parallelism": {"flatmap": 8}}),
    ]


def _spoilt(rng: random.Random, job: str) -> Attack:
    """Return a valid body with one to three changes."""
    path, body = rng.choice(_bodies(job))
    changed = json.loads(json.dumps(body))
    for _ in range(rng.randint(1, 3)):
        place = rng.choice(list(_places(changed)))
        match rng.randrange(4):
            case 0:
                _put(changed, place, rng.choice(HOSTILE))
            case 1:
                _drop(changed, place)
            case 2:
                _put(changed, [*place[:-1], rng.choice(["", "a", "__proto__", "job ", "p_max"])], rng.choice(HOSTILE))
            case _:
                _put(changed, place, rng.choice([-1, 1]) * 10 ** rng.uniform(-30, 30))
    text = json.dumps(changed)
    if rng.random() < 0.2:
        text = text.replace("{", '{"policy": 1, "policy": 2, ', 1)
    return Attack("POST", path, text.encode("utf-8", "surrogatepass"), JSON)


def _shapes(rng: random.Random, job: str) -> Attack:
    """Return a body that is huge, deep, cut off, or not JSON."""
    path, body = rng.choice(_bodies(job))
    whole = json.dumps(body).encode()
    content = [
        lambda: whole[: rng.randrange(len(whole))],
        lambda: rng.randbytes(rng.randrange(1, 2000)),
        lambda: b"[" * rng.randrange(100, 200_000),
        lambda: b'{"snapshot":' * rng.randrange(50, 50_000),
        lambda: json.dumps({f"key{i}": i for i in range(rng.randrange(60, 20_000))}).encode(),
        lambda: json.dumps({"parallelism": [["x"] * 100] * rng.randrange(1, 400)}).encode(),
        lambda: json.dumps({"parallelism": [[1] * 1000] * rng.randrange(1, 320)}).encode(),
        lambda: json.dumps(
            {"snapshot": {**EXAMPLE_SNAPSHOT, "operators": _operators(rng.randrange(1, 4000))}}
        ).encode(),
        lambda: b'{"snapshot": {"job": "' + b"x" * rng.randrange(1000, 1_200_000) + b'"}}',
        lambda: b"1" * rng.randrange(1000, 900_000),
        lambda: whole + b"\x00" * rng.randrange(1, 1000),
        lambda: b"\xff\xfe" + whole,
    ]
    return Attack("POST", path, rng.choice(content)(), JSON)


def _operators(count: int) -> dict[str, Any]:
    names = [f"o{i}" for i in range(count)]
    return {
        name: {"upstream": names[max(0, i - 1) : i], "parallelism": 1, "records_in": 10, "useful_seconds": 1}
        for i, name in enumerate(names)
    }


def _paths(rng: random.Random, job: str) -> Attack:
    piece = [
        "..",
        "%00",
        "%2e%2e%2f",
        quote("ß☃\U0001f600"),
        "a" * 8000,
        NOBODY,
        "f" * 32,
        "1",
        "0",
        "-1",
        "9" * 30,
        "1.0",
        job,
        "*",
        ";",
        "%",
        "%zz",
        "//",
        "latest",
        "'",
        '"',
        "<script>",
    ]
    listed = ["/v1/runs/", "/v1/models/", "/v1/loops/", "/v1/sizes/", "/v1/jobs/"]
    roots = [*listed, "/", "/healthz/", "/metrics/", f"/v1/models/{job}/"]
    path = rng.choice(roots) + "/".join(quote(rng.choice(piece), safe="%*;'/") for _ in range(rng.randint(0, 4)))
    return Attack(rng.choice(_METHODS), path.replace(f"{NOBODY}/events", NOBODY))


def _queries(rng: random.Random, job: str) -> Attack:
    names = ["limit", "cursor", "job", "status", "after", "x"]
    values = [
        "",
        "0",
        "-1",
        "1e9",
        "9" * 40,
        "NaN",
        "finished",
        job,
        "%00",
        "a" * 4000,
        "MTox",
        "'",
        quote("ß☃"),
        "1,2",
    ]
    asked = "&".join(f"{rng.choice(names)}={rng.choice(values)}" for _ in range(rng.randint(1, 6)))
    listed = ["/v1/runs", "/v1/jobs", "/v1/models", "/v1/loops", "/v1/sizes", "/metrics", "/healthz"]
    return Attack("GET", f"{rng.choice(listed)}?{asked}")


def _headers(rng: random.Random, job: str) -> Attack:
    path, body = rng.choice(_bodies(job))
    kinds = [
        "text/plain",
        "application/xml",
        "application/json; charset=utf-16",
        "multipart/form-data; boundary=x",
        "application/x-www-form-urlencoded",
        "application/vnd.x+json",
        "json",
        "a" * 3000,
    ]
    name = "".join(rng.choices(string.ascii_letters, k=12))
    some = [
        {"Content-Type": rng.choice(kinds)},
        {**JSON, "Idempotency-Key": rng.choice(["", "k" * 300, "\t", "ok"])},
        {**JSON, "Content-Encoding": rng.choice(["gzip", "br", "zstd"])},
        {**JSON, "Origin": "http://elsewhere.example"},
        {**JSON, "Host": rng.choice(["elsewhere.example", "127.0.0.1:0", ""])},
        {**JSON, "Authorization": "Bearer " + "x" * rng.randrange(0, 2000)},
        {**JSON, "Transfer-Encoding": "identity"},
        {**JSON, "Expect": "100-continue"},
        {**JSON, "Upgrade": "websocket", "Connection": "Upgrade, close"},
        {**JSON, f"X-{name}": "y" * rng.randrange(0, 10_000)},
    ]
    return Attack(rng.choice(["POST", "POST", "PUT"]), path, json.dumps(body).encode(), rng.choice(some))


def _places(value: Any, path: list[Any] | None = None) -> Iterator[list[Any]]:
    """Return all values within a value."""
    path = path or []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = False
    for name, each in inner:
        found = True
        yield [*path, name]
        yield from list(_places(each, [*path, name]))
    if not found and not path:
        yield ["a"]


def _put(value: Any, path: list[Any], new: Any) -> None:
    *outer, last = path
    for name in outer:
        value = value[name] if (isinstance(value, dict) and name in value) or isinstance(value, list) else {}
    if isinstance(value, dict) or (isinstance(value, list) and isinstance(last, int) and last < len(value)):
        value[last] = new


def _drop(value: Any, path: list[Any]) -> None:
    *outer, last = path
    for name in outer:
        value = value[name] if (isinstance(value, dict) and name in value) or isinstance(value, list) else {}
    if isinstance(value, dict):
        value.pop(last, None)
    elif isinstance(value, list) and isinstance(last, int) and last < len(value):
        del value[last]
