"""A query is rescaled up and down with its state; no key is lost and no count changes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from conftest import PATIENCE, Bench, settings

from autotrascale.domain.trial import Trial, Verdict
from autotrascale.execute.spark.controller.query_rescaler import QueryRescaler
from autotrascale.execute.spark.controller.trial_engine import SparkEngine
from autotrascale.execute.spark.jobs.wordcount import WordCount, read_results

pytestmark = pytest.mark.spark

JOB = WordCount(vocabulary=300)


@pytest.fixture(scope="module")
def living(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("rescale")
    flavour = folder / "flavour.json"
    with SparkEngine(settings(folder, between_trials="keep", master="local[6]")) as engine:
        (folder / "results").mkdir()
        flavour.write_text(json.dumps({"word_count": {"vocabulary": 300, "results": str(folder / "results")}}))
        living = Bench(engine, flavour)
        assert to(living, (2, 2, 2, 1)).verdict is Verdict.STABLE
        yield living


def to(living: Bench, k: tuple[int, ...], rate: float = 400.0) -> Trial:
    return living.engine.run(living.engine.topology.named(k), {"source": rate})


def counted(living: Bench) -> tuple[dict[str, int], dict[str, int]]:
    """Return the counts of the job at rest, and the counts of a plain program for the same records."""
    engine = living.engine
    connection, query = engine._connection, engine._query
    assert connection is not None
    assert query is not None
    QueryRescaler(connection, engine.settings).come_to_rest(query)
    records, results = query.loads.sources["source"].limit_count, read_results(living.flavour.parent / "results")
    query.release_load()
    oracle = Counter(word for line in JOB.sentences(np.arange(records))[0] for word in line.split())
    return results, dict(oracle)


def test_state_survives_rescales_up_and_down(living: Bench) -> None:
    """Two rescales happen between batches and two in mid-batch, where the batch runs again. One changes the rate."""
    counts, oracle = counted(living)
    assert counts == oracle
    for k, patience in (
        ((1, 2, 5, 1), PATIENCE),
        ((2, 3, 1, 2), replace(PATIENCE, finish_batch=0.0)),
        ((2, 2, 6, 1), replace(PATIENCE, finish_batch=0.0)),
        ((1, 1, 3, 1), PATIENCE),
    ):
        living.engine.settings = replace(living.engine.settings, patience=patience)
        trial = to(living, k, rate=300.0)
        assert trial.verdict is Verdict.STABLE, trial.detail
        assert trial.snapshot is not None
        assert living.engine.topology.vector(trial.snapshot.parallelism) == k
        # A batch that was cut off is run to its end before state is moved: no sink sees it under another number.
        phases = [phase for phase in living.engine.report.phases if phase != "open_batch" or patience is PATIENCE]
        assert phases == ["finish", "stop", "repartition", "start", "first_batch"]
        # Finishing is not standing still: the job stands from its last commit on.
        standing = sum(s for phase, s in living.engine.report.phases.items() if phase != "finish")
        assert 0 < trial.standstill_seconds < standing + 10
    counts, oracle = counted(living)
    assert len(counts) == 300
    assert counts == oracle


def test_what_is_there_already_is_left_running(living: Bench) -> None:
    connection = living.engine._connection
    assert connection is not None
    run = connection.watch.run
    k = living.engine._query.parallelism if living.engine._query else {}
    trial = living.engine.run(k, {"source": 200.0})
    assert trial.verdict is Verdict.STABLE, trial.detail
    assert trial.standstill_seconds == 0.0
    assert connection.watch.run == run
    assert trial.snapshot is not None
    assert trial.snapshot.throughput == pytest.approx(200.0, rel=0.3)


def test_only_a_stateful_operator_needs_its_state_moved(living: Bench) -> None:
    trial = to(living, (2, 3, 3, 1), rate=200.0)
    assert trial.verdict is Verdict.STABLE, trial.detail
    assert "repartition" not in living.engine.report.phases


def test_a_host_that_dies_takes_no_state_with_it(living: Bench) -> None:
    connection = living.engine._connection
    assert connection is not None
    connection.process.kill()
    assert to(living, (1, 2, 4, 1), rate=200.0).verdict is Verdict.STABLE
    assert "finish" not in living.engine.report.phases
    assert "repartition" in living.engine.report.phases
    counts, oracle = counted(living)
    assert counts == oracle


def test_moving_state_to_where_it_is_already_is_no_error(living: Bench) -> None:
    """This is the situation after a driver that died between the move of state and its reply."""
    connection, query = living.engine._connection, living.engine._query
    assert connection is not None
    assert query is not None
    query.parallelism = {**query.parallelism, "count": 2}
    assert to(living, (1, 2, 4, 1), rate=200.0).verdict is Verdict.STABLE
