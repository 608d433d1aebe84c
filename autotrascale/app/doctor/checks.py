"""What a check says, what it is given, and how one check after another is asked.

A check is a function `Case → Finding`, or None where it has nothing to look at. It raises what the rest of the program
raises when something is wrong: that is a problem with its remedy in the message.
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

_TRIED = "autotrascale.execute.spark.jobs.wordcount:WordCount"  # runs where no job file says what to run


@dataclass(frozen=True)
class Finding:
    state: FindingState
    seen: str
    remedy: str = ""
    check: str = ""


@dataclass(frozen=True)
class CheckContext:
    """Where to look, and for which job, if one is named."""

    job: JobFile | None = None
    store: str | None = None  # of runs and models, as --store says it
    metrics: SqliteSettings | InfluxSettings = field(default_factory=SqliteSettings)
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    clock: Callable[[], float] = time.time

    @property
    def spark(self) -> SparkSettings | None:
        """What Spark is to be fit for: the job's own settings; without a job ours, where there is a Spark."""
        if self.job is not None:
            return self.job.spark
        return SparkSettings(_TRIED) if find_spec("pyspark") else None


Check = Callable[[CheckContext], Finding | None]


def ok(seen: str) -> Finding:
    return Finding("ok", seen)


def warning(seen: str, remedy: str) -> Finding:
    return Finding("warning", seen, remedy)


def problem(seen: str, remedy: str) -> Finding:
    return Finding("problem", seen, remedy)


def run_checks(checks: Mapping[str, Check], case: CheckContext) -> Iterator[Finding]:
    """All of them, whatever one of them runs into."""
    for name, check in checks.items():
        finding = _asked(check, case)
        if finding is not None:
            yield replace(finding, check=name)


def _asked(check: Check, case: CheckContext) -> Finding | None:
    try:
        return check(case)
    except AuTraScaleError as error:
        return finding_from_error(error)
    except Exception as error:
        missing = explain_missing_package(error) if isinstance(error, ModuleNotFoundError) else None
        if missing is not None:
            return finding_from_error(missing)
        return problem(f"cannot be looked at: {type(error).__name__}: {error}", "look at what it names")


def finding_from_error(error: AuTraScaleError) -> Finding:
    """The program's own complaints say what to do at their end, after a semicolon or a colon."""
    if isinstance(error, InputError):
        return problem(str(error).removesuffix(f"; {error.remedy}"), error.remedy)
    seen, _, remedy = str(error).rpartition(": ")
    return problem(seen, remedy) if seen else problem(remedy, "")
