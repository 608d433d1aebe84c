"""The example of an own job runs as its documentation says."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
import yaml
from conftest import BRISK, PATIENCE, QUICK

from autotrascale.domain.trial import Verdict
from autotrascale.execute.spark.common.spark_settings import ENGINE_SETTINGS, SparkSettings
from autotrascale.execute.spark.controller.trial_engine import SparkEngine
from autotrascale.validation import validate

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "own_job"
PAGE = (ROOT / "docs" / "how-to" / "tune.md").read_text(encoding="utf-8")


def section() -> SparkSettings:
    return validate(yaml.safe_load((EXAMPLE / "shop.yaml").read_text())["spark"], SparkSettings, place="shop.yaml")


def test_the_page_shows_the_example_as_it_is() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    code = (EXAMPLE / "shop.py").read_text()
    assert blocks[0].strip() in code
    assert "```yaml\n" + (EXAMPLE / "shop.yaml").read_text() in PAGE


def test_the_page_names_every_setting_and_no_other() -> None:
    told = set(re.findall(r"^\| `([\w.]+)` \|", PAGE, re.MULTILINE))
    fields = {field.name for field in dataclasses.fields(SparkSettings)}
    for nested in ("window", "patience"):
        kind = {"window": QUICK, "patience": PATIENCE}[nested]
        fields |= {f"{nested}.{field.name}" for field in dataclasses.fields(kind)}
    assert told == fields - {"window", "patience"}


def test_the_page_names_what_conf_may_not_set() -> None:
    assert all(f"`{name}`" in PAGE for name in ENGINE_SETTINGS)


@pytest.mark.spark
def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLE)
    conf = {"spark.driver.extraJavaOptions": BRISK}
    settings = dataclasses.replace(section(), conf=conf, window=QUICK, patience=PATIENCE, work_dir=str(tmp_path))
    with SparkEngine(settings) as engine:
        assert engine.job_name == "shop"
        trial = engine.run({"orders": 2, "clean": 3, "totals": 2}, {"orders": 100.0})
        assert trial.verdict is Verdict.STABLE, trial.detail
        assert trial.snapshot is not None
        assert trial.snapshot.parallelism == {"orders": 2, "clean": 3, "totals": 2}
        # The load is the job's own: what is reported is what arrived.
        assert trial.snapshot.source_rates["orders"] == pytest.approx(100.0, rel=0.3)
        assert trial.snapshot.latency_seconds.mean is not None
        state = engine.window.state_keys if engine.window else 0
        assert state == 20
