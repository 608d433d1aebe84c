"""Rescale costs, the choice between in place and overlap, and the interruption of an open batch."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.plan.migration.batch_interruption import OpenBatch, StageDuration, repeated_share, should_interrupt
from autotrascale.plan.migration.rescale_costs import LinearCost, RescaleCosts, fit_line
from autotrascale.plan.migration.rescale_mode import ORDINARY_KEYS, RescaleConditions, RescaleMode, choose_rescale_mode


@given(st.floats(0, 20), st.floats(0, 1e-3), st.lists(st.integers(1, 10**7), min_size=2, max_size=6, unique=True))
def test_a_fitted_line_equals_the_true_line(seconds: float, per_key: float, keys: list[int]) -> None:
    truth = LinearCost(seconds, per_key)
    fitted = fit_line([(n, truth.at(n)) for n in keys])
    for n in keys:
        assert fitted.at(n) == pytest.approx(truth.at(n), rel=1e-3, abs=1e-3)


def test_a_line_never_falls() -> None:
    fitted = fit_line([(10, 5.0), (1000, 1.0)])
    assert fitted.per_key == 0
    assert 1.0 <= fitted.seconds <= 5.0


FREE = RescaleConditions(fenced=True, slots=8, needed=8, keys=1e5)
COSTS = RescaleCosts(in_place=LinearCost(1.5, 1e-5), hand_over=LinearCost(1.0), preparing=LinearCost(3.0, 2e-5))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"fenced": False, "sink": "kafka"}, "to kafka"),
        ({"not_replayable": ("socket",)}, "socket"),
        ({"by_batches": "a watermark"}, "a watermark"),
        ({"by_batches": "a watermark", "can_follow": True, "named": True}, "one name"),
        ({"named": True}, "one name"),
        ({"local": False}, "checkpoint"),
        ({"committed": False}, "no batch"),
        ({"needed": 9}, "need 9 slots, and 8"),
    ],
)
def test_the_reason_names_what_forbids_an_overlap(changes: dict[str, object], why: str) -> None:
    for asked in ("overlap", "auto"):
        choice = choose_rescale_mode(asked, replace(FREE, **changes))  # type: ignore[arg-type]
        assert not choice.overlap
        assert choice.why.startswith("in place: ")
        assert why in choice.why


def test_a_query_that_depends_on_batches_follows_them_and_prepares_longer() -> None:
    led = replace(FREE, by_batches="a watermark", can_follow=True)
    one, other = (choose_rescale_mode("overlap", found, COSTS) for found in (led, FREE))
    assert (one.overlap, one.one_by_one, other.one_by_one) == (True, True, False)
    assert one.takes.overlap_seconds > other.takes.overlap_seconds
    assert one.takes.standstill_seconds == other.takes.standstill_seconds
    assert not choose_rescale_mode("in-place", led, COSTS).one_by_one


def test_an_overlap_must_be_configured() -> None:
    assert not choose_rescale_mode("in-place", FREE).overlap
    assert choose_rescale_mode("overlap", FREE).overlap


@given(st.floats(0, 1e7), st.floats(0, 1e7))
def test_more_state_never_argues_against_an_overlap(fewer: float, more: float) -> None:
    fewer, more = sorted((fewer, more))
    small, large = (choose_rescale_mode("auto", replace(FREE, keys=keys), COSTS) for keys in (fewer, more))
    assert large.overlap >= small.overlap
    assert "overlapped" in large.why


def test_auto_compares_the_standstill_with_the_time_of_two_queries() -> None:
    assert choose_rescale_mode("auto", FREE, COSTS).overlap
    assert not choose_rescale_mode(
        "auto", replace(FREE, keys=None), COSTS
    ).overlap  # with an unknown number of keys, the saving is below half a second
    dear = replace(COSTS, preparing=LinearCost(300.0))
    assert not choose_rescale_mode("auto", FREE, dear).overlap


@given(st.sampled_from(["overlap", "in-place", "auto"]), st.booleans(), st.none() | st.floats(0, 1e7))
def test_a_choice_has_its_expected_durations(asked: RescaleMode, fenced: bool, keys: float | None) -> None:
    choice = choose_rescale_mode(asked, replace(FREE, fenced=fenced, keys=keys), COSTS)
    known = ORDINARY_KEYS if keys is None else keys
    assert choice.takes.standstill_seconds == (COSTS.hand_over if choice.overlap else COSTS.in_place).at(known)
    assert choice.takes.overlap_seconds == (COSTS.preparing.at(known) if choice.overlap else 0.0)


seconds = st.floats(0, 1000)
parts = st.lists(st.builds(StageDuration, st.sampled_from("abc"), st.integers(1, 9), seconds), max_size=5)
parallelisms = st.dictionaries(st.sampled_from("abc"), st.integers(1, 9))
batches = st.builds(OpenBatch, seconds, seconds, seconds, seconds, parts)


@given(batches, parallelisms, seconds)
def test_a_batch_is_interrupted_only_if_repeating_it_is_faster(
    batch: OpenBatch, k: dict[str, int], most: float
) -> None:
    again = repeated_share(batch.before_seconds, batch.before, k)
    assert again >= 0
    if should_interrupt(batch, k, most):
        assert again < 1
        assert (
            batch.seconds + max(1, most) < batch.before_seconds
        )  # a batch that should end within the wait is not interrupted
        assert again * batch.before_seconds < batch.before_seconds - batch.seconds
        earlier = replace(batch, seconds=batch.seconds / 2)
        assert should_interrupt(earlier, k, most)
        assert should_interrupt(batch, k, most / 2)
        assert should_interrupt(
            batch, {name: k.get(name, 9) * 2 for name in "abc"}, most
        )  # more parallelism is another reason to interrupt


@given(batches, parallelisms)
def test_no_batch_is_interrupted_for_less_or_equal_parallelism(batch: OpenBatch, less: dict[str, int]) -> None:
    least = {name: min((p.tasks for p in batch.before if p.operator == name), default=9) for name in "abc"}
    k = {name: min(least[name], count) for name, count in less.items()}
    assert not should_interrupt(batch, k, 0.0)


@given(st.floats(0.1, 100), st.integers(1, 9), st.integers(1, 9))
def test_a_stage_takes_its_share_of_tasks(whole: float, tasks: int, then: int) -> None:
    assert repeated_share(whole, [StageDuration("a", tasks, whole)], {"a": then}) == pytest.approx(tasks / then)
    assert repeated_share(whole, [StageDuration("a", tasks, whole / 2)], {"a": then}) == pytest.approx(
        (1 + tasks / then) / 2
    )
    side_by_side = [StageDuration("a", tasks, whole), StageDuration("b", tasks, whole)]
    assert repeated_share(whole, side_by_side, {"a": then, "b": then}) == pytest.approx(tasks / then)
    assert repeated_share(0.0, [], {}) == 1
