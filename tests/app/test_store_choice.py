"""Which store a verb uses when nobody names one."""

from __future__ import annotations

import pytest

from autotrascale.app import stores
from autotrascale.app.environment_variables import STORE_VARIABLES


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in STORE_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_without_mlflow_runs_go_on_unjournalled_and_say_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stores, "find_spec", lambda _: None)
    assert stores.choose_store_uri(None) is None
    assert "not journalled: mlflow is not installed" in capsys.readouterr().err


def test_a_store_that_was_named_is_not_passed_over_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "find_spec", lambda _: None)
    assert stores.choose_store_uri("sqlite:///here.db") == "sqlite:///here.db"


@pytest.mark.parametrize(("variable", "value"), [("AUTOTRASCALE_STORE", "none"), ("MLFLOW_TRACKING_URI", "none")])
def test_the_environment_may_say_none(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    assert stores.choose_store_uri(None) is None
