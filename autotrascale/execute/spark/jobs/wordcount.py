"""Word count: Source → FlatMap → Count → Sink, as the Heron and DS2 papers run it, with Dhalion-like stalls."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from autotrascale.domain import checks
from autotrascale.domain.topology import Operator, Topology
from autotrascale.execute.spark.jobs.flow import Flow, Query
from autotrascale.execute.spark.jobs.hashed_numbers import Ints, hash_to_share
from autotrascale.execute.spark.jobs.stalls import check_stalls, pass_through, with_jvm_stall, with_stall

_SEEDS_APART = 1 << 40  # words


@dataclass(frozen=True)
class WordCount:
    """Stalls are seconds per record that the operator takes in. Words follow a Zipf-like law over the vocabulary when
    `skew` is above 0. `results` names a folder to which the sink appends the counts that it sees."""

    flatmap_stall: float = 0.0
    count_stall: float = 0.0
    sink_stall: float = 0.0
    words_per_sentence: int = 3
    vocabulary: int = 1000
    skew: float = 0.0
    seed: int = 0
    results: str = ""

    name: ClassVar[str] = "wordcount"
    topology: ClassVar[Topology] = Topology(
        {
            "source": Operator(),
            "flatmap": Operator(("source",)),
            "count": Operator(("flatmap",), stateful=True),
            "sink": Operator(("count",)),
        }
    )

    def __post_init__(self) -> None:
        check_stalls(self)
        checks.non_negative("skew", self.skew)
        checks.count("words_per_sentence", self.words_per_sentence)
        checks.count("vocabulary", self.vocabulary)

    def build(self, flow: Flow) -> Query:
        sentences = flow.load("source", "sentence string", self.sentences)
        words = flow.operator("flatmap", sentences, do=self._split)
        counts = flow.operator("count", words, do=self._count, by=["word"])
        sink = flow.operator("sink", counts, do=self._sink)
        return sink.writeStream.format("noop").outputMode("update")

    def sentences(self, numbers: Ints) -> list[list[str]]:
        """Sentence i is a function of i and the seed."""
        words = self.words(numbers)
        return [[" ".join(f"word{w}" for w in row) for row in words.tolist()]]

    def words(self, numbers: Ints) -> Ints:
        """Word numbers, one row for each sentence: SplitMix64 of the word's place, then the inverse of Zipf's law."""
        places = numbers[:, None] * self.words_per_sentence + np.arange(self.words_per_sentence)
        chance = hash_to_share(places.astype(np.uint64) + np.uint64(self.seed * _SEEDS_APART % 2**64))
        if self.skew == 0:
            return (chance * self.vocabulary).astype(np.int64)
        weights = np.arange(1, self.vocabulary + 1, dtype=float) ** -self.skew
        edges = np.cumsum(weights) / weights.sum()
        return np.minimum(np.searchsorted(edges, chance, side="right"), self.vocabulary - 1).astype(np.int64)

    def _split(self, df: DataFrame) -> DataFrame:
        return df.select("sentence").mapInArrow(with_stall(_split_batch, self.flatmap_stall), "word string")

    def _count(self, df: DataFrame) -> DataFrame:
        return with_jvm_stall(df, self.count_stall).groupBy("word").count()

    def _sink(self, df: DataFrame) -> DataFrame:
        return df.mapInArrow(with_stall(_saver(self.results), self.sink_stall), "word string, count bigint")


def read_results(folder: Path | str) -> dict[str, int]:
    """The last count of each word in a `results` folder: counts only grow, so the largest is the last."""
    counts: dict[str, int] = {}
    for file in sorted(Path(folder).glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            word, count = json.loads(line)
            counts[word] = max(count, counts.get(word, 0))
    return counts


def _split_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pc.list_flatten(pc.split_pattern(batch.column(0), " "))], names=["word"])


def _saver(folder: str) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    if not folder:
        return pass_through

    def save(batch: pa.RecordBatch) -> pa.RecordBatch:
        lines = (
            json.dumps(pair) for pair in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
        )
        Path(folder, f"{uuid.uuid4().hex}.jsonl").write_text("\n".join(lines), encoding="utf-8")
        return batch

    return save
