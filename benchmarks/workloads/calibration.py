"""A simulated job from measured trials: the micro-batch model of `steady.py`, fitted to what a tuning run has seen.

| symbol | meaning | unit | shape |
|---|---|---|---|
| K, k_i | parallelism of the trials | instances | (n, N) |
| λ_i | demand: what reaches operator i at the trial's rates | records/s | (n, N) |
| b, h | batch time; share of it in which no stage ran | s, 1 | (n,) |
| T_u, R | useful time and records taken in, summed over an operator's instances | s, records | (n, N) |
| s_i, g_i | useful time of a record: the part that is always there, and the part that grows with k_i | s | (N,) |
| p, τ, c | planning; each task of any stage; each partition of state | s | scalars |
| w_i | hottest instance over the mean, or waves of tasks, whichever is more | | (n, N) |

    b = (p + τ Σk_i + c Σ_stateful k_i) / (1 − Σ λ_i (s_i + g_i k_i) w_i / k_i)

What can be told apart. Batch times alone know p, τ, c only as the sum that trials of different Σk split, and s_i, g_i
only where k_i and the rate vary. The trials' own useful times say s_i and g_i directly, as
T_u / R = s_i + g_i k_i + f_i · (batches · k_i / R), where f_i, a task's cost without records, keeps low rates
from looking like slow records. So the fit has two steps: least squares without negative numbers, operator by operator
and then for p, τ, c; and from there least squares on log b, each number held to the first step as far as that is to be
trusted.
For the simulated job that makes service_seconds s_i + g_i and coherency g_i / (s_i + g_i), which is never above 1.
`coherency` stands for all that grows with k_i, shared cores included; `machine.contention`, `crosstalk` and the hops
could not be told from it and stay zero. Trials that could not keep up say so: 1 − Σ … may not be above zero there.
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
_TRUST_USEFUL = 0.10  # spread of log s_i around what useful times say: stages also wait for their slowest task
_TRUST_FIXED = 0.5  # … of p, τ and c around the first step
_LITTLE = 1e-9  # seconds
_LEAST_SPARE = 0.02  # of a second: nearer to saturation the predicted batch time only grows linearly, and stays finite
_BATCH_NOISE = 0.08  # of log b, one standard deviation
_HINGE = 0.05  # a job that fell behind and is predicted to have this much spare time counts one standard deviation
_LEAST_NOISE = 0.02


@dataclass(frozen=True)
class Errors:
    """Absolute relative errors of predicted batch times, and how often the verdict was foreseen."""

    trials: int
    median: float
    mean: float
    worst: float
    verdicts_right: float


def calibrate(trials: Sequence[Trial], *, slots: int | None = None, longest_seconds: float = 10.0) -> SimulatedJob:
    """The job that these trials were measured on, as far as they tell. `slots` is the master's; P_max, if not given."""
    seen = _Seen.of(trials, slots)
    start = _first_step(seen)
    theta = _second_step(seen, start)
    job = seen.job(theta, longest_seconds)
    return replace(job, noise=_tidy(_noise(seen, theta)))


def predict(
    job: SimulatedJob, topology: Topology, parallelism: Mapping[str, int], source_rates: Mapping[str, float]
) -> float:
    """The simulator's own steady batch time, in seconds; infinite where the job cannot keep up."""
    state = steady_state(job, topology, topology.vector(parallelism), source_rates)
    return float(state.batch_seconds[0])


def prediction_errors(job: SimulatedJob, trials: Sequence[Trial]) -> Errors:
    """Of trials that the job was, best, not fitted to. One that kept up against the prediction counts as an error of 1;
    what could not keep up has no batch time, and counts among the verdicts alone."""
    errors, right = [], 0
    for trial in trials:
        snapshot = _snapshot(trial)
        expected = predict(job, snapshot.topology, snapshot.parallelism, snapshot.source_rates)
        right += np.isfinite(expected) == (trial.verdict is Verdict.STABLE)
        if trial.verdict is Verdict.STABLE:
            assert snapshot.batch_seconds is not None
            errors.append(abs(expected / snapshot.batch_seconds - 1) if np.isfinite(expected) else 1.0)
    if not errors:
        raise InputError("trials", "hold no stable one to compare with", seen=len(trials), remedy="measure some")
    return Errors(
        len(errors), float(np.median(errors)), float(np.mean(errors)), float(np.max(errors)), right / len(trials)
    )


