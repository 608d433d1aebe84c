"""A simulated application with executors of a certain size: its use of memory, cores and time, window by window.

    symbol   meaning                                                                       unit
    λ        rate of records, a daily curve with noise                                     records/s
    e, c     executors, cores of each; H heap, M = H + B memory of each                    MB
    w        time of a record on a slot, without garbage collection                        s
    L        live heap after a collection, L = base + each · c + state / e                  MB
    a        garbage of a record                                                           MB
    p        time of marking one live MB                                                   s/MB
    g        share of time in collections: a · λ/e · p · L / (H − L)
    T        heap that the JVM touches: it grows until collections take the share `aim`, L + a · λ/e · p · L / aim
    o        memory outside the heap: base + python · c + native / e                       MB

    out of heap     H < 1.02 · L        killed        T + o > M
    processed       new and waiting records, as far as e · c slots can process them in a window

The model shows whether size decisions settle. It does not predict the needs of a real job.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from autotrascale.domain.executor_window import ExecutorSizes, ExecutorWindow, LostExecutor

DAY = 86_400.0


@dataclass(frozen=True)
class MemoryModel:
    """The true properties of the job, in the symbols above. `leak` is in MB per hour since the last start."""

    rate: float = 2000.0
    night: float = 0.3
    seconds_a_record: float = 0.002
    computing: float = 0.9
    heap_base: float = 300.0
    heap_a_task: float = 150.0
    state: float = 800.0
    garbage: float = 0.05
    mark: float = 0.0004
    aim: float = 0.06
    outside_base: float = 220.0
    python_a_task: float = 180.0
    native: float = 400.0
    leak: float = 0.0
    noise: float = 0.02

    def load(self, at: float) -> float:
        """Return the rate at Unix time `at`: lowest at 4:00, highest at 16:00."""
        wave = 0.5 - 0.5 * math.cos(2 * math.pi * (at / DAY - 4 / 24))
        return self.rate * (self.night + (1 - self.night) * wave)

    def live(self, sizes: ExecutorSizes, age: float) -> float:
        return self.heap_base + self.heap_a_task * sizes.cores + self.state / sizes.executors + self.leak * age / 3600

    def outside(self, sizes: ExecutorSizes) -> float:
        return self.outside_base + self.python_a_task * sizes.cores + self.native / sizes.executors

    def pressure(self, sizes: ExecutorSizes, rate: float, live: float) -> float:
        """Return the share of time in collections, multiplied by the free MB of heap."""
        return self.garbage * rate / sizes.executors * self.mark * live

    def collecting(self, sizes: ExecutorSizes, rate: float, age: float = 0.0) -> float:
        live = self.live(sizes, age)
        return min(0.9, self.pressure(sizes, rate, live) / max(1.0, sizes.heap_mb - live))

    def touched(self, sizes: ExecutorSizes, rate: float, age: float = 0.0) -> float:
        live = self.live(sizes, age)
        return min(sizes.heap_mb, live + self.pressure(sizes, rate, live) / self.aim)

    def best(self, slots: ExecutorSizes) -> ExecutorSizes:
        """Return the least memory for these executors and cores at the daily peak, as a manual search would find it."""
        roomy = replace(slots, heap_mb=2**20)
        heap = math.ceil(self.touched(roomy, self.rate * (1 + self.noise)))
        return replace(slots, heap_mb=heap, overhead_mb=math.ceil(self.outside(slots) * (1 + self.noise)))

    def least_slots(self, busy: float) -> int:
        return math.ceil(self.rate * self.seconds_a_record / (1 - self.aim) / busy)


class SimulatedExecutors:
    """A running application. `resize` restarts it. An executor that runs out of memory restarts at the same size."""

    def __init__(self, job: MemoryModel, sizes: ExecutorSizes, seed: int = 0, window_seconds: float = 600.0) -> None:
        self.job, self.sizes, self.seconds = job, sizes, window_seconds
        self.now, self.age, self.touched, self.waiting = 0.0, 0.0, 0.0, 0.0
        self._random = np.random.default_rng(seed)

    def resize(self, sizes: ExecutorSizes) -> None:
        self.sizes, self.age, self.touched = sizes, 0.0, 0.0

    def window(self) -> ExecutorWindow:
        job, sizes, seconds = self.job, self.sizes, self.seconds
        rate = job.load(self.now) * self._noise()
        live, outside = job.live(sizes, self.age) * self._noise(), job.outside(sizes) * self._noise()
        share = min(0.9, job.pressure(sizes, rate, live) / max(1.0, sizes.heap_mb - live))
        self.touched = max(self.touched, min(sizes.heap_mb, live + job.pressure(sizes, rate, live) / job.aim))
        lost = self._find_lost(live, outside)
        up = 0.7 if lost or not self.age else 1.0  # share of the window after a restart
        each = job.seconds_a_record / (1 - share)
        carried = sizes.slots * seconds * up / each
        waited, came = self.waiting, rate * seconds
        done = min(carried, waited + came)
        self.waiting = waited + came - done
        run = done * each
        began, self.now = self.now, self.now + seconds
        self.age = 0.0 if lost else self.age + seconds
        if lost:
            self.touched = 0.0
        batch = (waited + came) / 10
        return ExecutorWindow(
            application="simulated",
            began=began,
            seconds=seconds,
            sizes=sizes,
            batches=10,
            tasks=10 * sizes.slots,
            run_seconds=run,
            gc_seconds=run * share,
            fetching_seconds=0.0,
            cpu_seconds=run * (1 - share) * job.computing,
            young_collections=round(100 * share),
            full_collections=0,
            spilled_mb=0.0,
            heap_used_mb=max(self.touched, live),
            heap_least_mb=live,
            heap_touched_mb=self.touched,
            memory_mb=min(sizes.memory_mb, self.touched + outside),
            outside_mb=outside,
            rate=rate,
            done=done / seconds,
            behind=tuple(batch + self.waiting * k / 9 for k in range(10)),
            lost=lost,
        )

    def _find_lost(self, live: float, outside: float) -> tuple[LostExecutor, ...]:
        if self.sizes.heap_mb < 1.02 * live:
            return (LostExecutor("1", "heap", "exited with code 52"),)
        if self.touched + outside > self.sizes.memory_mb:
            return (LostExecutor("1", "memory", "exited with code 137"),)
        return ()

    def _noise(self) -> float:
        return float(np.clip(self._random.normal(1.0, self.job.noise / 2), 1 - self.job.noise, 1 + self.job.noise))
