"""A starved machine in words: in the verdict first of all, and wherever one of its trials is an argument."""

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
        (CORES, "tasks had no core for 62% of their time (2 cores)"),
        (STOLEN, "other machines on the same host took 40% of the cores' time (1 core)"),
        (MachinePressure(4, crowded=0.95), "something had no core for 95% of the time (4 cores)"),
        (MachinePressure(4, waiting=0.0, crowded=0.95, swapped_mb=12.3), "12 MB a second were swapped (4 cores)"),
        (
            MachinePressure(1, waiting=0.5, swapped_mb=3.0),
            "tasks had no core for 50% of their time, 3 MB a second were swapped (1 core)",
        ),
    ],
)
def test_what_was_short(shortage: MachinePressure, says: str) -> None:
    assert describe_shortage(shortage).replace(" and ", ", ") == says


def test_the_verdict_warns_before_it_advises() -> None:
    text, count = summarize_outcome(starved(CORES, STOLEN)), len(outcome().evaluations)
    first = text.index(f"2 of {count} trials ran on a starved machine, where at worst tasks had no core for 62% of")
    assert text.startswith("scripted (simulated) holds")
    assert all(first < text.index(each) for each in ("Cheaper and likely",) if each in text)
    assert "the numbers say more of the machine than of the job; use fewer slots or more cores" in text


def test_one_of_one_and_none() -> None:
    assert shortage_warning(outcome().evaluations) is None
    assert "starved" not in summarize_outcome(outcome())
    assert "starved" not in " ".join(each.text for each in explain_operators(outcome()))
    (only,) = starved(CORES).evaluations[:1]
    assert (shortage_warning([only]) or "").startswith(
        "the only trial ran on a starved machine, where tasks had no core"
    )


def test_an_argument_from_a_starved_trial_says_so() -> None:
    """Whichever verdict it had."""
    whole = outcome()
    best = tuple(whole.best.parallelism.values())
    fewer = {"source": best[0], "work": best[1] - 1}
    for verdict, latency, says in (
        (Verdict.FAILED, None, "it failed when run on a starved machine"),
        (Verdict.CANNOT_KEEP_UP, None, "it fell behind when run on a starved machine"),
        (Verdict.STABLE, 0.7, "it took 700 ms when run on a starved machine, beyond the target"),
        (Verdict.STABLE, 0.4, "it was within the target when run on a starved machine (400 ms)"),
    ):
        measured = replace(whole.evaluations[0], verdict=verdict, latency_seconds=latency)
        told = explain_operators(replace(whole, evaluations=(replace(measured, parallelism=fewer, shortage=CORES),)))
        assert says in told[1].text