def usable(trial: Trial) -> bool:
    """Was a micro-batch job measured, with a batch time and every operator's counts and useful times?"""
    snapshot = trial.snapshot
    if trial.verdict is Verdict.FAILED or snapshot is None:
        return False
    if snapshot.execution != "micro-batch" or not snapshot.batch_seconds:
        return False
    totals = [metrics.total for metrics in snapshot.operators.values()]
    return all(each.records_in and each.records_out is not None and each.useful_seconds for each in totals)


@dataclass(frozen=True, eq=False)
class _Seen:
    """The trials as arrays; rows are trials, columns operators in the order of the topology."""

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
    def of(cls, trials: Sequence[Trial], slots: int | None) -> _Seen:
        snapshots = [_snapshot(trial) for trial in trials if usable(trial)]
        stable = np.array([trial.verdict is Verdict.STABLE for trial in trials if usable(trial)])
        if stable.sum() < LEAST_TRIALS:
            raise InputError(
                "trials",
                "hold too few stable ones to calibrate on",
                seen=int(stable.sum()),
                remedy=f"measure {LEAST_TRIALS} or more, better a dozen, unlike each other",
            )
        topology = snapshots[0].topology
        if any(snapshot.topology != topology for snapshot in snapshots):
            raise InputError("trials", "are of different jobs", remedy="give those of one job")
        rows = [[snapshot.operators[name] for name in topology] for snapshot in snapshots]
        records, useful, gave = (_totals(rows, name) for name in ("records_in", "useful_seconds", "records_out"))
        selectivity = gave.sum(axis=0) / records.sum(axis=0)
        selectivity[[name in topology.sources for name in topology]] = 1.0  # source rates are what sources put out
        batch = np.array([snapshot.batch_seconds for snapshot in snapshots], dtype=float)
        bare = _bare(topology, selectivity)
        return cls(
            topology=topology,
            slots=slots or max(snapshot.p_max for snapshot in snapshots),
            selectivity=selectivity,
            skew=_typical_skew(rows),
            stateful=np.array([topology.operators[name].stateful for name in topology], dtype=float),
            k=np.array([[metrics.parallelism for metrics in row] for row in rows], dtype=float),
            demand=np.array([compute_demands(bare, topology, snapshot.source_rates) for snapshot in snapshots]),
            useful=useful,
            records=records,
            batches=np.array([snapshot.window_seconds for snapshot in snapshots]) / batch,
            batch=batch,
            idle=np.array([snapshot.overhead_share for snapshot in snapshots]) * batch,
            stable=stable,
        )

    @property
    def fixed_design(self) -> Floats:
        """What p, τ and c are multiplied with."""
        return np.column_stack([np.ones(len(self.k)), self.k.sum(axis=1), self.k @ self.stateful])

    @property
    def busy_design(self) -> Floats:
        """What s and g are multiplied with: Σ load_i w_i / k_i is linear in them."""
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
                service_seconds=max(_tidy(service[i]), _LITTLE),
                selectivity=_tidy(self.selectivity[i]),
                coherency=_tidy(growth[i] / service[i]),
                skew=_tidy(self.skew[i]),
                commit_seconds=_tidy(commit * self.stateful[i]),
            )
            for i, name in enumerate(self.topology)
        }
        batch = MicroBatch(max(_tidy(planning), _LITTLE), _tidy(task), self.slots, longest_seconds)
        return SimulatedJob(operators, execution="micro-batch", batch=batch)


