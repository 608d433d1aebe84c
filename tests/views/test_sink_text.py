"""The destination of the output, in the first and the last line of a run."""

from __future__ import annotations

from typing import get_args

import pytest

from autotrascale.domain.trial import Sink
from autotrascale.views.sink_text import describe_output, describe_sink


def test_only_the_real_sink_is_reached() -> None:
    for sink in get_args(Sink):
        assert ("nothing reaches" in describe_sink(sink)) == (sink != "real")


@pytest.mark.parametrize(
    ("sink", "records", "says"),
    [
        ("discard", 12345, "output: 12,345 records, counted and discarded"),
        ("scratch", 0, "output: 0 records, written to scratch files, which are removed"),
        ("real", None, "output: an unknown number of records, written to the job's own sink"),
    ],
)
def test_the_sentence_for_the_end_of_a_run(sink: Sink, records: int | None, says: str) -> None:
    assert describe_output(sink, records) == says
