"""One page with every experiment in it, that loads nothing from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiments import report
from experiments.shared.claim import claim, existing


@pytest.fixture(scope="module")
def html() -> str:
    return report.page(existing())


def test_every_experiment_is_a_section_with_its_tables(html: str) -> None:
    for name in existing():
        title = claim(name).readme.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
        assert f'id="{name}"' in html
        assert title.split(" (")[0] in html.replace("&amp;", "&").replace("&#x27;", "'")
    assert html.count("<section") == len(existing())
    assert "<table>" in html
    assert "<!-- figures" not in html
    assert "figures: " not in html


def test_the_page_is_self_contained(html: str) -> None:
    sources = re.findall(r'(?:src|href)="([^"]*)"', html)
    assert sources
    assert all(each.startswith(("data:image/", "#", "https://")) for each in sources)
    assert not re.search(r'src="https?:', html)
    assert "<script" not in html


@pytest.mark.parametrize(
    ("cell", "kept"),
    [
        ("36.7 % of", "36.7~% of"),
        ("18 [18, 19]", "18~[18,~19]"),
        ("(4, 2, 1, 1, 40) (27 %)", "(4,~2,~1,~1,~40) (27~%)"),
        ("never [11, never]", "never~[11,~never]"),
        ("one or two, and more", "one or two, and more"),
        ("policy-settled after 2", '<span class="word">policy-settled</span> after 2'),
        ("search/top-k-a.py, 2-3", "search/top-k-a.py, 2-3"),
    ],
)
def test_numbers_are_not_torn_from_what_they_belong_to(cell: str, kept: str) -> None:
    assert report.whole(f"<td>{cell}</td><p>{cell}</p>").replace("\u00a0", "~") == f"<td>{kept}</td><p>{cell}</p>"


def test_without_a_browser_it_says_so_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHROMIUM", str(tmp_path / "nothing"))
    (tmp_path / "page.html").write_text("<p>")
    why = report.print_pdf(tmp_path / "page.html", tmp_path / "page.pdf")
    assert why is not None
    assert "\n" not in why
    assert "CHROMIUM" in why
    assert not (tmp_path / "page.pdf").exists()
