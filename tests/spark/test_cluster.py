"""The test job on a standalone cluster: a master and two workers on loopback."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import Bench, settings

from autotrascale.domain.trial import Verdict
from autotrascale.execute.spark.controller.trial_engine import SparkEngine
from autotrascale.execute.spark.jobs.wordcount import WordCount, read_results
from autotrascale.testing.standalone_cluster import conf, standalone

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with standalone(tmp_path_factory.mktemp("cluster"), workers=2, cores=3, memory="1g") as cluster:
        yield cluster.url


def test_the_same_job_on_two_workers(master: str, tmp_path: Path) -> None:
    """Executors of both workers take part, counts are exact, and each instance is measured."""
    results = tmp_path / "results"
    results.mkdir()
    with SparkEngine(settings(tmp_path, master=master, conf=conf(3, "600m"))) as engine:
        assert engine.p_max == 6
        bench = Bench(engine, tmp_path / "flavour.json")
        trial = bench.run((2, 4, 3, 2), rate=300.0, word_count={"vocabulary": 60, "results": str(results)})
        assert trial.verdict is Verdict.STABLE, trial.detail
        assert trial.snapshot is not None
        assert trial.snapshot.parallelism == {"source": 2, "flatmap": 4, "count": 3, "sink": 2}
        assert len(trial.snapshot.operators["flatmap"].instances) == 4
    counts = read_results(results)
    lines = WordCount(vocabulary=60).sentences(np.arange(sum(counts.values()) // 3))[0]
    assert counts == dict(Counter(word for line in lines for word in line.split()))
