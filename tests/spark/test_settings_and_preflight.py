from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from autotrascale.domain.errors import EngineError, InputError
from autotrascale.execute.spark.clusters.session_configuration import build_configuration
from autotrascale.execute.spark.common.error_causes import JVM_GONE, explain_error, explain_exit
from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.execute.spark.controller.preflight import check_java, check_memory, parse_java_version
from autotrascale.execute.spark.jobs.job_loading import load_job
from autotrascale.execute.spark.jobs.wordcount import WordCount
from autotrascale.validation import validate

JOB = "autotrascale.execute.spark.jobs.wordcount:WordCount"


def read(**section: Any) -> SparkSettings:
    return validate({"job": JOB, **section}, SparkSettings, place="job.yaml: spark")


def test_a_section_needs_only_its_job() -> None:
    settings = read()
    assert settings.master == "local[*]"
    assert settings.between_trials == "fresh"


def test_a_whole_section_is_read() -> None:
    settings = read(
        options={"flatmap_stall": 0.001},
        master="spark://127.0.0.1:7077",
        conf={"spark.cores.max": "8"},
        driver_memory="2g",
        p_max=16,
        between_trials="keep",
        window={"window_seconds": 20.0, "min_batches": 8},
        patience={"start": 60},
        load_shape=[[0, 1], [30, 2]],
    )
    assert settings.driver_megabytes == 2048
    assert settings.load_shape == ((0.0, 1.0), (30.0, 2.0))


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({"master": "mesos://x"}, "spark: master: is not a Spark master"),
        ({"driver_memory": "lots"}, "driver_memory: is not an amount of memory"),
        ({"conf": {"spark.sql.adaptive.enabled": "true"}}, "conf.spark.sql.adaptive.enabled: is set by AuTraScale"),
        ({"window": {"min_batches": 1}}, "min_batches: must be at least 3"),
        ({"patience": {"start": 0}}, "start: must be above zero"),
        ({"p_max": 0}, "p_max: must be at least 1"),
        ({"between_trials": "sometimes"}, "between_trials: is not one of the allowed values"),
        ({"windows": {}}, "windows: is not a known key"),
        ({"load_shape": [[1, 1]]}, "must begin at second 0"),
    ],
)
def test_a_bad_section_is_refused_in_one_line(section: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as refused:
        read(**section)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_users_conf_replaces_defaults_and_never_engine_settings(tmp_path: Path) -> None:
    conf = build_configuration(
        read(conf={"spark.ui.enabled": "true", "spark.driver.extraJavaOptions": "-Da=b"}), tmp_path
    )
    assert conf["spark.ui.enabled"] == "true"
    assert conf["spark.sql.adaptive.enabled"] == "false"
    assert conf["spark.driver.extraJavaOptions"].endswith("-Da=b")
    assert "ExitOnOutOfMemoryError" in conf["spark.driver.extraJavaOptions"]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("no java", None),
    ],
)
def test_java_tells_its_version_in_two_ways(text: str, version: int | None) -> None:
    assert parse_java_version(text) == version


def fake_java(folder: Path, version: str) -> None:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)


def test_an_old_java_is_named_with_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EngineError, match=r"needs Java 17 or newer, and .* is Java 11"):
        check_java()


def test_a_new_java_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, "25.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check_java()


def test_no_java_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="there is no Java: install Java 17"):
        check_java()


def test_a_java_home_without_java_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EngineError, match=r"JAVA_HOME is .*, which has no bin/java"):
        check_java()


def test_too_little_memory_is_said_with_both_numbers() -> None:
    with pytest.raises(EngineError, match=r"90000000 MB .* MB are free: lower spark.driver_memory"):
        check_memory(90_000_000)


def test_a_job_is_loaded_by_name_with_its_options() -> None:
    assert load_job(JOB, {"flatmap_stall": 0.25}) == WordCount(flatmap_stall=0.25)


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("wordcount", {}, "spark.job: is not of the form module:attribute"),
        ("no.such:job", {}, "spark.job: cannot be imported: ModuleNotFoundError"),
        ("autotrascale.execute.spark.jobs.wordcount:Nothing", {}, "has no 'Nothing'"),
        ("autotrascale.execute.spark.jobs.wordcount:read_results", {}, "spark.job: is not a job"),
        (JOB, {"stall": 1}, "spark.options: stall: is not a known key"),
        (JOB, {"flatmap_stall": -1}, "spark.options: flatmap_stall: must not be negative"),
        ("flavoured:Flavoured", {}, "spark.options: flavour: is missing"),
    ],
)
def test_a_job_that_cannot_be_loaded_is_one_line(
    name: str, options: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    with pytest.raises(InputError) as refused:
        load_job(name, options)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


STREAM_ERROR = """org.apache.spark.sql.streaming.StreamingQueryException: [STREAM_FAILED] Query [id = 1, runId = 2]
=== Streaming Query ===
org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 5.0 failed 1 times
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2844)
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/jobs/shop.py", line 12, in clean
    raise ValueError("amount is -3")
ValueError: amount is -3

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:531)
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (STREAM_ERROR, "ValueError: amount is -3"),
        ("java.lang.OutOfMemoryError: Java heap space\n\tat x", "the JVM ran out of memory: raise spark.driver_memory"),
        ("a\nCaused by: java.io.IOException: disk is slow\n\tat y", "IOException: disk is slow"),
        ("AnalysisException: [TABLE_NOT_FOUND] no t\n\n== plan", "AnalysisException: [TABLE_NOT_FOUND] no t"),
        ("", "Spark gave no reason"),
        (
            "An error occurred while calling o9.parquet.\n: org.apache.hadoop.fs.ParentNotDirectoryException: "
            "Parent path is not a directory: file:/f\n\tat org.apache.hadoop.fs.Raw.mkdirs(Raw.java:892)\n",
            "ParentNotDirectoryException: Parent path is not a directory: file:/f",
        ),
    ],
)
def test_a_stack_trace_is_reduced_to_its_cause(text: str, reason: str) -> None:
    assert explain_error(text) == reason


def test_the_end_of_a_driver_is_told_from_its_exit_code_and_its_log(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    assert explain_exit(-9, log) == "the driver was killed by signal 9"
    assert explain_exit(JVM_GONE, log) == "the JVM ended by itself"
    log.write_text("x" * 100_000 + "\njava.lang.OutOfMemoryError: Java heap space\n" + os.linesep)
    assert "ran out of memory" in explain_exit(JVM_GONE, log)
    assert explain_exit(JVM_GONE, log, log_from=log.stat().st_size) == "the JVM ended by itself"
