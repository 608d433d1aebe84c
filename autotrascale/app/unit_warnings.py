"""Warnings about values of a job file that are possible but unlikely: probably written in another unit.

A warning never changes the value. Impossible values are refused when the file is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass

from autotrascale.app.job_file import JobFile
from autotrascale.domain.target import Target
from autotrascale.plan.formatting import format_amount
from autotrascale.tuning import ReportProgress, TuningProgress

# End of a key (or a section within it) → seconds from which milliseconds are likelier. The first match counts.
LONGEST_LIKELY = (
    ("latency_seconds", 30.0),
    ("window.window_seconds", 600.0),
    ("service_seconds", 10.0),
    ("hop_seconds", 60.0),
    ("interval_seconds", 3600.0),
    ("patience.", 36_000.0),
    ("_seconds", 1_000_000.0),
)
MANY_INSTANCES = 10_000
FAST_RATE, SLOW_RATE = 1e9, 1e-2  # records/s of all sources together
LOOSE_TARGET = 100.0  # multiple of the measured latency at which a target restricts nothing


def find_unit_warnings(file: JobFile) -> list[str]:
    """Return one line for each unlikely value of the job file."""
    warnings = []
    for key, value in _list_numbers(file, ""):
        longest = next((s for end, s in LONGEST_LIKELY if key.endswith(end) or f".{end}" in f".{key}"), None)
        if longest is not None and value >= longest:
            warnings.append(_ask_about_milliseconds(key, value))
    if file.p_max > MANY_INSTANCES:
        warnings.append(f"p_max is {file.p_max:,} instances of each operator: does the cluster have so many cores?")
    rate = sum(file.source_rates.values())
    if rate >= FAST_RATE or 0 < rate <= SLOW_RATE:
        warnings.append(f"source_rates are {format_amount(rate)} records/s: were records per day or minute meant?")
    return warnings


def warn_about_units(file: JobFile, warn: Callable[[str], None]) -> None:
    """Pass one line for each unlikely value of the job file to `warn`."""
    for line in find_unit_warnings(file):
        warn(f"question: {line}")


def warn_about_latency(target: Target, warn: Callable[[str], None], report: ReportProgress) -> ReportProgress:
    """Return `report` with a warning: the first measured latency shows that the target restricts nothing."""
    is_checked = False

    def report_and_check(progress: TuningProgress) -> None:
        nonlocal is_checked
        report(progress)
        latency = None if progress.done is None else progress.done.latency_seconds
        if latency and not is_checked:
            is_checked = True
            if target.latency_seconds >= LOOSE_TARGET * latency:
                question = _ask_about_milliseconds("target.latency_seconds", target.latency_seconds)
                warn(f"question: {question}. The first trial that sustained the rate had a latency of {latency:.3g} s")

    return report_and_check


def _ask_about_milliseconds(key: str, value: float) -> str:
    return f"{key} is {value:g} seconds: were milliseconds meant? Then write {value / 1000:g}"


def _list_numbers(value: object, key: str) -> Iterator[tuple[str, float]]:
    """Yield every number of a job file with its dotted key."""
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield key, value
    elif is_dataclass(value):
        for each in fields(value):
            yield from _list_numbers(getattr(value, each.name), f"{key}.{each.name}" if key else each.name)
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _list_numbers(each, f"{key}.{name}")
