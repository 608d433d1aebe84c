"""The search libraries that ours is measured against, each behind the same two calls.

They maximise the measured score F (Eq. 4) over the same lattice, from the same start: nothing known. Each in the
setting that did best for it on the development families.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np

Point = tuple[int, ...]


class Peer(Protocol):
    def ask(self) -> Point: ...

    def tell(self, k: Point, score: float) -> None: ...


class RandomSearch:
    def __init__(self, lower: Sequence[int], upper: Sequence[int], seed: int) -> None:
        self.lower, self.upper = np.array(lower), np.array(upper)
        self.rng = np.random.default_rng(seed)

    def ask(self) -> Point:
        return tuple(int(x) for x in self.rng.integers(self.lower, self.upper + 1))

    def tell(self, k: Point, score: float) -> None:
        """Nothing to learn."""


class Skopt:
    """scikit-optimize's Gaussian process with EI on log-uniform dimensions; a dimension of one value is kept out."""

    def __init__(self, lower: Sequence[int], upper: Sequence[int], seed: int, **settings: Any) -> None:
        from skopt import Optimizer
        from skopt.space import Integer

        self.lower = tuple(lower)
        self.free = [i for i, (low, high) in enumerate(zip(lower, upper, strict=True)) if low < high]
        dimensions = [Integer(lower[i], upper[i], prior="log-uniform") for i in self.free]
        chosen = {"acq_func": "EI", "n_initial_points": 5, "initial_point_generator": "lhs"} | settings
        self.optimizer = Optimizer(dimensions, base_estimator="GP", random_state=seed, **chosen)

    def ask(self) -> Point:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns whenever it proposes a point again
            values = dict(zip(self.free, self.optimizer.ask(), strict=True))
        return tuple(int(values.get(i, low)) for i, low in enumerate(self.lower))

    def tell(self, k: Point, score: float) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.optimizer.tell([k[i] for i in self.free], -score)


class Optuna:
    def __init__(self, lower: Sequence[int], upper: Sequence[int], seed: int, sampler: str) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.bounds = list(zip(lower, upper, strict=True))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # samplers marked experimental
            made = {
                "tpe": lambda: optuna.samplers.TPESampler(seed=seed, multivariate=True, n_startup_trials=5),
                "gp": lambda: optuna.samplers.GPSampler(seed=seed, n_startup_trials=5),
            }[sampler]()
        self.study = optuna.create_study(direction="maximize", sampler=made)
        self.trial: Any = None

    def ask(self) -> Point:
        self.trial = self.study.ask()
        return tuple(self.trial.suggest_int(f"k{i}", low, high, log=True) for i, (low, high) in enumerate(self.bounds))

    def tell(self, k: Point, score: float) -> None:  # noqa: ARG002 - the trial asked for knows its point
        self.study.tell(self.trial, score)


Maker = Callable[[Sequence[int], Sequence[int], int], Peer]


def installed_peers() -> dict[str, Maker]:
    """Those whose packages are installed; torch, which Optuna's GPSampler needs, often is not."""
    found: dict[str, Maker] = {"random": RandomSearch, "skopt-gp-ei": Skopt}
    if find_spec("optuna"):
        found["optuna-tpe"] = lambda low, high, seed: Optuna(low, high, seed, "tpe")
        if find_spec("torch"):
            found["optuna-gp"] = lambda low, high, seed: Optuna(low, high, seed, "gp")
    return found
