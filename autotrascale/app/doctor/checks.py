"""Checks and findings of `autotrascale doctor`.

A check is a function `CheckContext → Finding`, or None if it does not apply. It may raise the errors of the rest of the
program: their messages contain the remedy.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from autotrascale.app.optional_packages import explain_missing_package
from autotrascale.domain.errors import AuTraScaleError, InputError
from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.monitor.stores.store_settings import InfluxSettings, SqliteSettings

if TYPE_CHECKING:
    from autotrascale.app.job_file import JobFile

FindingState = Literal["ok", "warning", "problem"]
DEFAULT_JOB = "autotrascale.execute.spark.jobs.wordcount:WordCount"  # checked if no job file is given


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    state: FindingState
    seen: str
    remedy: str = ""
    check: str = ""  # name of the check


@dataclass(frozen=True)
class CheckContext:
    """What to check.

    Args:
        job: the job file, if one is given.
        store: the value of `--store`.
        metrics: the metric store.
        environment: environment variables.
        clock: returns Unix time.
    """

    job: JobFile | None = None
    store: str | None = None
    metrics: SqliteSettings | InfluxSettings = field(default_factory=SqliteSettings)
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    clock: Callable[[], float] = time.time

    @property
    def spark(self) -> SparkSettings | None:
        """Settings of Spark: the job's own, else those of the word count; None if Spark does not apply."""
        if self.job is not None:
            return self.job.spark
        return SparkSettings(DEFAULT_JOB) if find_spec("pyspark") else None


Check = Callable[[CheckContext], Finding | None]


def ok(seen: str) -> Finding:
    return Finding("ok", seen)


def warning(seen: str, remedy: str) -> Finding:
    return Finding("warning", seen, remedy)


def problem(seen: str, remedy: str) -> Finding:
    return Finding("problem", seen, remedy)


def run_checks(checks: Mapping[str, Check], context: CheckContext) -> Iterator[Finding]:
    """Yield the findings of all checks that apply. An error of one check does not stop the others."""
    for name, check in checks.items():
        finding = _run(check, context)
        if finding is not None:
            yield replace(finding, check=name)


def finding_from_error(error: AuTraScaleError) -> Finding:
    """Return a problem with the error's message and remedy."""
    if isinstance(error, InputError):
        return problem(str(error).removesuffix(f"; {error.remedy}"), error.remedy)
    seen, _, remedy = str(error).rpartition(": ")
    return problem(seen, remedy) if seen else problem(remedy, "")


def _run(check: Check, context: CheckContext) -> Finding | None:
    try:
        return check(context)
    except AuTraScaleError as error:
        return finding_from_error(error)
    except Exception as error:
        missing = explain_missing_package(error) if isinstance(error, ModuleNotFoundError) else None
        if missing is not None:
            return finding_from_error(missing)
        return problem(f"the check failed: {type(error).__name__}: {error}", "correct the cause")
