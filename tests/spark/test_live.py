"""A running own job on Spark: the contract of live jobs, and the recovery after crashes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from conftest import settings

from autotrascale.domain.errors import InputError
from autotrascale.execute.spark.controller.driver_connection import QueryFailedError
from autotrascale.execute.spark.controller.live_own_job import LiveOwnJob
from autotrascale.execute.spark.controller.own_query import OwnQuery
from autotrascale.execute.spark.controller.query_rescaler import QueryRescaler
from autotrascale.execute.spark.jobs.wordcount import WordCount, read_results
from autotrascale.testing.live_contract import LiveContract, running_parallelism, wait_for_snapshot

pytestmark = pytest.mark.spark

JOB = WordCount(vocabulary=200)
CALM = {"source": 2, "flatmap": 2, "count": 2, "sink": 1}
OTHER = {"source": 1, "flatmap": 3, "count": 4, "sink": 1}
SETTLE_SECONDS = 4.0


def open_live(home: Path) -> LiveOwnJob:
    results = home / "results"
    results.mkdir(parents=True, exist_ok=True)
    spark = settings(home, master="local[6]")
    (home / "flavour.json").write_text(json.dumps({"word_count": {"vocabulary": 200, "results": str(results)}}))
    return LiveOwnJob(spark, {"source": 300.0}, home / "home")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveOwnJob]:
    """Yield a job that all tests share which leave it running."""
    with open_live(tmp_path_factory.mktemp("live")) as live:
        live.start(CALM)
        yield live


class TestLiveSpark(LiveContract):
    calm: ClassVar = CALM
    other: ClassVar = OTHER
    settle_seconds = SETTLE_SECONDS

    def open(self, home: Path) -> LiveOwnJob:
        return open_live(home)

    @pytest.fixture
    def live(self, running: LiveOwnJob) -> LiveOwnJob:  # type: ignore[override]
        return running


def counted(live: LiveOwnJob, home: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Return the counts of the job at rest, and the counts of a plain program for the same records."""
    records = live.come_to_rest()["source"]
    oracle = Counter(word for line in JOB.sentences(np.arange(records))[0] for word in line.split())
    return read_results(home / "results"), dict(oracle)


def test_nothing_is_lost_by_crashes_at_the_worst_moments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_live(tmp_path) as live:
        live.start(CALM)
        wait_for_snapshot(live, SETTLE_SECONDS)

        # A second controller must keep its hands off.
        with pytest.raises(InputError, match="in use by another process"):
            open_live(tmp_path)

        # The state is moved, and then the rescale breaks: back to where it was.
        whole = QueryRescaler.repartition
        broken: list[int] = []

        def half(changes: QueryRescaler, query: OwnQuery, partitions: int) -> None:
            whole(changes, query, partitions)
            if not broken:
                broken.append(partitions)
                raise QueryFailedError("the state was moved, and then the disk was full")

        monkeypatch.setattr(QueryRescaler, "repartition", half)
        failed = live.rescale(OTHER)
        assert broken == [4]
        assert not failed.done
        assert running_parallelism(failed.running) == CALM
        assert "the disk was full" in failed.detail
        assert wait_for_snapshot(live, SETTLE_SECONDS).parallelism == CALM

        # With so many partitions no batch comes to its end: that of the new number is planned anew with the old one.
        flavour = json.loads((tmp_path / "flavour.json").read_text())
        (tmp_path / "flavour.json").write_text(json.dumps({**flavour, "most": 3}))
        failed = live.rescale(OTHER)
        assert (failed.done, running_parallelism(failed.running)) == (False, CALM)
        assert "more than 3 partitions are too many" in failed.detail
        assert wait_for_snapshot(live, SETTLE_SECONDS).parallelism == CALM
        (tmp_path / "flavour.json").write_text(json.dumps(flavour))

        # The host dies: down is down, and a start finds everything.
        connection = live._launcher.connection
        assert connection is not None
        connection.process.kill()
        look = live.observe()
        assert look.running is None
        assert look.detail
        assert not live.rescale(OTHER).done
        assert running_parallelism(live.start(OTHER).running) == CALM

        # The controller itself dies in the middle of a rescale, after the state was moved.
        def fatal(changes: QueryRescaler, query: OwnQuery, partitions: int) -> None:
            whole(changes, query, partitions)
            raise KeyboardInterrupt

        monkeypatch.setattr(QueryRescaler, "repartition", fatal)
        with pytest.raises(KeyboardInterrupt):
            live.rescale(OTHER)
        monkeypatch.setattr(QueryRescaler, "repartition", whole)
        live._launcher.close()
        live._home.close()

    with open_live(tmp_path) as live:
        assert running_parallelism(live.start(OTHER).running) == CALM
        assert live.rescale(OTHER).done
        wait_for_snapshot(live, SETTLE_SECONDS)
        counts, oracle = counted(live, tmp_path)
        assert len(counts) == 200
        assert counts == oracle
