"""A simulated job fitted to measured trials, with the micro-batch model of the simulator's `steady_state.py`.

| symbol | meaning | unit | shape |
|---|---|---|---|
| K, k_i | parallelism of the trials | instances | (n, N) |
| λ_i | demand: rate at operator i at the rates of the trial | records/s | (n, N) |
| b, h | batch time, and the share of it without a running stage | s, 1 | (n,) |
| T_u, R | useful time and input records of all instances of an operator | s, records | (n, N) |
| s_i, g_i | useful time of a record: constant part, and growth with k_i | s | (N,) |
| p, τ, c | cost of planning, of a task, and of a state partition | s | scalars |
| w_i | load of the hottest instance over the mean, or number of task waves, the larger of both | | (n, N) |

    b = (p + τ Σk_i + c Σ_stateful k_i) / (1 − Σ λ_i (s_i + g_i k_i) w_i / k_i)

Batch times alone separate p, τ and c only by trials with different Σk, and s_i and g_i only by different k_i and rates.
Useful times give s_i and g_i directly: T_u / R = s_i + g_i k_i + f_i · (batches · k_i / R). Here f_i is the cost of a
task without records; without this term, low rates would look like slow records.

The fit has two steps. Step 1: non-negative least squares, operator by operator, and then for p, τ, c. Step 2: least
squares on log b, with each parameter held to step 1 as far as step 1 can be trusted.

The simulated job gets service_seconds = s_i + g_i and coherency = g_i / (s_i + g_i) ≤ 1. `coherency` stands for all
growth with k_i, shared cores included. `machine.contention`, `crosstalk` and hops cannot be separated from it and stay
zero. For a trial that could not keep up, 1 − Σ … must not be above zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares, nnls

from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import OperatorMetrics, Snapshot
from autotrascale.domain.topology import Topology
from autotrascale.domain.trial import Trial, Verdict
from autotrascale.execute.simulator.simulated_job import MicroBatch, SimulatedJob, SimulatedOperator
from autotrascale.execute.simulator.steady_state import compute_demands, steady_state

Floats = NDArray[np.float64]

LEAST_TRIALS = 4
_TRUST_USEFUL = 0.10  # spread of log s_i around step 1: stages also wait for their slowest task
_TRUST_FIXED = 0.5  # spread of p, τ and c around step 1
_LITTLE = 1e-9  # seconds
_LEAST_SPARE = 0.02  # nearer to saturation, the predicted batch time grows linearly and stays finite
_BATCH_NOISE = 0.08  # standard deviation of log b
_HINGE = 0.05  # predicted spare time of a job that fell behind which counts as one standard deviation
_LEAST_NOISE = 0.02


@dataclass(frozen=True)
class PredictionErrors:
    """Absolute relative errors of predicted batch times, and the share of correctly predicted verdicts."""

    trials: int
    median: float
    mean: float
    worst: float
    verdicts_right: float


def calibrate(trials: Sequence[Trial], *, slots: int | None = None, longest_seconds: float = 10.0) -> SimulatedJob:
    """Return the simulated job that fits the trials. `slots` is the number of slots of the master, P_max by default."""
    seen = _TrialArrays.of(trials, slots)
    start = _fit_useful_times(seen)
    theta = _fit_batch_times(seen, start)
    job = seen.job(theta, longest_seconds)
    return replace(job, noise=_round(_noise(seen, theta)))


def predict_batch_seconds(
    job: SimulatedJob, topology: Topology, parallelism: Mapping[str, int], source_rates: Mapping[str, float]
) -> float:
    """Return the steady batch time of the simulator in seconds, inf if the job cannot keep up."""
    state = steady_state(job, topology, topology.vector(parallelism), source_rates)
    return float(state.batch_seconds[0])


def measure_prediction_errors(job: SimulatedJob, trials: Sequence[Trial]) -> PredictionErrors:
    """Return the errors of `job` on `trials`, which should not be those it was fitted to.

    A trial that kept up against the prediction counts as an error of 1. A trial that did not keep up has no batch time
    and counts only for the verdicts.
    """
    errors, right = [], 0
    for trial in trials:
        snapshot = _snapshot(trial)
        expected = predict_batch_seconds(job, snapshot.topology, snapshot.parallelism, snapshot.source_rates)
        right += np.isfinite(expected) == (trial.verdict is Verdict.STABLE)
        if trial.verdict is Verdict.STABLE:
            assert snapshot.batch_seconds is not None
            errors.append(abs(expected / snapshot.batch_seconds - 1) if np.isfinite(expected) else 1.0)
    if not errors:
        raise InputError("trials", "have no stable trial to compare with", seen=len(trials), remedy="measure some")
    return PredictionErrors(
        len(errors), float(np.median(errors)), float(np.mean(errors)), float(np.max(errors)), right / len(trials)
    )


def is_usable(trial: Trial) -> bool:
    """Return whether a trial has a batch time, record counts and useful times of a micro-batch job."""
    snapshot = trial.snapshot
    if trial.verdict is Verdict.FAILED or snapshot is None:
        return False
    if snapshot.execution != "micro-batch" or not snapshot.batch_seconds:
        return False
    totals = [metrics.total for metrics in snapshot.operators.values()]
    return all(each.records_in and each.records_out is not None and each.useful_seconds for each in totals)


@dataclass(frozen=True, eq=False)
class _TrialArrays:
    """The trials as arrays: a row for each trial, a column for each operator in the order of the topology."""

    topology: Topology
    slots: int
    selectivity: Floats
    skew: Floats  # (N,) typical
    stateful: Floats  # (N,) 1 or 0
    k: Floats
    demand: Floats
    useful: Floats
    records: Floats
    batches: Floats
    batch: Floats
    idle: Floats  # h · b
    stable: NDArray[np.bool_]

    @classmethod
    def of(cls, trials: Sequence[Trial], slots: int | None) -> _TrialArrays:
        snapshots = [_snapshot(trial) for trial in trials if is_usable(trial)]
        stable = np.array([trial.verdict is Verdict.STABLE for trial in trials if is_usable(trial)])
        if stable.sum() < LEAST_TRIALS:
            raise InputError(
                "trials",
                "have too few stable trials to calibrate on",
                seen=int(stable.sum()),
                remedy=f"measure at least {LEAST_TRIALS}, better a dozen, at different parallelisms",
            )
        topology = snapshots[0].topology
        if any(snapshot.topology != topology for snapshot in snapshots):
            raise InputError("trials", "are of different jobs", remedy="give trials of one job")
        rows = [[snapshot.operators[name] for name in topology] for snapshot in snapshots]
        records, useful, emitted = (_totals(rows, name) for name in ("records_in", "useful_seconds", "records_out"))
        selectivity = emitted.sum(axis=0) / records.sum(axis=0)
        selectivity[[name in topology.sources for name in topology]] = 1.0  # source rates count the output of sources
        batch = np.array([snapshot.batch_seconds for snapshot in snapshots], dtype=float)
        demand_job = _demand_job(topology, selectivity)
        return cls(
            topology=topology,
            slots=slots or max(snapshot.p_max for snapshot in snapshots),
            selectivity=selectivity,
            skew=_median_skew(rows),
            stateful=np.array([topology.operators[name].stateful for name in topology], dtype=float),
            k=np.array([[metrics.parallelism for metrics in row] for row in rows], dtype=float),
            demand=np.array([compute_demands(demand_job, topology, snapshot.source_rates) for snapshot in snapshots]),
            useful=useful,
            records=records,
            batches=np.array([snapshot.window_seconds for snapshot in snapshots]) / batch,
            batch=batch,
            idle=np.array([snapshot.overhead_share for snapshot in snapshots]) * batch,
            stable=stable,
        )

    @property
    def fixed_design(self) -> Floats:
        """Return the factors of p, τ and c."""
        return np.column_stack([np.ones(len(self.k)), self.k.sum(axis=1), self.k @ self.stateful])

    @property
    def busy_design(self) -> Floats:
        """Return the factors of s and g: Σ load_i w_i / k_i is linear in them."""
        running = np.minimum(self.k, self.slots)
        longest = np.maximum(np.minimum(self.skew, self.k), np.ceil(self.k / self.slots))
        each = self.demand * longest / self.k
        return np.hstack([each, each * running])

    def job(self, theta: Floats, longest_seconds: float) -> SimulatedJob:
        n = len(self.topology)
        planning, task, commit = theta[:3]
        growth = theta[3 + n :]
        service = np.maximum(theta[3 : 3 + n] + growth, _LITTLE)
        operators = {
            name: SimulatedOperator(
                service_seconds=max(_round(service[i]), _LITTLE),
                selectivity=_round(self.selectivity[i]),
                coherency=_round(growth[i] / service[i]),
                skew=_round(self.skew[i]),
                commit_seconds=_round(commit * self.stateful[i]),
            )
            for i, name in enumerate(self.topology)
        }
        batch = MicroBatch(max(_round(planning), _LITTLE), _round(task), self.slots, longest_seconds)
        return SimulatedJob(operators, execution="micro-batch", batch=batch)


def _fit_useful_times(seen: _TrialArrays) -> Floats:
    """Return s and g from useful times, and p, τ and c from the remaining batch time."""
    per_record = seen.useful / seen.records
    service, growth = np.empty(len(seen.topology)), np.empty(len(seen.topology))
    for i in range(len(seen.topology)):
        design = np.column_stack([np.ones(len(seen.k)), seen.k[:, i], seen.batches * seen.k[:, i] / seen.records[:, i]])
        (service[i], growth[i], _), _ = nnls(design / per_record[:, [i]], np.ones(len(seen.k)))
    loads = np.concatenate([service, growth])
    fixed = seen.batch * np.maximum(1 - seen.busy_design @ loads, 0.0)
    fixed = np.maximum(fixed, seen.idle)[seen.stable]  # no stage runs in h · b
    design = seen.fixed_design[seen.stable]
    costs, _ = nnls(design / fixed[:, None], np.ones(len(fixed)))
    return np.concatenate([costs, loads])


def _fit_batch_times(seen: _TrialArrays, start: Floats) -> Floats:
    """Return all parameters fitted to log b, held to `start`."""
    spread = _spread_of(start, len(seen.topology))

    def residuals(theta: Floats) -> Floats:
        log_error, spare = _log_errors(seen, theta), 1 - seen.busy_design @ theta[3:]
        return np.concatenate(
            [
                log_error[seen.stable] / _BATCH_NOISE,
                np.maximum(spare[~seen.stable], 0.0) / _HINGE,
                (theta - start) / spread,
            ]
        )

    fitted = least_squares(
        residuals, np.maximum(start, 1e-3 * spread), bounds=(0.0, np.inf), x_scale=spread, loss="soft_l1"
    )
    return np.asarray(fitted.x)


def _spread_of(start: Floats, operators: int) -> Floats:
    """Return one standard deviation of each parameter. A zero gets the scale of related parameters."""
    fixed, service, growth = start[:3], start[3 : 3 + operators], start[3 + operators :]
    related = np.array([fixed.sum(), fixed.sum() / 20, fixed.sum() / 20])
    return np.concatenate(
        [
            _TRUST_FIXED * np.maximum(fixed, 0.2 * related),
            _TRUST_USEFUL * np.maximum(service + growth, _LITTLE),
            np.maximum(0.5 * growth, 0.02 * np.maximum(service + growth, _LITTLE)),
        ]
    )


def _log_errors(seen: _TrialArrays, theta: Floats) -> Floats:
    spare = 1 - seen.busy_design @ theta[3:]
    beyond = np.maximum(_LEAST_SPARE - spare, 0.0) / _LEAST_SPARE
    expected = seen.fixed_design @ theta[:3] / np.maximum(spare, _LEAST_SPARE) * (1 + beyond)
    return np.asarray(np.log(np.maximum(expected, _LITTLE) / seen.batch))


def _noise(seen: _TrialArrays, theta: Floats) -> float:
    """Return the spread of log b by the median, which ignores a single disturbed trial."""
    return max(_LEAST_NOISE, 1.4826 * float(np.median(np.abs(_log_errors(seen, theta)[seen.stable]))))


def _round(value: float) -> float:
    """Round to four digits, and a nearly zero value to zero."""
    return float(f"{value:.4g}") if value > _LITTLE else 0.0


def _snapshot(trial: Trial) -> Snapshot:
    if trial.snapshot is None:
        raise InputError("trial", "has no snapshot", seen=dict(trial.parallelism), remedy="leave it out")
    return trial.snapshot


def _totals(rows: Sequence[Sequence[OperatorMetrics]], name: str) -> Floats:
    return np.array([[getattr(metrics.total, name) for metrics in row] for row in rows], dtype=float)


def _median_skew(rows: Sequence[Sequence[OperatorMetrics]]) -> Floats:
    columns = zip(*rows, strict=True)
    found = ([metrics.skew for metrics in column if metrics.parallelism > 1] for column in columns)
    return np.array([float(np.median(skews)) if skews else 1.0 for skews in found])


def _demand_job(topology: Topology, selectivity: Floats) -> SimulatedJob:
    """Return a job with just enough fields to compute demands."""
    operators = {
        name: SimulatedOperator(service_seconds=1.0, selectivity=float(selectivity[i]))
        for i, name in enumerate(topology)
    }
    return SimulatedJob(operators, execution="micro-batch")
