"""The latency model: log latency of a job as queues or as batches, with parameters β that are learned from runs.

One function m(k, q; β) covers every parallelism and every rate, so a run at any rate tells about every other rate. It
is the mean function of the surrogate's process, and uncertainty of β is part of the surrogate's uncertainty.

    symbol    meaning                                                                            name in `priors`
    k, k', K  parallelism (n, N), floor, and Σ k_i / Σ k'_i
    q         rate over the present rate
    load_i    instances that i needs at the floor and the present rate, times e^{e_i}            e_i: load
    g_i       growth of the useful time: (1 − p + p k_i/k'_i) (1 − P + P K)                      contention, crowding
    δ_i, n    log deviation of loads from that (`measured_loads`); slots                         measured
    ρ_i       q · load_i · g_i / k_i, busy share of an instance of i
    c, κ      level of log latency; its change for each e-fold of the rate                       level; rate
    f, t, c'  log cost of a record: constant; growing with K; for channels                       always; tasks; pairs
    o, a      fixed cost of a batch; latency over batch time                                     fixed; ratio
    s_i       service time of a record at i, over the sum of service times along its path        measured
    D, C_i    operators on the longest path; channels into i over those on the longest path at the floor
    w, u      log weight of waiting; u → 0: one queue for all instances, u → 1: one queue each     waiting; apart

Pipelined (Sakasegawa's M/M/k where u = 0, k queues where u = 1):

    m = c + κ ln q + ln[ e^t K + Σ_path ( e^f / D + e^c' C_i + g_i s_i (1 + e^w W_i) ) ]
    W_i = ρ_i^{(1−u)(√(2(k_i+1)) − 1) + u} / (k_i^{1−u} (1 − ρ_i))

Micro-batches, whose stages run one after the other, with a cost for each partition:

    m = c + κ ln q + ln[ e^f + (1/N) Σ_i k_i/k'_i ] − ln(1 − Σ_i ⌈k_i/n⌉ ρ_i)
    o = e^{c − ln a} [ e^f + (1/N) Σ_i k_i/k'_i ]

In all formulas load_i stands for load_i e^{δ_i}. p, P and u lie in (0, 1) and β holds their logits. They apply to the
whole job, because a machine that slows down affects all operators. Beyond saturation 1 − ρ is bent so that it stays
above zero: the latency of an overloaded job is very high and grows with the overload.
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
Slopes = Callable[[], tuple[Floats, Floats]]  # computes ∂m/∂β and ∂m/∂ log load when they are needed

SOFT = 0.03  # distance from saturation at which 1 − ρ begins to bend
SATURATED = 12.0  # distance beyond saturation, in units of SOFT, from which softplus(x) = e^x to six digits
MEASURED, GUESSED = 0.15, 0.35  # prior spread of e_i: of measured loads, of loads guessed from a floor
LEAST_SERVICE = 1e-6  # least s_i
LEAST_OVERHEAD, MOST_OVERHEAD = 0.05, 0.95  # range of h that loads are guessed with

# Prior median and spread of the parameters in β; `load` has one value for each operator. They are close to the values
# that `experiments/search_choices/priors.py` finds on many simulated jobs. Crowding and rate are narrower: wider priors
# made warm starts from other rates worse (`benchmarks/quality/transfer_bench.py`).
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
# Priors when the service times are measured. With them 85 % of 79 pipelined jobs stop within five runs, without them
# 78 % (`benchmarks/quality/transfer_bench.py --jobs 10`).
TIMED: Mapping[str, Prior] = {"always": (-0.3, 1.0), "waiting": (0.0, 0.5), "apart": (0.0, 4.0)}
BATCHES: Mapping[str, Prior] = {"fixed": (1.0, 1.0), "ratio": (math.log(1.5), 0.1)}
MIXED: Prior = (0.5, 0.35)  # weight of the pipelined formula when the execution model is not known


@dataclass(frozen=True)
class LatencyModel:
    """The latency model of one job, relative to its floor and loads at the present rate.

    Args:
        execution: execution model; None when not known, then both formulas are mixed.
        floor: k'.
        loads: load_i.
        turns: loads that the floor implies for micro-batches, used while execution model and loads are not known.
        measured: the loads are measured.
        slots: n; None when not known.
        service: s_i.
        timed: `service` is measured; otherwise it is in proportion to the loads.
        paths: paths of records through the operators.
    """

    execution: Execution | None
    floor: tuple[int, ...]
    loads: tuple[float, ...]
    turns: tuple[float, ...]
    measured: bool
    slots: int | None = None
    service: tuple[float, ...] = (1.0,)
    timed: bool = False
    paths: DataflowPaths = field(default_factory=lambda: DataflowPaths.chain(1))

    @classmethod
    def of(cls, sizing: Sizing) -> LatencyModel:
        """Return the latency model of a sized job."""
        loads = tuple(max(each, LEAST_LOAD) for each in sizing.hottest)
        turns = estimate_batch_loads(sizing.floor, sizing.overhead)
        execution: Execution | None = "pipelined" if sizing.execution == "shared" else sizing.execution
        if execution is None and sizing.measured:
            busy = sum(load / k for load, k in zip(loads, sizing.floor, strict=True))
            execution = "micro-batch" if busy <= 1 else "pipelined"
        if execution == "micro-batch" and not sizing.measured:
            loads = turns
        paths = DataflowPaths(sizing.upstream) if sizing.upstream else DataflowPaths.chain(len(sizing.floor))
        known = np.array(sizing.service or loads)
        on_path = float(paths.longest(known[None, :])[0][0]) or 1.0
        service = np.maximum(known / on_path, LEAST_SERVICE)
        timed = bool(sizing.service)
        return cls(
            execution, sizing.floor, loads, turns, sizing.measured, sizing.slots, tuple(service.tolist()), timed, paths
        )

    # -- β ------------------------------------------------------------------------------------------------------------

    @cached_property
    def priors(self) -> dict[str, Prior]:
        """Prior median and spread of each parameter, in the order of β."""
        own = {**EACH, "load": (0.0, MEASURED if self.measured else GUESSED), **ONCE}
        pipelined = PIPELINED if self.execution != "micro-batch" else {}
        batches = BATCHES if self.execution in (None, "micro-batch") else {}
        timed = TIMED if self.timed and self.execution == "pipelined" else {}
        return {**own, **pipelined, **timed, **batches, **({"mixed": MIXED} if self.execution is None else {})}

    @cached_property
    def places(self) -> dict[str, slice]:
        """Position of each parameter in β."""
        at, places = 0, {}
        for name in self.priors:
            size = len(self.floor) if name in EACH else 1
            places[name] = slice(at, at + size)
            at += size
        return places

    @cached_property
    def centre(self) -> Floats:
        """Prior medians of β, shape (P,)."""
        return self._expand_priors(0)

    @cached_property
    def spread(self) -> Floats:
        """Prior spreads of β, shape (P,)."""
        return self._expand_priors(1)

    @cached_property
    def busier(self) -> NDArray[np.bool_]:
        """Mask of the parameters whose increase makes operators busier and so increases latency, shape (P,)."""
        found = np.zeros(len(self.centre), dtype=bool)
        for name in ("load", "contention", "crowding"):
            found[self.places[name]] = True
        return found

    def _expand_priors(self, part: int) -> Floats:
        sizes = [place.stop - place.start for place in self.places.values()]
        return np.repeat([prior[part] for prior in self.priors.values()], sizes)

    # -- loads --------------------------------------------------------------------------------------------------------

    def log_loads(self, ks: Floats, log_q: Floats, beta: Floats) -> tuple[Floats, Floats]:
        """Return ln(q · load_i · g_i), shape (n, N), and its derivatives by β, shape (n, N, P)."""
        at, operators, growth = self.places, np.arange(len(self.floor)), self._growth(ks, beta)
        rows = np.zeros((len(ks), len(self.floor), len(beta)))
        rows[:, operators, at["load"].start + operators] = 1.0
        rows[:, :, at["contention"].start] = growth.by_contention
        rows[:, :, at["crowding"].start] = growth.by_crowding
        return self._log_load(log_q, beta, growth.both + self._waves(ks)), rows

    def _waves(self, ks: Floats) -> Floats | float:
        """Return the log number of waves in which the tasks of a stage run."""
        return 0.0 if self.slots is None or self.execution != "micro-batch" else np.log(np.ceil(ks / self.slots))

    def _log_load(self, log_q: Floats, beta: Floats, grown: Floats) -> Floats:
        return np.asarray(np.log(self.loads) + log_q[:, None] + beta[self.places["load"]] + grown)

    def _relative(self, ks: Floats) -> tuple[Floats, Floats]:
        """Return k_i/k'_i and K."""
        floor = np.asarray(self.floor, dtype=float)
        return ks / floor, (ks.sum(axis=1) / floor.sum())[:, None]

    # -- latency ------------------------------------------------------------------------------------------------------

    def latency(
        self, ks: ArrayLike, log_q: ArrayLike, beta: Floats, deviation: Floats | float = 0.0
    ) -> tuple[Floats, Floats, Floats]:
        """Return m (n,), ∂m/∂β (n, P) and ∂m/∂ log load (n, N).

        Args:
            ks: parallelism, shape (n, N).
            log_q: ln q, shape (n,).
            beta: β, shape (P,).
            deviation: δ, shape (n, N), default 0.
        """
        k, q = np.asarray(ks, dtype=float), np.asarray(log_q, dtype=float)
        value, slopes = self._compute_with_slopes(k, q, beta, deviation)
        slope, by_load = slopes()
        slope[:, self.places["level"].start] = 1.0
        slope[:, self.places["rate"].start] = q
        return self._add_level(value, q, beta), slope, by_load

    def value(self, ks: Floats, log_q: Floats, beta: Floats, deviation: Floats | float = 0.0) -> Floats:
        """Return m only, in half the time of `latency`."""
        return self._add_level(self._compute_with_slopes(ks, log_q, beta, deviation)[0], log_q, beta)

    def _add_level(self, value: Floats, log_q: Floats, beta: Floats) -> Floats:
        return value + beta[self.places["level"]] + beta[self.places["rate"]] * log_q

    def _compute_with_slopes(
        self, k: Floats, log_q: Floats, beta: Floats, deviation: Floats | float
    ) -> tuple[Floats, Slopes]:
        growth = self._growth(k, beta)
        if self.execution == "micro-batch":
            return self._batches(k, log_q, beta, deviation, growth)
        one, slopes_one = self._pipelined(k, log_q, beta, deviation, growth)
        if self.execution == "pipelined":
            return one, slopes_one
        two, slopes_two = self._batches(k, log_q, beta, deviation, growth)
        mixed = self.places["mixed"]
        weight = float(beta[mixed][0])

        def slopes() -> tuple[Floats, Floats]:
            (by_one, load_one), (by_two, load_two) = slopes_one(), slopes_two()
            slope = weight * by_one + (1 - weight) * by_two
            slope[:, mixed.start] = one - two
            return slope, weight * load_one + (1 - weight) * load_two

        return weight * one + (1 - weight) * two, slopes

    def _pipelined(
        self, k: Floats, log_q: Floats, beta: Floats, deviation: Floats | float, growth: _Growth
    ) -> tuple[Floats, Slopes]:
        at = self.places
        always, tasks, pairs, waiting, logit = (float(beta[at[name]][0]) for name in PIPELINED)
        apart = float(expit(logit))
        grown, log_k = growth.both + deviation, np.log(k)
        log_rho = self._log_load(log_q, beta, grown) - log_k
        rho = np.exp(log_rho)
        spare, steepness = _log_spare(rho)
        pooled = np.sqrt(2 * (k + 1)) - 1
        wait = waiting + (1 - apart) * (pooled * log_rho - log_k) + apart * log_rho - spare
        served = grown + np.log(self.service)
        # Relative to the largest term: waiting at a saturated operator would overflow.
        largest = np.maximum(np.maximum(served, served + wait).max(axis=1, keepdims=True), max(always, tasks, pairs))
        served, waited = np.exp(served - largest), np.exp(served + wait - largest)
        fixed = np.exp(always - largest) / self.paths.steps
        shuffled = np.exp(pairs - largest) * self._pairs(k)
        length, on_path = self.paths.longest(fixed + shuffled + served + waited)
        each = np.exp(tasks - largest[:, 0]) * growth.total[:, 0]
        whole = length + each

        def slopes() -> tuple[Floats, Floats]:
            share = on_path / whole[:, None]
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
        """Return C_i."""
        return np.asarray(self.paths.channels(k) / self._channels_at_the_floor)

    @cached_property
    def _channels_at_the_floor(self) -> float:
        floor = np.asarray(self.floor, dtype=float)[None, :]
        return max(float(self.paths.longest(self.paths.channels(floor))[0][0]), 1.0)

    def _batches(
        self, k: Floats, log_q: Floats, beta: Floats, deviation: Floats | float, growth: _Growth
    ) -> tuple[Floats, Slopes]:
        at = self.places
        load = self._log_load(log_q, beta, growth.both + deviation + self._waves(k))
        if self.execution is None:
            load = load + np.log(self.turns) - np.log(self.loads)
        rho = np.exp(load) / k
        spare, steepness = _log_spare(rho.sum(axis=1))
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
        """Return ln(o / l_t), shape (n,), and its derivatives by β, shape (n, P)."""
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
        grown, by_contention = _log_growth(own, beta[self.places["contention"]])
        crowded, by_crowding = _log_growth(total, beta[self.places["crowding"]])
        return _Growth(own, total, grown + crowded, by_contention, by_crowding)


