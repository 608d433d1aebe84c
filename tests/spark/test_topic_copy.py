"""A copy of a topic and how the tasks of a trial share its records: laws over generated topics."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from autotrascale.domain.errors import EngineError, InputError
from autotrascale.domain.topology import Operator, Topology
from autotrascale.execute.spark.clusters.session_configuration import build_configuration, lacks_connector
from autotrascale.execute.spark.common.source_settings import (
    KafkaTopic,
    SourceSettings,
    TopicContents,
    warn_of_short_topic,
)
from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.execute.spark.controller.preflight import check_machine
from autotrascale.execute.spark.driver_agent import kafka_topics
from autotrascale.execute.spark.driver_agent.kafka_topics import KafkaSources, select_newest
from autotrascale.execute.spark.jobs import topic_copy
from autotrascale.execute.spark.jobs.topic_copy import OFFSET, PARTITION, STAMP, TopicCopy

CLICKS = KafkaTopic("127.0.0.1:9092", "clicks")
partitions = st.integers(1, 6)
rows = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), min_size=1, max_size=60)
"""Timestamp and partition of each record."""


def made(path: Path, found: list[tuple[int, int]], count: int) -> tuple[TopicCopy, list[tuple[int, int]]]:
    """Return the copy, and partition and offset of each record in the expected order."""
    topic_copy._open_copy.cache_clear()
    owners = [partition % count for _, partition in found]
    offsets = [owners[:at].count(owner) for at, owner in enumerate(owners)]
    keys = list(zip([stamp for stamp, _ in found], owners, offsets, strict=True))
    names = [f"{owner}:{offset}" for _, owner, offset in keys]
    columns = {PARTITION: owners, OFFSET: offsets, STAMP: [stamp for stamp, _, _ in keys], "name": names}
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    return topic_copy.write_topic_copy(table, count, path), [key[1:] for key in sorted(keys)]


@given(rows, partitions, st.integers(0, 150), st.integers(0, 150), st.integers(1, 12))
def test_each_record_goes_to_one_task_of_its_partition(
    tmp_path_factory: pytest.TempPathFactory, found: list[tuple[int, int]], count: int, first: int, many: int, k: int
) -> None:
    copy, order = made(tmp_path_factory.mktemp("copy") / "copy.arrow", found, count)
    dealt = copy.share_records(first, many, k)
    assert len(dealt) == copy.count_tasks(k) == max(k, count)
    assert sorted(at for part in dealt for at in part) == list(range(many))
    for part in dealt:
        assert list(part) == sorted(part)
        assert len({order[(first + at) % len(order)][0] for at in part}) <= 1
    if k <= count:
        owners = [[order[(first + at) % len(order)][0] for at in part] for part in dealt]
        assert all(set(part) <= {partition} for partition, part in enumerate(owners))


@given(rows, partitions, st.lists(st.integers(0, 500), max_size=20))
def test_a_record_is_that_of_its_number_again_and_again(
    tmp_path_factory: pytest.TempPathFactory, found: list[tuple[int, int]], count: int, numbers: list[int]
) -> None:
    copy, order = made(tmp_path_factory.mktemp("copy") / "copy.arrow", found, count)
    [names] = copy(np.array(numbers, dtype=np.int64))
    assert names.to_pylist() == [f"{owner}:{offset}" for owner, offset in (order[i % len(order)] for i in numbers)]
    assert len(copy) == len(found)


def test_a_hot_partition_gets_the_further_tasks(tmp_path: Path) -> None:
    copy, _ = made(tmp_path / "copy.arrow", [(at, 0 if at % 10 else 1) for at in range(100)], 2)
    assert [len(part) for part in copy.share_records(0, 100, 2)] == [90, 10]
    assert [len(part) for part in copy.share_records(0, 100, 4)] == [30, 30, 30, 10]


@given(
    st.dictionaries(st.integers(0, 9), st.tuples(st.integers(0, 50), st.integers(0, 300)), min_size=1),
    st.integers(1, 400),
)
def test_the_newest_of_each_partition_are_within_what_it_holds(held: dict[int, tuple[int, int]], most: int) -> None:
    ranges = {partition: (start, start + count) for partition, (start, count) in held.items()}
    found, total = select_newest(ranges, most), sum(count for _, count in held.values())
    assert found.keys() == ranges.keys()
    assert all(ranges[each][0] <= start <= end == ranges[each][1] for each, (start, end) in found.items())
    taken = sum(end - start for start, end in found.values())
    assert taken == total if total <= most else most - len(held) < taken <= most


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"bootstrap": "broker"}, "bootstrap: is not a list of servers (seen: 'broker')"),
        ({"bootstrap": "a:1,"}, "bootstrap: "),
        ({"topic": "a b"}, "topic: is not the name of a topic (seen: 'a b')"),
        ({"topic": ".."}, "topic: "),
        ({"records": 0}, "records: must be at least 1"),
        ({"records": 10**9}, "records: is above 5,000,000"),
        ({"options": {"kafka.group.id": "shop"}}, "options.kafka.group.id: "),
        ({"options": {"kafka.bootstrap.servers": "a:1"}}, "options.kafka.bootstrap.servers: "),
        ({"options": {"startingOffsets": "earliest"}}, "options.startingOffsets: "),
    ],
)
def test_what_is_no_topic_is_refused_in_a_line(changes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError) as refused:
        KafkaTopic(**{"bootstrap": "127.0.0.1:9092", "topic": "clicks", **changes})  # type: ignore[arg-type]
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("start", "end"), [(0, 0), (70, 70)])
def test_a_topic_that_holds_nothing_is_refused_before_a_trial_and_read_by_a_job_that_runs(
    start: int, end: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_topics, "fetch_offsets", lambda _spark, _topic: {0: (start, end), 1: (0, 0)})
    sources, nobody = {"source": SourceSettings(CLICKS)}, cast(SparkSession, None)
    with pytest.raises(InputError) as refused:
        KafkaSources(nobody, sources, tmp_path, copied=True)
    assert refused.value.place == "sources.source"
    assert "topic clicks of 127.0.0.1:9092 holds no records" in str(refused.value)
    live = KafkaSources(nobody, sources, tmp_path, copied=False)
    assert live.contents == {"source": TopicContents(2, 0)}
    live.check_fed("shop", ["source"])
    with pytest.raises(InputError, match=r"sources\.source: job shop"):
        live.check_fed("shop", [])


def test_a_topic_that_holds_too_little_is_told_with_its_numbers() -> None:
    warning = warn_of_short_topic(CLICKS, TopicContents(3, 4500), 300.0, 45.0)
    assert warning.startswith("topic clicks of 127.0.0.1:9092")
    assert all(number in warning for number in ("4,500 records", "15 s", "300 records/s", "45 s"))


@given(st.dictionaries(st.sampled_from("ab"), st.integers(1, 30)), st.integers(1, 5), st.integers(1, 20))
def test_a_source_has_no_fewer_instances_than_partitions(floors: dict[str, int], minimum: int, p_max: int) -> None:
    before = Topology({"a": Operator(minimum=minimum), "b": Operator(("a",))})
    after = before.at_least(floors, p_max)
    for name, each in after.operators.items():
        was = before.operators[name].minimum
        assert each.minimum == max(was, min(floors.get(name, 1), p_max))


def test_the_connector_is_the_job_files_or_what_was_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    bare = SparkSettings(job="a:b", sources={"source": SourceSettings(CLICKS)})
    assert lacks_connector(bare)
    with pytest.raises(EngineError, match=r"no connector to Kafka: run scripts/kafka\.sh fetch, or set spark\.conf"):
        check_machine(bare)
    fetched = tmp_path / "autotrascale" / "kafka-4.1.2" / "connector"
    fetched.mkdir(parents=True)
    (fetched / "connector.jar").touch()
    assert build_configuration(bare, tmp_path)["spark.jars"] == str(fetched / "connector.jar")
    own = SparkSettings(job="a:b", sources=bare.sources, conf={"spark.jars": "/mine.jar"})
    assert build_configuration(own, tmp_path)["spark.jars"] == "/mine.jar"
    assert "spark.jars" not in build_configuration(SparkSettings(job="a:b"), tmp_path)
