"""Does DS2 stand still at the least that keeps up, wherever it began, and what would more bring (DS2 §5.5, Fig. 8)?
And what does it do about a key that one instance has alone (§4.2.3)?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from autotrascale.execute.simulator.fluid_job import solve_profile
from autotrascale.plan.policies.registry import create
from benchmarks.workloads.case import Case
from experiments.ds2_convergence.measure import SEEDS, word_count
from experiments.ds2_convergence.measure import measure as converge
from experiments.shared.jobs import QUERIES, job
from experiments.shared.published import published

STARTS = (8, 28)  # the fewest and the most of the paper's grid
AROUND = (-4, -2, -1, 0, 1, 2, 4, 8)  # instances more than the published choice
BUFFER = 200.0  # records that travel together: ours, as for the other queries of Nexmark


def cases() -> Sequence[Mapping[str, Any]]:
    queries = [{"query": query, "growth": growth} for growth in ("even", "steep") for query in QUERIES]
    return [*queries, *({"skew": share} for share in published("ds2/skew"))]


def measure(case: Mapping[str, Any]) -> Mapping[str, Any]:
    """What DS2 chooses is read from noisy windows; what is true of each parallelism, without noise."""
    if "skew" in case:
        return _skewed(case["skew"])
    there = job(f"ds2-{case['query']}{'-steep' * (case['growth'] == 'steep')}")
    there = replace(there, job=replace(there.job, buffer_records=BUFFER))
    every = range(1, there.p_max + 1)
    final = published("ds2/final")[case["query"]]
    return {
        "chosen": {str(start): [_stands_still(case, start, seed) for seed in range(SEEDS)] for start in STARTS},
        "least": next(k for k in every if _carried(there, k) >= 1),
        "around": [_at(there, final + more) for more in AROUND if final + more in every],
    }


def _skewed(share: float) -> Mapping[str, Any]:
    """The word count, while one word is so much of them all: whichever instance counts it."""
    there = job("dhalion-wordcount")
    count = replace(there.job.operators["count"], hot_share=share)
    there = replace(there, job=replace(there.job, operators={**there.job.operators, "count": count}))
    found = word_count(create("ds2"), there)
    carried = float(there.compiled.steady((1, *found["end"])).capacity[0])
    return {"end": found["end"], "steps": found["steps"], "carried": min(1.0, carried)}


def _stands_still(case: Mapping[str, Any], start: int, seed: int) -> int:
    way = converge({**case, "initial": start, "seed": seed})["way"]
    return int(way[-1]) if way else start


def _carried(there: Case, k: int) -> float:
    """Share of the rate that it could carry; the source keeps up with it if nothing behind it is short."""
    return float(there.compiled.steady((1, k)).capacity[0])


def _at(there: Case, k: int) -> Mapping[str, Any]:
    share = _carried(there, k)
    if share < 1:
        return {"k": k, "carried": share, "latency": None}
    solved = solve_profile(there.compiled, (1, k))
    mean = float(there.latency((1, k))[0])
    half, most, nearly_all = (mean + away for away in solved.quantiles(there.rate))
    return {"k": k, "carried": 1.0, "latency": {"p50": half, "p95": most, "p99": nearly_all}}
