"""Sizes of executors from an application's settings, and reasons from Spark's messages about lost executors.

Spark's rules: memory without a unit is in MB. The memory beside the heap is set explicitly, or is a tenth of the heap
and at least 384 MB. Off-heap memory and the limit of Python workers are added to it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from autotrascale.domain.executor_window import ExecutorSizes, LossReason, LostExecutor

HEAP, BESIDE = "spark.executor.memory", "spark.executor.memoryOverhead"
CORES, DRIVER_HEAP = "spark.executor.cores", "spark.driver.memory"
_KEPT = (
    "spark.master",
    HEAP,
    BESIDE,
    CORES,
    DRIVER_HEAP,
    "spark.executor.memoryOverheadFactor",
    "spark.executor.minMemoryOverhead",
    "spark.executor.pyspark.memory",
    "spark.memory.offHeap.enabled",
    "spark.memory.offHeap.size",
    "spark.task.cpus",
)
_SIZE = re.compile(r"(\d{1,15})\s*([bkmgtp]?)b?", re.IGNORECASE)
_MB = {"b": 2.0**-20, "k": 2.0**-10, "m": 1.0, "g": 2.0**10, "t": 2.0**20, "p": 2.0**30}
_USUAL_HEAP, _LEAST_BESIDE, _SHARE_BESIDE = 1024, 384, 0.1
_LONGEST = 300

# The first match counts: an executor with a full heap often leaves nothing but exit code 52.
_REASONS: tuple[tuple[LossReason, re.Pattern[str]], ...] = (
    ("heap", re.compile(r"OutOfMemory|(exit(ed with)?( exit)?|with) code:? 52\b|status:? 52\b", re.IGNORECASE)),
    (
        "memory",
        re.compile(
            r"memory limits|OOMKilled|container OOM|(exit(ed with)?( exit)?|with) code:? (137|-104|-103)\b|"
            r"status:? (137|-104|-103)\b|SIGKILL",
            re.IGNORECASE,
        ),
    ),
    ("released", re.compile(r"decommission|given back|idle|by user|requested|killed by driver", re.IGNORECASE)),
)


@dataclass(frozen=True)
class ExecutorConf:
    """The settings that decide about the size of an executor."""

    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "settings", {name: self.settings[name][:_LONGEST] for name in _KEPT if name in self.settings}
        )

    @property
    def local(self) -> bool:
        """Tasks run in the driver."""
        master = self.settings.get("spark.master", "")
        return master.startswith("local") and not master.startswith("local-cluster")

    def sizes(self, cores: int, executors: int) -> ExecutorSizes | None:
        """Return the sizes of `executors` with `cores` each; None where no executor was ever registered."""
        if cores < 1 or executors < 1:
            return None
        heap = self._mb(DRIVER_HEAP if self.local else HEAP) or _USUAL_HEAP
        return ExecutorSizes(heap, 0 if self.local else self._beside(heap), cores, executors)

    def _beside(self, heap: int) -> int:
        set_to = self._mb(BESIDE)
        if set_to is None:
            least = self._mb("spark.executor.minMemoryOverhead")
            set_to = max(_LEAST_BESIDE if least is None else least, int(self._share() * heap))
        return set_to + self.apart_mb

    @property
    def apart_mb(self) -> int:
        """Memory beside the heap that has settings of its own."""
        off_heap = self._mb("spark.memory.offHeap.size", usual="b") or 0
        if self.settings.get("spark.memory.offHeap.enabled", "").lower() != "true":
            off_heap = 0
        return off_heap + (self._mb("spark.executor.pyspark.memory") or 0)

    def _share(self) -> float:
        try:
            share = float(self.settings.get("spark.executor.memoryOverheadFactor", _SHARE_BESIDE))
        except ValueError:
            return _SHARE_BESIDE
        return share if 0 <= share <= 10 else _SHARE_BESIDE

    def _mb(self, name: str, usual: str = "m") -> int | None:
        return parse_megabytes(self.settings.get(name, ""), usual)


def parse_megabytes(text: str, usual: str = "m") -> int | None:
    """Return a size in MB as Spark reads it; None for a text that is no size.

    >>> parse_megabytes("2g"), parse_megabytes("512"), parse_megabytes("much")
    (2048, 512, None)
    """
    found = _SIZE.fullmatch(text.strip())
    return int(int(found[1]) * _MB[(found[2] or usual).lower()]) if found else None


def explain_loss(executor: str, message: str) -> LostExecutor:
    """Return the reason for a lost executor from Spark's message. The reason of a lost worker is unknown."""
    reason: LossReason = next((reason for reason, pattern in _REASONS if pattern.search(message)), "unknown")
    return LostExecutor(executor, reason, " ".join(message.split())[:_LONGEST])
