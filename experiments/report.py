"""All experiments on one page, with their plots in it: out/experiments.html, and the same as out/experiments.pdf.

    python -m experiments.report [--out FOLDER] [--no-pdf]

It measures nothing: what it tells is the READMEs, whose figures come from the results. The PDF is printed by Chromium;
without one, that is said and the page is written all the same.
"""

from __future__ import annotations

import argparse
import base64
import os
import re
import subprocess
import sys
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt

from autotrascale.atomic_files import write_atomically
from experiments.shared.claim import EXPERIMENTS, ROOT, existing
from experiments.shared.record import NAMES as RECORDS

OUT = ROOT / "out"
NAME = "experiments"
_IMAGE = re.compile(r'<img src="([^"]+)"')
_LINK = re.compile(r'<a href="(?!#|https?:)[^"]*">(.*?)</a>', re.DOTALL)
_MARKER = re.compile(r"<!-- (?:figures: [a-z0-9_]+/[a-z0-9_]+|measured: [a-z_]+|end) -->")
# What a table cell must not be broken in: a number and its unit, a vector, an interval.
_NUMBER = r"(?:\d[\d.]*|never)"
_WHOLE = re.compile(rf"[\d–] (?:%|ms|s|min)(?!\w)|(?:{_NUMBER} )?[(\[]{_NUMBER}(?:, {_NUMBER}){{1,4}}[)\]]")
_CELL = re.compile(r"<td>.*?</td>", re.DOTALL)
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_HYPHENED = re.compile(r"(?<![\w/-])[a-z]+(?:-[a-z]+)+(?![\w/-])")  # a policy, a stop reason: no place for a line's end
SHORT = 12  # rows of a table that stays on one page
_STYLE = """
body { font: 15px/1.5 "DejaVu Sans", sans-serif; color: #1c2430; background: #fff; max-width: 62rem; margin: 2rem auto;
       padding: 0 1rem; }
h1 { font-size: 1.35rem; border-top: 2px solid #1f5fa8; padding-top: .8rem; margin-top: 2.6rem; }
h2 { font-size: 1.1rem; } header h1 { border: 0; font-size: 1.7rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .8rem; margin: .8rem 0; }
th, td { border: 1px solid #d5dae1; padding: .2rem .5rem; text-align: left; vertical-align: top; }
th { background: #f1f4f8; } img { max-width: 100%; height: auto; }
code, pre { font: .9em "DejaVu Sans Mono", monospace; }
pre { background: #f1f4f8; padding: .5rem .8rem; overflow-x: auto; } nav li { margin: .2rem 0; }
@media print { body { font-size: 10px; max-width: none; margin: 0; } section { break-before: page; }
  table { font-size: 8px; } img { max-height: 18cm; } p { orphans: 3; widows: 3; }
  tr, img, .short { break-inside: avoid; }
  h1, h2, thead, tr:nth-child(-n+3), p:has(+ .wide) { break-after: avoid; }
  tr:nth-last-child(-n+2) { break-before: avoid; } }
.word { white-space: nowrap; }
"""


def page(names: list[str]) -> str:
    """Self-contained: plots are within it, and nothing is loaded."""
    sections = [(name, *_section(name)) for name in names]
    entries = "".join(f'<li><a href="#{name}">{escape(title)}</a></li>' for name, title, _ in sections)
    bodies = "".join(f'<section id="{name}">{body}</section>' for name, _, body in sections)
    about = (
        "Every figure and table of the papers' comparisons comes from a result.json in experiments/, and that from a "
        "command in the repository. What has no paper beside it comes last. "
        "Each caption says whether it is simulated or measured on real Spark."
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>AuTraScale: the papers\' tables</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>'
        f"<header><h1>The papers' figures and tables, side by side</h1><p>{about}</p></header>"
        f"<nav><ul>{entries}</ul></nav><main>{bodies}</main></body></html>\n"
    )


def _section(name: str) -> tuple[str, str]:
    """Title and body of one experiment."""
    folder = EXPERIMENTS / name
    text = _MARKER.sub("", (folder / "README.md").read_text(encoding="utf-8"))
    title = text.splitlines()[0].lstrip("# ").strip()
    html = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    html = _LINK.sub(r"\1", html)  # to files that are not beside the page
    html = _TABLE.sub(_scrolled, whole(html))
    return title, _IMAGE.sub(lambda found: f'<img src="{_inlined(folder / found[1])}"', html)


def whole(html: str) -> str:
    """With cells of tables broken between what belongs together only."""
    return _CELL.sub(lambda cell: _unbroken(cell[0]), html)


def _unbroken(cell: str) -> str:
    cell = _WHOLE.sub(lambda found: found[0].replace(" ", "\u00a0"), cell)
    return _HYPHENED.sub(r'<span class="word">\g<0></span>', cell)


def _scrolled(table: re.Match[str]) -> str:
    short = " short" * (table[0].count("<tr>") <= SHORT + 1)
    return f'<div class="wide{short}">{table[0]}</div>'


def _inlined(path: Path) -> str:
    kind = {".svg": "image/svg+xml", ".png": "image/png"}[path.suffix]
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


def print_pdf(html: Path, pdf: Path) -> str | None:
    """None, or why there is no PDF."""
    found = subprocess.run([ROOT / "scripts" / "chromium.sh", "find"], capture_output=True, text=True, check=False)
    if found.returncode:
        return found.stderr.strip()
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        return "playwright is not installed: pip install 'autotrascale[dev]'"
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=found.stdout.strip(), args=[*as_root, "--disable-gpu", "--disable-dev-shm-usage"]
            )
            opened = browser.new_page()
            opened.goto(html.resolve().as_uri())
            margin = dict.fromkeys(("top", "bottom", "left", "right"), "14mm")
            opened.pdf(path=pdf, format="A4", print_background=True, margin=margin)  # type: ignore[arg-type]
            browser.close()
    except Error as error:
        return f"Chromium could not print it: {str(error).splitlines()[0]}"
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--no-pdf", action="store_true")
    arguments = parser.parse_args()
    names = [name for name in existing() if (EXPERIMENTS / name / "result.json").exists()]
    names += [name for name in RECORDS if (EXPERIMENTS / name / "README.md").exists()]
    names += sorted({path.parent.name for path in EXPERIMENTS.glob("*/README.md")} - set(names))
    arguments.out.mkdir(parents=True, exist_ok=True)
    html, pdf = (arguments.out / f"{NAME}.{suffix}" for suffix in ("html", "pdf"))
    write_atomically(html, page(names))
    print(html)
    if not arguments.no_pdf:
        why_not = print_pdf(html, pdf)
        print(f"no PDF: {why_not}" if why_not else pdf, file=sys.stderr if why_not else sys.stdout)


if __name__ == "__main__":
    main()
