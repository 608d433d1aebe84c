"""What a job file says that may be in another unit than it is read in: asked in a line, and done as it is written.

What cannot be right is refused where it is read. Here is what can be, and seldom is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass

from autotrascale.app.job_file import JobFile
from autotrascale.domain.target import Target
from autotrascale.plan.formatting import format_amount
from autotrascale.tuning import ReportProgress, TuningProgress

# From so many seconds on a thousandth of it is likelier; by the end of the field's path, the first that fits.
_LONG = (
    ("latency_seconds", 30.0),
    ("window.window_seconds", 600.0),
    ("service_seconds", 10.0),
    ("hop_seconds", 60.0),
    ("interval_seconds", 3600.0),
    ("patience.", 36_000.0),
    ("_seconds", 1_000_000.0),
)
MANY_INSTANCES = 10_000
FAST, SLOW = 1e9, 1e-2  # records per second, all sources together
OFF = 100.0  # times the latency that was measured: a target that asks for nothing

Say = Callable[[str], None]


def find_unit_warnings(file: JobFile) -> list[str]:
    return [*_of_seconds(file), *_of_numbers(file)]


def warn_about_units(file: JobFile, say: Say) -> None:
    for line in find_unit_warnings(file):
        say(f"question: {line}")


def warn_about_latency(target: Target, say: Say, report: ReportProgress) -> ReportProgress:
    """`report`, and a question after the first trial that kept up, where its latency is far from the target."""
    asked: list[float] = []

    def reported(progress: TuningProgress) -> None:
        report(progress)
        latency = None if progress.done is None else progress.done.latency_seconds
        if latency and not asked:
            asked.append(latency)
            if target.latency_seconds >= OFF * latency:
                asks = _thousandth("target.latency_seconds", target.latency_seconds)
                say(f"question: {asks}; in the first trial that kept up a record took {latency:.3g}")

    return reported


def _of_seconds(file: JobFile) -> Iterator[str]:
    for path, value in _numbers(file, ""):
        long = next((most for ending, most in _LONG if path.endswith(ending) or f".{ending}" in f".{path}"), None)
        if long is not None and value >= long:
            yield _thousandth(path, value)


def _thousandth(path: str, value: float) -> str:
    return f"{path} is {value:g} seconds: were milliseconds meant? Then write {value / 1000:g}"


def _of_numbers(file: JobFile) -> Iterator[str]:
    if file.p_max > MANY_INSTANCES:
        yield f"p_max is {file.p_max:,} instances of each operator: is it what the cluster has?"
    rate = sum(file.source_rates.values())
    if rate >= FAST or 0 < rate <= SLOW:
        yield f"source_rates are {format_amount(rate)} records a second: were records a day or a minute meant?"


def _numbers(value: object, path: str) -> Iterator[tuple[str, float]]:
    """Every number of the file, with the path that it has there."""
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield path, value
    elif is_dataclass(value):
        for each in fields(value):
            yield from _numbers(getattr(value, each.name), f"{path}.{each.name}" if path else each.name)
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _numbers(each, f"{path}.{name}")
