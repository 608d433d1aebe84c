"""Laws of a quota: it is never exceeded, needs are met if possible, and every cut is named."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from autotrascale.plan.sizing.quota import apply_quota
from autotrascale.plan.sizing.sizing import count_slots

asked = st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1)


@given(asked, st.integers(1, 200))
def test_shares_keep_the_quota_meet_the_need_and_name_cuts(who: dict[str, tuple[int, int]], quota: int) -> None:
    wanted = {name: max(pair) for name, pair in who.items()}
    need = {name: min(pair) for name, pair in who.items()}
    shares = apply_quota(wanted, need, quota)
    given_, total = shares.given, sum(shares.given.values())
    assert total <= max(quota, len(wanted))  # each gets at least one slot
    assert all(1 <= given_[name] <= wanted[name] for name in wanted)
    assert set(shares.cut) == {name for name in wanted if given_[name] < wanted[name]}
    assert set(shares.short) == {name for name in wanted if given_[name] < need[name]}
    if sum(need.values()) <= quota:
        assert not shares.short
        assert total == min(quota, sum(wanted.values()))


@given(asked, st.integers(1, 200), st.integers(0, 50))
def test_a_larger_quota_never_gives_less(who: dict[str, tuple[int, int]], quota: int, more: int) -> None:
    wanted = {name: max(pair) for name, pair in who.items()}
    need = {name: min(pair) for name, pair in who.items()}
    less, enough = (apply_quota(wanted, need, each).given for each in (quota, quota + more))
    assert sum(less.values()) <= sum(enough.values())


def test_stages_of_a_micro_batch_share_slots() -> None:
    k = {"a": 3, "b": 5}
    assert count_slots(None, k) == 8
    assert (count_slots("pipelined", k), count_slots("micro-batch", k), count_slots("shared", {"a": 4, "b": 4})) == (
        8,
        5,
        4,
    )
