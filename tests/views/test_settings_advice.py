from __future__ import annotations

import json
import shlex

from autotrascale.domain.stages import StageTime
from autotrascale.domain.target import Target
from autotrascale.plan.sizing.batch_time import QuerySetup, QueryWorkload, StageWork
from autotrascale.plan.sizing.settings_advice import AdvisedSetting, CurrentSettings, advise
from autotrascale.views.settings_advice import (
    STAGE_COLUMNS,
    advice_as_data,
    advice_lines,
    program_lines,
    spark_submit_arguments,
    stage_rows,
)

WORD_COUNT = QueryWorkload(
    0.4,
    (StageWork("read kafka", 0.5, 6, reads_source=True), StageWork("count by word", 2.0, 200, stateful=True)),
    10_000.0,
)


def test_advice_as_lines() -> None:
    today = CurrentSettings(
        QuerySetup(1, 2, 200, trigger_seconds=10.0), "yarn", {"spark.executor.instances": "1"}, "kafka"
    )
    advice = advise(WORD_COUNT, today, Target(3.0), 24)
    found = advice_lines(advice, measured_latency=41.0, price=0.25)
    assert found[0].startswith("spark.executor.instances: 1 → ")
    assert "2.5 s of work" in found[0]
    assert any(line.startswith("trigger processingTime: 10 seconds → ") for line in found)
    assert any(line.startswith("source option maxOffsetsPerTrigger: unknown → ") for line in found)
    now = next(line for line in found if line.startswith("today:"))
    assert "1 executor, 0.25 $/h: falls behind, each second of input takes 1.25 s" in now
    assert now.endswith("measured 41.00 s")
    then = next(line for line in found if line.startswith("expected:"))
    assert then.endswith("target 3.00 s")
    assert all("\n" not in line for line in found)


def test_advice_as_data() -> None:
    today = CurrentSettings(
        QuerySetup(1, 2, 200, trigger_seconds=10.0), "yarn", {"spark.executor.instances": "1"}, "kafka"
    )
    plain = advice_as_data(advise(WORD_COUNT, today, Target(3.0), 24), price=0.25)
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert (plain["today"]["latency_seconds"], plain["today"]["price_an_hour"]) == (None, 0.25)
    assert plain["expected"]["executors"] * 0.25 == plain["expected"]["price_an_hour"]
    assert "spark.executor.instances" in plain["spark_submit"]
    assert plain["settings"][0]["name"] == "spark.executor.instances"


def test_advice_without_a_change() -> None:
    advice = advise(WORD_COUNT, CurrentSettings(QuerySetup(2, 2, 200), "yarn"), Target(30.0), 24)
    assert advice_lines(advice)[0] == "no change: today's settings hold 30.00 s (mean)"
    assert spark_submit_arguments(advice.settings) == ""


def test_arguments_are_quoted_for_the_shell() -> None:
    settings = (
        AdvisedSetting("conf", "spark.master", "local[8]", "local[2]", "8 slots"),
        AdvisedSetting("conf", "spark.sql.shuffle.partitions", "8", "200", "one wave of 8"),
        AdvisedSetting("source option", "minPartitions", "8", None, "8 slots"),
        AdvisedSetting("trigger", "processingTime", "1.5 seconds", "60 seconds", "60 s"),
    )
    said = spark_submit_arguments(settings)
    assert said == "--master 'local[8]' --conf spark.sql.shuffle.partitions=8"
    assert shlex.split(said)[1] == "local[8]"
    assert program_lines(settings) == ['.option("minPartitions", "8")', '.trigger(processingTime="1.5 seconds")']


def test_rows_of_stages() -> None:
    rows = stage_rows(
        [
            StageTime("read kafka", 6, 0.2, 0.5, 1.0, reads_source=True, records_in=1000.0, records_out=250.0),
            StageTime("count by word", 8, 0.9, 1.5, 2.44, records_in=250.0),
        ]
    )
    assert rows == [
        ("read kafka", "6", "200 ms", "500 ms", "25%", "1.0 × the mean", "1,000", "250", "2,000/s"),
        ("count by word", "8", "900 ms", "1.50 s", "75%", "2.4 × the mean", "250", "?", "167/s"),
    ]
    assert all(len(row) == len(STAGE_COLUMNS) for row in rows)
    unknown = stage_rows([StageTime("read kafka", 6, 0.2, None, None)])
    assert unknown == [("read kafka", "6", "200 ms", "?", "?", "?", "?", "?", "?")]
