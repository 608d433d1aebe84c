"""Objects as HTML in notebooks: well-formed, complete, and without scripts."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale import Study
from autotrascale.domain.decision import Decision, Reason
from autotrascale.domain.job import Job
from autotrascale.domain.target import Target
from autotrascale.domain.topology import Topology
from autotrascale.testing.scripted_engine import ScriptedEngine
from autotrascale.tuning import Outcome, TuningSettings, tune
from autotrascale.views import html_fragments, notebook

EMPTY = {"meta", "line", "circle", "path", "br"}
TEXTS = st.text(max_size=30) | st.sampled_from(
    ["<script>alert(1)</script>", "a & b", '"', "'", "</table>", "<!--", "é漢"]
)


class Whole(HTMLParser):
    """Parses HTML, and fails for unclosed elements, scripts and addresses."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "iframe", "object", "embed", "img", "link")
        for name, value in attrs:
            assert not name.startswith("on")
            assert name not in ("src", "href", "action")
            assert "url(" not in (value or "")
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    @property
    def said(self) -> str:
        return " ".join(self.text)


@cache
def outcome(name: str = "work") -> Outcome:
    chain = Topology.chain("source", name)
    engine = ScriptedEngine(
        topology=chain,
        capacity={"source": 100.0, name: 40.0},
        p_max=8,
        latency=lambda k: 0.05 + 0.9 / k["source"] / k[name] ** 0.4,
    )
    return tune(Job("scripted", chain, 8, {"source": 150.0}, Target(0.5)), engine, TuningSettings(total_trials=4))


def test_a_tuning_run_shows_reasons_and_trials() -> None:
    whole = Whole(notebook.as_html(outcome()))
    assert "scripted (simulated) at 150 records/s" in whole.said
    assert "the floor is " in whole.said
    assert "<circle" in notebook.as_html(outcome())
    assert len(outcome().evaluations) == notebook.as_html(outcome()).count("<circle") + notebook.as_html(
        outcome()
    ).count("<path")
    Whole(notebook.render_report(outcome()))
    assert "(simulated)" not in Whole(notebook.as_html(replace(outcome(), simulated=False))).said


def test_a_study_from_its_begin_to_its_end() -> None:
    study = Study((2, 3), 12, 0.1, seed=3)
    assert "no result yet" in Whole(notebook.as_html(study)).said
    study.tell((2, 3), failed=True)
    said = Whole(notebook.as_html(study)).said
    assert "failed or fell behind" in said
    study.optimize(lambda k: 0.04 + 0.3 / sum(k), progress=False)
    said = Whole(notebook.as_html(study)).said
    assert "target met" in said
    assert f"{len(study.runs)} of at most 40 runs" in said
    assert "target met" in Whole(notebook.as_html(study.answer)).said
    Whole(notebook.as_html(study.runs[0]))


def test_notebooks_find_the_html_of_every_class() -> None:
    study = Study((2, 3), 12, 0.1)
    study.tell((2, 3), latency=0.2)
    decision = Decision("ds2", {"source": 1}, False, ())
    for value in (study, study.best, study.runs[0], study.model(10.0), decision, outcome()):
        assert getattr(value, "_repr_html_")() == notebook.as_html(value)  # noqa: B009 - set when Study was loaded


def test_a_model_shows_its_training_data() -> None:
    study = Study((2, 3), 12, 0.1)
    study.tell((2, 3), latency=0.2)
    model = study.model(1000.0)
    later = Study((2, 3), 12, 0.1, source=model)
    later.tell((4, 5), latency=0.08)
    said = Whole(notebook.as_html(later.model(2000.0))).said
    assert "at 2,000 records/s" in said
    assert "together with runs at 1,000/s" in said


@given(policy=TEXTS, operator=TEXTS, text=TEXTS, k=st.integers(1, 10**6), changed=st.booleans(), hold=st.booleans())
def test_text_of_a_decision_is_escaped(
    policy: str, operator: str, text: str, k: int, changed: bool, hold: bool
) -> None:
    decision = Decision(policy, {operator: k}, changed, (Reason("code", text),), hold)
    whole = Whole(notebook.as_html(decision))
    assert str(k) in whole.said
    for each in (operator, text):
        assert each.replace("\r\n", "\n").replace("\r", "\n") in "".join(whole.text).replace("\r\n", "\n").replace(
            "\r", "\n"
        )


@given(
    values=st.lists(st.none() | st.floats(1e-9, 1e9), max_size=60), limit=st.none() | st.floats(1e-9, 1e9), words=TEXTS
)
def test_a_chart_shows_every_point_within_its_edges(
    values: list[float | None], limit: float | None, words: str
) -> None:
    points = [html_fragments.ChartPoint(i, value, words) for i, value in enumerate(values, 1)]
    drawn = html_fragments.render_chart(points, limit, words, words)
    Whole(drawn)
    known = [value for value in values if value is not None]
    assert bool(drawn) == bool(points and (known or limit is not None))
    if drawn:
        assert drawn.count("<circle") == len(known)
        assert drawn.count("<path") == len(values) - len(known)
        heights = [float(part.split('"')[0]) for part in drawn.split('cy="')[1:]]
        assert all(0 <= each <= html_fragments.HEIGHT for each in heights)


def test_a_long_table_is_cut_with_a_note() -> None:
    assert "… and 60 more" in Whole(html_fragments.render_table(("a",), [(i,) for i in range(100)])).said


def test_a_type_without_html_is_refused() -> None:
    with pytest.raises(TypeError, match="int has no HTML form"):
        notebook.as_html(3)


def test_the_example_notebook_runs_with_the_stored_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cells run as plain Python, with the kinds of output in the file."""
    import importlib.util

    root = Path(__file__).parents[2]
    spec = importlib.util.spec_from_file_location("notebook_script", root / "scripts" / "notebook.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    path = root / "examples" / "first_steps.ipynb"
    kept = json.loads(path.read_text())
    monkeypatch.chdir(path.parent)
    done = script.execute(kept)
    assert path.stat().st_size <= 200_000
    shown = 0
    for before, after in zip(kept["cells"], done["cells"], strict=True):
        if before["cell_type"] != "code":
            continue
        kinds = [[each["output_type"] for each in cell["outputs"]] for cell in (before, after)]
        assert kinds[0] == kinds[1], "".join(before["source"])
        for each in after["outputs"]:
            if script.HTML in each.get("data", {}):
                Whole("".join(each["data"][script.HTML]))
                shown += 1
    assert shown >= 5
