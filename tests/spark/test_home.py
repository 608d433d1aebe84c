"""The Spark home of a JVM on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autotrascale.execute.spark.common.spark_home import installed_pyspark


def test_all_of_spark_but_the_zip_and_only_while_the_jvm_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    home = tmp_path / "spark"
    with installed_pyspark(home):
        assert os.environ["SPARK_HOME"] == str(home)
        assert (home / "bin" / "spark-submit").is_file()
        assert (home / "jars").is_dir()
        assert not (home / "python").exists()
    assert "SPARK_HOME" not in os.environ


def test_a_host_that_died_leaves_a_home_to_its_successor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    home = tmp_path / "spark"
    with installed_pyspark(home):
        (home / "bin").unlink()
    for _ in range(2):
        with installed_pyspark(home):
            assert (home / "bin" / "spark-submit").is_file()


def test_a_users_own_home_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    with installed_pyspark(tmp_path / "spark"):
        assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert not (tmp_path / "spark").exists()
    assert os.environ["SPARK_HOME"] == "/opt/spark"
