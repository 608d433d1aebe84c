"""A job of ours whose executors are judged by its loop: what is said of them, and when it is relaunched."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from autotrascale.analyze.executor_usage import ExecutorUsage
from autotrascale.app.command_context import CommandContext
from autotrascale.app.console import OutputFormat
from autotrascale.app.job_file import read_job_file
from autotrascale.app.metric_recording import NO_RECORDER
from autotrascale.app.sized_job import SizedLiveJob
from autotrascale.app.sizes_section import SizesSection
from autotrascale.domain.errors import EngineError, RunLostError
from autotrascale.domain.observation import Observation, RescaleResult
from autotrascale.domain.topology import Topology
from autotrascale.execute.spark.common.launches import Launch, NextLaunch
from autotrascale.execute.spark.controller.relaunchable_job import RestResult
from autotrascale.knowledge.decision_journal.journal import DecisionJournal
from autotrascale.knowledge.decision_journal.size_action_log import read_actions
from autotrascale.loop import LoopLease
from autotrascale.monitor.eventlog.decoding import decode_line
from autotrascale.testing.scripted_live import ScriptedLive
from tests.cli.test_sizes import CONF, a_log, run
from tests.knowledge.mlflow_stores import CONTENT

K = {"source": 1, "count": 1}


@dataclass
class Job(ScriptedLive):
    """It collects garbage for a quarter of its time, in a heap of 1 GB."""

    use: ExecutorUsage = field(default_factory=ExecutorUsage)
    launch: Launch = field(default_factory=Launch)
    at: float | None = None
    trouble: str = ""  # that it has with the next sizes
    refuses: EngineError | None = None
    relaunches: list[NextLaunch] = field(default_factory=list)

    def arrived(self) -> float | None:
        return self.at

    def relaunch(self, following: NextLaunch) -> RestResult:
        if self.refuses is not None:
            raise self.refuses
        self.relaunches.append(following)
        self.launch = replace(Launch(2, following.settings, following.action, former={}), left_at=90.0)
        self.at = 100.0
        if self.trouble:
            self.launch, self.at = Launch(3, {}, following.action, self.trouble), None
        return RestResult(cut_off=False, finish_seconds=0.5)

    def seen(self, conf: dict[str, str], gc: int, begin: int, seconds: int = 400) -> None:
        """What its executors used from now on, as their log says."""
        self.use = ExecutorUsage()
        for line in a_log(conf, gc=gc, begin=begin, seconds=seconds).lines:
            event = decode_line(line.encode())
            assert event is not None
            self.use.take(event)


@dataclass
class Kept:
    job: Job
    sized: SizedLiveJob
    decisions: DecisionJournal
    said: list[str]

    def log(self) -> list[str]:
        return [each.what for each in read_actions(self.decisions, "orders")]


@pytest.fixture
def decisions(tmp_path: Path) -> Iterator[DecisionJournal]:
    opened = DecisionJournal(tmp_path / "decisions.db")
    yield opened
    opened.close()


def kept(
    decisions: DecisionJournal,
    *,
    between: str = "",
    relaunched: bool = True,
    lease: LoopLease | None = None,
    **job: Any,
) -> Kept:
    live, said = Job(Topology.chain("source", "count"), {"source": 500.0, "count": 500.0}, name="orders", **job), []
    around = CommandContext(None, decisions, NO_RECORDER, OutputFormat.table, advise=False)
    sized = SizedLiveJob(
        live, live if relaunched else None, SizesSection(between=between), {}, around, lease or LoopLease(), said.append
    )
    sized.start(K)
    live.seen(CONF, gc=200, begin=0)
    return Kept(live, sized, decisions, said)


def not_now() -> str:
    hour = time.localtime().tm_hour
    return f"{(hour + 2) % 24:02}:00-{(hour + 3) % 24:02}:00"


def test_what_is_asked_for_is_done_between_two_looks_and_judged_by_what_comes_after(decisions: DecisionJournal) -> None:
    found = kept(decisions)
    assert found.sized.observe().running == K
    (asked,) = found.job.relaunches
    assert set(asked.settings) == set(CONF)
    assert asked.settings["spark.executor.memory"] == f"{read_actions(found.decisions, 'orders')[0].after.heap_mb}m"
    assert found.log() == ["asked", "relaunched"]
    assert "10.00 s" in found.said[-1]
    found.job.seen({**CONF, **asked.settings}, gc=20, begin=400_000)
    found.sized.observe()
    assert found.log() == ["asked", "relaunched", "seen", "kept"]
    assert len(found.job.relaunches) == 1


def test_what_does_worse_at_its_start_is_in_the_log_as_taken_back(decisions: DecisionJournal) -> None:
    found = kept(decisions, trouble="the cluster gave no executor")
    found.sized.observe()
    assert found.log() == ["asked", "taken-back"]
    assert "the cluster gave no executor" in found.said[-1]


def test_it_waits_for_its_part_of_the_day_or_goes_with_a_rescale(decisions: DecisionJournal) -> None:
    found = kept(decisions, between=not_now())
    found.sized.observe()
    found.sized.observe()
    assert not found.job.relaunches
    assert found.said.count(f"sizes, P1: it waits for {not_now()}") == 1
    done = found.sized.rescale({"source": 1, "count": 2})
    assert done.done
    assert len(found.job.relaunches) == 1


def test_a_rescale_that_failed_takes_nothing_along(decisions: DecisionJournal) -> None:
    found = kept(decisions, between=not_now(), rescales={1: "it did not"})
    found.sized.observe()
    assert not found.sized.rescale({"source": 1, "count": 2}).done
    assert not found.job.relaunches


def test_one_that_is_paused_or_does_not_run_is_left_alone(decisions: DecisionJournal) -> None:
    found = kept(decisions)
    found.sized.explain_hold = lambda: "orders is paused"
    found.sized.observe()
    assert found.said[-1] == "sizes, P1: orders is paused"
    found.job.running = None
    found.sized.explain_hold = str
    assert found.sized.observe().running is None
    assert not found.job.relaunches


def test_what_cannot_be_relaunched_is_told_with_the_lines_of_its_job_file(decisions: DecisionJournal) -> None:
    """Tasks in the driver: nothing is touched, and what to set is said once."""
    found = kept(decisions, relaunched=False)
    for _ in range(3):
        found.sized.observe()
    heap = read_actions(found.decisions, "orders")[0].after.heap_mb
    assert found.said[-1] == (
        f"  at its next start, from the same checkpoint: spark.conf.spark.executor.memory={heap}m"
        " spark.conf.spark.executor.memoryOverhead=512m"
    )
    found.job.seen(
        {"spark.master": "local[2]", "spark.driver.memory": "1g", "spark.executor.memory": "1g"}, 200, 400_000
    )
    assert found.log() == ["asked"]


def test_a_refusal_is_said_and_the_loop_goes_on(decisions: DecisionJournal) -> None:
    found = kept(decisions, refuses=EngineError("job orders reads from socket, which gives each record only once"))
    found.sized.observe()
    assert found.sized.observe().running == K
    assert found.said[-1].endswith("which gives each record only once; set the sizes at the next start instead")


def test_who_does_not_keep_the_job_any_more_touches_nothing(decisions: DecisionJournal) -> None:
    class Lost(LoopLease):
        def check(self, *, is_change: bool) -> None:
            raise RunLostError(f"another process keeps orders ({is_change})")

    found = kept(decisions, lease=Lost())
    with pytest.raises(RunLostError):
        found.sized.observe()
    assert not found.job.relaunches


def test_it_is_the_job_that_it_stands_for(decisions: DecisionJournal) -> None:
    found = kept(decisions, relaunched=False)
    sized: SizedLiveJob = found.sized
    assert (sized.name, sized.topology, sized.p_max, sized.simulated) == ("orders", found.job.topology, 16, True)
    assert isinstance(sized.start(K), Observation)
    assert isinstance(sized.rescale({"source": 2, "count": 2}), RescaleResult)
    sized.wait(10.0)
    sized.close()
    assert found.job.closed == 1


def test_a_job_file_says_how_sizes_are_judged(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    spark = {"job": "shop:shop", "master": "spark://host:7077"}
    path.write_text(yaml.safe_dump({**CONTENT, "job": "shop", "spark": spark, "sizes": {"between": "02:00-04:00"}}))
    section = read_job_file(path).sizes
    assert section is not None
    assert str(section.relaunch_window) == "02:00-04:00"


def test_a_simulated_job_has_no_executors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump({**CONTENT, "job": "shop", "sizes": {}}))
    assert run("autoscale", str(path), "--store", "none", "--for", "300") in (0, 3)
    capsys.readouterr()
    assert run("autoscale", str(path), "--store", "none", "--sizes") == 1
    assert capsys.readouterr().err == (
        "autotrascale: --sizes: applies to jobs on Spark, not to the simulator; leave it out\n"
    )
