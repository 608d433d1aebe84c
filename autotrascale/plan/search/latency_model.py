"""What latency ought to do: a job as queues or as batches, with numbers of its own that the runs have to teach.

One function m(k, q; β) says log latency for every parallelism and every rate, so that a run at any rate speaks of any
other. With its derivatives it is the mean of the surrogate's process, and doubt about β is part of its doubt.

    symbol    meaning                                                                            prior
    k, k', K  parallelism, floor, and Σ k_i / Σ k'_i
    q         the rate, over the present one
    load_i    instances that i needs at the floor and the present rate, times e^{e_i}            as measured
    g_i       what its useful time grows by: (1 − p + p k_i/k'_i) (1 − P + P K)                   p, P small
    δ_i, n    what is known of loads beyond that (`measured_loads`); slots, where known           measured
    ρ_i       q · load_i · g_i / k_i, the share of its time that an instance of i is busy
    c, κ      level of log latency; what it gains for each e-fold of the rate                     κ near 0
    f, t, c'  what a record pays whatever k is; … that grows with K; … for channels               weights e^f, e^t, e^c'
    o, a      what a batch costs beside its operators; latency over the time of a batch           a near 1.5
    s_i       what a record takes of an instance of i, over the sum of that along its way             as measured
    D, C_i    operators on the longest way; channels into i, over those on the longest way at the floor
    w, u      weight of waiting; u → 0: one queue for all instances of an operator, → 1: one for each

Pipelined (Sakasegawa's M/M/k where u = 0, k queues where u = 1):

    m = c + κ ln q + ln[ e^t K + Σ_way ( e^f / D + e^c' C_i + g_i s_i (1 + e^w W_i) ) ]
    W_i = ρ_i^{(1−u)(√(2(k_i+1)) − 1) + u} / (k_i^{1−u} (1 − ρ_i))

Micro-batches, whose stages take turns and whose partitions cost something each:

    m = c + κ ln q + ln[ e^f + (1/N) Σ_i k_i/k'_i ] − ln(1 − Σ_i ⌈k_i/n⌉ ρ_i)
    o = e^{c − ln a} [ e^f + (1/N) Σ_i k_i/k'_i ]

Everywhere load_i stands for load_i e^{δ_i}. p, P and u lie in (0, 1), and β holds their logits: more of them never make
an operator's work less. They are of the whole job, for a machine that gets slower does so for all of it. Beyond
saturation 1 − ρ is bent so that it stays above zero: what cannot keep up is very late, and the more so the more it
lacks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from autotrascale.domain.snapshot import Execution
from autotrascale.plan.search.longest_path import DataflowPaths
from autotrascale.plan.search.measured_loads import LEAST_LOAD
from autotrascale.plan.sizing.sizing import Sizing

Floats = NDArray[np.float64]
Slopes = Callable[[], tuple[Floats, Floats]]  # ∂m/∂β and ∂m/∂ log load, worked out for whoever asks

SOFT = 0.03  # how close to saturation 1 − ρ begins to bend
SATURATED = 12.0  # from so many times SOFT beyond it, softplus is e to the power of its argument, to six digits
MEASURED, GUESSED = 0.15, 0.35  # spread of e: of loads that a window measured, of loads guessed from a floor
LEAST_SERVICE = 1e-6  # of what a record takes on its way: less cannot be told from nothing
LEAST_OVERHEAD, MOST_OVERHEAD = 0.05, 0.95  # a batch whose overhead nobody measured has some, and does some work

# Median and spread of the numbers in β, the one that comes for each operator first. They are near to what
# `experiments/search_choices/priors.py` finds on many simulated jobs. Where they are narrower (crowding, rate), wider
# ones made starts from a model of another rate worse (`benchmarks/quality/transfer_bench.py`).
Prior = tuple[float, float]
EACH: Mapping[str, Prior] = {"load": (0.0, MEASURED)}
ONCE: Mapping[str, Prior] = {
    "contention": (-2.4, 1.3),
    "crowding": (-4.0, 1.5),
    "level": (0.0, 3.0),
    "rate": (0.0, 0.1),
}
PIPELINED: Mapping[str, Prior] = {
    "always": (1.0, 1.1),
    "tasks": (-2.9, 0.8),
    "pairs": (-3.5, 1.4),
    "waiting": (0.4, 1.2),
    "apart": (-0.8, 1.5),
}
# Of these, where it is known what a record takes of each operator, which is what it waits for too. Of 79 pipelined jobs
# seen (`benchmarks/quality/transfer_bench.py --jobs 10`) 85 % then stop within five runs, and with the priors above 78 %.
TIMED: Mapping[str, Prior] = {"always": (-0.3, 1.0), "waiting": (0.0, 0.5), "apart": (0.0, 4.0)}
BATCHES: Mapping[str, Prior] = {"fixed": (1.0, 1.0), "ratio": (math.log(1.5), 0.1)}
MIXED: Prior = (0.5, 0.35)  # weight of the pipelined picture where nobody knows which one holds


@dataclass(frozen=True)
class LatencyModel:
    """Of one job, relative to its floor and loads at the present rate. `turns` are the loads that the floor leads to
    expect if stages take turns; they count where neither loads nor execution model are known."""

    execution: Execution | None
    floor: tuple[int, ...]
    loads: tuple[float, ...]
    turns: tuple[float, ...]
    measured: bool
    slots: int | None = None
    service: tuple[float, ...] = (1.0,)
    timed: bool = False  # whether `service` is known; else it is as the loads
    ways: DataflowPaths = field(default_factory=lambda: DataflowPaths.chain(1))

    @classmethod
    def of(cls, sizing: Sizing) -> LatencyModel:
        loads = tuple(max(each, LEAST_LOAD) for each in sizing.hottest)
        turns = estimate_batch_loads(sizing.floor, sizing.overhead)
        execution: Execution | None = "pipelined" if sizing.execution == "shared" else sizing.execution
        if execution is None and sizing.measured:
            busy = sum(load / k for load, k in zip(loads, sizing.floor, strict=True))
            execution = "micro-batch" if busy <= 1 else "pipelined"
        if execution == "micro-batch" and not sizing.measured:
            loads = turns
        ways = DataflowPaths(sizing.upstream) if sizing.upstream else DataflowPaths.chain(len(sizing.floor))
        known = np.array(sizing.service or loads)
        on_its_way = float(ways.longest(known[None, :])[0][0]) or 1.0
        service = np.maximum(known / on_its_way, LEAST_SERVICE)
        timed = bool(sizing.service)
        return cls(
            execution, sizing.floor, loads, turns, sizing.measured, sizing.slots, tuple(service.tolist()), timed, ways
        )

    # -- β ------------------------------------------------------------------------------------------------------------

    @cached_property
    def priors(self) -> dict[str, Prior]:
        own = {**EACH, "load": (0.0, MEASURED if self.measured else GUESSED), **ONCE}
        pipelined = PIPELINED if self.execution != "micro-batch" else {}
        batches = BATCHES if self.execution in (None, "micro-batch") else {}
        timed = TIMED if self.timed and self.execution == "pipelined" else {}
        return {**own, **pipelined, **timed, **batches, **({"mixed": MIXED} if self.execution is None else {})}

    @cached_property
    def places(self) -> dict[str, slice]:
        """Where in β each of them stands."""
        at, places = 0, {}
        for name in self.priors:
            size = len(self.floor) if name in EACH else 1
            places[name] = slice(at, at + size)
            at += size
        return places

    @cached_property
    def centre(self) -> Floats:
        return self._laid_out(0)

    @cached_property
    def spread(self) -> Floats:
        return self._laid_out(1)

    @cached_property
    def busier(self) -> NDArray[np.bool_]:
        """Which numbers of β make operators busier, the larger they are, and so only ever add to the latency."""
        found = np.zeros(len(self.centre), dtype=bool)
        for name in ("load", "contention", "crowding"):
            found[self.places[name]] = True
        return found

    def _laid_out(self, part: int) -> Floats:
        sizes = [place.stop - place.start for place in self.places.values()]
        return np.repeat([prior[part] for prior in self.priors.values()], sizes)

    # -- loads --------------------------------------------------------------------------------------------------------

    def log_loads(self, ks: Floats, log_q: Floats, beta: Floats) -> tuple[Floats, Floats]:
        """ln(q · load_i · g_i) (n, N), and its derivatives (n, N, P)."""
        at, operators, growth = self.places, np.arange(len(self.floor)), self._growth(ks, beta)
        rows = np.zeros((len(ks), len(self.floor), len(beta)))
        rows[:, operators, at["load"].start + operators] = 1.0
        rows[:, :, at["contention"].start] = growth.by_contention
        rows[:, :, at["crowding"].start] = growth.by_crowding
        return self._loaded(log_q, beta, growth.both + self._waves(ks)), rows

    def _waves(self, ks: Floats) -> Floats | float:
        """ln of the rounds in which a stage of so many tasks runs."""
        return 0.0 if self.slots is None or self.execution != "micro-batch" else np.log(np.ceil(ks / self.slots))

    def _loaded(self, log_q: Floats, beta: Floats, grown: Floats) -> Floats:
        return np.asarray(np.log(self.loads) + log_q[:, None] + beta[self.places["load"]] + grown)

    def _relative(self, ks: Floats) -> tuple[Floats, Floats]:
        """k_i/k'_i and K."""
        floor = np.asarray(self.floor, dtype=float)
        return ks / floor, (ks.sum(axis=1) / floor.sum())[:, None]

    # -- latency ------------------------------------------------------------------------------------------------------

    def latency(
        self, ks: ArrayLike, log_q: ArrayLike, beta: Floats, beyond: Floats | float = 0.0
    ) -> tuple[Floats, Floats, Floats]:
        """m (n,), ∂m/∂β (n, P), and ∂m/∂ log load (n, N). `beyond`: log of what loads are over what the numbers say."""
        k, q = np.asarray(ks, dtype=float), np.asarray(log_q, dtype=float)
        value, slopes = self._picture(k, q, beta, beyond)
        slope, by_load = slopes()
        slope[:, self.places["level"].start] = 1.0
        slope[:, self.places["rate"].start] = q
        return self._levelled(value, q, beta), slope, by_load

    def value(self, ks: Floats, log_q: Floats, beta: Floats, beyond: Floats | float = 0.0) -> Floats:
        """m alone, in half the time."""
        return self._levelled(self._picture(ks, log_q, beta, beyond)[0], log_q, beta)

    def _levelled(self, value: Floats, log_q: Floats, beta: Floats) -> Floats:
        return value + beta[self.places["level"]] + beta[self.places["rate"]] * log_q

    def _picture(self, k: Floats, log_q: Floats, beta: Floats, beyond: Floats | float) -> tuple[Floats, Slopes]:
        growth = self._growth(k, beta)
        if self.execution == "micro-batch":
            return self._batches(k, log_q, beta, beyond, growth)
        one, slopes_one = self._pipelined(k, log_q, beta, beyond, growth)
        if self.execution == "pipelined":
            return one, slopes_one
        two, slopes_two = self._batches(k, log_q, beta, beyond, growth)
        mixed = self.places["mixed"]
        weight = float(beta[mixed][0])

        def slopes() -> tuple[Floats, Floats]:
            (by_one, load_one), (by_two, load_two) = slopes_one(), slopes_two()
            slope = weight * by_one + (1 - weight) * by_two
            slope[:, mixed.start] = one - two
            return slope, weight * load_one + (1 - weight) * load_two

        return weight * one + (1 - weight) * two, slopes

    def _pipelined(
        self, k: Floats, log_q: Floats, beta: Floats, beyond: Floats | float, growth: _Growth
    ) -> tuple[Floats, Slopes]:
        at = self.places
        always, tasks, pairs, waiting, logit = (float(beta[at[name]][0]) for name in PIPELINED)
        apart = float(expit(logit))
        grown, log_k = growth.both + beyond, np.log(k)
        log_rho = self._loaded(log_q, beta, grown) - log_k
        rho = np.exp(log_rho)
        spare, steepness = _spare(rho)
        pooled = np.sqrt(2 * (k + 1)) - 1
        wait = waiting + (1 - apart) * (pooled * log_rho - log_k) + apart * log_rho - spare
        served = grown + np.log(self.service)
        # From the largest: what waits at a saturated operator is beyond what numbers hold.
        largest = np.maximum(np.maximum(served, served + wait).max(axis=1, keepdims=True), max(always, tasks, pairs))
        served, waited = np.exp(served - largest), np.exp(served + wait - largest)
        fixed = np.exp(always - largest) / self.ways.steps
        shuffled = np.exp(pairs - largest) * self._pairs(k)
        length, on_way = self.ways.longest(fixed + shuffled + served + waited)
        each = np.exp(tasks - largest[:, 0]) * growth.total[:, 0]
        whole = length + each

        def slopes() -> tuple[Floats, Floats]:
            share = on_way / whole[:, None]
            slower = waited * share
            both = served * share + slower
            busier = slower * ((1 - apart) * pooled + apart + rho * steepness)  # ∂/∂ log load, through ρ
            slope = np.zeros((len(k), len(beta)))
            slope[:, at["load"]] = busier
            slope[:, at["contention"].start] = ((busier + both) * growth.by_contention).sum(axis=1)
            slope[:, at["crowding"].start] = ((busier + both) * growth.by_crowding).sum(axis=1)
            slope[:, at["always"].start] = (fixed * share).sum(axis=1)
            slope[:, at["tasks"].start] = each / whole
            slope[:, at["pairs"].start] = (shuffled * share).sum(axis=1)
            slope[:, at["waiting"].start] = slower.sum(axis=1)
            by_apart = (slower * ((1 - pooled) * log_rho + log_k)).sum(axis=1)
            slope[:, at["apart"].start] = apart * (1 - apart) * by_apart
            return slope, busier + both

        return np.log(whole) + largest[:, 0], slopes

    def _pairs(self, k: Floats) -> Floats:
        """Channels into each operator, over those along the longest path at the floor."""
        return np.asarray(self.ways.channels(k) / self._channels_at_the_floor)

    @cached_property
    def _channels_at_the_floor(self) -> float:
        floor = np.asarray(self.floor, dtype=float)[None, :]
        return max(float(self.ways.longest(self.ways.channels(floor))[0][0]), 1.0)

    def _batches(
        self, k: Floats, log_q: Floats, beta: Floats, beyond: Floats | float, growth: _Growth
    ) -> tuple[Floats, Slopes]:
        at = self.places
        load = self._loaded(log_q, beta, growth.both + beyond + self._waves(k))
        if self.execution is None:
            load = load + np.log(self.turns) - np.log(self.loads)
        rho = np.exp(load) / k
        spare, steepness = _spare(rho.sum(axis=1))
        fixed = np.exp(float(beta[at["fixed"]][0]))
        whole = fixed + growth.own.mean(axis=1)

        def slopes() -> tuple[Floats, Floats]:
            busier = rho * steepness[:, None]
            slope = np.zeros((len(k), len(beta)))
            slope[:, at["load"]] = busier
            slope[:, at["contention"].start] = (busier * growth.by_contention).sum(axis=1)
            slope[:, at["crowding"].start] = (busier * growth.by_crowding).sum(axis=1)
            slope[:, at["fixed"].start] = fixed / whole
            return slope, busier

        return np.log(whole) - spare, slopes

    def fixed_cost(self, ks: Floats, beta: Floats) -> tuple[Floats, Floats]:
        """ln(o / l_t), what a batch costs beside its operators, and its derivatives."""
        at, (own, _) = self.places, self._relative(ks)
        fixed = np.exp(float(beta[at["fixed"]][0]))
        whole = fixed + own.mean(axis=1)
        slope = np.zeros((len(ks), len(beta)))
        slope[:, at["level"].start] = 1.0
        slope[:, at["fixed"].start] = fixed / whole
        slope[:, at["ratio"].start] = -1.0
        return np.log(whole) + beta[at["level"]] - beta[at["ratio"]], slope

    def _growth(self, ks: Floats, beta: Floats) -> _Growth:
        own, total = self._relative(ks)
        grown, by_contention = _grown(own, beta[self.places["contention"]])
        crowded, by_crowding = _grown(total, beta[self.places["crowding"]])
        return _Growth(own, total, grown + crowded, by_contention, by_crowding)


