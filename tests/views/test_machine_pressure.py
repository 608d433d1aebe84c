"""An overloaded machine in the verdict, and beside each of its trials that an explanation uses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotrascale.domain.trial import MachinePressure, Verdict
from autotrascale.tuning import Outcome
from autotrascale.views.explanation import explain_operators
from autotrascale.views.machine_pressure import describe_shortage, shortage_warning
from autotrascale.views.verdict import summarize_outcome
from tests.views.test_verdict import outcome

CORES = MachinePressure(2, waiting=0.62, crowded=0.99)
STOLEN = MachinePressure(1, waiting=0.05, stolen=0.4)


def starved(*shortages: MachinePressure | None) -> Outcome:
    whole = outcome()
    found = [*shortages, *[None] * len(whole.evaluations)]
    return replace(
        whole, evaluations=tuple(replace(each, shortage=s) for each, s in zip(whole.evaluations, found, strict=False))
    )


@pytest.mark.parametrize(
    ("shortage", "says"),
    [
        (CORES, "tasks waited for a core 62% of their time (2 cores)"),
        (STOLEN, "other machines on the same host took 40% of the cores' time (1 core)"),
        (MachinePressure(4, crowded=0.95), "processes waited for a core 95% of the time (4 cores)"),
        (MachinePressure(4, waiting=0.0, crowded=0.95, swapped_mb=12.3), "12 MB/s were swapped (4 cores)"),
        (
            MachinePressure(1, waiting=0.5, swapped_mb=3.0),
            "tasks waited for a core 50% of their time, 3 MB/s were swapped (1 core)",
        ),
    ],
)
def test_descriptions_of_a_shortage(shortage: MachinePressure, says: str) -> None:
    assert describe_shortage(shortage).replace(" and ", ", ") == says


def test_warnings_come_before_advice() -> None:
    text, count = summarize_outcome(starved(CORES, STOLEN)), len(outcome().evaluations)
    first = text.index(
        f"2 of {count} trials ran on an overloaded machine, where at worst tasks waited for a core 62% of"
    )
    assert text.startswith("scripted (simulated) holds")
    assert all(first < text.index(each) for each in ("Cheaper and likely",) if each in text)
    assert "use fewer slots or more cores" in text


def test_one_affected_trial_and_none() -> None:
    assert shortage_warning(outcome().evaluations) is None
    assert "overloaded" not in summarize_outcome(outcome())
    assert "overloaded" not in " ".join(each.text for each in explain_operators(outcome()))
    (only,) = starved(CORES).evaluations[:1]
    assert (shortage_warning([only]) or "").startswith(
        "the only trial ran on an overloaded machine, where tasks waited for a core"
    )


def test_an_explanation_marks_trials_on_an_overloaded_machine() -> None:
    whole = outcome()
    best = tuple(whole.best.parallelism.values())
    fewer = {"source": best[0], "work": best[1] - 1}
    for verdict, latency, says in (
        (Verdict.FAILED, None, "the trial failed on an overloaded machine"),
        (Verdict.CANNOT_KEEP_UP, None, "the job fell behind on an overloaded machine"),
        (Verdict.STABLE, 0.7, "measured 700 ms on an overloaded machine, above the target"),
        (Verdict.STABLE, 0.4, "measured 400 ms on an overloaded machine, within the target"),
    ):
        measured = replace(whole.evaluations[0], verdict=verdict, latency_seconds=latency)
        told = explain_operators(replace(whole, evaluations=(replace(measured, parallelism=fewer, shortage=CORES),)))
        assert says in told[1].text
