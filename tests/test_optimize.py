"""`study.optimize`: the loop, its interruptions and its progress."""

from __future__ import annotations

import io
import sys

import pytest

from autotrascale import Study
from autotrascale.plan.search import ask_tell as ask_and_tell

FLOOR, TARGET = (2, 3), 0.1


def study(**given: object) -> Study:
    return Study(FLOOR, 12, TARGET, seed=3, **given)  # type: ignore[arg-type]


def latency(k: tuple[int, ...]) -> float:
    return 0.04 + 0.3 / sum(k)


def test_optimize_equals_an_ask_tell_loop() -> None:
    ours, by_hand = study(), ask_and_tell.AskTellStudy(FLOOR, 12, TARGET, seed=3)
    best = ours.optimize(latency, progress=False)
    while not by_hand.finished:
        unsure = by_hand.unsure
        k = unsure if unsure and by_hand.runs[-1].windows < 2 else by_hand.ask()
        by_hand.tell(k, latency=latency(k))
    assert ours.finished
    assert ours.runs == by_hand.runs
    assert best == by_hand.answer
    assert best is not None
    assert best.trusted


def test_a_latency_of_none_is_a_failed_run() -> None:
    ours = study()
    best = ours.optimize(lambda k: None if sum(k) < 9 else latency(k), progress=False)
    assert best is not None
    assert best.trusted
    assert any(run.failed for run in ours.runs)


def test_ctrl_c_ends_the_loop_and_another_call_continues() -> None:
    ours, undisturbed, count = study(), study(), 0

    def interrupted(k: tuple[int, ...]) -> float:
        nonlocal count
        count += 1
        if count == 3:
            raise KeyboardInterrupt
        return latency(k) + 0.05  # so far from the target that it takes some runs

    best = ours.optimize(interrupted, progress=False)
    assert best is not None
    assert len(ours.runs) == 2
    undisturbed.optimize(lambda k: latency(k) + 0.05, progress=False, max_runs=2)
    assert ours.runs == undisturbed.runs
    ours.optimize(lambda k: latency(k) + 0.05, progress=False, max_runs=4)
    undisturbed.optimize(lambda k: latency(k) + 0.05, progress=False, max_runs=4)
    assert ours.runs == undisturbed.runs


def test_ctrl_c_before_the_first_tell_returns_none() -> None:
    def at_once(_: tuple[int, ...]) -> float:
        raise KeyboardInterrupt

    ours = study()
    assert ours.optimize(at_once, progress=False) is None
    assert ours.runs == ()


def test_an_exception_ends_the_loop_and_keeps_earlier_tells() -> None:
    def fails(k: tuple[int, ...]) -> float:
        if k in {run.parallelism for run in ours.runs} or ours.runs:
            raise RuntimeError("the cluster is gone")
        return 0.3

    ours = study()
    with pytest.raises(RuntimeError, match="the cluster is gone"):
        ours.optimize(fails, progress=False)
    assert len(ours.runs) == 1


def test_every_callback_sees_each_run_and_may_end_the_loop() -> None:
    seen: list[tuple[int, ...]] = []
    ours = study()

    def first(each: Study, k: tuple[int, ...]) -> None:
        assert each.runs[-1].parallelism == k
        seen.append(k)

    ours.optimize(lambda k: latency(k) + 0.05, callbacks=[lambda *_: len(seen) >= 1, first], progress=False)
    assert [run.parallelism for run in ours.runs] == seen
    assert len(seen) == 2


def test_progress_is_a_line_per_run_or_one_overwritten_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = study()
    ours.optimize(latency)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == sum(run.windows for run in ours.runs)
    assert "meets the target]" in lines[-1]
    assert lines[-1].startswith("[####################] ")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", shown := Terminal())
    study().optimize(latency)
    text = shown.getvalue()
    assert text.count("\n") == 1
    assert text.endswith("\n")
    assert "running …" in text
