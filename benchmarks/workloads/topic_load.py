"""Events of Yahoo and of Nexmark, sent to a topic: `python -m benchmarks.workloads.topic_load yahoo 127.0.0.1:9092 clicks`.

The topic is made where there is none. With `--rate` records are sent as fast as that and no faster, else at once.

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

_AT_ONCE = 1000
_HOT = -1  # the key of the hot partition's records, and the salt of who gets it


def lines(kind: str, numbers: Ints, seed: int = 0) -> list[str]:
    """The records of these numbers, as the values of a topic."""
    schema, records = _KINDS[kind]
    columns = [np.asarray(column).tolist() for column in records(seed)(numbers)]
    if not schema:
        return [str(text) for text in columns[0]]
    names = [column.split()[0] for column in schema.split(", ")]
    return [json.dumps(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]


def keyed(numbers: Ints, values: Sequence[str], hot: float) -> list[str]:
    """`key TAB value`: each a key of its own, which spreads them, but for a share that has one and the same."""
    is_hot = draw_share(0, numbers, 99) < hot
    return [
        f"{_HOT if same else number}\t{value}"
        for number, same, value in zip(numbers.tolist(), is_hot.tolist(), values, strict=True)
    ]


def fill(
    broker: Broker, topic: str, kind: str, records: int, *, seed: int = 0, hot: float = 0.0, rate: float | None = None
) -> None:
    def some() -> Iterator[str]:
        began = time.monotonic()
        pace = _AT_ONCE if rate is None else max(1, round(rate / 10))
        for first in range(0, records, pace):
            if rate is not None:
                time.sleep(max(0.0, first / rate - (time.monotonic() - began)))
            numbers = np.arange(first, min(first + pace, records))
            yield from keyed(numbers, lines(kind, numbers, seed), hot)

    broker.send_keyed(topic, some())


_KINDS: dict[str, tuple[str, Callable[[int], Callable[[Ints], Sequence[Any]]]]] = {
    "yahoo": ("", lambda seed: Yahoo(seed=seed).events),
    "nexmark-bids": (BID, lambda seed: Market(seed=seed, hot_auctions=0.1).bids),
    "nexmark-auctions": (AUCTION, lambda seed: Market(seed=seed).auctions),
    "nexmark-persons": (PERSON, lambda seed: Market(seed=seed).persons),
}


def first(count: int) -> Ints:
    return np.arange(count)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=sorted(_KINDS))
    parser.add_argument("servers", help="such as 127.0.0.1:9092")
    parser.add_argument("topic")
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--rate", type=float, help="records a second; at once, when left out")
    parser.add_argument("--partitions", type=int, default=3, help="of the topic, where it is not there yet")
    parser.add_argument("--hot", type=float, default=0.0, help="share of the records that all go to one partition")
    parser.add_argument("--seed", type=int, default=0)
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    chosen = parser().parse_args(arguments)
    broker = Broker(Path(), port=int(chosen.servers.rpartition(":")[2]))
    broker.create(chosen.topic, chosen.partitions, or_keep=True)
    fill(broker, chosen.topic, chosen.kind, chosen.records, seed=chosen.seed, hot=chosen.hot, rate=chosen.rate)
    print(f"{chosen.records} records sent to {chosen.topic}, which has {broker.records(chosen.topic)} in all")


if __name__ == "__main__":
    main()
