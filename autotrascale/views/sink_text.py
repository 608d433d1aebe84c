"""Where a run's output goes, in words: said first of all, because nobody wants to learn it from a full topic."""

from __future__ import annotations

from autotrascale.domain.trial import Sink

_WORDS: dict[Sink, str] = {
    "discard": "its output is counted and discarded, and nothing reaches its own sink (--sink real would write there)",
    "scratch": "its output goes to scratch files that are removed after each trial, and nothing reaches its own sink",
    "real": "its output goes to its own sink",
}


def describe_sink(sink: Sink) -> str:
    return _WORDS[sink]


def describe_output(sink: Sink, records: int | None) -> str:
    """At the end of a run. None: the job's own sink does not count."""
    became = {
        "discard": "counted and discarded",
        "scratch": "written to scratch files, which are removed",
        "real": "written to the job's own sink",
    }[sink]
    return f"output: {'an unknown number of' if records is None else f'{records:,}'} records, {became}"