def _first_step(seen: _Seen) -> Floats:
    """s and g from useful times; p, τ and c from what they leave of the batches."""
    per_record = seen.useful / seen.records
    service, growth = np.empty(len(seen.topology)), np.empty(len(seen.topology))
    for i in range(len(seen.topology)):
        design = np.column_stack([np.ones(len(seen.k)), seen.k[:, i], seen.batches * seen.k[:, i] / seen.records[:, i]])
        (service[i], growth[i], _), _ = nnls(design / per_record[:, [i]], np.ones(len(seen.k)))
    loads = np.concatenate([service, growth])
    fixed = seen.batch * np.maximum(1 - seen.busy_design @ loads, 0.0)
    fixed = np.maximum(fixed, seen.idle)[seen.stable]  # no stage runs in h · b, whatever else is true
    design = seen.fixed_design[seen.stable]
    costs, _ = nnls(design / fixed[:, None], np.ones(len(fixed)))
    return np.concatenate([costs, loads])


def _second_step(seen: _Seen, start: Floats) -> Floats:
    """All of it once more, on log b, held to `start`."""
    spread = _trust(start, len(seen.topology))

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


def _trust(start: Floats, operators: int) -> Floats:
    """How far each number may move for one standard deviation. What came out as zero is given the scale of its kin."""
    fixed, service, growth = start[:3], start[3 : 3 + operators], start[3 + operators :]
    kin = np.array([fixed.sum(), fixed.sum() / 20, fixed.sum() / 20])
    return np.concatenate(
        [
            _TRUST_FIXED * np.maximum(fixed, 0.2 * kin),
            _TRUST_USEFUL * np.maximum(service + growth, _LITTLE),
            np.maximum(0.5 * growth, 0.02 * np.maximum(service + growth, _LITTLE)),
        ]
    )


def _log_errors(seen: _Seen, theta: Floats) -> Floats:
    spare = 1 - seen.busy_design @ theta[3:]
    beyond = np.maximum(_LEAST_SPARE - spare, 0.0) / _LEAST_SPARE
    expected = seen.fixed_design @ theta[:3] / np.maximum(spare, _LEAST_SPARE) * (1 + beyond)
    return np.asarray(np.log(np.maximum(expected, _LITTLE) / seen.batch))


def _noise(seen: _Seen, theta: Floats) -> float:
    """The spread of log b, by the median, since one disturbed trial is not the job's own noise."""
    return max(_LEAST_NOISE, 1.4826 * float(np.median(np.abs(_log_errors(seen, theta)[seen.stable]))))


def _tidy(value: float) -> float:
    """Four digits, which is more than was measured; what the fit only nearly brought to zero is zero."""
    return float(f"{value:.4g}") if value > _LITTLE else 0.0


def _snapshot(trial: Trial) -> Snapshot:
    if trial.snapshot is None:
        raise InputError("trial", "has no snapshot", seen=dict(trial.parallelism), remedy="leave it out")
    return trial.snapshot


def _totals(rows: Sequence[Sequence[OperatorMetrics]], name: str) -> Floats:
    return np.array([[getattr(metrics.total, name) for metrics in row] for row in rows], dtype=float)


def _typical_skew(rows: Sequence[Sequence[OperatorMetrics]]) -> Floats:
    """Of the trials in which an operator could be skewed at all."""
    columns = zip(*rows, strict=True)
    found = ([metrics.skew for metrics in column if metrics.parallelism > 1] for column in columns)
    return np.array([float(np.median(skews)) if skews else 1.0 for skews in found])


def _bare(topology: Topology, selectivity: Floats) -> SimulatedJob:
    """Enough of the job to tell demands."""
    operators = {
        name: SimulatedOperator(service_seconds=1.0, selectivity=float(selectivity[i]))
        for i, name in enumerate(topology)
    }
    return SimulatedJob(operators, execution="micro-batch")
