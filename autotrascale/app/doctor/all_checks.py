"""All checks of `autotrascale doctor`, in the order of its answer."""

from __future__ import annotations

from pathlib import Path

from autotrascale.app.doctor import machine, python_packages, redis, spark, stores
from autotrascale.app.doctor.checks import Check, Finding, run_checks
from autotrascale.app.doctor.input_files import read_check_context


def diagnose(job: Path | None, metrics: str | None, store: str | None, *, deep: bool) -> list[Finding]:
    """Run all checks.

    Args:
        job: job file whose requirements are checked; None: those of any job.
        metrics: the value of `--metrics`.
        store: the value of `--store`.
        deep: also start Spark and run a query.
    """
    context, findings = read_check_context(job, metrics, store)
    return [*findings, *run_checks(list_checks(deep=deep), context)]


def list_checks(*, deep: bool) -> dict[str, Check]:
    """Return the checks by name."""
    return {
        **python_packages.checks(),
        **spark.checks(deep=deep),
        **machine.checks(),
        **stores.checks(),
        "redis": redis.reachable,
    }
