"""Advice on Spark settings: examples, and laws over drawn queries."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.domain.target import Target
from autotrascale.plan.sizing.batch_time import QuerySetup, QueryWorkload, StageWork, predict_batch_time
from autotrascale.plan.sizing.settings_advice import MARGIN, AdvisedSetting, CurrentSettings, SettingsAdvice, advise
from autotrascale.views.settings_advice import advice_lines, program_lines

MOST = 24
WORD_COUNT = QueryWorkload(
    0.4,
    (StageWork("read kafka", 0.5, 6, reads_source=True), StageWork("count by word", 2.0, 200, stateful=True)),
    10_000.0,
)
SETUP = QuerySetup(1, 2, partitions=200)


def today(**changes: Any) -> CurrentSettings:
    return CurrentSettings(**{"setup": SETUP, "master": "yarn", **changes})


def named(advice: SettingsAdvice) -> dict[str, AdvisedSetting]:
    return {setting.name: setting for setting in advice.settings}


def drawn(seed: int) -> tuple[QueryWorkload, CurrentSettings, Target]:
    chance = random.Random(seed)
    stages = [StageWork("read", chance.uniform(0.01, 2), chance.randint(1, 12), reads_source=True)]
    partitions = chance.choice([1, 4, 8, 9, 200])
    for at in range(chance.randint(0, 3)):
        stages.append(
            StageWork(f"count {at}", chance.uniform(0.01, 4), partitions, chance.choice([0, 0, 0.1]), stateful=at == 0)
        )
    setup = QuerySetup(
        chance.randint(1, 12), chance.choice([1, 2, 4]), partitions, None, chance.choice([0, 0, 2.0, 10.0])
    )
    target = Target(chance.uniform(0.3, 20), chance.choice(["mean", "p50", "p95", "p99"]))  # type: ignore[arg-type]
    of = QueryWorkload(chance.uniform(0.05, 2), tuple(stages), chance.uniform(1, 1e6))
    return of, today(setup=setup, source=chance.choice(["kafka", "files", None])), target


def applied(advice: SettingsAdvice, before: CurrentSettings) -> CurrentSettings:
    """Return the settings after the advice is applied."""
    found, conf = before.setup, dict(before.conf)
    for setting in advice.settings:
        value = setting.value.removesuffix(" seconds")
        match setting.name:
            case "spark.executor.instances":
                found = replace(found, executors=int(value))
            case "spark.sql.shuffle.partitions":
                found = replace(found, partitions=int(value))
            case "minPartitions":
                found = replace(found, source_partitions=int(value))
            case "processingTime":
                found = replace(found, trigger_seconds=float(value))
            case "maxOffsetsPerTrigger" | "maxFilesPerTrigger":
                before = replace(before, limit=int(value))
        conf[setting.name] = setting.value
    return replace(before, setup=found, conf=conf)


@given(st.integers(0, 2**32))
def test_the_expected_values_are_predictions_for_the_advised_settings(seed: int) -> None:
    of, now, target = drawn(seed)
    advice = advise(of, now, target, MOST)
    then = applied(advice, now).setup
    assert advice.then.executors == then.executors
    assert advice.then.latency_seconds == pytest.approx(predict_batch_time(of, then).latency(target.statistic))
    if advice.reachable:
        assert advice.then.latency_seconds <= target.latency_seconds * (1 - MARGIN) * (1 + 1e-9)


@given(st.integers(0, 2**32))
def test_after_the_advice_is_applied_no_further_advice_follows(seed: int) -> None:
    of, now, target = drawn(seed)
    first = advise(of, now, target, MOST)
    if not first.reachable:
        return
    then = applied(first, now)
    tasks = tuple(replace(stage, tasks=then.setup.tasks(stage)) for stage in of.stages)
    again = advise(replace(of, stages=tasks), then, target, MOST)
    assert again.then.executors == first.then.executors
    assert not {setting.kind for setting in again.settings} & {"conf", "trigger"}


@given(st.integers(0, 2**32), st.floats(1, 5))
def test_more_input_or_a_tighter_target_never_need_fewer_executors(seed: int, factor: float) -> None:
    of, now, target = drawn(seed)
    before = advise(of, now, target, MOST)
    for other in (
        advise(of.at_rate(of.rate * factor), now, target, MOST),
        advise(of, now, replace(target, latency_seconds=target.latency_seconds / factor), MOST),
    ):
        assert not other.reachable or (before.reachable and other.then.executors >= before.then.executors)


@given(st.integers(0, 2**32))
def test_every_advised_setting_differs_from_the_present_one_and_has_a_reason(seed: int) -> None:
    of, now, target = drawn(seed)
    for setting in advise(of, now, target, MOST).settings:
        assert setting.value != setting.now
        assert any(letter.isdigit() for letter in setting.reason)
        assert "\n" not in setting.reason
        assert setting.value.removesuffix(" seconds").replace(".", "").replace("local[", "").rstrip("]").isdigit()


def test_a_word_count_that_falls_behind() -> None:
    advice = advise(WORD_COUNT, today(source="kafka"), Target(3.0), MOST)
    assert advice.reachable
    assert advice.today.busy > 1
    found = named(advice)
    assert found["spark.executor.instances"].value == str(advice.then.executors)
    assert "2.5 s of work" in found["spark.executor.instances"].reason
    assert found["maxOffsetsPerTrigger"].now is None
    limit = int(found["maxOffsetsPerTrigger"].value)
    assert 10_000 * advice.then.batch_seconds < limit
    assert WORD_COUNT.fixed_seconds + limit / 10_000 * advice.then.busy <= 3.0


def test_partitions_change_only_for_a_saving_and_a_caveat_names_the_checkpoint() -> None:
    uneven = replace(WORD_COUNT, stages=(StageWork("count by word", 2.0, 5, stateful=True),))
    advice = advise(uneven, today(setup=QuerySetup(2, 2, partitions=5)), Target(2.0), MOST)
    assert named(advice)["spark.sql.shuffle.partitions"].now == "5"
    assert any("checkpoint" in each for each in advice.caveats)
    stateless = replace(uneven, stages=(replace(uneven.stages[0], stateful=False),))
    assert not any("checkpoint" in each for each in advise(stateless, today(), Target(2.0), MOST).caveats)
    many = advise(WORD_COUNT, today(), Target(3.0), MOST)
    assert "spark.sql.shuffle.partitions" not in named(many), "200 tasks of a few milliseconds divide well enough"


@pytest.mark.parametrize(
    ("master", "conf", "expected"),
    [
        ("local[2]", {}, {"spark.master": "local[8]"}),
        ("spark://h:7077", {}, {"spark.cores.max": "8", "spark.executor.cores": "2"}),
        ("spark://h:7077", {"spark.executor.cores": "2", "spark.cores.max": "2"}, {"spark.cores.max": "8"}),
        ("yarn", {"spark.executor.instances": "1"}, {"spark.executor.instances": "4"}),
        ("k8s://https://h", {}, {"spark.executor.instances": "4"}),
    ],
)
def test_executors_are_requested_by_the_settings_of_the_master(
    master: str, conf: dict[str, str], expected: dict[str, str]
) -> None:
    of = QueryWorkload(0.4, (StageWork("count by word", 4.0, 160),), 100.0)
    found = named(advise(of, today(master=master, conf=conf), Target(1.4), 4))
    assert {name: setting.value for name, setting in found.items()} == expected
    assert all(setting.now == conf.get(name) or name == "spark.master" for name, setting in found.items())


def test_a_topic_of_few_partitions_is_read_by_more_tasks() -> None:
    of = QueryWorkload(0.2, (StageWork("read kafka", 3.0, 2, reads_source=True),), 100.0)
    found = named(advise(of, today(setup=QuerySetup(4, 2), source="kafka"), Target(2.0), MOST))
    assert found["minPartitions"].now == "2"
    assert int(found["minPartitions"].value) > 2
    files = advise(of, today(setup=QuerySetup(4, 2), source="files"), Target(2.0), MOST)
    assert not files.reachable
    assert "minPartitions" not in named(files)


def test_a_trigger_that_is_too_slow_is_shortened() -> None:
    of = QueryWorkload(0.2, (StageWork("count by word", 0.5, 8),), 100.0)
    found = named(advise(of, today(setup=QuerySetup(2, 2, 8, trigger_seconds=60.0)), Target(5.0), MOST))
    trigger = found["processingTime"]
    assert (trigger.now, trigger.kind) == ("60 seconds", "trigger")
    assert 0 < float(trigger.value.removesuffix(" seconds")) < 10


def test_a_limit_that_is_too_low_is_raised_and_a_fitting_limit_stays() -> None:
    target = Target(3.0)
    low = advise(WORD_COUNT, today(source="kafka", limit=100), target, MOST)
    assert "admits 100 records" in named(low)["maxOffsetsPerTrigger"].reason
    fits = int(named(low)["maxOffsetsPerTrigger"].value)
    assert "maxOffsetsPerTrigger" not in named(advise(WORD_COUNT, today(source="kafka", limit=fits), target, MOST))
    assert not any(name.startswith("max") for name in named(advise(WORD_COUNT, today(), target, MOST)))
    unknown = today(source="files", unit_records=None)
    assert "maxFilesPerTrigger" not in named(advise(WORD_COUNT, unknown, target, MOST))
    files = today(source="files", unit_records=2000.0)
    assert int(named(advise(WORD_COUNT, files, target, MOST))["maxFilesPerTrigger"].value) < fits / 1000


def test_a_marked_stage_is_advised_by_its_mark_and_other_stages_by_the_spark_setting() -> None:
    stages = (StageWork("enrich + clean", 1.0, 3), StageWork("count by word", 1.0, 3, stateful=True))
    marked = today(setup=QuerySetup(1, 2), stages={"enrich": 3})
    of = replace(WORD_COUNT, stages=stages)
    found = {each.name: each for each in advise(of, marked, Target(3.0), MOST).settings}
    assert (found["enrich"].kind, found["enrich"].now) == ("mark", "3")
    assert found["enrich"].value == found["spark.sql.shuffle.partitions"].value
    alone = advise(replace(of, stages=stages[:1]), marked, Target(3.0), MOST)
    assert "spark.sql.shuffle.partitions" not in named(alone)
    assert program_lines(alone.settings) == [f'mark(…, "enrich", parallelism={named(alone)["enrich"].value})']
    assert any(line.startswith("parallelism of enrich: 3 → ") for line in advice_lines(alone))


def test_an_unreachable_target_and_undivided_work_are_caveats() -> None:
    advice = advise(replace(WORD_COUNT, fixed_seconds=2.0), today(), Target(1.0), MOST)
    assert not advice.reachable
    assert "24 executors is predicted to hold 1.00 s" in advice.caveats[0]
    hot = replace(WORD_COUNT, stages=(StageWork("count by word", 2.0, 200, 0.3),))
    assert any("One task of count by word does 30%" in c for c in advise(hot, today(), Target(9), 9).caveats)
    steady = QuerySetup(4, 2, 200)
    rough = advise(WORD_COUNT, today(setup=steady, measured_batch=3.0), Target(3.0), MOST)
    assert any("rough" in caveat and "3.00 s" in caveat for caveat in rough.caveats)


def test_slots_that_wait_for_a_topic_of_few_partitions_are_a_caveat_with_numbers() -> None:
    """Two partitions: 0.06 s of work is read in 0.03 s of each second, at any number of slots."""
    of = QueryWorkload(0.2, (StageWork("read kafka", 0.06, 2, reads_source=True), StageWork("count", 4.0, 8)), 100.0)
    few, target = today(setup=QuerySetup(4, 2, partitions=8), source="kafka"), Target(2.6)
    advice = advise(of, few, target, 4)
    slots = advice.then.slots
    assert "minPartitions" not in named(advice)
    (caveat,) = [each for each in advice.caveats if "partition" in each]
    assert "read kafka has 2 tasks" in caveat
    assert f"{slots - 2} of {slots} slots" in caveat
    assert "30 ms" in caveat
    files = replace(few, source="files")
    assert not [each for each in advise(of, files, target, 4).caveats if "partition" in each]


@given(st.integers(0, 2**32))
def test_slots_wait_for_a_topic_only_when_it_has_fewer_readers_than_slots(seed: int) -> None:
    of, now, target = drawn(seed)
    advice = advise(of, now, target, MOST)
    then = applied(advice, now).setup
    waits = now.source == "kafka" and any(s.reads_source and then.tasks(s) < then.slots for s in of.stages)
    assert waits == any("slots wait" in each for each in advice.caveats)


def test_a_hot_partition_is_a_caveat_that_suggests_more_source_partitions() -> None:
    read = StageWork("read kafka", 0.5, 4, 0.6, reads_source=True)
    of = QueryWorkload(0.2, (read,), 100.0)
    (caveat,) = [each for each in advise(of, today(source="kafka"), Target(3.0), 4).caveats if "60%" in each]
    assert "read kafka" in caveat
    assert "300 ms" in caveat
    assert "minPartitions above 4" in caveat
    (other,) = [each for each in advise(of, today(source="files"), Target(3.0), 4).caveats if "60%" in each]
    assert "minPartitions" not in other
