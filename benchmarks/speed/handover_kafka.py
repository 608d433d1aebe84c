"""Blue-green rescales of a job that reads a Kafka topic while records are sent.

A Kafka broker runs on loopback. At the end, the last count of each page must be the number of sent records, and the
sink must have seen batch numbers without a gap or a repetition. With `--to topic` the sink is another topic, written by
Spark's Kafka sink; no count may be repeated there.

    python -m benchmarks.speed.handover_kafka --rescales 4
    python -m benchmarks.speed.handover_kafka --rescales 4 --to topic
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from autotrascale.domain.topology import Operator, Topology
from autotrascale.execute.spark.common.source_settings import KafkaTopic, SourceSettings
from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.execute.spark.controller.live_own_job import LiveOwnJob
from autotrascale.execute.spark.jobs.flow import Flow, Query
from autotrascale.execute.spark.jobs.load_file import Ints
from benchmarks.faults.kafka_bench import broker_in
from benchmarks.faults.kills.archive import JAVA
from benchmarks.workloads.kafka_broker import Broker

TOPIC, COUNTS, PAGES, SOME = "clicks", "counts", 40, 50
_OUTPUT_SECONDS = 60.0  # until all sent records must be counted


@dataclass(frozen=True)
class Pages:
    """A job that counts clicks by page. It writes a file for each batch number, or records to the broker `servers`."""

    results: str = ""
    servers: str = ""

    name: ClassVar[str] = "pages"
    topology: ClassVar[Topology] = Topology({"source": Operator(), "count": Operator(("source",), stateful=True)})

    def build(self, flow: Flow) -> Query:
        def make(numbers: Ints) -> list[list[str]]:
            return [make_pages(numbers.tolist())]

        rows = flow.load("source", "page string", make)
        counts = flow.operator("count", rows, do=lambda df: df.groupBy("page").count(), by=["page"])
        if self.servers:
            values = counts.select(fn.to_json(fn.array("page", fn.col("count").cast("string"))).alias("value"))
            writer = values.writeStream.outputMode("update").format("kafka").option("topic", COUNTS)
            return writer.option("kafka.bootstrap.servers", self.servers)
        folder = Path(self.results)

        def write(batch: DataFrame, number: int) -> None:
            with (folder / f"{number}.json").open("x") as file:  # raises for a repeated number
                json.dump([list(row) for row in batch.collect()], file)

        return counts.writeStream.outputMode("update").foreachBatch(write)


def make_pages(numbers: list[int]) -> list[str]:
    return [f"page-{number % PAGES}" for number in numbers]


def measure(rescales: int, folder: Path, *, to_topic: bool = False) -> dict[str, Any]:
    (results := folder / "results").mkdir()
    with broker_in(folder) as broker:
        broker.create(TOPIC, 3)
        broker.create(COUNTS, 1)
        found = partial(read_topic_counts, broker) if to_topic else partial(read_file_counts, results)
        sent, over = Counter[str](), threading.Event()

        def feed() -> None:
            while not over.is_set():
                clicks = make_pages(list(range(sent.total(), sent.total() + SOME)))
                broker.send(TOPIC, clicks)
                sent.update(clicks)

        settings = SparkSettings(
            job="benchmarks.speed.handover_kafka:Pages",
            options={"servers": broker.servers} if to_topic else {"results": str(results)},
            python_path=(str(Path(__file__).parents[2]),),
            master="local[8]",
            conf={"spark.driver.extraJavaOptions": JAVA},
            sources={"source": SourceSettings(KafkaTopic(broker.servers, TOPIC, begin="earliest"))},
            work_dir=str(folder),
            rescale="overlap",
        )
        feeder = threading.Thread(target=feed)
        feeder.start()
        try:
            with LiveOwnJob(settings, {"source": 100.0}, folder / "home") as live:
                live.start({"source": 3, "count": 2})
                done = [live.rescale({"source": 3, "count": (4, 2)[number % 2]}) for number in range(rescales)]
                over.set()
                feeder.join()
                until = time.monotonic() + _OUTPUT_SECONDS
                while found() != sent and time.monotonic() < until:
                    live.wait(0.5)
            counted = found()
            lines = broker.read(COUNTS, broker.records(COUNTS)) if to_topic else []
        finally:
            over.set()
            feeder.join()
    numbers = sorted(int(file.stem) for file in results.glob("*.json"))
    return {
        "rescales": rescales,
        "overlapped": sum(each.done and each.how.startswith("overlap: ") for each in done),
        "records": sent.total(),
        "lost": (sent - counted).total(),
        "doubled": (counted - sent).total(),
        **(
            {"written": len(lines), "written_twice": len(lines) - len(set(lines))}
            if to_topic
            else {"numbers_without_gaps": numbers == list(range(len(numbers)))}
        ),
    }


def read_topic_counts(broker: Broker) -> Counter[str]:
    counts: Counter[str] = Counter()
    for line in broker.read(COUNTS, broker.records(COUNTS)):
        page, count = json.loads(line[line.index("[") :])
        counts[page] = max(counts[page], int(count))
    return counts


def read_file_counts(results: Path) -> Counter[str]:
    counts: Counter[str] = Counter()
    for file in results.glob("*.json"):
        for page, count in json.loads(file.read_text() or "[]"):
            counts[page] = max(counts[page], count)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rescales", type=int, default=4)
    parser.add_argument("--to", choices=("function", "topic"), default="function", help="the job's sink")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="handover-kafka-", ignore_cleanup_errors=True) as folder:
        print(json.dumps(measure(arguments.rescales, Path(folder), to_topic=arguments.to == "topic"), indent=2))


if __name__ == "__main__":
    main()
