"""Bad measurements through the whole loop: a hundred seeded histories; the benchmark has two thousand."""

from __future__ import annotations

import pytest

from benchmarks.faults.bad_histories_bench import VARIANTS, run_history
from benchmarks.workloads.bad_histories import SPOILS


@pytest.mark.parametrize("name", VARIANTS)
def test_bad_measurements_never_scale_a_job_wrongly_nor_raise(name: str) -> None:
    for seed in range(20):
        scalings, failure, error, holds = run_history(seed, VARIANTS[name])
        assert error is None, f"{seed}: {error}"
        assert not scalings, seed
        assert failure is None, seed
        assert holds > 0


def test_there_are_dozens_of_ways_to_be_wrong() -> None:
    assert len(SPOILS) >= 24
