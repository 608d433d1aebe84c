"""Run the code cells of a notebook as plain Python, one after the other, and write their outputs into it.

    python scripts/notebook.py examples/first_steps.ipynb        (make notebook)

No notebook server is needed. The outputs of a cell are its printed text, and the HTML or text of its last line. Cells
are seeded and simulated, so the file changes only when a result changes.
"""

from __future__ import annotations

import ast
import io
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

HTML = "text/html"


def execute(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return the notebook with the outputs of this run."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, number = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            number += 1
            cell = {**cell, "execution_count": number, "outputs": _outputs("".join(cell["source"]), names, number)}
        cells.append(cell)
    return {**notebook, "cells": cells}


def _outputs(code: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    tree = ast.parse(code, f"cell {number}")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, told = io.StringIO(), io.StringIO()
    value = None
    with redirect_stdout(printed), redirect_stderr(told):
        exec(compile(tree, f"cell {number}", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    found = [
        {"output_type": "stream", "name": name, "text": _lines(stream.getvalue())}
        for name, stream in (("stdout", printed), ("stderr", told))
        if stream.getvalue()
    ]
    if value is not None:
        data = {"text/plain": _lines(_short(repr(value)))}
        if hasattr(value, "_repr_html_"):
            data = {HTML: _lines(value._repr_html_()), **data}
        found.append({"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data})
    return found


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _short(text: str) -> str:
    """Cut a long text. Cells with HTML show their text only in tools without HTML."""
    return text if len(text) <= 500 else text[:497] + "..."


def main(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    before = Path.cwd()
    os.chdir(path.parent)
    try:
        done = execute(notebook)
    finally:
        os.chdir(before)
    path.write_text(json.dumps(done, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
