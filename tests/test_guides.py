"""The guides hold together: every link leads somewhere, headings included; the site has every guide, in order."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
_SPEC = importlib.util.spec_from_file_location("docs_pages", ROOT / "scripts" / "docs.py")
assert _SPEC is not None
assert _SPEC.loader is not None
docs = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(docs)


@pytest.mark.parametrize("page", docs.pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in docs.links(page.read_text(encoding="utf-8")):
        name, _, anchor = link.partition("#")
        path = Path(os.path.normpath(page.parent / name)) if name else page
        assert path.exists(), f"{page}: {link}"
        if anchor:
            assert anchor in docs.anchors(path.read_text(encoding="utf-8")), f"{page}: {link}"


def test_the_site_has_every_guide_once() -> None:
    def named(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        return [name for each in (entry if isinstance(entry, list) else entry.values()) for name in named(each)]  # type: ignore[attr-defined]

    nav = named(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    assert len(nav) == len(set(nav))
    for name in nav:
        assert (ROOT / name).is_file(), name
    pages = {str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")}
    assert {name for name in nav if name.startswith("docs/")} == pages
    assert nav[:2] == ["README.md", "docs/tutorial.md"]
    assert len(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]) <= 7


def test_the_python_of_the_first_steps_runs() -> None:
    import re

    from benchmarks.workloads.presets import PRESETS

    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "tutorial.md").read_text(), re.DOTALL)
    names: dict[str, object] = {"measure": lambda k: float(PRESETS["wordcount"].latency(k)[0])}
    exec(block, names)
    assert names["best"].trusted  # type: ignore[attr-defined]


def test_links_and_headings_are_told_from_code() -> None:
    text = "# A `b`, c\n[x](y.md#z) `[no](no.md)`\n\n```\n# not one\n[no](no.md)\n```\n[w](https://host/)\n"
    assert list(docs.links(text)) == ["y.md#z"]
    assert docs.anchors(text) == {"a-b-c"}
