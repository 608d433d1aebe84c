"""What is run: two jobs on real Spark, by six policies, from too little and from too much; and one job at 1 to 6 each,
and with 2 each at rates that rise.

The paper's cluster has 40 slots for an operator. Here two cores have 12, and operators stall for each record as a
blocking call would: that takes time and no CPU, so that parallelism shows its effect. Starts are the paper's (Tables II
and III) in that proportion; its fifth operator of Yahoo is two here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["up", "down", "sweep", "rates"]
POLICIES = ("none", "ds2", "drs-true", "drs-observed", "dhalion", "autrascale")
SWEEP = (1, 2, 3, 4, 5, 6)
FIXED = 2  # instances of each operator while the rate rises
# Of the job's rate. The paper's job carries 250,000/s with two each and is offered 100,000 to 300,000.
RISING = (0.25, 0.375, 0.5, 0.625, 0.75)
MOST_TRIALS = 8  # of one case
SLOTS = 12


@dataclass(frozen=True)
class Bench:
    """`up` and `down`: what runs when the policy is asked first."""

    name: str
    job: str
    options: dict[str, float]
    rate: float
    target_seconds: float
    up: dict[str, int]
    down: dict[str, int]

    def content(self, slow: float = 1.0) -> dict[str, Any]:
        """Its job file. `slow`: for a machine that is so many times slower than a quiet one, as a crowded one is: all
        takes so much longer, and what an operator needs of each second of input stays the same."""
        stalls = {name: seconds * slow for name, seconds in self.options.items()}
        return {
            "version": 1, "job": self.name, "p_max": SLOTS, "source_rates": {"source": self.rate / slow},
            "target": {"latency_seconds": self.target_seconds * slow, "throughput_tolerance": 0.05},
            "tuning": {"total_trials": MOST_TRIALS, "noise": 0.1},
            "spark": {
                "job": self.job, "options": stalls, "master": f"local[{SLOTS}]",
                "window": {"window_seconds": 4.0 * slow, "min_batches": 5, "max_seconds": 30.0 * slow},
            },
        }  # fmt: skip


WORDCOUNT = Bench(
    "wordcount", "autotrascale.jobs.wordcount:WordCount", {"flatmap_stall": 0.002, "count_stall": 0.0005},
    rate=800.0, target_seconds=2.5,
    up={"source": 1, "flatmap": 1, "count": 3, "sink": 1}, down={"source": 11, "flatmap": 10, "count": 7, "sink": 6},
)  # fmt: skip
YAHOO = Bench(
    "yahoo", "autotrascale.jobs.yahoo:Yahoo", {"parse_stall": 0.0005, "join_stall": 0.003, "store_stall": 0.002},
    rate=700.0, target_seconds=3.0,
    up={"source": 1, "parse": 1, "filter": 1, "project": 1, "join": 1, "store": 1},
    down=dict.fromkeys(("source", "parse", "filter", "project", "join", "store"), SLOTS),
)  # fmt: skip
BENCHES = {bench.name: bench for bench in (WORDCOUNT, YAHOO)}


@dataclass(frozen=True)
class Case:
    """`policy` is empty where nobody decides: in a sweep, and while rates rise."""

    bench: str
    kind: Kind
    policy: str = ""

    @property
    def name(self) -> str:
        return " ".join(each for each in (self.bench, self.kind, self.policy) if each)


def all_cases() -> list[Case]:
    """Job by job, as each needs a session of its own."""
    return [
        case
        for name in BENCHES
        for case in (
            *([Case(name, "sweep"), Case(name, "rates")] if name == "wordcount" else []),
            *(Case(name, kind, policy) for kind in ("up", "down") for policy in POLICIES),
        )
    ]
