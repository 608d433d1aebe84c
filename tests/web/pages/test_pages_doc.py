"""docs/how-to/pages.md names every page, its Python block runs, and its links exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from autotrascale.web.pages.routers import PAGE_ROUTERS
from benchmarks.workloads import seeded_store

ROOT = Path(__file__).parents[3]
DOC = (ROOT / "docs" / "how-to" / "pages.md").read_text(encoding="utf-8")
_SCRIPT_PATHS = ("/plots/", "/live/", "/static/", "/compare", "/sign-out")


def test_every_page_is_documented() -> None:
    there = {re.sub(r"\{[^}]*\}", "*", route.path) for router in PAGE_ROUTERS for route in router.routes}  # type: ignore[attr-defined]
    told = {
        re.sub(r"[A-Z]{2,}", "*", each)
        for line in DOC.splitlines()
        if line.startswith("| `/")
        for each in re.findall(r"`(/[^`]*)`", line.split("|")[1])
    }
    pages = {path for path in there if not path.startswith(_SCRIPT_PATHS)}
    assert told | {"/sign-in"} == pages
    assert "`/sign-in`" in DOC


def test_the_python_block_runs() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", DOC, re.DOTALL)
    names: dict[str, Any] = {}
    exec(block, names)
    chart = names["chart"]
    assert isinstance(chart, go.Figure)
    assert [trace.name for trace in chart.data] == ["expected ± sd", "expected ± sd", "measured", "target 180 ms"]


def test_linked_files_exist() -> None:
    assert f"python -m {seeded_store.__name__} " in DOC
    for name in re.findall(r"\]\(([^)#]+)\)", DOC):
        assert (ROOT / "docs" / "how-to" / name).exists(), name