@dataclass(frozen=True, eq=False)
class _Growth:
    """k_i/k'_i, K, ln g_i, and its derivatives by the logits of p and of P."""

    own: Floats
    total: Floats
    both: Floats
    by_contention: Floats
    by_crowding: Floats


def estimate_batch_loads(floor: tuple[int, ...], overhead: float) -> tuple[float, ...]:
    """k'_i ∝ √load_i with h + Σ load_i/k'_i ≈ 1, solved for the loads: load_i = (1 − h) k'_i² / Σ k'."""
    share = 1 - min(max(overhead, LEAST_OVERHEAD), MOST_OVERHEAD)
    return tuple(share * k**2 / sum(floor) for k in floor)


def _grown(ratio: Floats, logit: Floats) -> tuple[Floats, Floats]:
    """ln(1 − p + p r), and its derivative by the logit of p."""
    p = expit(logit)
    whole = 1 - p + p * ratio
    return np.log(whole), p * (1 - p) * (ratio - 1) / whole


def _spare(busy: Floats) -> tuple[Floats, Floats]:
    """ln(1 − ρ), bent to SOFT · softplus((1 − ρ)/SOFT), and −∂/∂ρ of it."""
    scaled = (1 - busy) / SOFT
    near = np.maximum(scaled, -SATURATED)
    odds = np.exp(near)
    soft = np.log(1 + odds)
    return np.log(SOFT * soft) + (scaled - near), odds / ((1 + odds) * soft * SOFT)
