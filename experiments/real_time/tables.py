"""What the README quotes and draws, from the result alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from autotrascale.views.plots.plot import Axis, Level, Plot, Series
from experiments.real_time.measure import MODES, PARALLELISMS
from experiments.shared.documents import milliseconds, table

Result = Mapping[str, Any]
HELD = 0.95  # share of the rate with which it counts as carried: what is on its way at the end did not arrive yet


def _of(result: Result, mode: str) -> list[Mapping[str, Any]]:
    found = [each for each in result["points"] if each["mode"] == mode]
    return sorted(found, key=lambda each: each["p"])


def _holds(result: Result, each: Mapping[str, Any]) -> bool:
    return bool(each["throughput"] >= HELD * result["load"]["rate"])


def points(result: Result) -> str:
    found = {(each["mode"], each["p"]): each for each in result["points"]}
    rows = [(p, *(cell for mode in MODES for cell in _row(result, found.get((mode, p))))) for p in PARALLELISMS]
    head = ("p", *(name for mode in MODES for name in (f"{mode}: throughput", "mean latency", "99 % within", "load")))
    return table(head, rows)


def _row(result: Result, each: Mapping[str, Any] | None) -> tuple[str, ...]:
    if each is None:
        return ("not measured yet", "–", "–", "–")
    behind = "" if _holds(result, each) else ", falls behind"
    latency = each["latency"] or {"mean": None, "p99": None}
    return (f"{each['throughput']:,.0f}/s{behind}", milliseconds(latency["mean"]), milliseconds(latency["p99"]),
            f"{each['load_before']:.0f}")  # fmt: skip


def summary(result: Result) -> str:
    return "; ".join(_told(result, mode) for mode in MODES)


def _told(result: Result, mode: str) -> str:
    there = _of(result, mode)
    held = [each for each in there if _holds(result, each)]
    if not held:
        return f"{mode}, the rate is carried at no p of {_ps(there)}"
    told = ", ".join(f"{milliseconds(each['latency']['mean'])} at {each['p']}" for each in held)
    return f"{mode}, the rate is carried from p = {held[0]['p']} on, with a latency of {told}"


def _ps(there: list[Mapping[str, Any]]) -> str:
    return ", ".join(str(each["p"]) for each in there) or "none measured yet"


def circumstances(result: Result) -> str:
    load, own = result["load"], result["machine"]
    loads = [each["load_before"] for each in result["points"]]
    each = load["rate"] * load["stall"]
    return (
        f"Real Spark, `local[{result['slots']}]` on {own['cores']} cores, Python {own['python']}. {load['rate']} "
        f"records/s, {1000 * load['stall']:.0f} ms of waiting for each in either operator, a load of {each:.1f}; "
        f"{load['seconds']} s of input, latencies from the last {load['window_seconds']} s. The machine's load before "
        f"a point was {median(loads):.0f} in the median ({min(loads):.0f} to {max(loads):.0f})."
    )


def plots(result: Result) -> list[Plot]:
    looks = tuple(zip(MODES, ("main", "second"), strict=True))
    throughput = tuple(
        Series(mode, tuple(each["p"] for each in _of(result, mode)),
               tuple(each["throughput"] for each in _of(result, mode)), "line", role)  # type: ignore[arg-type]
        for mode, role in looks
    )  # fmt: skip
    latency = tuple(
        Series(mode, tuple(each["p"] for each in _of(result, mode)),
               tuple(each["latency"] and each["latency"]["mean"] for each in _of(result, mode)), "line",
               role)  # type: ignore[arg-type]
        for mode, role in looks
    )  # fmt: skip
    x = Axis("p, instances of each operator", whole=True)
    return [
        Plot("throughput", "throughput — measured on real Spark", "", x, Axis("records/s"), throughput,
             (Level(result["load"]["rate"], "offered"),)),
        Plot("latency", "latency — measured on real Spark", "", x, Axis("s, mean", "log"), latency),
    ]  # fmt: skip


FIGURES: Mapping[str, Callable[[Result], str]] = {
    "summary": summary, "points": points, "circumstances": circumstances,
}  # fmt: skip
