"""The reference pages are those that scripts/reference.py writes from the code."""

from __future__ import annotations

import pytest

from scripts import reference


@pytest.mark.parametrize("page", ["cli.md", "configuration.md", "python-api.md"])
def test_a_reference_page_is_the_one_of_the_code(page: str) -> None:
    written = (reference.FOLDER / page).read_text(encoding="utf-8")
    assert written == reference.render_all()[page].rstrip() + "\n", "run: python scripts/reference.py"
