"""A job observed through its event log: the recorded log of the word count, read as if it were growing."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotrascale.domain.errors import InputError
from autotrascale.execute.live_job import LiveJob
from autotrascale.execute.spark.controller.read_only_job import ReadOnlySparkJob
from autotrascale.execute.spark.jobs.wordcount import WordCount

LINES = (
    (Path(__file__).parents[1] / "analyze" / "data" / "wordcount-events.jsonl").read_text().splitlines(keepends=True)
)
ENDS = [i for i, line in enumerate(LINES, start=1) if "QueryProgressEvent" in line[:100]]
RUNNING = {"source": 2, "flatmap": 3, "count": 4, "sink": 2}


def read_only(log: Path) -> ReadOnlySparkJob:
    return ReadOnlySparkJob("wordcount", WordCount.topology, 16, log, clock=lambda: 1e9, sleep=lambda _: None)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    return folder / "events_1_app-1"


def test_each_observation_takes_the_batches_since_the_last(log: Path) -> None:
    log.write_text("")
    job: LiveJob = read_only(log.parent.parent)
    before = job.start({})
    assert before.running is None
    assert "no batch with the marks of source, flatmap, count, sink" in before.detail
    log.write_text("".join(LINES[: ENDS[1]]))
    first = job.observe()
    assert first.running == RUNNING
    assert first.snapshot is not None
    assert first.snapshot.parallelism == RUNNING
    assert first.snapshot.target_rate > 0
    assert first.measured_at is not None
    again = job.observe()
    assert again.snapshot is None
    assert again.running == RUNNING
    assert "no batch" in again.detail
    log.write_text("".join(LINES[: ENDS[2]]))
    second = job.observe()
    assert second.snapshot is not None
    assert (second.measured_at or 0) > first.measured_at


def test_a_query_that_has_ended_does_not_run(log: Path) -> None:
    log.write_text("".join(LINES))
    look = read_only(log.parent).observe()
    assert look.running is None
    assert look.detail == "the query has ended"


def test_nothing_is_changed(log: Path) -> None:
    log.write_text("".join(LINES[: ENDS[2]]))
    with read_only(log.parent) as job:
        job.observe()
        rescaled = job.rescale(dict.fromkeys(RUNNING, 9))
        assert not rescaled.done
        assert rescaled.running == RUNNING
        assert "rescale it where it was started" in rescaled.detail
        job.wait(1.0)


def test_a_log_in_progress_is_read_from_its_last_file_and_from_the_middle_of_a_batch(log: Path) -> None:
    log.write_text("not to be read: it is of last month")
    log.with_name("events_7_app-1").write_text("half a line}\n" + "".join(LINES[3 : ENDS[2]]))
    look = read_only(log.parent).observe()
    assert look.running == RUNNING
    assert look.snapshot is not None


@pytest.mark.parametrize(("name", "says"), [("events_1_app-1.zstd", "is compressed"), ("other", "eventlog_v2_")])
def test_a_log_that_cannot_be_followed_is_reported_in_one_line(tmp_path: Path, name: str, says: str) -> None:
    if says == "is compressed":
        (tmp_path / "eventlog_v2_app-1").mkdir()
        (tmp_path / "eventlog_v2_app-1" / name).write_text("")
    with pytest.raises(InputError, match=says):
        read_only(tmp_path)


def test_damaged_lines_are_skipped_and_reported(log: Path) -> None:
    progress = ENDS[1]
    log.write_text("".join([*LINES[:5], LINES[5][:80] + "\n", "hello\n", *LINES[5:progress]]))
    job = read_only(log.parent)
    look = job.observe()
    assert look.snapshot is not None
    assert look.detail == "2 damaged lines of the event log left out"
    assert "damaged" not in job.observe().detail
    with log.open("a") as file:
        file.writelines([LINES[progress][:50] + "\n", *LINES[progress:]])
    last = job.observe()
    assert last.running is None
    assert last.detail == "the query has ended; 1 damaged line of the event log left out"


def test_a_log_that_does_not_join_marks_and_stages_says_so(log: Path) -> None:
    log.write_text("".join(LINES[: ENDS[1]]).replace("spark_plan_", "").replace('"Parent IDs"', '"Parents"'))
    look = read_only(log.parent).observe()
    assert look.running is None
    assert "does not say which stage has which mark" in look.detail


def test_a_log_of_an_earlier_spark_is_joined_by_the_shape_of_its_plan(log: Path) -> None:
    log.write_text("".join(LINES[: ENDS[1]]).replace("spark_plan_", ""))
    look = read_only(log.parent).observe()
    assert look.running == RUNNING
    assert look.snapshot is not None