@dataclass(frozen=True, eq=False)
class _Growth:
    """k_i/k'_i (`own`), K (`total`), ln g_i (`both`), and its derivatives by the logits of p and P."""

    own: Floats
    total: Floats
    both: Floats
    by_contention: Floats
    by_crowding: Floats


def estimate_batch_loads(floor: tuple[int, ...], overhead: float) -> tuple[float, ...]:
    """Return the loads that a micro-batch floor implies: load_i = (1 − h) k'_i² / Σ k'.

    This solves k'_i ∝ √load_i and h + Σ load_i/k'_i ≈ 1.
    """
    share = 1 - min(max(overhead, LEAST_OVERHEAD), MOST_OVERHEAD)
    return tuple(share * k**2 / sum(floor) for k in floor)


def _log_growth(ratio: Floats, logit: Floats) -> tuple[Floats, Floats]:
    """Return ln(1 − p + p r), and its derivative by the logit of p."""
    p = expit(logit)
    whole = 1 - p + p * ratio
    return np.log(whole), p * (1 - p) * (ratio - 1) / whole


def _log_spare(busy: Floats) -> tuple[Floats, Floats]:
    """Return ln(1 − ρ), bent to ln(SOFT · softplus((1 − ρ)/SOFT)), and its negative derivative by ρ."""
    scaled = (1 - busy) / SOFT
    near = np.maximum(scaled, -SATURATED)
    odds = np.exp(near)
    soft = np.log(1 + odds)
    return np.log(SOFT * soft) + (scaled - near), odds / ((1 + odds) * soft * SOFT)
