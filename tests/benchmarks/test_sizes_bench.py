"""A part of the bench of sizes: simulated jobs settle, and nothing that is given back is missed."""

from __future__ import annotations

import pytest

from benchmarks.quality.sizes_bench import run_job


@pytest.mark.parametrize(("seed", "more"), [(3001, 1.4), (3004, 1.0)])
def test_sizes_settle_near_the_best(seed: int, more: float) -> None:
    found = run_job(seed, 8.0, more=more)
    assert found.oscillations == 0
    assert found.ends_after_giving_back == 0
    assert found.taken_back == 0
    assert found.memory_above <= 0.10
    assert 1 <= found.actions <= 10
