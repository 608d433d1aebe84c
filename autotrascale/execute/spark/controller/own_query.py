"""The controller's record of an own job's query: its files, its parallelism and its load."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from autotrascale.analyze.facts import BatchFact
from autotrascale.execute.spark.common import checkpoint_generations
from autotrascale.execute.spark.common.checkpoint_generations import Generation, VisibleBatches
from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.execute.spark.jobs import load_file
from autotrascale.execute.spark.jobs.load_file import QueryLoad, SourceLoad
from autotrascale.execute.spark.jobs.rate_schedule import RateSchedule

_LOAD_FILE = "load.json"


@dataclass
class OwnQuery:
    """The query of an own job.

    Attributes:
        folder: folder with the load file and the checkpoint.
        checkpoint: its checkpoint.
        parallelism: partitions by operator.
        rates: records per second by source.
        loads: the load of each source.
        shape: factor of the rates over time.
        window_from_ms: Unix time in ms from which batches are measured; 0 before the load begins.
        last_commit_ms: Unix time in ms of the last commit before a stop.
        running: whether the driver runs it now.
        generated: sources with a generated load.
        once_only: formats of the sources that deliver each record only once.
        generation: live generation of the checkpoint.
    """

    folder: Path
    checkpoint: str
    parallelism: Mapping[str, int]
    rates: Mapping[str, float]
    loads: QueryLoad
    shape: RateSchedule
    window_from_ms: float = 0.0
    last_commit_ms: float | None = None
    running: bool = False
    generated: tuple[str, ...] = ()
    once_only: tuple[str, ...] = ()
    generation: Generation = field(default_factory=Generation)

    @classmethod
    def new(
        cls, settings: SparkSettings, folder: Path, parallelism: Mapping[str, int], rates: Mapping[str, float]
    ) -> OwnQuery:
        """Return a query with empty state and a load that primes until `begin_load`."""
        folder.mkdir()
        shape, least = RateSchedule(settings.load_shape), max(parallelism.values())
        loads = {
            name: SourceLoad.priming(rate * shape.rate(0.0), settings.prime_batches, least)
            for name, rate in rates.items()
        }
        query = cls(folder, _checkpoint_path(settings, folder), dict(parallelism), dict(rates), QueryLoad(loads), shape)
        load_file.write_load(query.loads, query.load_file)
        return query

    @classmethod
    def reopen(
        cls, settings: SparkSettings, folder: Path, parallelism: Mapping[str, int], rates: Mapping[str, float]
    ) -> OwnQuery:
        """Return the query that an earlier controller left. Its load went on meanwhile."""
        loads, shape = load_file.read_load(folder / _LOAD_FILE), RateSchedule(settings.load_shape)
        live = checkpoint_generations.read_generation(folder)
        checkpoint_generations.remove_other_generations(folder, live)
        checkpoint = str(folder / live.name) if live.number else _checkpoint_path(settings, folder)
        query = cls(folder, checkpoint, dict(parallelism), dict(rates), loads, shape)
        query.generation = live
        return query

    @property
    def next_checkpoint(self) -> Path:
        """Return the checkpoint of the next generation."""
        return self.folder / self.generation.next().name

    def hand_over(self, visible: VisibleBatches, parallelism: Mapping[str, int]) -> None:
        """Make the next generation live, also for later controllers."""
        following = self.generation.next(visible)
        checkpoint_generations.make_live(self.folder, following)
        self.generation, self.parallelism = following, dict(parallelism)
        self.checkpoint = str(self.folder / following.name)

    def remove_copies(self) -> None:
        """Remove the checkpoints of all generations that are not live."""
        checkpoint_generations.remove_other_generations(self.folder, self.generation)

    @property
    def load_file(self) -> Path:
        return self.folder / _LOAD_FILE

    @property
    def has_begun(self) -> bool:
        """Return whether its load has begun under this controller."""
        return self.window_from_ms > 0

    @property
    def is_primed(self) -> bool:
        """Return whether its load has begun, now or under an earlier controller."""
        return all(source.started_ms is not None for source in self.loads.sources.values())

    def prime_further(self) -> None:
        """Allow one more priming batch."""
        self._change_loads(lambda _, source: source.primed_further())

    def prime_anew(self, batches: int) -> None:
        """Allow `batches` more priming batches, after priming was interrupted."""
        for _ in range(batches):
            self.prime_further()

    def begin_load(self) -> None:
        """End priming, once its last batch is committed."""
        now = self.window_from_ms = now_ms()
        self._change_loads(lambda name, source: source.begun(self._schedule_of(name), now))

    def change_rates(self, rates: Mapping[str, float]) -> None:
        """Set the rates and begin a new measuring window, also if the rates are the same."""
        now = now_ms()
        if dict(rates) != dict(self.rates):
            self.rates = dict(rates)
            self._change_loads(lambda name, source: source.changed(self._schedule_of(name), now))
        self.window_from_ms = now

    def hold_load(self) -> None:
        """Offer no records that arrive after now, so that the query comes to rest between two batches.

        Records that arrive meanwhile are not lost; they wait.
        """
        now = now_ms()
        self._change_loads(lambda _, source: source.held(now))

    def release_load(self) -> None:
        """Offer all records again."""
        self._change_loads(lambda _, source: source.released())

    def has_come_to_rest(self, last: BatchFact) -> bool:
        """Return whether batch `last` read all records that the held load offers."""
        ends = sorted(end["n"] for end in _generated_ends(last))
        return ends == sorted(self.loads.sources[name].limit_count for name in self.generated)

    def remove(self) -> None:
        """Remove its folder. A checkpoint in a `checkpoint_dir` of the user is kept."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _schedule_of(self, source: str) -> RateSchedule:
        return self.shape.times(self.rates[source])

    def _change_loads(self, change: Callable[[str, SourceLoad], SourceLoad]) -> None:
        self.loads = self.loads.each(change)
        load_file.write_load(self.loads, self.load_file)


def _checkpoint_path(settings: SparkSettings, folder: Path) -> str:
    home = settings.checkpoint_dir.rstrip("/")
    return f"{home}/{folder.parent.name}-{folder.name}" if home else str(folder / Generation().name)


def _generated_ends(batch: BatchFact) -> list[dict[str, int]]:
    """Return the end offsets of a batch in the generated sources. Offsets of other sources have other keys."""
    ends = [json.loads(end) for _, end in batch.offsets if isinstance(end, str) and end.startswith("{")]
    return [end for end in ends if end.keys() == {"ms", "n"}]


def now_ms() -> int:
    """Return the Unix time in milliseconds."""
    return time.time_ns() // 1_000_000
