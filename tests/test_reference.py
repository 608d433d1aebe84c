"""The reference pages are those that scripts/reference.py writes from the code."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location("reference", Path(__file__).parent.parent / "scripts" / "reference.py")
assert _SPEC is not None
assert _SPEC.loader is not None
reference = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(reference)


@pytest.mark.parametrize("page", sorted(reference.RENDERERS))
def test_a_reference_page_is_the_one_of_the_code(page: str) -> None:
    written = (reference.FOLDER / page).read_text(encoding="utf-8")
    assert written == reference.RENDERERS[page]().rstrip() + "\n", "run: python scripts/reference.py"
