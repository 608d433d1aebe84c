"""Files that tell `autotrascale doctor` what to check. A wrong file is a finding, and the other checks still run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from autotrascale.app.doctor.checks import CheckContext, Finding, finding_from_error, ok
from autotrascale.app.job_file import read_job_file
from autotrascale.app.metric_recording import find_metrics_file, read_metrics_file
from autotrascale.domain.errors import InputError
from autotrascale.monitor.stores.store_settings import SqliteSettings

T = TypeVar("T")


def read_check_context(job: Path | None, metrics: str | None, store: str | None) -> tuple[CheckContext, list[Finding]]:
    """Read the files, and return what to check with the findings about the files themselves."""
    findings: list[Finding] = []
    job_file = _read("job file", job, read_job_file, findings)
    settings = _read("metrics file", find_metrics_file(metrics), read_metrics_file, findings)
    return CheckContext(job_file, store, SqliteSettings() if settings is None else settings), findings


def _read(check: str, path: Path | None, read: Callable[[Path], T], findings: list[Finding]) -> T | None:
    if path is None:
        return None
    try:
        content = read(path)
    except InputError as error:
        findings.append(replace(finding_from_error(error), check=check))
        return None
    findings.append(replace(ok(f"{path} is valid"), check=check))
    return content
