"""What the README quotes, from the result alone, between markers: `<!-- measured: NAME -->` … `<!-- end -->`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from experiments.elasticity_spark.cases import POLICIES
from experiments.shared.claim import Result
from experiments.shared.documents import table, vector
from experiments.shared.spark_jobs import BENCHES
from experiments.shared.trials import carried, circumstances, held, latency

NOT_YET = "–"


def elasticity(result: Result) -> str:
    rows, missing = [], []
    for name, bench in BENCHES.items():
        for kind, start in (("up", bench.up), ("down", bench.down)):
            place = f"{name}, {kind} from {vector(tuple(start.values()))}"
            for policy in POLICIES:
                found = result["cases"].get(f"{name} {kind} {policy}")
                if found is None:
                    missing.append(f"{name} {kind} {policy}")
                    continue
                rows.append((place, policy, *_row(found)))
                place = ""
    head = (
        "job and start",
        "policy",
        "ended at",
        "Σk",
        "slots",
        "latency",
        "of the rate",
        "QoS",
        "trials",
        "why",
        "load",
    )
    left = f"\n\nNot measured yet: {', '.join(missing)}." if missing else ""
    return table(head, rows) + left


def _row(found: Result) -> tuple[object, ...]:
    return (
        vector(found["k"]),
        found["tasks"],
        found["slots"],
        latency(found),
        carried(found),
        held(found),
        len(found["trials"]),
        found["stop_reason"],
        f"{found['load_before']:.0f}",
    )


def saved(result: Result) -> str:
    """Of the rivals' Σk and slots, where a rival held the target; the paper counts those that do not, too."""
    rows = []
    for name in BENCHES:
        for kind in ("up", "down"):
            ours = result["cases"].get(f"{name} {kind} autrascale")
            for policy in ("ds2", "drs-true", "drs-observed", "dhalion", "none"):
                theirs = result["cases"].get(f"{name} {kind} {policy}")
                if ours is None or theirs is None:
                    continue
                rows.append(
                    (
                        name,
                        kind,
                        policy,
                        _share(ours, theirs, "tasks"),
                        _share(ours, theirs, "slots"),
                        _both(ours, theirs),
                    )
                )
    return table(("job", "", "against", "Σk saved", "slots saved", "QoS: ours, theirs"), rows)


def summary(result: Result) -> str:
    """Where each ended, by Σk; with an asterisk, where that misses the target."""
    return "; ".join(
        f"{kind}, " + ", ".join(_ended(result, kind, policy) for policy in POLICIES) for kind in ("up", "down")
    )


def _ended(result: Result, kind: str, policy: str) -> str:
    found = [result["cases"].get(f"{name} {kind} {policy}") for name in BENCHES]
    return f"{policy} " + " and ".join(
        f"{each['tasks']}{'' if each['qos'] else '*'}" if each else "–" for each in found
    )


def _share(ours: Result, theirs: Result, what: str) -> str:
    return f"{100 * (1 - ours[what] / theirs[what]):.0f} %"


def _both(ours: Result, theirs: Result) -> str:
    return ", ".join(held(each) for each in (ours, theirs))


def sweep(result: Result) -> str:
    return _points(result, "wordcount sweep", "p", lambda each: f"{each['p']}")


def rates(result: Result) -> str:
    return _points(result, "wordcount rates", "offered", lambda each: f"{each['rate']:,.0f}/s")


def _points(result: Result, name: str, head: str, first: Callable[[Result], str]) -> str:
    found = result["cases"].get(name)
    if found is None:
        return f'Not measured yet: `--only "{name}"`.'
    rows = [
        (
            first(each),
            _number(each["throughput"], ",.0f", "/s"),
            _number(each["latency"], ".2f", " s"),
            _number(each["batch_seconds"], ".2f", " s"),
            each["verdict"],
        )
        for each in found["points"]
    ]
    return table((head, "throughput", "latency", "longest batch", "verdict"), rows)


def _number(value: float | None, form: str, unit: str) -> str:
    return NOT_YET if value is None else f"{value:{form}}{unit}"


FIGURES: Mapping[str, Callable[[Result], str]] = {
    "summary": summary,
    "elasticity": elasticity,
    "saved": saved,
    "sweep": sweep,
    "rates": rates,
    "circumstances": circumstances,
}
