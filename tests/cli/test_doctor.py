"""Each check of `autotrascale doctor`, with the fault that it is there to find: a real one wherever one can be made."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import socket
import sqlite3
import sys
import threading
from collections import namedtuple
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from autotrascale.app.doctor import all_checks, machine, python_packages, redis, spark, stores
from autotrascale.app.doctor.checks import CheckContext, Finding, ok, run_checks, warning
from autotrascale.app.job_file import read_job_file
from autotrascale.cli import main
from autotrascale.domain.errors import EngineError, InputError
from autotrascale.domain.topology import Topology
from autotrascale.domain.trial import Trial, Verdict
from autotrascale.execute.spark.controller import trial_engine as spark_engine
from autotrascale.knowledge import job_lock
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.process_identity import ProcessIdentity
from autotrascale.knowledge.run_journal import RunJournal
from autotrascale.monitor.stores.sqlite_store import SqliteStore
from autotrascale.monitor.stores.store_settings import InfluxSettings, SqliteSettings
from tests.jobs import redis_server
from tests.knowledge import mlflow_stores
from tests.monitor import influxd

WORD_COUNT = "autotrascale.execute.spark.jobs.wordcount:WordCount"


def case(folder: Path, p_max: int = 4, **settings: Any) -> CheckContext:
    """Of a job that runs on Spark."""
    content = {
        "job": "small",
        "p_max": p_max,
        "source_rates": {"source": 100.0},
        "target": {"latency_seconds": 2.0},
        "spark": {"job": WORD_COUNT, "master": "local[4]", "work_dir": str(folder / "work"), **settings},
    }
    path = folder / "spark.yaml"
    path.write_text(yaml.safe_dump(content))
    return CheckContext(read_job_file(path), environment={})


def simulated(folder: Path) -> CheckContext:
    return CheckContext(read_job_file(mlflow_stores.job_file(folder)), environment={})


def found(check: Any, of: CheckContext) -> Finding:
    """As the doctor tells it: errors that a check raises are findings."""
    (finding,) = run_checks({"it": check}, of)
    return finding


def is_problem(finding: Finding, *says: str, state: str = "problem") -> None:
    assert finding.state == state, finding
    assert finding.remedy
    assert "\n" not in finding.seen + finding.remedy
    for each in says:
        assert each in f"{finding.seen} | {finding.remedy}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# --- Python --------------------------------------------------------------------------------------------------------


def versions(monkeypatch: pytest.MonkeyPatch, **told: str | None) -> None:
    real = importlib.metadata.version

    def version(name: str) -> str:
        said = told.get(name.replace("-", "_"), real)
        if said is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name) if callable(said) else str(said)

    monkeypatch.setattr(importlib.metadata, "version", version)


def test_a_package_that_is_missing_is_a_problem_where_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions(monkeypatch, pyarrow=None, pandas="3.0.1", redis=None, numpy=None, influxdb_client=None)
    checks = python_packages.checks()
    needed = found(checks["packages: spark"], case(tmp_path))
    is_problem(needed, "pyarrow is missing", "pandas is 3.0.1, but <3 is required", "pip install 'autotrascale[spark]'")
    is_problem(found(checks["packages: spark"], CheckContext()), state="warning")
    is_problem(found(checks["packages: redis"], case(tmp_path)), "redis is missing", state="warning")
    in_redis = case(tmp_path, options={"redis": "redis://127.0.0.1:1/0"})
    is_problem(found(checks["packages: redis"], in_redis), "redis is missing")
    influx = CheckContext(metrics=InfluxSettings("influxdb", "http://127.0.0.1:1", "b"))
    is_problem(found(checks["packages: influxdb"], influx), "influxdb-client is missing")
    is_problem(found(checks["packages: core"], CheckContext()), "numpy is missing", "pip install autotrascale")
    assert found(checks["packages: mlflow"], CheckContext()) == replace(ok("all are installed"), check="it")


def test_outside_a_checkout_the_installed_metadata_tells_what_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python_packages, "_PROJECT", tmp_path / "pyproject.toml")
    lines = ["numpy>=1.26", 'redis>=99; extra == "redis"', 'ruff; extra == "dev"']
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: lines)
    extras = SimpleNamespace(get_all=lambda _: ["redis", "dev"])
    monkeypatch.setattr(importlib.metadata, "metadata", lambda _: extras)
    assert list(python_packages.checks()) == ["python", "packages: core", "packages: redis"]
    is_problem(found(python_packages.checks()["packages: redis"], CheckContext()), ">=99", state="warning")


# --- Spark ---------------------------------------------------------------------------------------------------------


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_java_that_is_not_there_or_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    is_problem(found(spark.java, case(tmp_path)), "bin/java")
    java = program(tmp_path / "bin" / "java", "echo 'openjdk version \"11.0.2\"' >&2")
    is_problem(found(spark.java, case(tmp_path)), "11")
    program(java, "echo 'openjdk version \"21.0.1\"' >&2")
    assert found(spark.java, case(tmp_path)).seen == f"Java 21, {java}"


def test_another_spark_in_spark_home(tmp_path: Path) -> None:
    of = case(tmp_path)
    assert found(spark.spark, of).state == "ok"
    elsewhere = replace(of, environment={"SPARK_HOME": str(tmp_path)})
    is_problem(found(spark.spark, elsewhere), "spark-core", "SPARK_HOME")
    (tmp_path / "jars").mkdir()
    jar = tmp_path / "jars" / "spark-core_2.13-3.5.1.jar"
    jar.touch()
    is_problem(found(spark.spark, elsewhere), "3.5.1", "unset SPARK_HOME")
    jar.rename(jar.with_name(f"spark-core_2.13-{importlib.metadata.version('pyspark')}.jar"))
    is_problem(found(spark.spark, elsewhere), "bin/spark-submit")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("echo 3.8", "Python 3.8"),
        ("echo \"ModuleNotFoundError: No module named 'pyarrow'\" >&2; exit 1", "No module named 'pyarrow'"),
    ],
)
def test_workers_of_another_python(tmp_path: Path, text: str, says: str) -> None:
    other = program(tmp_path / "python", text)
    asked = replace(case(tmp_path), environment={"PYSPARK_PYTHON": str(other)})
    is_problem(found(spark.workers_python, asked), says, sys.executable)
    in_conf = case(tmp_path, conf={"spark.pyspark.python": str(other)})
    is_problem(found(spark.workers_python, in_conf), says)


def test_a_python_of_workers_that_is_nowhere_or_right_or_out_of_sight(tmp_path: Path) -> None:
    nowhere = {"PYSPARK_PYTHON": "/nowhere/python"}
    is_problem(found(spark.workers_python, replace(case(tmp_path), environment=nowhere)), "/nowhere/python")
    ours = replace(case(tmp_path), environment={"PYSPARK_PYTHON": sys.executable})
    assert found(spark.workers_python, ours).state == "ok"
    assert "is not set" in found(spark.workers_python, case(tmp_path)).seen
    cluster = replace(case(tmp_path, master="yarn"), environment=nowhere)
    assert "not checked" in found(spark.workers_python, cluster).seen


def test_a_job_that_cannot_be_imported_or_built(tmp_path: Path) -> None:
    is_problem(found(spark.job_code, case(tmp_path, job="no.such:job")), "no.such")
    wrong = case(tmp_path, options={"stall": 1})
    is_problem(found(spark.job_code, wrong), "spark.options: stall: ")
    (tmp_path / "mine.py").write_text("import sys\nsys.exit('out of here')\n")
    leaves = case(tmp_path, job="mine:job", python_path=[str(tmp_path)])
    is_problem(found(spark.job_code, leaves), "out of here")
    assert "operators source, flatmap, count, sink" in found(spark.job_code, case(tmp_path)).seen


def test_a_master_that_does_not_listen(tmp_path: Path) -> None:
    silent = case(tmp_path, master=f"spark://127.0.0.1:{free_port()}")
    is_problem(found(spark.master, silent), "127.0.0.1:", "refused")
    with socket.create_server(("127.0.0.1", 0)) as server:
        listens = case(tmp_path, master=f"spark://127.0.0.1:{free_port()},127.0.0.1:{server.getsockname()[1]}")
        assert found(spark.master, listens).state == "ok"
    assert "not checked" in found(spark.master, case(tmp_path, master="yarn")).seen
    assert found(spark.master, case(tmp_path)).seen == "local[4]"


def test_too_few_slots_or_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    is_problem(
        found(spark.slots, case(tmp_path, p_max=8)), "4 slots on 2 cores", "p_max is 8", "local[8]", state="warning"
    )
    is_problem(found(spark.slots, case(tmp_path)), "4 slots on 2 cores", "local[2]", state="warning")
    assert found(spark.slots, case(tmp_path, p_max=2, master="local[*]")).seen == "2 slots on 2 cores"


def test_too_little_memory(tmp_path: Path) -> None:
    is_problem(found(spark.memory, case(tmp_path, driver_memory="90000g")), "MB", "spark.driver_memory")
    assert found(spark.memory, case(tmp_path, driver_memory="1m")).state == "ok"


class BrokenEngine:
    """An engine whose trials fail, or which does not open at all."""

    topology, window = Topology.chain("source", "sink"), None
    opens = True

    def __init__(self, _: Any) -> None:
        if not self.opens:
            raise EngineError("the host did not start: the JVM ended by itself")

    def __enter__(self) -> BrokenEngine:
        return self

    def __exit__(self, *_: Any) -> None:
        """Nothing was opened."""

    def run(self, parallelism: dict[str, int], rates: dict[str, float]) -> Trial:
        assert rates == {"source": 200.0}
        return Trial(parallelism, Verdict.FAILED, detail="ValueError: amount is -3; see /tmp/host.log")


def test_a_query_that_fails_and_a_session_that_does_not_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_engine, "SparkEngine", BrokenEngine)
    check = spark.checks(deep=True)["a query on Spark"]
    is_problem(found(check, case(tmp_path)), "ValueError: amount is -3")
    monkeypatch.setattr(BrokenEngine, "opens", False)
    is_problem(found(check, case(tmp_path)), "the host did not start", "the JVM ended by itself")


@pytest.mark.spark
def test_deep_runs_a_real_query(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case(tmp_path)
    assert run("--job", str(tmp_path / "spark.yaml"), "--deep", "--format", "json") == 0
    checks = {each["check"]: each for each in json.loads(capsys.readouterr().out)["checks"]}
    assert "a query of " in checks["a query on Spark"]["seen"]
    assert not list((tmp_path / "work").iterdir())


def test_of_a_simulated_job_nothing_of_spark_is_asked(tmp_path: Path) -> None:
    of_spark = {**spark.checks(deep=True), **{name: machine.checks()[name] for name in ("work folder", "event log")}}
    assert list(run_checks(of_spark, simulated(tmp_path))) == []


# --- the machine ---------------------------------------------------------------------------------------------------


def test_folders_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    blocked = str(tmp_path / "file" / "inside")
    is_problem(found(machine.work_folder, case(tmp_path, work_dir=blocked)), "Not a directory", "spark.work_dir")
    is_problem(
        found(machine.checkpoint_folder, case(tmp_path, checkpoint_dir=f"file://{blocked}")), "spark.checkpoint_dir"
    )
    shared = case(tmp_path, checkpoint_dir=str(tmp_path / "shared"), master="spark://127.0.0.1:7077")
    is_problem(found(machine.checkpoint_folder, shared), "executors", state="warning")
    remote = case(tmp_path, checkpoint_dir="hdfs://name/checkpoints")
    assert "not checked" in found(machine.checkpoint_folder, remote).seen


def test_looking_leaves_no_folder_behind(tmp_path: Path) -> None:
    of = case(tmp_path, work_dir=str(tmp_path / "a" / "b"), checkpoint_dir=str(tmp_path / "c"))
    assert {f.state for f in run_checks(machine.checks(), of)} == {"ok"}
    assert [path.name for path in tmp_path.iterdir()] == ["spark.yaml"]


def test_a_temporary_folder_that_no_library_may_be_loaded_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_NOEXEC))
    is_problem(found(machine.work_folder, case(tmp_path)), "noexec", state="warning")


def test_what_dead_runs_left_in_the_work_folder(tmp_path: Path) -> None:
    left = tmp_path / "work" / "autotrascale-x1y2"
    left.mkdir(parents=True)
    with (left / "events").open("wb") as log:
        log.truncate(3 * machine.GIGABYTE)  # a sparse file: its length is all that counts here
    is_problem(found(machine.event_log, case(tmp_path)), "3.0 GB", state="warning")
    assert "kept after the run" in found(machine.event_log, case(tmp_path, work_dir="", keep_event_log=True)).seen


@pytest.mark.parametrize(("free", "state"), [(10**8, "problem"), (10**9, "warning"), (10**10, "ok")])
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, state: str) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**11, 0, free))
    finding = found(machine.disk, case(tmp_path))
    assert (finding.state, f"{free / 1e9:.1f} GB" in finding.seen) == (state, True)


def test_too_few_open_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.resource, "getrlimit", lambda _: (256, 4096))
    is_problem(found(machine.open_files, case(tmp_path)), "256 files", "ulimit -n 1024", state="warning")


def test_no_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise OSError("Cannot assign requested address")

    monkeypatch.setattr(socket, "create_server", refused)
    is_problem(found(machine.loopback, CheckContext()), "Cannot assign requested address")


def test_a_clock_that_is_wrong() -> None:
    is_problem(found(machine.clock, CheckContext(clock=lambda: 0.0)), "clock")
    is_problem(found(machine.clock, CheckContext(clock=lambda: 4e9)), "file system is -", state="warning")


@contextmanager
def late_server(date: str) -> Iterator[str]:
    class Late(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def date_time_string(self, timestamp: float | None = None) -> str:  # noqa: ARG002 - as the library calls it
            return date

        def log_message(self, *_: Any) -> None:
            """Silent."""

    with HTTPServer(("127.0.0.1", 0), Late) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_server_with_another_time() -> None:
    with late_server("Tue, 01 Jan 2030 00:00:00 GMT") as url:
        is_problem(found(machine.clock, CheckContext(store=url)), f"{url} is ", "clock", state="warning")
        influx = CheckContext(metrics=InfluxSettings("influxdb", url, "b"), environment={})
        is_problem(found(machine.clock, influx), f"{url} is ", state="warning")
    with late_server("yesterday") as url:
        assert found(machine.clock, CheckContext(store=url)).state == "ok"
    assert found(machine.clock, CheckContext(store=url)).state == "ok"  # nobody there: said of the store


# --- stores --------------------------------------------------------------------------------------------------------


def metric_file(path: Path) -> CheckContext:
    return CheckContext(metrics=SqliteSettings(path=str(path)), environment={})


def test_a_metric_store_that_is_there_or_will_be(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "metrics.db"
    assert "will be created" in found(stores.metrics, metric_file(path)).seen
    assert not path.parent.exists()
    SqliteStore(path).close()
    assert found(stores.metrics, metric_file(path)).seen == f"{path} is writable"


def test_metric_stores_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "BUSY_SECONDS", 0.01)
    path = tmp_path / "metrics.db"
    path.write_text("no database at all, and long enough to be sure of it" * 100)
    is_problem(found(stores.metrics, metric_file(path)), "is damaged")
    is_problem(found(stores.metrics, metric_file(tmp_path)), "is not a file")
    is_problem(found(stores.metrics, metric_file(path / "inside.db")), "is not a folder")
    path.unlink()
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE t (a)")
        is_problem(found(stores.metrics, metric_file(path)), "metrics.db")
        other.execute("BEGIN IMMEDIATE")
        is_problem(found(stores.metrics, metric_file(path)), "locked", state="warning")
        other.rollback()
    monkeypatch.setattr(os, "access", lambda *_: False)
    is_problem(found(stores.metrics, metric_file(path)), "is not writable")
    is_problem(found(stores.metrics, metric_file(tmp_path / "new.db")), "cannot be created")


def test_influxdb_that_is_away_or_has_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    away = InfluxSettings("influxdb", f"http://127.0.0.1:{free_port()}", "b", timeout_seconds=2.0)
    is_problem(found(stores.metrics, CheckContext(metrics=away)), "127.0.0.1")
    monkeypatch.delenv("NO_SUCH_TOKEN", raising=False)
    is_problem(found(stores.metrics, CheckContext(metrics=replace(away, token_env="NO_SUCH_TOKEN"))), "NO_SUCH_TOKEN")
    assert list(tmp_path.iterdir()) == []


def test_influxdb_that_answers_and_refuses_without_telling_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = influxd.started(tmp_path)
    try:
        monkeypatch.setenv("INFLUX", influxd.TOKEN)
        settings = InfluxSettings("influxdb", server.url, server.bucket(), token_env="INFLUX")
        right = found(stores.metrics, CheckContext(metrics=settings))
        assert right.state == "ok"
        assert "token from INFLUX" in right.seen
        monkeypatch.setenv("INFLUX", "admin:swordfish")
        refused = found(stores.metrics, CheckContext(metrics=settings))
        is_problem(refused, "authorization failed")
        for finding in (right, refused):
            assert not {"swordfish", influxd.PASSWORD} & set(f"{finding.seen} {finding.remedy}".split())
            assert "swordfish" not in finding.seen
            assert influxd.PASSWORD not in finding.seen
    finally:
        server.kill()


@pytest.fixture
def own_store(empty_database: Path, tmp_path: Path) -> Path:
    path = tmp_path / "own" / "mlflow.db"
    mlflow_stores.embedded(empty_database, path.parent)
    return path


def runs(uri: object) -> Finding:
    return found(stores.runs, CheckContext(store=str(uri)))


def test_a_store_of_runs_that_is_there_or_will_be_or_is_not_wanted(own_store: Path, tmp_path: Path) -> None:
    assert runs(f"sqlite:///{own_store}").seen.endswith("has 0 jobs, and is writable")
    assert "will be created" in runs(f"sqlite:///{tmp_path}/new/mlflow.db").seen
    assert not (tmp_path / "new").exists()
    is_problem(runs("none"), "no store", state="warning")


def test_stores_of_runs_that_cannot_be_used(own_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "BUSY_SECONDS", 0.01)
    uri = f"sqlite:///{own_store}"
    with closing(sqlite3.connect(own_store, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        is_problem(runs(uri), "locked", state="warning")
        other.execute("ROLLBACK")
        other.execute("UPDATE alembic_version SET version_num = '451aebb31d03'")
    is_problem(runs(uri), "MLflow", f"mlflow db upgrade {uri}")
    own_store.write_bytes(b"rubbish" * 1000)
    is_problem(runs(uri), "is damaged")
    is_problem(runs(f"sqlite:///{own_store}/inside.db"), "is not a folder")
    is_problem(runs(f"http://127.0.0.1:{free_port()}"), "127.0.0.1")
    is_problem(runs("sqlite:///"), "file")


def test_artefacts_that_cannot_be_written(own_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own_store.parent / "artifacts").mkdir()
    monkeypatch.setattr(os, "access", lambda path, _: Path(path).name != "artifacts")
    is_problem(runs(f"sqlite:///{own_store}"), "artifacts is not writable")


def test_a_running_run_without_a_process_is_a_warning(own_store: Path) -> None:
    store = MlflowStore(f"sqlite:///{own_store}")
    of = CheckContext(store=store.uri)
    journal = RunJournal.start(store, mlflow_stores.opening(mlflow_stores.job()))
    assert found(stores.run_processes, of).seen == "1 runs are under way, each with a living process"
    journal.owner.mark_inactive()
    for tag, value in job_lock.owner_tags(replace(ProcessIdentity.current(), pid=2**22 + 1, started="1")).items():
        store.client.set_tag(journal.run_id, tag, value)
    is_problem(
        found(stores.run_processes, of),
        f"the process of {journal.run_id} is gone",
        f"runs resume {journal.run_id}",
        state="warning",
    )


def test_without_mlflow_or_a_store_no_run_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks = {"run processes": stores.run_processes}
    assert list(run_checks(checks, CheckContext(store="none"))) == []
    assert list(run_checks(checks, CheckContext(store=f"sqlite:///{tmp_path}/new.db"))) == []
    assert list(run_checks(checks, CheckContext(store=f"http://127.0.0.1:{free_port()}"))) == []
    monkeypatch.setattr(stores, "find_spec", lambda _: None)
    assert [each.check for each in run_checks(stores.checks(), metric_file(tmp_path / "m.db"))] == ["metric store"]


def test_redis_that_is_away_is_named_without_its_password(tmp_path: Path) -> None:
    url = f"redis://me:opensesame@127.0.0.1:{free_port()}/0"
    finding = found(redis.reachable, case(tmp_path, options={"redis": url}))
    is_problem(finding, "Redis at redis://127.0.0.1:", "does not answer", "start it")
    assert "opensesame" not in finding.seen
    assert list(run_checks({"redis": redis.reachable}, case(tmp_path))) == []


def test_redis_that_answers(tmp_path: Path) -> None:
    server = redis_server.started(tmp_path, needed=False)
    try:
        assert found(redis.reachable, case(tmp_path, options={"redis": server.url})).state == "ok"
    finally:
        server.stop()


# --- the verb ------------------------------------------------------------------------------------------------------


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main.main(["doctor", *arguments])
    return int(ended.value.code or 0)


def test_json_stands_alone_and_warnings_are_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--job", str(mlflow_stores.job_file(tmp_path)), "--format", "json") == 0
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert (answer["healthy"], out.count("\n"), err) == (True, 1, "")
    told = {each["check"]: each for each in answer["checks"]}
    assert list(told["job file"]) == ["state", "seen", "remedy", "check"]
    assert told["store of runs and models"]["state"] == "warning"  # these tests use none
    assert "java" not in told


def test_a_table_has_one_line_for_each_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--job", str(mlflow_stores.job_file(tmp_path))) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    states = [words[0] for words in lines[2:-1]]
    assert set(states) == {"ok", "warning"}
    assert lines[-1] == ["checks:", f"{len(states)},", "problems:", "0,", "warnings:", str(states.count("warning"))]


def test_files_that_are_wrong_are_findings_and_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = mlflow_stores.job_file(tmp_path, p_max=0)
    metrics = tmp_path / "metrics.yaml"
    metrics.write_text("store: {kind: carbon}")
    assert run("--job", str(bad), "--metrics", str(metrics), "--format", "json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["healthy"] is False
    job, stated, *others = answer["checks"]
    assert (job["check"], job["state"], "p_max: " in job["seen"]) == ("job file", "problem", True)
    assert (stated["check"], stated["state"]) == ("metrics file", "problem")
    assert len(others) > 5
    metrics.write_text(f"store: {{kind: sqlite, path: {tmp_path}/m.db}}")
    assert run("--job", str(mlflow_stores.job_file(tmp_path)), "--metrics", str(metrics), "--format", "json") == 0
    assert f"{tmp_path}/m.db will be created" in capsys.readouterr().out


def test_every_check_is_in_the_table_once() -> None:
    names = list(all_checks.list_checks(deep=True))
    assert len(names) == len(set(names))
    assert "a query on Spark" not in all_checks.list_checks(deep=False)


def test_a_check_that_breaks_is_a_finding_and_the_others_are_asked() -> None:
    def breaks(_: CheckContext) -> Finding:
        raise ZeroDivisionError("division by zero")

    def refuses(_: CheckContext) -> Finding:
        raise InputError("here", "is wrong", seen=3, remedy="mend it")

    findings = list(run_checks({"a": breaks, "b": refuses, "c": lambda _: warning("odd", "look")}, CheckContext()))
    assert [each.state for each in findings] == ["problem", "problem", "warning"]
    assert findings[0].seen.endswith("ZeroDivisionError: division by zero")
    assert (findings[1].seen, findings[1].remedy, findings[1].check) == ("here: is wrong (seen: 3)", "mend it", "b")
