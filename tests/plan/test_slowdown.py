from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.plan.sizing.slowdown import SlowdownDetector
from autotrascale.testing.chain_snapshots import chain_snapshot

NAMES = ("source", "map", "sink")


def look(slowdowns: SlowdownDetector, instances: int, capacity: float) -> None:
    rate = 0.5 * capacity
    slowdowns.observe(chain_snapshot(dict.fromkeys(NAMES, instances), dict.fromkeys(NAMES, capacity), rate, p_max=99))


@given(st.floats(1.0, 10.0), st.integers(1, 5), st.integers(6, 30))
def test_the_slowdown_is_the_factor_by_which_instances_got_slower(factor: float, few: int, many: int) -> None:
    slowdowns = SlowdownDetector()
    look(slowdowns, few, 100.0)
    look(slowdowns, many, 100.0 / factor)
    found = slowdowns.slowdown
    if factor < 1.49:
        assert found is None
    elif factor > 1.51:
        assert found is not None
        assert found.factor == pytest.approx(factor, rel=1e-6)
        assert (found.few, found.many) == (3 * few, 3 * many)


def test_without_measurements_there_is_no_slowdown() -> None:
    slowdowns = SlowdownDetector()
    assert slowdowns.slowdown is None
    look(slowdowns, 3, 100.0)
    look(slowdowns, 3, 10.0)
    assert slowdowns.slowdown is None
    blind = SlowdownDetector()
    for k in (1, 9):
        blind.observe(chain_snapshot(dict.fromkeys(NAMES, k), {}, 100.0, p_max=99))
    assert blind.slowdown is None
