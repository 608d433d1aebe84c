"""Each job against its oracle: the same records give the same results at any parallelism."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import oracles
import pytest
from bounded import Bounded, Ran, arrivals
from oracles import Auction, Bid, Person

from autotrascale.execute.spark.jobs.flow import StreamingJob
from examples.jobs.nexmark import Q1, Q2, Q3, Q5, Q8, Q11, Market
from examples.jobs.yahoo import Yahoo

pytestmark = pytest.mark.spark

ENDS = (2.5, 6.0)  # seconds of load: two batches
TINY = 1e-6  # a stall that costs nothing, but stands in the plan
MARKET = Market(seed=7, active_people=20, open_auctions=10, hot_auctions=0.3)
BIDS, TWO = {"bids": 200.0}, {"persons": 40.0, "auctions": 120.0}


def bids() -> list[Bid]:
    at = arrivals(BIDS["bids"], ENDS[-1])
    columns = [np.asarray(column).tolist() for column in MARKET.bids(np.arange(len(at)))]
    return [Bid(*row) for row in zip(*columns, at.tolist(), strict=True)]


def persons() -> list[Person]:
    at = arrivals(TWO["persons"], ENDS[-1])
    return [Person(*row) for row in zip(*MARKET.persons(np.arange(len(at))), at.tolist(), strict=True)]


def auctions() -> list[Auction]:
    at = arrivals(TWO["auctions"], ENDS[-1])
    columns = [np.asarray(column).tolist() for column in MARKET.auctions(np.arange(len(at)))]
    return [Auction(*row) for row in zip(*columns, at.tolist(), strict=True)]


def newest() -> int:
    """Return the watermark after the last batch."""
    return int(arrivals(BIDS["bids"], ENDS[-1])[-1])


@dataclass(frozen=True)
class Case:
    job: StreamingJob
    rates: Mapping[str, float]
    oracle: Callable[[], list[tuple[Any, ...]]]
    ks: tuple[tuple[int, ...], tuple[int, ...]]


CASES: dict[str, Case] = {
    "q1": Case(Q1(market=MARKET), BIDS, lambda: list(oracles.q1(bids())), ((1, 1, 1), (2, 3, 2))),
    "q2": Case(Q2(every=3, market=MARKET), BIDS, lambda: list(oracles.q2(bids(), 3)), ((1, 1, 1), (2, 3, 2))),
    "q3": Case(
        Q3(suggest_stall=TINY, market=MARKET),
        TWO,
        lambda: list(oracles.q3(persons(), auctions())),
        ((1, 1, 1, 1, 1), (1, 2, 2, 3, 3)),
    ),
    "q5": Case(
        Q5(count_stall=TINY, window_seconds=2.0, every_seconds=0.5, market=MARKET),
        BIDS,
        lambda: list(oracles.q5(bids(), 2000, 500, newest())),
        ((1, 1, 1), (2, 3, 2)),
    ),
    "q8": Case(
        Q8(match_stall=TINY, window_seconds=1.5, market=MARKET),
        TWO,
        lambda: list(oracles.q8(persons(), auctions(), 1500)),
        ((1, 1, 1), (1, 2, 3)),
    ),
    "q11": Case(
        Q11(sessions_stall=TINY, gap_seconds=0.4, market=MARKET),
        BIDS,
        lambda: list(oracles.q11(bids(), 400, newest())),
        ((1, 1), (2, 3)),
    ),
}


@pytest.mark.parametrize("which", [0, 1], ids=["one of each", "several"])
@pytest.mark.parametrize("name", CASES)
def test_nexmark_gives_what_its_oracle_gives(bounded: Bounded, name: str, which: int) -> None:
    case = CASES[name]
    k, expected = case.ks[which], case.oracle()
    assert len(expected) > 8
    ran = bounded.run(case.job, k, case.rates, ENDS)
    assert Counter(ran.rows) == Counter(expected)
    check_stages(case.job, k, ran)


@pytest.mark.parametrize("k", [(1, 1, 1, 1, 1, 1), (2, 3, 1, 2, 3, 2)], ids=["one of each", "several"])
def test_yahoo_gives_what_its_oracle_gives(bounded: Bounded, k: tuple[int, ...]) -> None:
    job = Yahoo(store_stall=TINY, campaigns=10, window_seconds=1.0, seed=3)
    at = arrivals(200.0, ENDS[-1])
    expected = oracles.yahoo(zip(job.events(np.arange(len(at)))[0], at.tolist(), strict=True), job.table.table(), 1000)
    ran = bounded.run(job, k, {"source": 200.0}, ENDS)
    assert last_counts(ran) == expected
    check_stages(job, k, ran)


def last_counts(ran: Ran) -> dict[tuple[str, int], int]:
    """Return the largest count of each window, which is its last one."""
    counts: dict[tuple[str, int], int] = {}
    for campaign, start, views in ran.rows:
        counts[campaign, start] = max(views, counts.get((campaign, start), 0))
    return counts


def check_stages(job: StreamingJob, k: tuple[int, ...], ran: Ran) -> None:
    """Check that each operator is one stage with one number of partitions."""
    assert all(len(stage.marks) == 1 for stage in ran.stages)
    reads = {stage.marks[0]: stage.reads for stage in ran.stages}
    wanted = {
        name: [job.topology.named(k)[name]] * len(operator.upstream)
        for name, operator in job.topology.operators.items()
    }
    assert reads == wanted
    # A stateful operator stalls once for each row of each of its inputs, and in its own stage.
    stalls = {stage.marks[0]: len(stage.stalls) for stage in ran.stages}
    assert stalls == {
        name: len(operator.upstream) if operator.stateful else 0 for name, operator in job.topology.operators.items()
    }
