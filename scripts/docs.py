"""Gather the pages of the documentation site in out/docs, with the files that they link to.

Each Markdown file keeps its place in the repository. So a link that works in the repository works on the site.

    python scripts/docs.py        (make docs)
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
TO = ROOT / "out" / "docs"
PAGES = (
    "*.md",
    "docs/**/*.md",
    "examples/**/*.md",
    "experiments/**/*.md",
    "autotrascale/**/*.md",
    "models/*.md",
    "mlruns/*.md",
)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"^(```.*?^```|    \S[^\n]*)$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    found = {path for pattern in PAGES for path in ROOT.glob(pattern)}
    return sorted(path for path in found if "out" not in path.relative_to(ROOT).parts)


def links(text: str) -> Iterator[str]:
    """Yield the targets of the links of a page. Links in code and links to other sites are left out."""
    for match in _LINK.finditer(_CODE.sub("", text)):
        if "://" not in match[1] and not match[1].startswith("mailto:"):
            yield match[1]


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as the table of contents of Markdown names them."""
    plain = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*?)\s*$", plain, re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", each.replace("`", "")).strip().lower()) for each in headings}


def gather() -> None:
    shutil.rmtree(TO, ignore_errors=True)
    for page in pages():
        _copy(page)
        for link in links(page.read_text(encoding="utf-8")):
            path = Path(os.path.normpath(page.parent / link.partition("#")[0]))
            if path.is_dir() and (path / "README.md").is_file():
                continue  # the page of the folder is one of the pages
            if path.is_file() and path.suffix != ".md":
                _copy(path)


def _copy(path: Path) -> None:
    to = TO / path.relative_to(ROOT)
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, to)


if __name__ == "__main__":
    gather()
