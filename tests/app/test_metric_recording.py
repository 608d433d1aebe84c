"""Metrics of real jobs on their way into a metric store, and out of it again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from autotrascale.app.doctor.input_files import read_check_context
from autotrascale.app.metric_recording import MetricRecorder, choose_metric_store, open_metric_recorder
from autotrascale.cli import main
from autotrascale.domain.errors import InputError
from autotrascale.domain.snapshot import Latency, Snapshot
from autotrascale.loop import Loop, LoopCollaborators, LoopListener
from autotrascale.monitor.stores.store_settings import InfluxSettings, SqliteSettings
from autotrascale.testing.chain_snapshots import chain_snapshot
from autotrascale.testing.scripted_engine import ScriptedEngine
from autotrascale.tuning import tune
from tests.loop.scripts import RULES, START, live
from tests.test_tuning import engine, job

SECOND = 1_000_000_000


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AUTOTRASCALE_METRICS", raising=False)
    monkeypatch.chdir(tmp_path)


def real() -> ScriptedEngine:
    made = engine()
    made.simulated = False
    return made


def snapshot(k: int = 2) -> Snapshot:
    parallelism = {"source": 1, "work": k}
    return chain_snapshot(
        parallelism,
        {"source": 100.0, "work": 60.0},
        80.0,
        job="shop",
        throughput=79.5,
        backlog_records=12.0,
        latency_seconds=Latency(mean=0.2, p95=0.31),
    )


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main.main(arguments)
    return int(ended.value.code or 0)


def test_a_tuning_run_tells_of_the_snapshot_of_every_trial() -> None:
    seen: list[Snapshot] = []
    outcome = tune(job(), engine(), seen=seen.append)
    assert [shot.parallelism for shot in seen] == [dict(each.parallelism) for each in outcome.evaluations]


def test_a_loop_tells_of_the_snapshot_of_every_look() -> None:
    seen: list[Snapshot] = []
    watched = live()

    class Watch(LoopListener):
        def on_snapshot(self, snapshot: Snapshot) -> None:
            seen.append(snapshot)

    Loop(watched, RULES, initial=START, around=LoopCollaborators(listener=Watch())).run(300.0)
    assert len(seen) == watched.observed


def test_what_a_real_job_was_measured_at_is_there_for_later(capsys: pytest.CaptureFixture[str]) -> None:
    with open_metric_recorder(None) as meter:
        tune(job(), real(), seen=meter.recorder_for(real()))
    assert run("metrics", "--format", "json") == 0
    (found,) = json.loads(capsys.readouterr().out)["jobs"]
    assert found["job"] == job().name
    assert 0 <= found["age_seconds"] < 60


def test_simulated_figures_are_not_kept_among_real_ones(tmp_path: Path) -> None:
    with open_metric_recorder(None) as meter:
        tune(job(), engine(), seen=meter.recorder_for(engine()))
    assert not list(tmp_path.iterdir())


def test_a_job_as_series_and_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([10 * SECOND, 130 * SECOND, 250 * SECOND])
    meter = MetricRecorder(SqliteSettings(), clock=lambda: next(times))
    keep = meter.recorder_for(real())
    for k in (2, 2, 5):
        keep(snapshot(k))
    meter.close()
    years = ("--hours", "1000000", "--points", "250")
    assert run("metrics", "shop", *years, "--format", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told["throughput"].values()) == {79.5}
    assert set(told["latency_p95_seconds"].values()) == {0.31}
    assert list(told["parallelism"]["work"].values()) == [2, 2, 5]
    assert min(told["backlog_records"]) == "1970-01-01T00:00:10Z"
    assert run("metrics", "shop", *years) == 0
    last = capsys.readouterr().out.rstrip().splitlines()[-1].split()
    assert last[1:] == ["00:04:10", "79.5", "0.31", "12", "1", "5"]


def test_jobs_that_nobody_measured(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run("metrics") == 1
    assert "mlruns/metrics.db: " in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    with open_metric_recorder(None) as meter:
        meter.recorder_for(real())(snapshot())
    assert run("metrics", "shoop") == 1
    assert "(seen: 'shoop'); use one of shop" in capsys.readouterr().err


def test_a_store_that_fails_is_said_and_costs_the_run_nothing(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "mlruns").write_text("in the way")
    meter = MetricRecorder(SqliteSettings(), tell=said.append)
    assert tune(job(), real(), seen=meter.recorder_for(real())).met_target
    assert len(said) == 1
    assert said[0].startswith("metrics are not recorded: ")
    with pytest.raises(InputError, match="cannot be opened"):
        MetricRecorder(SqliteSettings(), is_named=True).recorder_for(real())


def test_a_job_whose_name_no_store_takes_is_tuned_all_the_same() -> None:
    said: list[str] = []
    meter = MetricRecorder(SqliteSettings(), tell=said.append)
    keep = meter.recorder_for(real())
    keep(replace(snapshot(), job="x" * 100_000))
    keep(replace(snapshot(), job="two\nlines"))
    keep(snapshot())
    meter.close()
    assert [line for line in said if not line.startswith("metric store: ")] == []


def test_an_influxdb_that_is_away_is_said_once_and_points_wait(tmp_path: Path) -> None:
    said: list[str] = []
    away = InfluxSettings("influxdb", "http://127.0.0.1:1", "b", timeout_seconds=0.5, spool_path=str(tmp_path / "s.db"))
    meter = MetricRecorder(away, tell=said.append)
    keep = meter.recorder_for(real())
    for _ in range(20):
        keep(snapshot())
    meter.close()
    assert (tmp_path / "s.db").exists()
    assert len(said) <= 1
    assert all(line.startswith("metric store: ") for line in said)


def test_which_store_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "metrics.yaml"
    file.write_text("store: {kind: sqlite, path: here.db}\n")
    assert choose_metric_store(None) == SqliteSettings()
    assert choose_metric_store(str(file)) == SqliteSettings(path="here.db")
    assert choose_metric_store("none") is None
    monkeypatch.setenv("AUTOTRASCALE_METRICS", str(file))
    assert choose_metric_store(None) == SqliteSettings(path="here.db")
    assert choose_metric_store("none") is None
    assert read_check_context(None, None, "none")[0].metrics == SqliteSettings(
        path="here.db"
    )  # a doctor looks at the same
    with pytest.raises(InputError, match=r"nowhere\.yaml"):
        choose_metric_store("nowhere.yaml")


@pytest.mark.parametrize("named", [True, False])
def test_a_run_that_is_not_journalled_keeps_metrics_only_where_somebody_said(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if named:
        (tmp_path / "metrics.yaml").write_text("store: {kind: sqlite, path: here.db}\n")
        monkeypatch.setenv("AUTOTRASCALE_METRICS", "metrics.yaml")
    with open_metric_recorder(None, journalled=False) as meter:
        meter.recorder_for(real())(snapshot())
    assert (tmp_path / "here.db").exists() == named
    assert not (tmp_path / "mlruns").exists()


@pytest.mark.parametrize("verb", ["tune", "autoscale"])
def test_a_metrics_file_that_is_wrong_is_refused(verb: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("store: {kind: postgres}\n")
    file = Path(__file__).parents[2] / "configs" / "wordcount-simulated.yaml"
    assert run(verb, str(file), "--store", "none", "--metrics", "bad.yaml") == 1
    err = capsys.readouterr().err
    assert "bad.yaml" in err
    assert "Traceback" not in err
