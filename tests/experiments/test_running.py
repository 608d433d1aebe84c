"""Experiments go on where they were stopped, and measure anew what another case or other code would change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autotrascale.views.plots.plot import Axis, Level, Plot, Series
from experiments.shared import kept
from experiments.shared.claim import Claim, claim
from experiments.shared.drawing import draw
from experiments.shared.running import measured

CASE: dict[str, Any] = {"job": "q11", "rate": 100e3, "noise": False, "seed": 0, "corrections": 0}


@pytest.fixture
def small() -> Claim:
    return replace(claim("floors"), cases=lambda: [CASE, {**CASE, "noise": True}])


def test_what_was_measured_is_not_measured_again(small: Claim, tmp_path: Path) -> None:
    before = measured(small, 1, tmp_path)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    assert len(files) == 2
    assert measured(small, 1, tmp_path) == before
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")} == files


def test_a_file_that_was_cut_off_is_measured_again(small: Claim, tmp_path: Path) -> None:
    before = measured(small, 1, tmp_path)
    first, *_ = sorted(tmp_path.rglob("*.json"))
    first.write_text(first.read_text()[:-9])
    assert measured(small, 1, tmp_path) == before
    assert json.loads(first.read_text())["case"] in [CASE, {**CASE, "noise": True}]


@pytest.mark.parametrize("other", [{"seed": 1}, {"corrections": 2}, {"job": "q5", "rate": 30e3}])
def test_another_case_is_kept_apart(small: Claim, other: Mapping[str, Any]) -> None:
    assert kept.key(small, {**CASE, **other}) != kept.key(small, CASE)


def test_other_code_measures_anew_and_another_table_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "experiments" / "claim"
    folder.mkdir(parents=True)
    (folder / "measure.py").write_text("1")
    (folder / "run.py").write_text("1")
    monkeypatch.setattr(kept, "ROOT", tmp_path)
    monkeypatch.setattr(kept, "EXPERIMENTS", tmp_path / "experiments")
    version = kept.version.__wrapped__
    before = version(("experiments/claim",))
    (folder / "run.py").write_text("2")
    assert version(("experiments/claim",)) == before
    (folder / "measure.py").write_text("2")
    assert version(("experiments/claim",)) != before


def test_a_plot_of_every_kind_is_drawn_and_says_the_same_each_time(tmp_path: Path) -> None:
    series = tuple(
        Series(drawn, (1.0, 2.0), (1.0, None if drawn == "line" else 2.0), drawn)
        for drawn in ("line", "steps", "dashed steps", "points")
    )
    plots = [
        Plot("lines", "title <1>", "", Axis("x"), Axis("y", "log"), series, (Level(1.5, "target"),)),
        Plot(
            "bars",
            "bars",
            "",
            Axis("", "names"),
            Axis("y"),
            (Series("a", ("p", "q"), (1.0, None), "bars", sd=(0.1, 0)),),
        ),
    ]
    for name in ("first.svg", "second.svg"):
        draw(plots, tmp_path / name)
    first, second = ((tmp_path / name).read_text() for name in ("first.svg", "second.svg"))
    assert first == second
    assert "title &lt;1&gt;" in first


def test_a_search_that_is_not_installed_here_keeps_its_row() -> None:
    row = {"stop": 3, "missed": False, "regret_at_stop": 0.1, "of_floor": 1.5}
    rows = [{**row, "start": "cold"}, {**row, "start": "warm"}]
    chosen = claim("search_quality")
    known = chosen.read_result()["cold"]
    pairs = [(case, {"rows": rows}) for case in chosen.cases() if case["method"] not in ("optuna-tpe", "optuna-gp")]
    found = chosen.result(pairs)["cold"]
    assert set(found) >= set(known)
    for method in ("optuna-tpe", "optuna-gp"):
        assert found.get(method) == known.get(method)
    assert found["random"]["all"]["runs"] == [3, 3, 3]
