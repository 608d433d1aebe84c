"""The store that a file asks for, and one clear line for every file that asks wrongly."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from influxd import PASSWORD, TOKEN, Influxd

from autotrascale.domain.errors import InputError
from autotrascale.monitor.stores.metric_store import MetricQuery
from autotrascale.monitor.stores.points import MetricPoint
from autotrascale.monitor.stores.sqlite_store import SqliteStore
from autotrascale.monitor.stores.store_settings import InfluxSettings, SqliteSettings, StoreSettings, open_store
from autotrascale.validation import validate

URL = "http://127.0.0.1:9"


@dataclass(frozen=True)
class File:
    store: StoreSettings


def read(**store: Any) -> SqliteSettings | InfluxSettings:
    return validate({"store": store}, File, place="job.yaml").store


def test_sqlite(tmp_path: Path) -> None:
    settings = read(kind="sqlite", path=str(tmp_path / "deep" / "metrics.db"), keep_days=7)
    with open_store(settings) as store:
        assert isinstance(store, SqliteStore)
        assert store.status().place == str(tmp_path / "deep" / "metrics.db")


@pytest.mark.parametrize("by", ["token_env", "token_file"])
def test_influxdb(influxd: Influxd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    monkeypatch.setenv("METRICS_TOKEN", TOKEN)
    (tmp_path / "token").write_text(TOKEN + "\n")
    where = {"token_env": "METRICS_TOKEN", "token_file": str(tmp_path / "token")}[by]
    spool = str(tmp_path / "spool.db")
    settings = read(kind="influxdb", url=influxd.url, bucket=influxd.bucket(), spool_path=spool, **{by: where})
    assert PASSWORD not in repr(settings)
    with open_store(settings) as store:
        store.write([MetricPoint("m", {}, {"v": 1}, 5)])
        store.flush()
        assert store.last(MetricQuery("m", "v", 0, 10))[0].value == 1


def test_a_server_that_is_away_does_not_prevent_a_start(tmp_path: Path) -> None:
    settings = InfluxSettings("influxdb", URL, "m/autogen", spool_path=str(tmp_path / "spool.db"))
    for _ in range(2):
        with open_store(settings) as store:
            store.write([MetricPoint("m", {}, {"v": 1}, 5)])
    with open_store(settings) as store:
        assert store.status().waiting == 2


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"kind": "redis"}, "store: .*sqlite"),
        ({"path": "a.db"}, "store: .*kind"),
        ({"kind": "sqlite", "url": URL}, "url: is not a known key"),
        ({"kind": "sqlite", "path": ""}, "path: is empty"),
        ({"kind": "sqlite", "keep_days": 0}, "keep_days: must be above zero"),
        ({"kind": "influxdb", "url": URL}, "bucket: is missing"),
        ({"kind": "influxdb", "url": URL, "bucket": ""}, "bucket: is empty"),
        ({"kind": "influxdb", "url": URL, "bucket": "b", "token": "abc"}, "token: is not a known key"),
        ({"kind": "influxdb", "url": "localhost:8086", "bucket": "b"}, "url: is not a web address"),
        ({"kind": "influxdb", "url": "ftp://host", "bucket": "b"}, "url: is not a web address"),
        ({"kind": "influxdb", "url": "http://me:hush@host", "bucket": "b"}, "url: contains a user or password"),
        ({"kind": "influxdb", "url": URL, "bucket": "b", "spool_points": 0}, "spool_points: must be at least 1"),
        ({"kind": "influxdb", "url": URL, "bucket": "b", "timeout_seconds": -1}, "timeout_seconds: must be above"),
        (
            {"kind": "influxdb", "url": URL, "bucket": "b", "token_env": "A", "token_file": "b"},
            "token_env: is set together with token_file",
        ),
    ],
)
def test_mistakes_are_reported_in_one_line(wrong: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError, match=rf"^job\.yaml: .*{line}") as caught:
        read(**wrong)
    assert "\n" not in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("value", [None, "", "  ", "se\ncret", "s€cret"])
def test_a_missing_token_is_reported_by_its_name(value: str | None) -> None:
    settings = InfluxSettings("influxdb", URL, "b", token_env="METRICS_TOKEN")
    environment = {} if value is None else {"METRICS_TOKEN": value}
    with pytest.raises(InputError, match=r"^store\.token_env: names .*'METRICS_TOKEN'") as caught:
        settings.open(environment)
    assert "cret" not in str(caught.value)


def test_a_missing_token_file_is_reported_by_its_name(tmp_path: Path) -> None:
    settings = InfluxSettings("influxdb", URL, "b", token_file=str(tmp_path / "none"))
    with pytest.raises(InputError, match=r"^store\.token_file: names no readable"):
        open_store(settings)
