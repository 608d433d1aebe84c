"""The policies of Elastic Pulsar Functions beside DS2 and ours, on a job that runs, on real Spark, in micro-batches.

python -m experiments.live_policies.run               # what is not measured yet; then the table
python -m experiments.live_policies.run --anew        # all of it, or what --only names
python -m experiments.live_policies.run --only "wordcount live threshold"
python -m experiments.live_policies.run --tables      # the README's table, from result.json
"""

from __future__ import annotations

from experiments.live_policies.measure import PHASES, POLICIES, START, TARGET_SECONDS, cases, measuring
from experiments.shared.claim import Result
from experiments.shared.documents import percent, table, vector
from experiments.shared.record import Record, main
from experiments.shared.trials import circumstances


def _line(found: Result) -> str:
    return f"{found['within']} of {found['measured']} looks in target, {found['instances']} instances"


def _found(result: Result) -> list[tuple[str, Result]]:
    return [(name, each) for name in POLICIES if (each := result["cases"].get(f"wordcount live {name}"))]


def _policies(result: Result) -> str:
    rows = [
        (
            name,
            f"{each['instances']:.1f}",
            f"{each['within']} of {each['measured']}",
            *("not" if at is None else f"{at:.0f} s" for at in each["settled"]),
            each["rescales"],
            _stood(each),
            _highest(each),
            f"{each['load_before']:.0f}",
        )
        for name, each in _found(result)
    ]
    head = (
        "policy",
        "Σk, mean",
        "looks in target",
        *(f"settled at {rate:,.0f}/s after" for _, rate in PHASES),
        "rescales",
        "last parallelism of each phase",
        "highest latency",
        "load",
    )
    return table(head, rows) if rows else "Not measured yet."


def _stood(found: Result) -> str:
    ends = [at for at, _ in PHASES[1:]] + [float("inf")]
    last = [[look["k"] for look in found["looks"] if look["at"] <= end][-1] for end in ends]
    return ", ".join(vector(k) for k in last)


def _highest(found: Result) -> str:
    return f"{max(look['latency'] or 0.0 for look in found['looks']):.1f} s"


def _summary(result: Result) -> str:
    found = _found(result)
    if not found:
        return "not measured yet"
    by_instances = sorted(found, key=lambda each: each[1]["instances"])
    by_looks = sorted(found, key=lambda each: -each[1]["within"] / max(1, each[1]["measured"]))
    first = ", ".join(f"{name} {each['instances']:.1f}" for name, each in by_instances)
    second = ", ".join(f"{name} {percent(each['within'] / max(1, each['measured']), 0)}" for name, each in by_looks)
    return f"by instances {first}; by looks in target {second}"


def _day(_: Result) -> str:
    said = ", ".join(f"{rate:,.0f}/s from {at:.0f} s on" for at, rate in PHASES)
    return f"{said}; begun at {vector(tuple(START.values()))}, target {TARGET_SECONDS:g} s"


FIGURES = {"policies": _policies, "summary": _summary, "circumstances": circumstances, "day": _day}
RECORD = Record("live_policies", "Spark, micro-batch", cases, measuring, FIGURES, _line)

if __name__ == "__main__":
    main(RECORD, __doc__)
