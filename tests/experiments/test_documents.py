"""A figure that a document quotes is the one of its result, and every experiment has what its reader looks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotrascale.domain.errors import InputError
from experiments.shared.claim import EXPERIMENTS, ROOT, claim, existing
from experiments.shared.documents import documents, figure, quoted, rewritten, table
from experiments.shared.published import points
from experiments.shared.record import NAMES as RECORDS

CLAIMS = existing()


@pytest.mark.parametrize("path", list(documents()), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_quotes_what_the_results_say(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert rewritten(text) == text, "write the figures anew: python -m experiments.run --write-only"


@pytest.mark.parametrize("name", CLAIMS)
def test_an_experiment_has_a_result_and_tells_of_all_its_figures_and_plots(name: str) -> None:
    chosen = claim(name)
    text = chosen.readme.read_text(encoding="utf-8")
    assert {which for of, which in quoted(text) if of == name} == set(chosen.figures)
    for plot in chosen.plots:
        assert f"]({plot})" in text
        assert (chosen.folder / plot).exists()


@pytest.mark.parametrize("name", CLAIMS)
def test_an_experiment_says_what_is_simulated(name: str) -> None:
    chosen = claim(name)
    result = chosen.read_result()
    first = chosen.readme.read_text(encoding="utf-8").splitlines()[0]
    assert isinstance(result["simulated"], bool)
    for told in (first, *(panel.title for plots in chosen.plots.values() for panel in plots(result))):
        assert ("simulated" if result["simulated"] else "measured") in told


@pytest.mark.parametrize("name", [*CLAIMS, *RECORDS])
def test_the_first_lines_say_if_the_comparison_is_reproduced(name: str) -> None:
    _, told, *_ = (EXPERIMENTS / name / "README.md").read_text(encoding="utf-8").split("\n\n")
    assert told.startswith(("Reproduced", "Not reproduced", "No paper ")), told


def test_another_result_changes_a_document() -> None:
    block = "<!-- figures: floors/steps -->\n<!-- end -->"
    text = f"Of <!-- figures: floors/summary -->nothing<!-- end --> it says:\n\n{block}\n"
    new = rewritten(text)
    assert "nothing" not in new
    assert figure("floors", "summary") in new
    assert f"-->\n\n{figure('floors', 'steps')}\n\n<!-- end -->" in new
    assert rewritten(new) == new


@pytest.mark.parametrize("which", ["floor/steps", "floors/step"])
def test_a_figure_that_is_not_there_is_refused_by_name(which: str) -> None:
    with pytest.raises(InputError, match=rf"figures: {which}: .* use one of "):
        figure(*which.split("/"))


def test_a_table_has_a_line_for_each_row() -> None:
    assert table(("a", "b"), [(1, "x")]) == "| a | b |\n| --- | --- |\n| 1 | x |"


def test_every_published_point_says_where_it_is_from() -> None:
    for name, point in points().items():
        assert any(paper in point["source"] for paper in ("AuTraScale", "DS2", "Elastic Pulsar")), name
        assert point["used"] in ("input", "compared"), name
