"""The query that an engine has in hand: where its things are, what it was brought to, and the load it is under."""

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
    """`running` is false between trials, and after a host has died; with `keep` the checkpoint is gone on from."""

    folder: Path
    checkpoint: str
    parallelism: Mapping[str, int]
    rates: Mapping[str, float]
    loads: QueryLoad
    shape: RateSchedule
    window_from_ms: float = 0.0  # batches triggered before this do not count
    last_commit_ms: float | None = None
    running: bool = False
    generated: tuple[str, ...] = ()
    not_replayable: tuple[str, ...] = ()  # formats of its sources
    generation: Generation = field(default_factory=Generation)

    @classmethod
    def new(
        cls, settings: SparkSettings, folder: Path, parallelism: Mapping[str, int], rates: Mapping[str, float]
    ) -> OwnQuery:
        """Empty state, and a load that primes until `begin_load`."""
        folder.mkdir()
        shape, least = RateSchedule(settings.load_shape), max(parallelism.values())
        loads = {
            name: SourceLoad.priming(rate * shape.rate(0.0), settings.prime_batches, least)
            for name, rate in rates.items()
        }
        query = cls(folder, _checkpoint(settings, folder), dict(parallelism), dict(rates), QueryLoad(loads), shape)
        query._save()
        return query

    @classmethod
    def left(
        cls, settings: SparkSettings, folder: Path, parallelism: Mapping[str, int], rates: Mapping[str, float]
    ) -> OwnQuery:
        """As an earlier process left it: its load goes on as if nobody had been away."""
        loads, shape = load_file.read_load(folder / _LOAD_FILE), RateSchedule(settings.load_shape)
        live = checkpoint_generations.read_generation(folder)
        checkpoint_generations.remove_other_generations(folder, live)
        checkpoint = str(folder / live.name) if live.number else _checkpoint(settings, folder)
        query = cls(folder, checkpoint, dict(parallelism), dict(rates), loads, shape)
        query.generation = live
        return query

    @property
    def next_checkpoint(self) -> Path:
        """Of the generation that may follow."""
        return self.folder / self.generation.next().name

    def hand_over(self, visible: VisibleBatches, parallelism: Mapping[str, int]) -> None:
        """From now on, whoever dies, the next generation is the live one."""
        following = self.generation.next(visible)
        checkpoint_generations.make_live(self.folder, following)
        self.generation, self.parallelism = following, dict(parallelism)
        self.checkpoint = str(self.folder / following.name)

    def remove_copies(self) -> None:
        """Checkpoints of generations that are not live."""
        checkpoint_generations.remove_other_generations(self.folder, self.generation)

    @property
    def load_file(self) -> Path:
        return self.folder / _LOAD_FILE

    @property
    def begun(self) -> bool:
        return self.window_from_ms > 0

    @property
    def primed(self) -> bool:
        """Whether its load has begun, now or under an earlier process."""
        return all(source.started_ms is not None for source in self.loads.sources.values())

    def prime_further(self) -> None:
        """One more small batch."""
        self._change(lambda _, source: source.primed_further())

    def prime_anew(self, batches: int) -> None:
        """Priming that was broken off: so many more, whatever has been taken in of the others."""
        for _ in range(batches):
            self.prime_further()

    def begin_load(self) -> None:
        """Priming is over, and its last batch committed."""
        now = self.window_from_ms = now_ms()
        self._change(lambda name, source: source.begun(self._schedule(name), now))

    def change_rates(self, rates: Mapping[str, float]) -> None:
        """Other rates from now on. The window begins anew, also when they are the same."""
        now = now_ms()
        if dict(rates) != dict(self.rates):
            self.rates = dict(rates)
            self._change(lambda name, source: source.changed(self._schedule(name), now))
        self.window_from_ms = now

    def hold_load(self) -> None:
        """Offers nothing that arrives after now, so that the query comes to rest between two batches. What arrives
        meanwhile is not lost: it waits."""
        now = now_ms()
        self._change(lambda _, source: source.held(now))

    def release_load(self) -> None:
        self._change(lambda _, source: source.released())

    def has_come_to_rest(self, last: BatchFact) -> bool:
        """Whether this batch took in all that the load offers up to its limit."""
        ends = sorted(end["n"] for end in _ends(last))
        return ends == sorted(self.loads.sources[name].limit_count for name in self.generated)

    def remove(self) -> None:
        """A checkpoint in a folder of the user's own choice stays."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _schedule(self, source: str) -> RateSchedule:
        return self.shape.times(self.rates[source])

    def _change(self, change: Callable[[str, SourceLoad], SourceLoad]) -> None:
        self.loads = self.loads.each(change)
        self._save()

    def _save(self) -> None:
        load_file.write_load(self.loads, self.load_file)


def _checkpoint(settings: SparkSettings, folder: Path) -> str:
    home = settings.checkpoint_dir.rstrip("/")
    return f"{home}/{folder.parent.name}-{folder.name}" if home else str(folder / Generation().name)


def _ends(batch: BatchFact) -> list[dict[str, int]]:
    """Where a batch ended in each generated source; offsets of a job's own sources look otherwise."""
    ends = [json.loads(end) for _, end in batch.offsets if isinstance(end, str) and end.startswith("{")]
    return [end for end in ends if end.keys() == {"ms", "n"}]


def now_ms() -> int:
    return time.time_ns() // 1_000_000
