"""Our search with one choice undone, or one setting changed, on the jobs of this experiment: what each is worth.

`told` is what a study is given, `floor` what its floor is changed to, `patches` what is undone in the code; α is of the
job itself, so scores and regrets at another α are of another aim.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from autotrascale.plan.search import paper_algorithms, surrogate
from autotrascale.plan.search.ask_tell import AskTellStudy, SearchSettings
from autotrascale.plan.search.latency_model import LatencyModel
from autotrascale.plan.sizing.floor import floor_pipelined
from benchmarks.workloads.case import Case, Vector
from benchmarks.workloads.transfer_jobs import draw_problem
from benchmarks.workloads.transfer_searches import CaseTruth, make_reader, measure_floor, trace_search
from experiments.search_choices.run import VARIANTS

HIGHER = 1.25  # times the floor

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Choice:
    about: str  # which of the choices it is
    patches: Sequence[Any] = ()
    told: Mapping[str, Any] = field(default_factory=dict)
    floor: Callable[[Case], Vector] | None = None
    alpha: float | None = None
    against: str = "as kept"


def _plain_features(physics: LatencyModel, ks: Floats, log_q: Floats) -> Floats:
    """Multiples of the floor in place of the logs of k over what is needed."""
    return np.column_stack([ks / np.asarray(physics.floor, dtype=float), log_q])


def _once(case: Case) -> Vector:
    """DS2's rule looked at once, in a window at one instance each, and stages that take turns not heard of."""
    load = case.compiled.steady([1] * len(case.floor)).load[0].tolist()
    found = floor_pipelined(load, [1] * len(load), [case.p_max] * len(load))
    return tuple(min(int(k), case.p_max) for k in found)


def _higher(case: Case) -> Vector:
    return tuple(min(int(np.ceil(HIGHER * k)), case.p_max) for k in case.floor)


def _xi(value: float) -> Any:
    return mock.patch.object(paper_algorithms, "XI", value)


_FEATURES = mock.patch.object(surrogate, "compute_features", _plain_features)
_NO_PHYSICS = VARIANTS["no physics, a process with an amplitude of 0.4"]
_PAPER = {"faithful": True}

CHOICES: Mapping[str, Choice] = {
    "as kept": Choice(""),
    "the paper's bootstrap set first": Choice("bootstrap", VARIANTS["the paper's bootstrap set first"]),
    "k over the floor, no logs": Choice("features", [_FEATURES]),
    "no physics": Choice("prior mean", _NO_PHYSICS),
    "no physics, k over the floor, no logs": Choice("prior mean", [*_NO_PHYSICS, _FEATURES]),
    "doubt as deep as it is high": Choice("doubt", [mock.patch.object(surrogate, "FALL", 0.0)]),
    "α = 0.2": Choice("α", alpha=0.2),
    "α = 0.8": Choice("α", alpha=0.8),
    "told 1 % of noise": Choice("noise", told={"settings": SearchSettings(noise=0.01)}),
    "told 15 %": Choice("noise", told={"settings": SearchSettings(noise=0.15)}),
    "one decision from ones": Choice("floor rule", floor=_once),
    "a quarter higher": Choice("floor rule", floor=_higher),
    "Algorithm 1, ξ = 0.01": Choice("ξ", told=_PAPER, against="Algorithm 1, ξ = 0.01"),
    "Algorithm 1, ξ = 0": Choice("ξ", [_xi(0.0)], _PAPER, against="Algorithm 1, ξ = 0.01"),
    "Algorithm 1, ξ = 0.1": Choice("ξ", [_xi(0.1)], _PAPER, against="Algorithm 1, ξ = 0.01"),
}


def search(name: str, family: str, number: int, seed: int) -> Mapping[str, Any]:
    """One cold search, and what is true of what it ends with. The same noise for each choice, window by window."""
    choice = CHOICES[name]
    case = draw_problem(family, number).case
    case = case if choice.alpha is None else replace(case, alpha=choice.alpha)
    floor = case.floor if choice.floor is None else choice.floor(case)
    sizing = measure_floor(case, seed + 1)
    told = {"sizing": sizing, **choice.told}
    if choice.told.get("faithful"):
        del told["sizing"]
    study = AskTellStudy(floor, case.p_max, case.latency_target, case.alpha, case.over_allocation, seed, **told)
    with ExitStack() as stack:
        for patch in choice.patches:
            stack.enter_context(patch)
        trace = trace_search(study, CaseTruth(case), make_reader(case, case.windows(seed + 2)))
    answer = study.answer.parallelism
    return {
        "stop": trace.stop,
        "ended": trace.ended,
        "reason": trace.reason,
        "missed": trace.missed,
        "regret_at_stop": trace.regret_at_stop,
        "of_floor": sum(answer) / sum(case.floor),
    }
