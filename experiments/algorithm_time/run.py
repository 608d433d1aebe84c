"""AuTraScale's Table IV: python -m experiments.algorithm_time.run"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence

from autotrascale.views.plots.plot import Axis, Plot, Role, Series
from experiments.algorithm_time.measure import KINDS, MATRIX, OPERATORS, cases, measure
from experiments.shared.claim import Claim, Pair, Result
from experiments.shared.documents import table
from experiments.shared.published import published

PARTS = {"train": "train", "use": "use", "transfer": "transfer"}
TITLES = {"faithful": "to the letter", "default": "AuTraScale"}


def result(pairs: Sequence[Pair]) -> Result:
    found = {
        kind: {str(case["operators"]): dict(times) for case, times in pairs if case["kind"] == kind} for kind in KINDS
    }
    return {
        "simulated": False,
        "machine": f"{os.cpu_count()} cores shared with others, Python {platform.python_version()}",
        "seconds": {
            kind: {n: {name: round(each, 7) for name, each in times.items()} for n, times in by.items()}
            for kind, by in found.items()
        },
    }


def _times(found: Result) -> str:
    rows = []
    for part, title in PARTS.items():
        rows.append((f"{title}, the paper's", *(_ms(each) for each in published(f"algorithm_time/{part}"))))
        for kind, name in TITLES.items():
            rows.append((f"{title}, {name}", *(_ms(found["seconds"][kind][str(n)][part]) for n in OPERATORS)))
    return table(("operators", *OPERATORS), rows)


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms"


def _ratios(found: Result) -> str:
    rows = []
    last, first = str(OPERATORS[-1]), str(OPERATORS[0])
    for part, title in PARTS.items():
        theirs = published(f"algorithm_time/{part}")
        rows.append((f"{title}, the paper's", f"{theirs[-1] / theirs[0]:.1f}", "–", "–"))
        for kind, name in TITLES.items():
            times = found["seconds"][kind]
            rows.append(
                (
                    f"{title}, {name}",
                    f"{times[last][part] / times[first][part]:.1f}",
                    f"{times[first][part] / times[first]['matrix']:.1f}",
                    f"{times[last][part] / times[last]['matrix']:.1f}",
                )
            )
    head = ("", f"{last} operators over {first}", f"{first} operators, over a factorisation", f"{last} operators")
    return table(head, rows)


def _summary(found: Result) -> str:
    last, first = str(OPERATORS[-1]), str(OPERATORS[0])
    told = []
    for kind, name in TITLES.items():
        times = found["seconds"][kind]
        grows = ", ".join(f"{PARTS[part]} {times[last][part] / times[first][part]:.1f}" for part in PARTS)
        told.append(f"{name}, {grows}")
    theirs = ", ".join(
        f"{published(f'algorithm_time/{p}')[-1] / published(f'algorithm_time/{p}')[0]:.1f}" for p in PARTS
    )
    return f"from {first} to {last} operators times grow by these factors: {'; '.join(told)} (paper: {theirs})"


def _plots(found: Result) -> list[Plot]:
    roles: dict[str, Role] = {"train": "main", "use": "third", "transfer": "second"}
    places = tuple(map(float, OPERATORS))

    def plot(name: str, title: str, seconds: Callable[[str], Sequence[float]]) -> Plot:
        series = tuple(
            Series(said, places, tuple(1000 * each for each in seconds(part)), "line", roles[part])
            for part, said in PARTS.items()
        )
        return Plot(name, title, "", Axis("operators"), Axis("ms", "log"), series)

    paper = plot("paper", "Table IV, measured by its authors", lambda part: published(f"algorithm_time/{part}"))
    ours = [
        plot(
            kind,
            f"{name}, measured here",
            lambda part, kind=kind: [found["seconds"][kind][str(n)][part] for n in OPERATORS],
        )  # type: ignore[misc]
        for kind, name in TITLES.items()
    ]
    return [paper, *ours]


CLAIM = Claim(
    "algorithm_time",
    cases,
    measure,
    result,
    figures={
        "summary": _summary,
        "times": _times,
        "ratios": _ratios,
        "machine": lambda found: str(found["machine"]),
        "matrix": lambda _: f"{MATRIX} × {MATRIX}",
    },
    plots={"algorithm_time.svg": _plots},
    alone=True,
)

if __name__ == "__main__":
    from experiments.shared.running import main

    main([CLAIM.name])
