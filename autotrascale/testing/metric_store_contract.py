"""The contract suite of metric stores. Inherit the class and override its `store` fixture with an empty store."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from threading import Thread
from typing import get_args

import pytest

from autotrascale.domain.errors import InputError
from autotrascale.monitor.stores.metric_store import Aggregate, MetricQuery, MetricSample, MetricStore
from autotrascale.monitor.stores.points import END_OF_TIME, SECOND, MetricPoint
from autotrascale.testing.memory_store import MemoryStore

T0 = 1_700_000_000 * SECOND
AWKWARD = "a b, c=\"d\" ${e} 'f' #g é 漢 🙂 %h"  # every character that line protocol, CSV and Flux treat specially


def operator_point(operator: str, second: float, job: str = "wordcount", **fields: float) -> MetricPoint:
    return MetricPoint("operator", {"job": job, "operator": operator}, fields, T0 + round(second * SECOND))


def query(field: str = "rate", start: float = -1000, stop: float = 1000, **narrowed: object) -> MetricQuery:
    by = narrowed.pop("by", ())
    assert isinstance(by, tuple)
    tags = {name: str(text) for name, text in narrowed.items()}
    return MetricQuery("operator", field, T0 + round(start * SECOND), T0 + round(stop * SECOND), tags, by)


def write_points(store: MetricStore, points: Sequence[MetricPoint]) -> MetricStore:
    store.write(points)
    store.flush()
    return store


def plain_samples(samples: Sequence[MetricSample]) -> list[tuple[dict[str, str], float, float]]:
    """Return samples as group, seconds after T0 and value."""
    return [(dict(sample.group), (sample.time - T0) / SECOND, sample.value) for sample in samples]


class MetricStoreContract:
    """Tests that every metric store must pass."""

    @pytest.fixture
    def store(self) -> MetricStore:
        raise NotImplementedError("the inheriting class gives the store")

    def test_an_empty_store_has_no_answers(self, store: MetricStore) -> None:
        assert store.windows(query(), "mean") == []
        assert store.last(query()) == []

    def test_last_is_the_latest_value_and_its_time(self, store: MetricStore) -> None:
        write_points(store, [operator_point("map", 1, rate=5), operator_point("map", 3, rate=4)])
        write_points(store, [operator_point("map", 2, rate=6)])
        assert plain_samples(store.last(query())) == [({}, 3, 4.0)]

    def test_last_of_each_group(self, store: MetricStore) -> None:
        write_points(store, [operator_point("map", 1, rate=5), operator_point("sink", 2, rate=7)])
        assert plain_samples(store.last(query(by=("operator",)))) == [
            ({"operator": "map"}, 1, 5.0),
            ({"operator": "sink"}, 2, 7.0),
        ]

    def test_last_takes_the_greatest_of_a_tie(self, store: MetricStore) -> None:
        write_points(store, [operator_point("map", 1, rate=9), operator_point("sink", 1, rate=7)])
        assert plain_samples(store.last(query())) == [({}, 1, 9.0)]
        assert plain_samples(store.windows(query(), "last")) == [({}, -1000, 9.0)]

    def test_the_range_holds_its_start_and_not_its_stop(self, store: MetricStore) -> None:
        write_points(store, [operator_point("map", second, rate=1) for second in (1, 2, 3)])
        assert plain_samples(store.windows(query(start=1, stop=3), "count")) == [({}, 1, 2.0)]
        assert plain_samples(store.last(query(start=1, stop=3))) == [({}, 2, 1.0)]

    def test_windows_begin_at_multiples_of_their_length(self, store: MetricStore) -> None:
        write_points(store, [operator_point("map", second, rate=second) for second in (3, 9, 10, 19, 31)])
        answer = plain_samples(store.windows(query(start=4, stop=31), "sum", every=10 * SECOND))
        assert answer == [({}, 0, 9.0), ({}, 10, 29.0)]

    def test_points_a_nanosecond_apart_stay_apart(self, store: MetricStore) -> None:
        write_points(store, [MetricPoint("operator", {}, {"rate": i}, T0 + i) for i in range(3)])
        exact = MetricQuery("operator", "rate", T0 + 1, T0 + 2)
        assert [(sample.time, sample.value) for sample in store.last(exact)] == [(T0 + 1, 1.0)]
        assert [s.time - T0 for s in store.windows(query(), "mean", every=1)] == [0, 1, 2]

    def test_the_same_point_again_overwrites(self, store: MetricStore) -> None:
        write_points(store, [operator_point("map", 1, rate=5), operator_point("map", 1, rate=6)])
        write_points(store, [operator_point("map", 1, rate=7)])
        assert plain_samples(store.windows(query(), "sum")) == [({}, -1000, 7.0)]

    def test_fields_written_apart_are_kept_together(self, store: MetricStore) -> None:
        write_points(store, [operator_point("map", 1, rate=5), operator_point("map", 1, backlog=6)])
        assert plain_samples(store.last(query("rate"))) == [({}, 1, 5.0)]
        assert plain_samples(store.last(query("backlog"))) == [({}, 1, 6.0)]

    def test_tags_narrow_and_a_point_without_the_tag_is_out(self, store: MetricStore) -> None:
        write_points(
            store, [operator_point("map", 1, rate=5), MetricPoint("operator", {"job": "other"}, {"rate": 9}, T0)]
        )
        assert plain_samples(store.last(query(job="wordcount"))) == [({}, 1, 5.0)]
        assert store.last(query(job="wordcount", operator="sink")) == []
        assert store.last(query(zone="a")) == []

    def test_points_without_a_tag_are_a_group_of_their_own(self, store: MetricStore) -> None:
        write_points(
            store, [operator_point("map", 1, rate=5), MetricPoint("operator", {"job": "wordcount"}, {"rate": 9}, T0)]
        )
        expected = [({}, 9.0), ({"operator": "map"}, 5.0)]
        by_operator = query(by=("operator",))
        assert [(group, value) for group, _, value in plain_samples(store.last(by_operator))] == expected
        assert [(group, value) for group, _, value in plain_samples(store.windows(by_operator, "mean"))] == expected

    def test_measurements_and_fields_are_kept_apart(self, store: MetricStore) -> None:
        write_points(store, [operator_point("map", 1, rate=5), MetricPoint("job", {}, {"rate": 9}, T0)])
        assert plain_samples(store.last(query())) == [({}, 1, 5.0)]
        assert store.last(query("throughput")) == []

    def test_awkward_texts_come_back_as_they_were(self, store: MetricStore) -> None:
        write_points(store, [operator_point(AWKWARD, 1, job="'" + AWKWARD, rate=5)])
        answer = store.last(query(operator=AWKWARD, by=("job", "operator")))
        assert plain_samples(answer) == [({"job": "'" + AWKWARD, "operator": AWKWARD}, 1, 5.0)]

    @pytest.mark.parametrize("value", [0.1 + 0.2, 1e-300, -1.7976931348623157e308, 5e-324, 2.0**60, -0.0, 1 / 3])
    def test_numbers_come_back_to_the_last_bit(self, store: MetricStore, value: float) -> None:
        write_points(store, [operator_point("map", 1, rate=value)])
        assert store.last(query())[0].value == value

    def test_the_first_and_the_last_moment_can_be_kept(self, store: MetricStore) -> None:
        write_points(
            store,
            [MetricPoint("operator", {}, {"rate": 1}, 0), MetricPoint("operator", {}, {"rate": 2}, END_OF_TIME - 2)],
        )
        everything = MetricQuery("operator", "rate", 0, END_OF_TIME - 1)
        assert store.last(everything)[0].time == END_OF_TIME - 2
        assert store.windows(everything, "sum")[0].value == 3.0

    @pytest.mark.parametrize("n", [1, 2, 20, 100, 101])
    def test_percentiles_are_values_that_were_measured(self, store: MetricStore, n: int) -> None:
        write_points(store, [operator_point("map", i, rate=(i * 7) % n + 1) for i in range(n) if math.gcd(7, n) == 1])
        assert store.windows(query(), "p50")[0].value == max(1, math.ceil(0.5 * n))
        assert store.windows(query(), "p95")[0].value == max(1, math.ceil(0.95 * n))
        assert store.windows(query(), "p99")[0].value == max(1, math.ceil(0.99 * n))

    @pytest.mark.parametrize("aggregate", get_args(Aggregate))
    def test_answers_equal_those_of_the_memory_store(self, store: MetricStore, aggregate: Aggregate) -> None:
        points = random_points()
        reference = write_points(MemoryStore(), points)
        write_points(store, points)
        for by in ((), ("operator",), ("operator", "job")):
            asked = query(start=-20, stop=333.3, by=by)
            assert_close(store.last(asked), reference.last(asked))
            for every in (None, 7 * SECOND, 60 * SECOND + 1):
                assert_close(store.windows(asked, aggregate, every), reference.windows(asked, aggregate, every))

    def test_threads_may_write_and_ask_at_once(self, store: MetricStore) -> None:
        def work(name: str) -> None:
            for second in range(5):
                store.write([operator_point(name, second, rate=1)])
                store.windows(query(), "count")

        threads = [Thread(target=work, args=(f"op{i}",)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        store.flush()
        assert store.windows(query(), "count")[0].value == 20

    def test_meaningless_queries_are_refused(self, store: MetricStore) -> None:
        with pytest.raises(InputError, match="aggregate: is not known"):
            store.windows(query(), "median")  # type: ignore[arg-type]
        with pytest.raises(InputError, match="every: must be at least 1"):
            store.windows(query(), "mean", every=0)

    def test_writing_nothing_is_fine(self, store: MetricStore) -> None:
        write_points(store, [])
        assert store.status().healthy

    def test_a_working_store_is_healthy(self, store: MetricStore) -> None:
        write_points(store, [operator_point("map", 1, rate=5)])
        store.check()
        assert store.status().healthy
        assert store.status().waiting == 0

    def test_closing_twice_is_fine(self, store: MetricStore) -> None:
        store.close()
        store.close()


def random_points() -> list[MetricPoint]:
    """Return points of several series, uneven in time, with missing tags, ties and overwrites."""
    rng = random.Random(7)
    points = []
    for _ in range(300):
        tags = {"job": rng.choice("ab"), "operator": rng.choice(["source", "map", "sink"])}
        if rng.random() < 0.1:
            del tags["operator"]
        second = rng.choice([rng.randrange(-30, 350), rng.uniform(-30, 350)])
        points.append(MetricPoint("operator", tags, {"rate": rng.gauss(0, 1e3)}, T0 + int(second * SECOND)))
    return points


def assert_close(seen: Sequence[MetricSample], expected: Sequence[MetricSample]) -> None:
    """Assert that samples are equal, except for the rounding of sums."""
    assert [(s.group, s.time) for s in seen] == [(s.group, s.time) for s in expected]
    assert [s.value for s in seen] == pytest.approx([s.value for s in expected], rel=1e-9, abs=1e-9)
