"""The three policies of Elastic Pulsar Functions, simulated: python -m experiments.elastic_pulsar.run"""

from __future__ import annotations

from collections.abc import Sequence

from autotrascale.views.plots.plot import Axis, Level, Plot, Role, Series, SeriesStyle
from experiments.elastic_pulsar.measure import POLICIES, RATES, SERVICE, SETTINGS, cases, measure
from experiments.shared.claim import Claim, Pair, Result
from experiments.shared.documents import percent, table
from experiments.shared.driving import quartiles
from experiments.shared.published import inputs, published

TITLES = {"threshold": "threshold", "queueing-path": "queueing, path", "ds2": "DS2"}
ROLES: dict[str, Role] = {"threshold": "second", "queueing-path": "main", "ds2": "third"}
FIGURES = ("instances_mean", "instances_most", "response_mean", "response_peak", "within")


def result(pairs: Sequence[Pair]) -> Result:
    return {
        "simulated": True,
        "policies": {
            policy: {
                "seeds": sum(case["policy"] == policy for case, _ in pairs),
                **{name: quartiles([m[name] for c, m in pairs if c["policy"] == policy]) for name in FIGURES},
                "looks": _rounded(next(m["looks"] for c, m in pairs if c["policy"] == policy and c["seed"] == 0)),
            }
            for policy in POLICIES
        },
    }


def _rounded(looks: Sequence[Result]) -> list[Result]:
    return [{name: round(value, 3) for name, value in look.items()} for look in looks]


def _table(found: Result) -> str:
    rows = []
    for policy, each in found["policies"].items():
        theirs = published(f"elastic_pulsar/{policy}")
        low, middle, high = each["instances_mean"]
        rows.append(
            (
                TITLES[policy],
                f"{theirs['instances_mean']:g}",
                f"{middle:.1f} [{low:.1f}, {high:.1f}]",
                f"{each['instances_most'][1]:.0f}",
                f"{theirs['response_mean']:g} s",
                _seconds(each["response_mean"]),
                f"{theirs['response_peak']:g} s",
                _seconds(each["response_peak"]),
                percent(each["within"][1], 0),
            )
        )
    head = (
        "policy",
        "paper: instances",
        "ours",
        "most",
        "paper: response, mean",
        "ours",
        "paper: peak",
        "ours",
        "images within 1 s",
    )
    return table(head, rows)


def _seconds(values: Sequence[float]) -> str:
    low, middle, high = values
    return f"{middle:.1f} [{low:.1f}, {high:.1f}] s"


def _summary(found: Result) -> str:
    told = found["policies"]
    by_cost = sorted(POLICIES, key=lambda policy: told[policy]["instances_mean"][1])
    by_time = sorted(POLICIES, key=lambda policy: told[policy]["response_mean"][1])
    costs = ", ".join(f"{TITLES[p]} {told[p]['instances_mean'][1]:.1f}" for p in by_cost)
    times = ", ".join(f"{TITLES[p]} {told[p]['response_mean'][1]:.1f} s" for p in by_time)
    same_cost = by_cost == sorted(POLICIES, key=lambda p: published(f"elastic_pulsar/{p}")["instances_mean"])
    same_time = by_time == sorted(POLICIES, key=lambda p: published(f"elastic_pulsar/{p}")["response_mean"])
    same = "both orders are the paper's" if same_cost and same_time else "the paper's order differs"
    return f"by instances {costs}; by mean response time {times}; {same}"


def _ours(_: Result) -> str:
    times = ", ".join(f"{name} {1000 * mean:.0f} ms" for name, (mean, _) in SERVICE.items())
    rates = ", ".join(f"{rate:g}" for rate in RATES)
    return f"{times}; {rates} images/s, ten minutes each"


def _plots(found: Result) -> list[Plot]:
    def lines(name: str) -> tuple[Series, ...]:
        drawn: SeriesStyle = "steps" if name == "instances" else "line"
        return tuple(
            Series(
                TITLES[policy],
                tuple(look["minute"] for look in each["looks"]),
                tuple(look[name] for look in each["looks"]),
                drawn,
                ROLES[policy],
            )
            for policy, each in found["policies"].items()
        )

    minutes = tuple(10.0 * i for i in range(len(RATES) + 1))
    return [
        Plot(
            "rate",
            "images offered — simulated",
            "",
            Axis("minute"),
            Axis("images/s"),
            (Series("offered", minutes, (*RATES, RATES[-1]), "steps", "quiet"),),
        ),
        Plot(
            "instances",
            "instances of all functions — simulated",
            "",
            Axis("minute"),
            Axis("instances"),
            lines("instances"),
        ),
        Plot(
            "response",
            "response time of each 30 s — simulated",
            "",
            Axis("minute"),
            Axis("seconds"),
            lines("response"),
            (Level(SETTINGS["response_target"], "asked for"),),
        ),
        Plot(
            "backlog",
            "images waiting for recognition — simulated",
            "",
            Axis("minute"),
            Axis("images"),
            lines("backlog"),
            (Level(SETTINGS["scale_out"], "scaled out above"),),
        ),
    ]


CLAIM = Claim(
    "elastic_pulsar",
    cases,
    measure,
    result,
    figures={
        "summary": _summary,
        "policies": _table,
        "ours": _ours,
        "inputs": lambda _: inputs("elastic_pulsar/settings"),
    },
    plots={"elastic_pulsar.svg": _plots},
)

if __name__ == "__main__":
    from experiments.shared.running import main

    main([CLAIM.name])
