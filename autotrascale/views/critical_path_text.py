"""The critical paths of a query in a few sentences: their parts, the changes that would shorten them, and the effect of
more parallelism.

Shares are relative to the working time on the critical paths. Waiting for input or a trigger has a sentence of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from autotrascale.domain.critical_path_report import ALL, UNKNOWN, WAITING, CriticalPathReport, WhatIf
from autotrascale.plan.formatting import format_percent, join_names

_KIND_NAMES = {
    "offsets": "reading offsets",
    "write-ahead-log": "the write-ahead log",
    "commit": "the commit log",
    "scheduling": "scheduling tasks",
    "deserialising": "deserialising tasks",
    "python-workers": "Python workers",
    "state-load": "loading state",
    "state-commit": "committing state",
    "serialising": "serialising results",
    "shuffle-write": "writing shuffles",
    "shuffle-fetch": "fetching shuffles",
    "garbage-collection": "garbage collection",
    "sink": "the sink",
    "external-call": "external calls",
    UNKNOWN: "unknown work",
}
_MAX_ROWS = 12  # of operators and of timelines
_MAX_NAMED = 4  # kinds and operators in a sentence
_MIN_SHARE = 0.02  # smaller shares and savings are left out
_UNEVEN_RATIO = 1.5  # of an even share; from here on an executor is named
_MIN_UNKNOWN = 0.1
_EXECUTOR = re.compile(r"(executor .+) slot \d+$")

COLUMNS = ("of", "name", "critical", "busy s")


def describe_kind(kind: str) -> str:
    return _KIND_NAMES.get(kind, kind)


def explain_participation(report: CriticalPathReport) -> list[str]:
    """Return the sentences; the first names the parts of the latency."""
    if report.path_seconds <= 0:
        return ["Nothing ran in this time: the query waited for input or for its trigger."]
    return [
        describe_latency(report),
        *_operators(report),
        *_stragglers(report),
        *_exchanges(report),
        describe_savings(report),
        describe_parallelism(report),
        *_limits(report),
    ]


def participation_rows(report: CriticalPathReport) -> list[tuple[str, str, str, str]]:
    """Return the largest parts, under `COLUMNS`."""
    working = 1 - report.waiting
    parts = [("kind", describe_kind(part.name), part) for part in report.kinds if part.name != WAITING]
    parts += [("operator", part.name, part) for part in report.operators[:_MAX_ROWS]]
    parts += [("timeline", part.name, part) for part in report.timelines[:_MAX_ROWS]]
    return [
        (of, name, f"{part.participation / working if working > 0 else 0.0:.1%}", f"{part.busy_seconds:,.1f}")
        for of, name, part in parts
    ]


def describe_latency(report: CriticalPathReport) -> str:
    """Return `Latency is 41% processing, 30% planning, ….`"""
    parts = [(describe_kind(part.name), part.participation) for part in report.kinds if part.name != WAITING]
    return f"Latency is {_shares(parts, report)}."


def describe_savings(report: CriticalPathReport) -> str:
    """Return the single changes that would save most."""
    changes = [each for each in report.what_ifs if each.change != "unlimited" and each.of != UNKNOWN and _saves(each)]
    if not changes:
        return "No single change would shorten it by much."
    savings = [f"{format_percent(1 - each.at_best)} if {_change(each)}" for each in changes[:_MAX_NAMED]]
    return f"Largest possible savings: {join_names(savings)}."


def describe_parallelism(report: CriticalPathReport) -> str:
    """Return the largest effect of more instances, and of one more instance."""
    most = next((1 - each.at_best for each in report.what_ifs if each.of == ALL), 0.0)
    if most < _MIN_SHARE:
        return "More parallelism saves nothing: no operator is on the critical paths."
    text = f"More parallelism saves at most {format_percent(most)}, with any number of instances"
    next_one = next((each for each in report.what_ifs if each.change == "one-more"), None)
    if next_one is not None and _saves(next_one):
        text += f"; one more instance of {next_one.of} saves at most {format_percent(1 - next_one.at_best)}"
    return f"{text}. The other {format_percent(1 - most)} do not depend on parallelism."


def _operators(report: CriticalPathReport) -> Iterator[str]:
    parts = [(part.name, part.participation) for part in report.operators]
    if sum(share for _, share in parts) >= _MIN_SHARE * (1 - report.waiting):
        yield f"By operator: {_shares(parts, report)}."


def _stragglers(report: CriticalPathReport) -> Iterator[str]:
    """Yield instances and executors that work more than the average, if balancing them saves enough."""
    for name in [each.of for each in report.what_ifs if each.change == "even" and _saves(each)]:
        parts = [part for part in report.instances if part.name == name]
        first, total = parts[0], sum(part.participation for part in parts)
        if total > 0:
            share = format_percent(first.participation / total)
            yield f"Instance {first.instance} of {name} has {share} of the critical path of its {len(parts)} instances."
    executors: dict[str, float] = {}
    for part in report.timelines:
        if (match := _EXECUTOR.match(part.name)) is not None:
            executors[match[1]] = executors.get(match[1], 0.0) + part.participation
    total = sum(executors.values())
    if len(executors) > 1 and total >= _MIN_SHARE * (1 - report.waiting):
        largest = max(executors, key=lambda name: executors[name])
        ratio = executors[largest] / total
        if ratio * len(executors) >= _UNEVEN_RATIO:
            share = format_percent(ratio)
            yield f"{largest.capitalize()} has {share} of the critical path of all {len(executors)} executors."


def _exchanges(report: CriticalPathReport) -> Iterator[str]:
    first = report.exchanges[0] if report.exchanges else None
    if first is not None and first.participation >= _MIN_SHARE * (1 - report.waiting):
        share = format_percent(first.participation / (1 - report.waiting))
        yield f"The largest exchange is from {first.name} to {first.other}: {share}."


def _limits(report: CriticalPathReport) -> Iterator[str]:
    if report.waiting >= _MIN_SHARE:
        share = format_percent(report.waiting)
        yield f"It waited for input or its trigger {share} of the time, which is not part of these shares."
    unknown = next((part.participation for part in report.kinds if part.name == UNKNOWN), 0.0)
    if unknown >= _MIN_UNKNOWN * (1 - report.waiting):
        share = format_percent(unknown / (1 - report.waiting))
        yield f"The log does not explain {share} of the time, so that savings there are unknown."


def _shares(parts: Sequence[tuple[str, float]], report: CriticalPathReport) -> str:
    working = 1 - report.waiting
    named = [(name, share / working) for name, share in parts if share / working >= _MIN_SHARE][:_MAX_NAMED]
    rest = sum(share for _, share in parts) / working - sum(share for _, share in named)
    texts = [f"{format_percent(share)} {name}" for name, share in named]
    return ", ".join([*texts, f"{format_percent(rest)} other work"] if rest >= _MIN_SHARE / 2 else texts)


def _change(each: WhatIf) -> str:
    if each.change == "one-more":
        return f"{each.of} had one more instance"
    if each.change == "even":
        return f"all instances of {each.of} had equal work"
    return f"{describe_kind(each.of)} took no time"


def _saves(each: WhatIf) -> bool:
    return 1 - each.at_best >= _MIN_SHARE
