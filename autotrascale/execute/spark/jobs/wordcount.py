"""The word count of the Heron and DS2 papers: Source → FlatMap → Count → Sink, with stalls as in the Dhalion paper."""

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

_WORDS_PER_SEED = 1 << 40  # distance of two seeds in the sequence of hashed numbers


@dataclass(frozen=True)
class WordCount:
    """A word count job. Its fields are its options.

    Attributes:
        flatmap_stall: seconds that flatmap sleeps for each record it takes in; also `count_stall`, `sink_stall`.
        words_per_sentence: words in each record of the source.
        vocabulary: number of different words.
        skew: exponent of Zipf's law over the vocabulary; 0 makes all words equally frequent.
        seed: seed of the sentences.
        results: folder to which the sink appends the counts that it sees; empty for none.
    """

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
        """Return the sentences with these numbers. A sentence depends on its number and the seed alone."""
        words = self.words(numbers)
        return [[" ".join(f"word{w}" for w in row) for row in words.tolist()]]

    def words(self, numbers: Ints) -> Ints:
        """Return the word numbers, one row for each sentence: a hash of the position, then Zipf's inverse."""
        positions = numbers[:, None] * self.words_per_sentence + np.arange(self.words_per_sentence)
        chance = hash_to_share(positions.astype(np.uint64) + np.uint64(self.seed * _WORDS_PER_SEED % 2**64))
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
        return df.mapInArrow(with_stall(_make_saver(self.results), self.sink_stall), "word string, count bigint")


def read_results(folder: Path | str) -> dict[str, int]:
    """Return the last count of each word in a `results` folder. Counts only grow, so the largest is the last."""
    counts: dict[str, int] = {}
    for file in sorted(Path(folder).glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            word, count = json.loads(line)
            counts[word] = max(count, counts.get(word, 0))
    return counts


def _split_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pc.list_flatten(pc.split_pattern(batch.column(0), " "))], names=["word"])


def _make_saver(folder: str) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    if not folder:
        return pass_through

    def save(batch: pa.RecordBatch) -> pa.RecordBatch:
        lines = (
            json.dumps(pair) for pair in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
        )
        Path(folder, f"{uuid.uuid4().hex}.jsonl").write_text("\n".join(lines), encoding="utf-8")
        return batch

    return save
