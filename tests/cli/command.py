"""The command line in this process, as somebody at a terminal sees it."""

from __future__ import annotations

import pytest

from autotrascale.cli import main


def run(*arguments: str) -> int:
    """The exit code."""
    with pytest.raises(SystemExit) as ended:
        main.main(arguments)
    return int(ended.value.code or 0)


def complaint(capsys: pytest.CaptureFixture[str]) -> str:
    """One line, and nothing else."""
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err
