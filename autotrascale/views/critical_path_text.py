"""What a query's latency is made of, in a few sentences: the parts, who is on the paths, what would shorten them, and
what more parallelism can and cannot give.

Shares are of the time that the critical paths work: what they wait for input or a trigger is said by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from autotrascale.domain.critical_path_report import ALL, UNKNOWN, WAITING, CriticalPathReport, WhatIf
from autotrascale.plan.formatting import format_percent, join_names

_IN_WORDS = {
    "offsets": "asking for offsets",
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
    UNKNOWN: "what the log does not say",
}
_ROWS = 12  # of operators and of timelines
_NAMED = 4  # kinds and operators in a sentence
_SMALL = 0.02  # a share, or a saving, that is not worth a word
_UNEVEN = 1.5  # times its even part: from here on an executor is told of
_EXECUTOR = re.compile(r"(executor .+) slot \d+$")
_MUCH_UNKNOWN = 0.1


def describe_kind(kind: str) -> str:
    return _IN_WORDS.get(kind, kind)


def explain_participation(one: CriticalPathReport) -> list[str]:
    """A line for each thing to know; the first says what latency is made of."""
    if one.path_seconds <= 0:
        return ["Nothing ran in this time: the query waited for input or for its trigger."]
    return [
        describe_latency(one),
        *_operators(one),
        *_stragglers(one),
        *_exchanges(one),
        describe_savings(one),
        describe_parallelism(one),
        *_limits(one),
    ]


COLUMNS = ("of", "what", "critical", "busy s")


def participation_rows(one: CriticalPathReport) -> list[tuple[str, str, str, str]]:
    """The greatest parts, beside how long each was busy."""
    working = 1 - one.waiting
    named = [("kind", describe_kind(part.name), part) for part in one.kinds if part.name != WAITING]
    named += [("operator", part.name, part) for part in one.operators[:_ROWS]]
    named += [("timeline", part.name, part) for part in one.timelines[:_ROWS]]
    return [
        (of, name, f"{part.participation / working if working > 0 else 0.0:.1%}", f"{part.busy_seconds:,.1f}")
        for of, name, part in named
    ]


def describe_latency(one: CriticalPathReport) -> str:
    """`Latency is 41 % processing, 30 % planning, ….`"""
    parts = [(describe_kind(part.name), part.participation) for part in one.kinds if part.name != WAITING]
    return f"Latency is made of {_shares(parts, one)}."


def describe_savings(one: CriticalPathReport) -> str:
    """The changes that would save most, each by itself."""
    savings = [each for each in one.what_ifs if each.change != "unlimited" and each.of != UNKNOWN and _saves(each)]
    if not savings:
        return "Nothing by itself would shorten it by much."
    said = [f"{format_percent(1 - each.at_best)} if {_change(each)}" for each in savings[:_NAMED]]
    return f"It would be shorter, at best by {join_names(said)}."


def describe_parallelism(one: CriticalPathReport) -> str:
    """What instances can give at most, all together and the next one; and what none of them shortens."""
    most = next((1 - each.at_best for each in one.what_ifs if each.of == ALL), 0.0)
    if most < _SMALL:
        return "More parallelism gives nothing: no operator's work is on the critical paths."
    next_one = next((each for each in one.what_ifs if each.change == "one-more"), None)
    said = f"More parallelism takes off {format_percent(most)} at most, however many instances there are"
    if next_one is not None and _saves(next_one):
        said += f"; one more of {next_one.of} takes off {format_percent(1 - next_one.at_best)} at most"
    return f"{said}. The other {format_percent(1 - most)} no instance shortens."


def _operators(one: CriticalPathReport) -> Iterator[str]:
    parts = [(part.name, part.participation) for part in one.operators]
    if sum(share for _, share in parts) >= _SMALL * (1 - one.waiting):
        yield f"By operator: {_shares(parts, one)}."


def _stragglers(one: CriticalPathReport) -> Iterator[str]:
    """Instances that do more than their siblings, where evening them out is worth a word; and executors."""
    uneven = [each.of for each in one.what_ifs if each.change == "even" and _saves(each)]
    for name in uneven:
        parts = [part for part in one.instances if part.name == name]
        first, whole = parts[0], sum(part.participation for part in parts)
        if whole > 0:
            said = f"{format_percent(first.participation / whole)} of what its {len(parts)} instances have"
            yield f"Instance {first.instance} of {name} has {said}."
    executors: dict[str, float] = {}
    for part in one.timelines:
        if (found := _EXECUTOR.match(part.name)) is not None:
            executors[found[1]] = executors.get(found[1], 0.0) + part.participation
    whole = sum(executors.values())
    if len(executors) > 1 and whole >= _SMALL * (1 - one.waiting):
        first_of = max(executors, key=lambda name: executors[name])
        share = executors[first_of] / whole
        if share * len(executors) >= _UNEVEN:
            yield f"{first_of.capitalize()} has {format_percent(share)} of what all {len(executors)} executors have."


def _exchanges(one: CriticalPathReport) -> Iterator[str]:
    first = one.exchanges[0] if one.exchanges else None
    if first is not None and first.participation >= _SMALL * (1 - one.waiting):
        share = first.participation / (1 - one.waiting)
        yield f"Between timelines most is from {first.name} to {first.other}: {format_percent(share)}."


def _limits(one: CriticalPathReport) -> Iterator[str]:
    if one.waiting >= _SMALL:
        said = "it waited for input or its trigger; that is in none of the shares"
        yield f"For {format_percent(one.waiting)} of the time {said}."
    unknown = next((part.participation for part in one.kinds if part.name == UNKNOWN), 0.0)
    if unknown >= _MUCH_UNKNOWN * (1 - one.waiting):
        share = unknown / (1 - one.waiting)
        yield f"Of {format_percent(share)} the log does not say what it was, so nothing can be said of shortening that."


def _shares(parts: Sequence[tuple[str, float]], one: CriticalPathReport) -> str:
    working = 1 - one.waiting
    told = [(name, share / working) for name, share in parts if share / working >= _SMALL][:_NAMED]
    rest = sum(share for _, share in parts) / working - sum(share for _, share in told)
    said = [f"{format_percent(share)} {name}" for name, share in told]
    return ", ".join([*said, f"{format_percent(rest)} other things"] if rest >= _SMALL / 2 else said)


def _change(each: WhatIf) -> str:
    if each.change == "one-more":
        return f"{each.of} had one instance more"
    if each.change == "even":
        return f"all instances of {each.of} had the same to do"
    return f"{describe_kind(each.of)} took no time"


def _saves(each: WhatIf) -> bool:
    return 1 - each.at_best >= _SMALL
