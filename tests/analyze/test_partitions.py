"""Partitions of a source: waiting and arriving records, as laws over drawn windows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.analyze.facts import BatchFact
from autotrascale.analyze.partitions import measure_partitions
from autotrascale.domain.partitions import Partition, SourcePartitions
from autotrascale.views.settings_advice import format_source

Numbers = dict[str, dict[str, int]]


def batch(at_ms: int, ended: object, newest: object) -> BatchFact:
    return BatchFact(1, "run", at_ms, 1.0, 0, offsets=((None, ended),), newest=(newest,))


COUNTS = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 10**5), st.integers(0, 10**4)), min_size=1, max_size=12
)


@given(counts=COUNTS, seconds=st.integers(1, 3600))
def test_waiting_and_arriving_records_add_up(counts: list[tuple[int, int, int]], seconds: int) -> None:
    """Each partition began somewhere, has had some since, and keeps some back."""
    first = {"clicks": {str(number): begin for number, (begin, _, _) in enumerate(counts)}}
    newest = {"clicks": {str(number): begin + came for number, (begin, came, _) in enumerate(counts)}}
    ended = {"clicks": {str(n): max(0, begin + came - back) for n, (begin, came, back) in enumerate(counts)}}
    (source,) = measure_partitions([batch(1000, first, first), batch(1000 + 1000 * seconds, ended, newest)])
    assert [each.number for each in source.partitions] == [str(number) for number in range(len(counts))]
    assert source.waiting == sum(min(back, begin + came) for begin, came, back in counts)
    assert source.rate == pytest.approx(sum(came for _, came, _ in counts) / seconds)
    if source.rate:
        assert 1.0 - 1e-9 <= (source.skew or 0.0) <= len(counts) + 1e-9
        assert source.lag_seconds == pytest.approx(source.waiting / source.rate)
    else:
        assert source.skew is None


@pytest.mark.parametrize("told", [None, "offset", 7, {"clicks": 3}, {"clicks": {"0": "many"}}])
def test_a_source_with_other_offsets_has_no_partitions(told: object) -> None:
    assert measure_partitions([batch(0, told, told), batch(1000, told, told)]) == ()
    assert measure_partitions([]) == ()


def test_a_partition_that_was_added_meanwhile_has_no_rate_yet() -> None:
    before, newest = {"clicks": {"0": 10}}, {"clicks": {"0": 30, "1": 5}}
    (source,) = measure_partitions([batch(0, before, before), batch(2000, {"clicks": {"0": 30, "1": 0}}, newest)])
    assert source.partitions == (Partition("clicks", "0", 0, 10.0), Partition("clicks", "1", 5, None))
    assert (source.rate, source.lag_seconds) == (None, None)


def test_partitions_are_described_in_a_line() -> None:
    parts = [Partition("clicks", str(number), 400, rate) for number, rate in enumerate((50.0, 200.0, 50.0))]
    assert format_source(SourcePartitions(tuple(parts))) == (
        "clicks: 3 partitions, 1,200 records behind, 4.00 s of input; partition 1 gets 67% of the records"
    )
    assert (
        format_source(SourcePartitions((Partition("clicks", "0", 0, 10.0),))) == "clicks: 1 partition, 0 records behind"
    )
