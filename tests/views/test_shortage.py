"""A starved machine in words: in the verdict first of all, and wherever one of its trials is an argument."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotrascale.domain.trial import Shortage, Verdict
from autotrascale.tuning import Outcome
from autotrascale.views.explanation import why
from autotrascale.views.shortage import short_of, warning
from autotrascale.views.verdict import summary
from tests.views.test_verdict import outcome

CORES = Shortage(2, waiting=0.62, crowded=0.99)
STOLEN = Shortage(1, waiting=0.05, stolen=0.4)


def starved(*shortages: Shortage | None) -> Outcome:
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
        (Shortage(4, crowded=0.95), "something had no core for 95% of the time (4 cores)"),
        (Shortage(4, waiting=0.0, crowded=0.95, swapped_mb=12.3), "12 MB a second were swapped (4 cores)"),
        (
            Shortage(1, waiting=0.5, swapped_mb=3.0),
            "tasks had no core for 50% of their time, 3 MB a second were swapped (1 core)",
        ),
    ],
)
def test_what_was_short(shortage: Shortage, says: str) -> None:
    assert short_of(shortage).replace(" and ", ", ") == says


def test_the_verdict_warns_before_it_advises() -> None:
    text, count = summary(starved(CORES, STOLEN)), len(outcome().evaluations)
    first = text.index(f"2 of {count} trials ran on a starved machine, where at worst tasks had no core for 62% of")
    assert text.startswith("scripted (simulated) holds")
    assert all(first < text.index(each) for each in ("Cheaper and likely",) if each in text)
    assert "the numbers say more of the machine than of the job; use fewer slots or more cores" in text


def test_one_of_one_and_none() -> None:
    assert warning(outcome().evaluations) is None
    assert "starved" not in summary(outcome())
    assert "starved" not in " ".join(each.text for each in why(outcome()))
    (only,) = starved(CORES).evaluations[:1]
    assert (warning([only]) or "").startswith("the only trial ran on a starved machine, where tasks had no core")


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
        told = why(replace(whole, evaluations=(replace(measured, parallelism=fewer, shortage=CORES),)))
        assert says in told[1].text
