"""Rescales of an adopted program that reads and writes Kafka topics, while records are sent.

A Kafka broker runs on loopback. A controller adopts `examples/gallery/clicks_by_page.py`, unchanged. Records are sent
in rounds; in each round the query gets another number of partitions while records arrive. At the end, the last count of
each page must be the number of sent clicks, and no count may be repeated. Then no record was lost or doubled.

    python -m benchmarks.faults.kafka_bench --rescales 12 --seed 0
    python -m benchmarks.faults.kafka_bench --rescales 6 --seed 0 --rescale overlap
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

from autotrascale.analyze.live.application import FollowedApplication
from autotrascale.analyze.partitions import measure_partitions
from autotrascale.execute.spark.common.program_environment import ProgramOptions
from autotrascale.execute.spark.controller.adopted_application import find_event_log_folder
from autotrascale.execute.spark.controller.agent_client import AgentClient
from autotrascale.execute.spark.controller.program_command import parse_command
from autotrascale.execute.spark.controller.program_process import ProgramProcess
from autotrascale.execute.spark.protocol.agent_messages import AdoptedQuery, RescaleQuery
from autotrascale.monitor.eventlog.follower import Follower
from autotrascale.plan.migration.rescale_mode import RescaleMode as How
from benchmarks.workloads.gallery import PROGRAMS
from benchmarks.workloads.kafka_broker import Broker, connector_jars

SOURCE, SINK, PAGES = "clicks", "counts", 40
_CONF = {
    "spark.sql.shuffle.partitions": "3",
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.driver.memory": "700m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
_TIMEOUT_SECONDS = 120.0


def measure(
    rescales: int, seed: int, folder: Path, records: int = 200, broker: Broker | None = None, how: How = "in-place"
) -> dict[str, Any]:
    """Run the benchmark with `records` sent in each round. Without a `broker`, one is started."""
    if broker is None:
        with broker_in(folder) as own:
            return measure(rescales, seed, folder, records, own, how)
    broker.create(SOURCE, 3)
    broker.create(SINK, 2)
    draw, sent, standstills, refused = random.Random(seed), Counter[str](), list[float](), list[str]()
    overlapped = 0
    with _start_program(broker, folder, how) as client:
        for number in range(rescales + 1):
            clicks = [f"page-{draw.randrange(PAGES)}" for _ in range(records)]
            sent.update(clicks)
            broker.send(SOURCE, clicks)
            query = _await_query(client)
            if number < rescales:
                partitions = draw.choice([each for each in (1, 2, 3, 5, 8) if each != query.partitions])
                moved = client.rescale(RescaleQuery(query.id, partitions))
                standstills.append(moved.standstill_seconds)
                refused += [moved.detail] if not moved.done else []
                overlapped += moved.done and moved.how.startswith("overlap: ")
        counts, seen = _read_counts(broker, sent), _count_partitions(client)
    last = {page: max(values) for page, values in counts.items()}
    return {
        "rescales": rescales,
        "overlapped": overlapped,
        "failed_and_went_back": len(refused),
        "why_failed": refused,
        "records": sum(sent.values()),
        "lost": sum(max(0, sent[page] - last.get(page, 0)) for page in sent),
        "doubled": sum(max(0, last.get(page, 0) - sent[page]) for page in sent),
        "counts_written_twice": sum(len(values) - len(set(values)) for values in counts.values()),
        "partitions_seen": seen,
        "standstill_seconds": {"median": round(statistics.median(standstills), 1), "most": round(max(standstills), 1)},
    }


@contextmanager
def broker_in(folder: Path) -> Iterator[Broker]:
    """Yield a running broker with its data in `folder`."""
    broker = Broker(folder / "kafka")
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


@contextmanager
def _start_program(broker: Broker, folder: Path, how: How) -> Iterator[AgentClient]:
    master = "local[4]" if how == "in-place" else "local[13]"  # slots for two queries
    words = [str(Path(sys.executable).with_name("spark-submit")), "--master", master, "--jars", connector_jars()]
    for name, value in _CONF.items():
        words += ["--conf", f"{name}={value}"]
    words += [str(PROGRAMS / "clicks_by_page.py"), broker.servers, SOURCE, SINK, str(folder / "checkpoint")]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYSPARK_PYTHON": sys.executable}
    program = ProgramProcess.start(
        parse_command(words), folder / "program", ProgramOptions(apply=True, rescale=how), environment=environment
    )
    try:
        with program.client(_TIMEOUT_SECONDS) as client:
            yield client
    finally:
        program.kill()


def _await_query(client: AgentClient) -> AdoptedQuery:
    until = time.monotonic() + _TIMEOUT_SECONDS
    while not (found := client.queries()):
        if time.monotonic() > until:
            raise TimeoutError("the program started no query")
        time.sleep(0.2)
    return found[0]


def _read_counts(broker: Broker, sent: Counter[str]) -> dict[str, list[int]]:
    """Return the written counts by page, once all sent records are counted or no more counts come."""
    until, before = time.monotonic() + _TIMEOUT_SECONDS, -1
    while True:
        written = broker.records(SINK)
        counts: dict[str, list[int]] = {}
        for line in broker.read(SINK, written):
            page, count = line.split(" ")
            counts.setdefault(page, []).append(int(count))
        whole = sum(max(values) for values in counts.values()) >= sum(sent.values())
        if (whole and written == before) or time.monotonic() > until:
            return counts
        before = written


def figures() -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="kafka-bench-") as folder:
        return measure(12, 0, Path(folder))


def _count_partitions(client: AgentClient) -> int:
    """Return the number of partitions of the topic, from the batches of the query."""
    about = client.application()
    application = FollowedApplication(Follower(find_event_log_folder(about), about.id, consume=False, latest=False))
    application.poll()
    sources = [source for run in application.runs.values() for source in measure_partitions(run.batches)]
    return max((len(source.partitions) for source in sources), default=0)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rescales", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rescale", choices=get_args(How), default="in-place")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="kafka-bench-") as folder:
        print(json.dumps(measure(chosen.rescales, chosen.seed, Path(folder), how=chosen.rescale), indent=2))


if __name__ == "__main__":
    main()
