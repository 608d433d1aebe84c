"""InfluxDB with kills, absence, wrong credentials and refusals. And no secret is ever shown."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from influxd import PASSWORD, TOKEN, Influxd, started

from autotrascale.app.metric_recording import open_metric_recorder
from autotrascale.cli import main
from autotrascale.domain.errors import MetricStoreRefusedError, MetricStoreUnavailableError
from autotrascale.monitor.stores import flux_queries
from autotrascale.monitor.stores.influx_store import BATCH, InfluxStore
from autotrascale.monitor.stores.metric_store import MetricQuery
from autotrascale.monitor.stores.points import SECOND, MetricPoint
from autotrascale.monitor.stores.spooled_store import SpooledStore
from autotrascale.testing.chain_snapshots import chain_snapshot

T0 = 1_700_000_000 * SECOND
EVERYTHING = MetricQuery("m", "v", T0, T0 + 10**6 * SECOND)
NOWHERE = "http://127.0.0.1:9"  # the discard port: no server listens


def some(batch: int, size: int) -> list[MetricPoint]:
    return [MetricPoint("m", {"job": str(i % 3)}, {"v": 1}, T0 + (batch * size + i) * SECOND) for i in range(size)]


def test_a_server_killed_in_mid_write_has_every_point_exactly_once(mortal_influxd: Influxd, tmp_path: Path) -> None:
    server, size, batches = mortal_influxd, 1000, 30
    inner = server.store(server.bucket())
    with SpooledStore(inner, tmp_path / "spool.db", bound=10**6, longest_pause=0.2) as store:
        for batch in range(batches // 2):
            store.write(some(batch, size))
        while store.status().waiting == size * batches // 2:  # until some of it has been taken
            time.sleep(0.001)
        server.kill()
        for batch in range(batches // 2, batches):
            store.write(some(batch, size))
        with pytest.raises(MetricStoreUnavailableError):
            store.flush()
        assert store.status().waiting >= size * batches // 2
        assert not store.status().healthy
        with pytest.raises(MetricStoreUnavailableError):
            store.windows(EVERYTHING, "count")
        server.start()
        store.flush()
        assert store.windows(EVERYTHING, "count")[0].value == size * batches
        assert store.windows(EVERYTHING, "sum")[0].value == size * batches
        assert store.status().healthy
        assert (store.status().waiting, store.status().dropped) == (0, 0)


def test_large_writes_go_in_batches(influxd: Influxd) -> None:
    with influxd.store(influxd.bucket()) as store:
        store.write(iter(some(0, 2 * BATCH + 1)))
        assert store.windows(EVERYTHING, "count")[0].value == 2 * BATCH + 1


def test_wrong_credentials_are_reported_without_the_secret(influxd: Influxd, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with influxd.store("m/autogen", token="admin:a-wrong-password") as store:
        with pytest.raises(MetricStoreUnavailableError, match="writing failed: 401: authorization failed") as writing:
            store.write(some(0, 1))
        with pytest.raises(MetricStoreUnavailableError, match="reading failed: 401: authorization failed") as reading:
            store.check()
        for caught in (writing, reading):
            assert "\n" not in str(caught.value)
            assert "wrong-password" not in f"{caught.value!r} {caught.value} {store!r} {store.status()}"
    assert "wrong-password" not in caplog.text


def test_a_right_token_is_not_shown_either(influxd: Influxd, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with SpooledStore(influxd.store(influxd.bucket()), tmp_path / "spool.db", bound=10) as store:
        store.write(some(0, 5))
        store.flush()
        assert PASSWORD not in f"{store!r} {store.status()}"
    assert PASSWORD not in caplog.text
    for file in tmp_path.iterdir():
        assert PASSWORD.encode() not in file.read_bytes()


def test_a_secret_that_a_server_repeats_is_covered() -> None:
    with InfluxStore(NOWHERE, "m", token=TOKEN) as store:
        error = store._make_error(MetricStoreUnavailableError, "writing", f"bad\n token {TOKEN} with {PASSWORD}")
    assert str(error) == f"{NOWHERE} bucket m: writing failed: bad token *** with ***"


def test_points_for_a_missing_bucket_are_kept(influxd: Influxd) -> None:
    with influxd.store("nowhere/autogen") as store:
        with pytest.raises(MetricStoreUnavailableError, match="404: database not found"):
            store.write(some(0, 1))
        with pytest.raises(MetricStoreUnavailableError, match="no database"):
            store.check()


def test_points_of_another_type_are_refused_for_good(influxd: Influxd, tmp_path: Path) -> None:
    inner = influxd.store(influxd.bucket())
    # A whole number, as another program may have written it.
    inner._write.write(inner._bucket, "-", f"m v=1i {T0}")
    with pytest.raises(MetricStoreRefusedError, match="400: partial write: field type conflict"):
        inner.write(some(0, 1))
    with SpooledStore(inner, tmp_path / "spool.db", bound=100) as store:
        store.write(some(0, 1))
        store.write([MetricPoint("other", {}, {"v": 1}, 3)])
        store.flush()
        assert (store.status().waiting, store.status().refused) == (0, 1)
        assert store.last(MetricQuery("other", "v", 0, 10))[0].time == 3


def test_a_missing_server_is_reported_in_one_line() -> None:
    with InfluxStore(NOWHERE, "m/autogen", token=TOKEN) as store:
        with pytest.raises(MetricStoreUnavailableError, match=r"bucket m/autogen: writing failed: .*refused") as caught:
            store.write(some(0, 1))
        assert "\n" not in str(caught.value)
        assert store.status().problem == str(caught.value)


def test_texts_cannot_break_out_of_a_query() -> None:
    text = flux_queries.build_last_query(
        "b", MetricQuery("m", "v", 0, 1, {"job": 'x" or true) |> drop() // ${r}'}), exact=True
    )
    literals = text.split('"')[1::2]
    assert r"x\x22\x20or\x20true\x29\x20\x7c\x3e\x20drop\x28\x29\x20\x2f\x2f\x20\x24\x7br\x7d" in literals


@pytest.mark.parametrize("ci", ["true", ""])
def test_without_a_server_ci_fails_and_others_skip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ci: str) -> None:
    monkeypatch.setenv("INFLUXD", str(tmp_path / "nothing"))
    monkeypatch.setenv("CI", ci)
    outcome = pytest.fail.Exception if ci else pytest.skip.Exception
    with pytest.raises(outcome, match="INFLUXD is not an executable file"):
        started(tmp_path)


def test_a_real_job_is_metered_through_a_file_that_names_the_server(
    influxd: Influxd, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SECRET_OF_INFLUX", TOKEN)
    told = {"kind": "influxdb", "url": influxd.url, "bucket": influxd.bucket(), "token_env": "SECRET_OF_INFLUX"}
    file = tmp_path / "metrics.yaml"
    file.write_text(json.dumps({"store": {**told, "spool_path": "spool.db"}}))
    with open_metric_recorder(str(file)) as meter:
        keep = meter.recorder_for(SimpleNamespace(simulated=False))
        for k in (2, 3):
            keep(
                chain_snapshot(
                    {"source": 1, "work": k}, {"source": 100.0, "work": 60.0}, 80.0, job="shop", throughput=79.5
                )
            )
    with pytest.raises(SystemExit) as ended:
        main.main(["metrics", "shop", "--metrics", str(file), "--format", "json"])
    out, err = capsys.readouterr()
    assert ended.value.code in (None, 0), err
    series = json.loads(out)
    assert set(series["throughput"].values()) == {79.5}
    assert list(series["parallelism"]["work"].values())[-1] == 3
    assert TOKEN not in out + err
