"""The experiment in real-time mode without Spark: its README says what its result says, and which arrivals count."""

from __future__ import annotations

import json

import numpy as np
import pytest

from experiments.real_time.measure import MODES, PARALLELISMS, Load, arrivals
from experiments.real_time.run import README, RESULT
from experiments.real_time.tables import FIGURES
from experiments.shared.documents import measured


def test_the_readme_says_what_the_result_says() -> None:
    text = README.read_text(encoding="utf-8")
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    assert measured(text, FIGURES, result) == text, "python -m experiments.real_time.run --tables"
    assert all(f"<!-- measured: {name} -->" in text for name in FIGURES)
    assert {(each["mode"], each["p"]) for each in result["points"]} <= {(m, p) for m in MODES for p in PARALLELISMS}


def test_throughput_is_of_all_that_arrived_and_latency_of_the_window_alone() -> None:
    load = Load(rate=10, seconds=20, window_seconds=10)
    put = np.arange(80_000, 100_000, 100)
    late = np.where(put < 90_000, 5000, 500)
    found = arrivals(np.stack([put, np.maximum.accumulate(put + late)], axis=1), load)
    assert found["throughput"] == pytest.approx(10.0, rel=0.05)
    assert 0.5 <= found["latency"]["p50"] <= found["latency"]["p99"] <= 5.0
    assert arrivals(np.empty((0, 2)), load) == {"throughput": 0.0, "latency": None}
