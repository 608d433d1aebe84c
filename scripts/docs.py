"""The pages of the site, gathered: every Markdown file of the repository at its own place in out/docs, and beside it
whatever file a page links to. So a link that works in the repository works on the site, and none is written twice.

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
    "docs/*.md",
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
    """Where its links lead, those in code left out."""
    for match in _LINK.finditer(_CODE.sub("", text)):
        if "://" not in match[1] and not match[1].startswith("mailto:"):
            yield match[1]


def anchors(text: str) -> set[str]:
    """Of its headings, as Markdown's table of contents makes them."""
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
                continue  # the page of a folder is gathered anyway
            if path.is_file() and path.suffix != ".md":
                _copy(path)


def _copy(path: Path) -> None:
    to = TO / path.relative_to(ROOT)
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, to)


if __name__ == "__main__":
    gather()
