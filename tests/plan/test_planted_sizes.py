"""Judge the recorded windows of executors with a wrong size each (`benchmarks/quality/planted_sizes.py`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autotrascale.domain.executor_window import ExecutorWindow
from autotrascale.validation import validate
from benchmarks.quality.planted_sizes import MeasuredFault, judge_windows

PLANTED: list[dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "planted_sizes.json").read_text())
FAULTS = {"heap", "memory", "cpu", "leak", "too-much", "service"}


def test_every_fault_was_planted() -> None:
    assert {each["fault"] for each in PLANTED} == FAULTS


@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: str(each["fault"]))
def test_a_planted_fault_is_named(planted: dict[str, Any]) -> None:
    windows = [validate(each, ExecutorWindow, place="window") for each in planted["windows"]]
    said = judge_windows(MeasuredFault(planted["fault"], planted["ready"], windows, planted["services"]))
    right = [fault for _, fault, _ in said if fault == planted["fault"]]
    assert said
    assert len(right) >= 0.95 * len(said), [fault for _, fault, _ in said]
