"""Search libraries that AuTraScale is compared with, behind `ask` and `tell`.

They maximise the measured score F (Eq. 4) over the same lattice, and start without any knowledge. Each library has the
settings that did best for it on the development families.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np

Point = tuple[int, ...]


class Peer(Protocol):
    """A search library: `ask` proposes a configuration, `tell` reports its score."""

    def ask(self) -> Point: ...

    def tell(self, k: Point, score: float) -> None: ...


class RandomSearch:
    """Uniform random proposals: the baseline of all searches."""

    def __init__(self, lower: Sequence[int], upper: Sequence[int], seed: int) -> None:
        self.lower, self.upper = np.array(lower), np.array(upper)
        self.rng = np.random.default_rng(seed)

    def ask(self) -> Point:
        return tuple(int(x) for x in self.rng.integers(self.lower, self.upper + 1))

    def tell(self, k: Point, score: float) -> None:
        """Ignore the score."""


class Skopt:
    """scikit-optimize's Gaussian process with EI on log-uniform dimensions. A dimension with one value is left out."""

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
            warnings.simplefilter("ignore")  # it warns about each repeated proposal
            values = dict(zip(self.free, self.optimizer.ask(), strict=True))
        return tuple(int(values.get(i, low)) for i, low in enumerate(self.lower))

    def tell(self, k: Point, score: float) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.optimizer.tell([k[i] for i in self.free], -score)


class Optuna:
    """Optuna with its TPE sampler ("tpe") or its Gaussian process ("gp")."""

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

    def tell(self, k: Point, score: float) -> None:  # noqa: ARG002 - the trial knows its point
        self.study.tell(self.trial, score)


Maker = Callable[[Sequence[int], Sequence[int], int], Peer]


def installed_peers() -> dict[str, Maker]:
    """Return the libraries that are installed. The GP sampler of Optuna needs torch, which is often missing."""
    found: dict[str, Maker] = {"random": RandomSearch, "skopt-gp-ei": Skopt}
    if find_spec("optuna"):
        found["optuna-tpe"] = lambda low, high, seed: Optuna(low, high, seed, "tpe")
        if find_spec("torch"):
            found["optuna-gp"] = lambda low, high, seed: Optuna(low, high, seed, "gp")
    return found
