"""Following the batches of the first query: when the second query takes over, and when it is given up."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from autotrascale.plan.migration.catch_up import CatchUpRound, CatchUpStep, decide_catch_up, estimate_left_seconds

PATIENCE = 120.0
seconds = st.floats(0.02, 30.0)
counts = st.integers(0, 60)
rounds = st.builds(CatchUpRound, st.floats(0.0, 300.0), counts, counts, counts)


def followed(behind: int, apart: float, each: float, start: float) -> tuple[CatchUpStep, list[CatchUpRound]]:
    """Follow in rounds, with perfectly regular batches."""
    seen, at, due = list[CatchUpRound](), 0.0, 0.0
    while (step := decide_catch_up(seen, PATIENCE)).do == "follow":
        done = behind
        took = done * each + (start if not seen else 0.0)
        at += took
        came = int(at / apart) - int(due / apart)
        due = at
        behind = came
        seen.append(CatchUpRound(took, done, came, behind))
        assert len(seen) < 1000
    return step, seen


@given(st.integers(1, 40), seconds, st.floats(0.05, 0.8), st.floats(0.0, 10.0))
def test_a_faster_second_query_catches_up_if_there_is_time(
    behind: int, apart: float, share: float, start: float
) -> None:
    each = share * apart
    most = start + (behind + start / apart + 3) * each / (1 - share)  # includes batches that arrive meanwhile
    step, seen = followed(behind, apart, each, start)
    if most + 3 * apart / (1 - share) < PATIENCE:
        assert step == CatchUpStep("hand over")
    if step.do == "hand over" and seen:
        assert seen[-1].behind <= 1 or seen[-1].behind * each <= 0.5 + 1e-6


@given(st.integers(2, 40), st.floats(0.6, 30.0), st.floats(1.2, 9.0), st.floats(0.0, 10.0))
def test_a_slower_second_query_is_given_up_after_its_second_round(
    behind: int, apart: float, share: float, start: float
) -> None:
    step, seen = followed(behind, apart, share * apart, start)
    assert len(seen) <= 2 or seen[1].came <= seen[1].done + 1  # one batch may be there by chance
    if step.do == "give up":
        assert "batch" in step.why
        assert sum(one.seconds for one in seen[:-1]) < PATIENCE


@given(st.lists(rounds, max_size=6))
def test_every_decision_has_a_step_and_giving_up_has_a_reason(seen: list[CatchUpRound]) -> None:
    step = decide_catch_up(seen, PATIENCE)
    assert (step.do == "give up") == bool(step.why)
    if step.do == "follow" and seen:
        assert sum(one.seconds for one in seen) < PATIENCE  # the overlap ends
    if seen and seen[-1].behind <= 1:
        assert step.do == "hand over"


@given(rounds)
def test_the_first_round_is_not_used_for_estimates(first: CatchUpRound) -> None:
    if first.seconds < PATIENCE:
        assert decide_catch_up([first], PATIENCE).do in ("follow", "hand over")


@given(rounds)
def test_the_left_time_includes_batches_that_arrive_meanwhile(last: CatchUpRound) -> None:
    """In that time the second query does the waiting batches and those that the first query commits meanwhile."""
    left = estimate_left_seconds(last)
    if left < math.inf:
        came = left / last.apart
        assert math.isclose(left, (last.behind + came) * last.each, rel_tol=1e-6, abs_tol=1e-9)
