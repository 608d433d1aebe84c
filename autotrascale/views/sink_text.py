"""The destination of a run's output. It is shown first, before the output reaches anything."""

from __future__ import annotations

from autotrascale.domain.trial import Sink

_WORDS: dict[Sink, str] = {
    "discard": "output is counted and discarded; nothing reaches the job's own sink (--sink real writes to it)",
    "scratch": "output goes to scratch files that are removed after each trial; nothing reaches the job's own sink",
    "real": "output goes to the job's own sink",
}


def describe_sink(sink: Sink) -> str:
    return _WORDS[sink]


def describe_output(sink: Sink, records: int | None) -> str:
    """Return the sentence for the end of a run. `records` is None if the job's own sink does not count."""
    destination = {
        "discard": "counted and discarded",
        "scratch": "written to scratch files, which are removed",
        "real": "written to the job's own sink",
    }[sink]
    return f"output: {'an unknown number of' if records is None else f'{records:,}'} records, {destination}"
