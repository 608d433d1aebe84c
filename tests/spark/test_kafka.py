"""Jobs and programs on a Kafka broker, which all tests share. benchmarks/faults/kafka_bench.py does more."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from conftest import settings
from from_topic import last_counts

from autotrascale.domain.trial import Verdict
from autotrascale.execute.spark.common.source_settings import KafkaTopic, SourceSettings
from autotrascale.execute.spark.common.spark_settings import SparkSettings
from autotrascale.execute.spark.controller.live_own_job import LiveOwnJob
from autotrascale.execute.spark.controller.trial_engine import SparkEngine
from benchmarks.faults.kafka_bench import broker_in, measure
from benchmarks.workloads import topic_load
from benchmarks.workloads.kafka_broker import Broker
from examples.jobs.yahoo import Yahoo

pytestmark = pytest.mark.spark

EVENTS = 3000
CLICKS = "events"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker_in(tmp_path_factory.mktemp("broker")) as made:
        yield made


@pytest.fixture(scope="module")
def events(broker: Broker) -> list[str]:
    """Return events in three partitions, in the order of arrival; one partition has more than half of them."""
    broker.create(CLICKS, 3)
    topic_load.fill_topic(broker, CLICKS, "yahoo", EVENTS, seed=3, hot=0.4)
    return broker.in_order(CLICKS, EVENTS)


def reading(broker: Broker, folder: Path, **changes: object) -> SparkSettings:
    topic = KafkaTopic(broker.servers, CLICKS, begin="earliest")
    (folder / "results").mkdir()
    return settings(
        folder,
        job="from_topic:WrittenDown",
        options={"results": str(folder / "results"), "seed": 3},
        sink="real",
        sources={"source": SourceSettings(topic)},
        **changes,
    )


def views(events: Sequence[str]) -> Iterator[str]:
    """Return the campaigns of the viewed ads, in order."""
    table = Yahoo().table.table()
    for event in map(json.loads, events):
        if event["event_type"] == "view":
            yield table[event["ad_id"]]


def by_campaign(folder: Path) -> Counter[str]:
    counts = Counter[str]()
    for (campaign, _), views in last_counts(folder).items():
        counts[campaign] += views
    return counts


def test_a_trial_plays_the_records_of_a_topic_and_leaves_it_alone(
    broker: Broker, events: list[str], tmp_path: Path
) -> None:
    with SparkEngine(reading(broker, tmp_path)) as engine:
        assert engine.floors == {"source": 3}
        [remark] = engine.remarks({"source": 400.0})
        assert all(number in remark for number in ("3,000 records", "8 s", "400 records/s", "40 s"))
        k = {**dict.fromkeys(engine.topology, 2), "source": 3}
        trial = engine.run(k, {"source": 100.0})
    assert trial.verdict is not Verdict.FAILED, trial.detail
    assert trial.snapshot is not None
    assert trial.snapshot.parallelism["source"] == trial.snapshot.operators["source"].minimum == 3
    sizes = sorted(each.records_out or 0 for each in trial.snapshot.operators["source"].instances)
    assert sizes[-1] > 2 * sizes[0]
    found = by_campaign(tmp_path / "results")
    again = [*views(events)] * 9
    assert found.total() > 50
    assert found == Counter(again[: found.total()])
    # Nobody's but of the tool that told the test in which order the records came.
    assert [group for group in broker.groups() if not group.startswith("console-consumer")] == []


def test_a_job_that_runs_reads_the_topic_itself(broker: Broker, events: list[str], tmp_path: Path) -> None:
    with LiveOwnJob(reading(broker, tmp_path), {"source": 400.0}, tmp_path / "home") as live:
        assert live.floors == {"source": 3}
        live.start(dict.fromkeys(live.topology, 1))
        until, expected = time.monotonic() + 60, Counter(views(events))
        while by_campaign(tmp_path / "results") != expected and time.monotonic() < until:
            live.wait(0.2)
        look = live.observe()
    assert by_campaign(tmp_path / "results") == expected
    assert look.running is not None
    assert look.running["source"] == 3


def test_no_record_is_lost_or_doubled_while_its_query_is_moved(broker: Broker, tmp_path: Path) -> None:
    found = measure(rescales=2, seed=4, folder=tmp_path, broker=broker)
    assert (found["why_failed"], found["partitions_seen"]) == ([], 3)
    assert (found["records"], found["lost"], found["doubled"], found["counts_written_twice"]) == (600, 0, 0, 0)
