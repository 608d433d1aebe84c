"""Send Yahoo or Nexmark events to a Kafka topic, which is created if necessary. `--rate` limits the speed.

python -m benchmarks.workloads.topic_load yahoo 127.0.0.1:9092 clicks
python -m benchmarks.workloads.topic_load nexmark-bids 127.0.0.1:9092 bids --records 20000 --partitions 3 --hot 0.5
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autotrascale.execute.spark.jobs.load_file import Ints
from benchmarks.workloads.kafka_broker import Broker
from examples.jobs.nexmark.market import AUCTION, BID, PERSON, Market
from examples.jobs.random_draws import draw_share
from examples.jobs.yahoo import Yahoo

_BLOCK = 1000  # records that are made at once
_HOT = -1  # key of the records of the hot partition


def make_values(kind: str, numbers: Ints, seed: int = 0) -> list[str]:
    """Return the records with these numbers as values of a topic."""
    schema, records = _KINDS[kind]
    columns = [np.asarray(column).tolist() for column in records(seed)(numbers)]
    if not schema:
        return [str(text) for text in columns[0]]
    names = [column.split()[0] for column in schema.split(", ")]
    return [json.dumps(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]


def add_keys(numbers: Ints, values: Sequence[str], hot: float) -> list[str]:
    """Return lines `key TAB value`. A share `hot` of the records has one key; each other record has its own."""
    is_hot = draw_share(0, numbers, 99) < hot
    return [
        f"{_HOT if same else number}\t{value}"
        for number, same, value in zip(numbers.tolist(), is_hot.tolist(), values, strict=True)
    ]


def fill_topic(
    broker: Broker, topic: str, kind: str, records: int, *, seed: int = 0, hot: float = 0.0, rate: float | None = None
) -> None:
    """Send `records` records of a kind to a topic, at most `rate` per second."""

    def make_lines() -> Iterator[str]:
        began = time.monotonic()
        pace = _BLOCK if rate is None else max(1, round(rate / 10))
        for first in range(0, records, pace):
            if rate is not None:
                time.sleep(max(0.0, first / rate - (time.monotonic() - began)))
            numbers = np.arange(first, min(first + pace, records))
            yield from add_keys(numbers, make_values(kind, numbers, seed), hot)

    broker.send_keyed(topic, make_lines())


_KINDS: dict[str, tuple[str, Callable[[int], Callable[[Ints], Sequence[Any]]]]] = {
    "yahoo": ("", lambda seed: Yahoo(seed=seed).events),
    "nexmark-bids": (BID, lambda seed: Market(seed=seed, hot_auctions=0.1).bids),
    "nexmark-auctions": (AUCTION, lambda seed: Market(seed=seed).auctions),
    "nexmark-persons": (PERSON, lambda seed: Market(seed=seed).persons),
}


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=sorted(_KINDS))
    parser.add_argument("servers", help="for example 127.0.0.1:9092")
    parser.add_argument("topic")
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--rate", type=float, help="records per second; no limit by default")
    parser.add_argument("--partitions", type=int, default=3, help="partitions of a new topic")
    parser.add_argument("--hot", type=float, default=0.0, help="share of the records that go to one hot partition")
    parser.add_argument("--seed", type=int, default=0)
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    chosen = make_parser().parse_args(arguments)
    broker = Broker(Path(), port=int(chosen.servers.rpartition(":")[2]))
    broker.create(chosen.topic, chosen.partitions, or_keep=True)
    fill_topic(broker, chosen.topic, chosen.kind, chosen.records, seed=chosen.seed, hot=chosen.hot, rate=chosen.rate)
    print(f"{chosen.records} records sent to {chosen.topic}, which has {broker.records(chosen.topic)} now")


if __name__ == "__main__":
    main()
