from __future__ import annotations

from dataclasses import replace

import pytest

from autotrascale.domain.trial import MachinePressure, Verdict
from autotrascale.tuning import Evaluation, TuningProgress
from autotrascale.views.tuning_progress import format_finished_trial, format_running_trial

K = {"source": 2, "count": 12}
DONE = Evaluation(3, "search", K, Verdict.STABLE, 0.172, 350.0, 60.0, 0.9)
PROGRESS = TuningProgress("search", 3, 20, K, DONE, {"source": 2, "count": 9}, 0.25, 1020.0)


def test_the_whole_line() -> None:
    head = "search   3/20  source 2, count 12: "
    assert (
        format_finished_trial(PROGRESS) == head + "172 ms  [best so far 250 ms, misses the target]  at most 17 min left"
    )
    assert format_running_trial(PROGRESS) == head + "running …  at most 17 min left"
    assert format_finished_trial(replace(PROGRESS, done=None)) == format_running_trial(PROGRESS)


@pytest.mark.parametrize(
    ("meets", "trusted", "text"),
    [
        (False, False, "misses the target"),
        (True, False, "within the target, not confirmed"),
        (True, True, "meets the target"),
    ],
)
def test_the_best_so_far_has_its_verdict(meets: bool, trusted: bool, text: str) -> None:
    assert f"[best so far 250 ms, {text}]" in format_finished_trial(
        replace(PROGRESS, best_meets=meets, best_trusted=trusted)
    )


@pytest.mark.parametrize(
    ("left", "text"), [(None, ""), (0.5, ""), (45.0, "  at most 45 s left"), (90.0, "  at most 2 min left")]
)
def test_the_time_left_is_shown_from_a_second_on(left: float | None, text: str) -> None:
    assert format_running_trial(replace(PROGRESS, seconds_left=left)).endswith(f"running …{text}")


def test_an_overloaded_machine_is_noted_behind_the_measurement() -> None:
    starved = replace(DONE, shortage=MachinePressure(2, waiting=0.62, crowded=0.99))
    said = "172 ms  [overloaded machine: tasks waited for a core 62% of their time (2 cores)]  [best so far"
    assert said in format_finished_trial(replace(PROGRESS, done=starved))


def test_a_trial_without_a_latency_shows_its_verdict() -> None:
    failed = replace(DONE, verdict=Verdict.FAILED, latency_seconds=None, detail="out of memory")
    bare = replace(PROGRESS, best=None, best_latency=None, seconds_left=None)
    assert (
        format_finished_trial(replace(bare, done=failed)) == "search   3/20  source 2, count 12: failed – out of memory"
    )
    behind = replace(failed, verdict=Verdict.CANNOT_KEEP_UP, detail="")
    assert format_finished_trial(replace(bare, done=behind)) == "search   3/20  source 2, count 12: cannot keep up"
