"""What is run: two jobs on real Spark, by six policies, from too little and from too much; and one job at 1 to 6 each,
and with 2 each at rates that rise."""

from __future__ import annotations

from experiments.shared.record import Case
from experiments.shared.spark_jobs import BENCHES

POLICIES = ("none", "ds2", "drs-true", "drs-observed", "dhalion", "autrascale")
SWEEP = (1, 2, 3, 4, 5, 6)
FIXED = 2  # instances of each operator while the rate rises
# Of the job's rate. The paper's job carries 250,000/s with two each and is offered 100,000 to 300,000.
RISING = (0.25, 0.375, 0.5, 0.625, 0.75)


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
