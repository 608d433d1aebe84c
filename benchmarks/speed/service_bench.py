"""Answer times and memory of the HTTP service with 1,000 stored runs: for one client, and for 70 clients for a minute.

MLflow's client writes the runs to a temporary store, without their evaluations, which lists and single runs do not
read. A server on loopback answers 50 clients that poll and 20 clients that submit simulated runs; it executes one run
at a time. Each client pauses between its requests. Each time is also given as a ratio to a request for an unknown path,
which needs no work.

    python -m benchmarks.speed.service_bench --seconds 60
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil

from autotrascale.knowledge import run_history, tags
from autotrascale.knowledge.mlflow_store import MlflowStore
from tests.knowledge import mlflow_stores
from tests.web.api.servers import Server, server

RUNS = 1000
POLLERS, SUBMITTERS = 50, 20
POLL_SECONDS, SUBMIT_SECONDS = 1.0, 4.0  # between the requests of one client
SECONDS = 60.0
ALONE = 50  # requests of one client
LIMITS = {"list_and_show_ms": 200.0, "p99_ms": 500.0, "resident_mb": 500.0}
NOTHING = "/v1/nothing"


def figures(seconds: float = SECONDS) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "configs").mkdir()
        for i in range(4):
            mlflow_stores.job_file(folder / "configs", f"bench-{i}")
        store = MlflowStore(f"sqlite:///{folder / 'mlflow.db'}")
        ids = fill(store, RUNS)
        with server(folder, folder / "configs", "--queue-limit", "5000") as running:
            client = running.start()
            alone = {**_alone(client, ids), **_in_process(store, ids)}
            with_clients = asyncio.run(_crowd(str(client.base_url), ids, seconds, running))
        return {"stored_runs": RUNS, "limits": LIMITS, "alone": alone, "with_70_clients": with_clients}


def fill(store: MlflowStore, count: int) -> list[str]:
    """Write finished runs of ten jobs, and return their ids."""
    now = int(time.time() * 1000)
    from mlflow.entities import Metric, RunTag

    ids = []
    for i in range(count):
        job, began = f"stored-{i % 10}", now - (count - i) * 60_000
        run_tags = {
            tags.KIND: tags.TUNING,
            tags.JOB: job,
            tags.ENGINE: "simulator",
            tags.SIMULATED: "true",
            tags.RATE: "1000.0",
            tags.LATENCY_TARGET: "0.1",
            tags.OWNER: "{}",
            tags.STOP_REASON: "target-met",
            tags.MET_TARGET: "true",
            tags.PARALLELISM: "(1,2,3)",
        }
        run = store.client.create_run(store.experiment(job), start_time=began, run_name=f"{job} {i}")
        values = [Metric(name, value, began, 0) for name, value in (("evaluations", 7.0), ("latency_seconds", 0.09))]
        store.client.log_batch(run.info.run_id, values, tags=[RunTag(k, v) for k, v in run_tags.items()])
        store.client.set_terminated(run.info.run_id, "FINISHED", began + 30_000)
        ids.append(run.info.run_id)
    return ids


def _alone(client: httpx.Client, ids: list[str]) -> dict[str, object]:
    def get(path: str) -> float:
        began = time.perf_counter()
        response = client.get(path)
        assert response.status_code in (200, 404), response.text
        return time.perf_counter() - began

    took = {
        "nothing": [get(NOTHING) for _ in range(ALONE)],
        "list": [get("/v1/runs?limit=100") for _ in range(ALONE)],
        "show": [get(f"/v1/runs/{ids[i * 7 % len(ids)]}") for i in range(ALONE)],
    }
    return {f"http_{name}": _spread(values, took["nothing"]) for name, values in took.items()}


def _in_process(store: MlflowStore, ids: list[str]) -> dict[str, object]:
    """Time the functions that the command line uses, without imports and caches of the first call."""

    def measure(action: Callable[[], object]) -> list[float]:
        action()
        took = []
        for _ in range(10):
            began = time.perf_counter()
            action()
            took.append(time.perf_counter() - began)
        return took

    def show() -> object:
        return run_history.summarise_run(store, run_history.find_run(store, ids[17]))

    return {
        "function_list": _spread(measure(lambda: run_history.list_runs(store, limit=20))),
        "function_show": _spread(
            measure(lambda: run_history.summarise_run(store, run_history.find_run(store, ids[17])))
        ),
    }


async def _crowd(base: str, ids: list[str], seconds: float, running: Server) -> dict[str, object]:
    took: dict[str, list[float]] = defaultdict(list)
    statuses: Counter[str] = Counter()
    memory: list[tuple[float, float]] = []
    until = time.monotonic() + seconds
    used, waited = _cpu_seconds(running), ready_seconds(running)
    limits = httpx.Limits(max_connections=POLLERS + SUBMITTERS + 5, max_keepalive_connections=POLLERS + SUBMITTERS)
    async with httpx.AsyncClient(base_url=base, timeout=60.0, limits=limits) as client:

        async def ask(name: str, method: str, path: str, **given: Any) -> Any:
            began = time.perf_counter()
            response = await client.request(method, path, **given)
            took[name].append(time.perf_counter() - began)
            statuses[f"{name} {response.status_code}"] += 1
            return response.json()

        async def poll(number: int) -> None:
            await asyncio.sleep(number / POLLERS * POLL_SECONDS)
            step = number
            while time.monotonic() < until:
                match step % 4:
                    case 0:
                        await ask("list", "GET", "/v1/runs?limit=20")
                    case 1:
                        await ask("show", "GET", f"/v1/runs/{ids[step * 7 % len(ids)]}")
                    case 2:
                        await ask("list", "GET", f"/v1/runs?job=stored-{number % 10}&status=finished")
                    case _:
                        await ask("nothing", "GET", NOTHING)
                step += 1
                await asyncio.sleep(POLL_SECONDS)

        async def submit(number: int) -> None:
            await asyncio.sleep(number / SUBMITTERS * SUBMIT_SECONDS)
            mine = 0
            while time.monotonic() < until:
                body = {"job": f"bench-{number % 4}", "seed": number, "total_trials": 5}
                key = {"Idempotency-Key": f"{number}-{mine}"}
                run = await ask("submit", "POST", "/v1/runs", json=body, headers=key)
                await ask("show", "GET", f"/v1/runs/{run['run_id']}")
                mine += 1
                await asyncio.sleep(SUBMIT_SECONDS)

        async def watch() -> None:
            while time.monotonic() < until:
                memory.append(await asyncio.to_thread(_resident, running))
                await asyncio.sleep(1.0)

        await asyncio.gather(watch(), *(poll(i) for i in range(POLLERS)), *(submit(i) for i in range(SUBMITTERS)))
    wrong = {what: count for what, count in statuses.items() if what.split()[1] not in ("200", "202", "404")}
    return {
        "seconds": seconds,
        "requests": sum(statuses.values()),
        "errors": wrong,
        "server_cpu_share": round((_cpu_seconds(running) - used) / seconds, 3),
        "server_loop_ready_but_not_run_share": round((ready_seconds(running) - waited) / seconds, 3),
        **{name: _spread(values, took["nothing"]) for name, values in sorted(took.items())},
        "server_resident_mb": round(max(own for own, _ in memory)),
        "workers_resident_mb": round(max(workers for _, workers in memory)),
    }


def _resident(running: Server) -> tuple[float, float]:
    workers = 0.0
    for each in running.workers():
        try:
            workers += each.memory_info().rss
        except psutil.Error:
            continue
    return psutil.Process(running.pid).memory_info().rss / 2**20, workers / 2**20


def _cpu_seconds(running: Server) -> float:
    times = psutil.Process(running.pid).cpu_times()
    return times.user + times.system


def ready_seconds(running: Server) -> float:
    """Return the time in which the server's event loop was ready to run and waited for a core."""
    ready_ns = Path(f"/proc/{running.pid}/schedstat").read_text().split()[1]
    return int(ready_ns) / 1e9


def _spread(seconds: list[float], trivial: list[float] | None = None) -> dict[str, float]:
    def of(values: list[float]) -> tuple[float, float]:
        ordered = sorted(values)
        return statistics.median(ordered) * 1000, ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * 1000

    p50, p99 = of(seconds)
    spread = {"count": len(seconds), "p50_ms": round(p50, 1), "p99_ms": round(p99, 1)}
    if trivial is None:
        return spread
    least50, least99 = of(trivial)
    return {**spread, "p50_to_nothing": round(p50 / least50, 2), "p99_to_nothing": round(p99 / least99, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=SECONDS, metavar="S")
    print(json.dumps(figures(parser.parse_args().seconds), indent=2))


if __name__ == "__main__":
    main()
