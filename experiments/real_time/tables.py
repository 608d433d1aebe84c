"""What the README quotes and draws, from the result alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median

from autotrascale.views.plots.plot import Axis, Level, Plot, Series
from experiments.real_time.measure import LOAD, PARALLELISMS, POLICIES, STARTS
from experiments.real_time.query import HELD, MODES, SLOTS
from experiments.shared.claim import Result
from experiments.shared.documents import milliseconds, percent, table, vector
from experiments.shared.trials import carried, held, way


def _of(result: Result, mode: str) -> list[Result]:
    return [found for p in PARALLELISMS if (found := result["cases"].get(f"{mode} {p}"))]


def _holds(each: Result) -> bool:
    return bool(each["throughput"] >= HELD * each["load"]["rate"])


def points(result: Result) -> str:
    rows = [(p, *(cell for mode in MODES for cell in _row(result["cases"].get(f"{mode} {p}")))) for p in PARALLELISMS]
    head = ("p", *(name for mode in MODES for name in (f"{mode}: throughput", "mean latency", "99 % within", "load")))
    return table(head, rows)


def _row(each: Result | None) -> tuple[str, ...]:
    if each is None:
        return ("not measured yet", "–", "–", "–")
    behind = "" if _holds(each) else ", falls behind"
    latency = each["latency"] or {"mean": None, "p99": None}
    return (
        f"{each['throughput']:,.0f}/s{behind}",
        milliseconds(latency["mean"]),
        milliseconds(latency["p99"]),
        f"{each['load_before']:.0f}",
    )


def rates(result: Result) -> str:
    found = result["cases"].get("real-time rates")
    if found is None:
        return "Not measured yet."
    rows = [
        (
            f"{each['load']['rate']:,.0f}/s",
            f"{each['throughput']:,.0f}/s{'' if _holds(each) else ', falls behind'}",
            milliseconds(each["latency"] and each["latency"]["mean"]),
        )
        for each in found["points"]
    ]
    return table(("offered", "throughput", "mean latency"), rows)


def summary(result: Result) -> str:
    return "; ".join(_told(result, mode) for mode in MODES)


def _told(result: Result, mode: str) -> str:
    there = _of(result, mode)
    held_at = [each for each in there if _holds(each)]
    if not held_at:
        return f"{mode}, the rate is carried at no p of {_ps(there)}"
    told = ", ".join(f"{milliseconds(each['latency']['mean'])} at {each['p']}" for each in held_at)
    return f"{mode}, the rate is carried from p = {held_at[0]['p']} on, with a latency of {told}"


def _ps(there: list[Result]) -> str:
    return ", ".join(str(each["p"]) for each in there) or "none measured yet"


def floor(result: Result) -> str:
    found = result["cases"].get("real-time floor")
    if found is None:
        return "not measured yet"
    most = max(each["throughput"] or 0.0 for each in found["trials"])
    return f"{way(found['trials'])}, which carried {most:,.0f} of {found['rate']:,.0f}/s: {found['stop_reason']}"


def policies(result: Result) -> str:
    rows = []
    for kind, start in STARTS.items():
        place = f"{kind} from {vector(tuple(start.values()))}"
        for policy in POLICIES:
            found = result["cases"].get(f"real-time {kind} {policy}")
            if found is None:
                continue
            rows.append(
                (
                    place,
                    policy,
                    way(found["trials"]),
                    vector(found["k"]),
                    found["tasks"],
                    _late(found),
                    carried(found),
                    held(found),
                    len(found["trials"]),
                    found["stop_reason"],
                    f"{found['load_before']:.0f}",
                )
            )
            place = ""
    head = (
        "start",
        "policy",
        "parallelism",
        "ended at",
        "Σk",
        "latency",
        "of the rate",
        "QoS",
        "trials",
        "why",
        "load",
    )
    return table(head, rows) if rows else "Not measured yet."


def ended(result: Result) -> str:
    """Where each ended, by Σk; with an asterisk, where that misses the target."""
    return "; ".join(f"{kind}, {', '.join(_ended(result, kind))}" for kind in STARTS)


def _ended(result: Result, kind: str) -> list[str]:
    found = {policy: result["cases"].get(f"real-time {kind} {policy}") for policy in POLICIES}
    return [f"{policy} {each['tasks']}{'' if each['qos'] else '*'}" for policy, each in found.items() if each]


def _late(found: Result) -> str:
    return "falls behind" if found["latency"] is None else milliseconds(found["latency"])


def saved(result: Result) -> str:
    rows = []
    for kind in STARTS:
        ours = result["cases"].get(f"real-time {kind} autrascale")
        for policy in POLICIES[:-1]:
            theirs = result["cases"].get(f"real-time {kind} {policy}")
            if ours and theirs:
                share = percent(1 - ours["tasks"] / theirs["tasks"], 0)
                rows.append((kind, policy, share, f"{held(ours)}, {held(theirs)}"))
    return table(("", "against", "Σk saved", "QoS: ours, theirs"), rows) if rows else "Not measured yet."


def circumstances(result: Result) -> str:
    own, loads = result["machine"], [each["load_before"] for each in result["cases"].values()]
    if not loads:
        return "Not measured yet."
    each = LOAD.rate * LOAD.split
    return (
        f"Real Spark, `local[{SLOTS}]` on {own['cores']} cores, Python {own['python']}. {LOAD.rate} records/s, "
        f"{1000 * LOAD.split:.0f} ms of waiting for each in either operator, a load of {each:.1f}; {LOAD.seconds} s of "
        f"input, latencies from the last {LOAD.window_seconds} s. The machine's load before a point was "
        f"{median(loads):.0f} in the median ({min(loads):.0f} to {max(loads):.0f})."
    )


def plots(result: Result) -> list[Plot]:
    looks = tuple(zip(MODES, ("main", "second"), strict=True))
    throughput = tuple(
        Series(
            mode,
            tuple(each["p"] for each in _of(result, mode)),
            tuple(each["throughput"] for each in _of(result, mode)),
            "line",
            role,
        )  # type: ignore[arg-type]
        for mode, role in looks
    )
    latency = tuple(
        Series(
            mode,
            tuple(each["p"] for each in _of(result, mode)),
            tuple(each["latency"] and each["latency"]["mean"] for each in _of(result, mode)),
            "line",
            role,
        )  # type: ignore[arg-type]
        for mode, role in looks
    )
    x = Axis("p, instances of each operator", whole=True)
    return [
        Plot(
            "throughput",
            "throughput — measured on real Spark",
            "",
            x,
            Axis("records/s"),
            throughput,
            (Level(LOAD.rate, "offered"),),
        ),
        Plot("latency", "latency — measured on real Spark", "", x, Axis("s, mean", "log"), latency),
    ]


FIGURES: Mapping[str, Callable[[Result], str]] = {
    "summary": summary,
    "points": points,
    "circumstances": circumstances,
    "floor": floor,
    "policies": policies,
    "rates": rates,
    "saved": saved,
    "ended": ended,
}
