"""The reference pages are those that scripts/reference.py writes from the code."""

from __future__ import annotations

import pytest

from scripts import reference


@pytest.mark.parametrize("page", sorted(reference.RENDERERS))
def test_a_reference_page_is_the_one_of_the_code(page: str) -> None:
    written = (reference.FOLDER / page).read_text(encoding="utf-8")
    assert written == reference.RENDERERS[page]().rstrip() + "\n", "run: python scripts/reference.py"
