"""`autotrascale autoscale`: the loop from its command line, on the simulator."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from autotrascale.app.autoscale_section import (
    COST_AWARE_PLANNING,
    LOOP_KNOBS,
    AutoscaleSection,
    RateTrace,
    build_loop_rules,
    fill_loop_knobs,
)
from autotrascale.app.plot_sets import LOOP_PLOTS
from autotrascale.cli import main
from autotrascale.domain.errors import InputError
from autotrascale.domain.target import Target
from autotrascale.execute.simulator.live_job import SimulatedLiveJob
from autotrascale.knowledge import job_lock
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.model_library import ModelLibrary
from autotrascale.plan.control.autoscaling.autoscaling_plan import PlanningSettings
from autotrascale.plan.control.autoscaling.prediction import AutoscalingSettings
from autotrascale.plan.control.manager.knobs import Knobs
from tests.knowledge.mlflow_stores import CONTENT

ROOT = Path(__file__).parents[2]
AUTOSCALE: dict[str, Any] = {
    "manager": {"interval_seconds": 30.0, "running_seconds": 60.0, "scale_down_delay_seconds": 600.0},
    "autoscale": {"trace": {"kind": "steps", "times": [0.0, 1800.0, 4500.0], "rates": [2e5, 6e5, 2e5]}},
    "tuning": {"seed": 8, "initial": {"source": 3, "count": 6}},
}


def job_file(folder: Path, name: str, **changes: Any) -> Path:
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump({**CONTENT, **AUTOSCALE, "job": name, **changes}, sort_keys=False))
    return path


def run(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main.main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


def entries(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_another_policy_may_decide(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each by what it goes by: DS2 names the demand, and threshold the backlog that pipelined operators do not tell."""
    monkeypatch.chdir(tmp_path)
    for policy, code in {"ds2": "demand", "threshold": "hold-unknown-backlog"}.items():
        path = job_file(tmp_path, policy)
        assert run("autoscale", path, "--for", "3600", "--policy", policy, "--format", "json") in (0, 3)
        codes = {reason["code"] for each in entries(capsys.readouterr().out) for reason in each["reasons"]}
        assert code in codes
        assert not codes & {"rate-up", "first-look", "in-band"}
    assert run("autoscale", path, "--policy", "best") == 1
    assert "(seen: 'best'); use one of autrascale, ds2, " in capsys.readouterr().err


def test_a_job_is_tuned_or_autoscaled_and_not_both(
    tmp_path: Path, store: MlflowStore, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, before anything is started, whoever was first."""
    path = job_file(tmp_path, name)
    for doing in (job_lock.TUNED, job_lock.AUTOSCALED):
        with job_lock.lock_job(store, name, doing):
            for verb in ("tune", "autoscale"):
                assert run(verb, path) == 1
                error = capsys.readouterr().err
                assert error.startswith(f"autotrascale: job {name}: ")
                assert f"{doing} already by process {os.getpid()} on " in error
                assert error.count("\n") == 1
    assert run("autoscale", path, "--for", "60") in (0, 3)
    assert run("tune", path) == 0


def test_advice_stands_beside_whoever_acts(tmp_path: Path, store: MlflowStore, name: str) -> None:
    with job_lock.lock_job(store, name, job_lock.AUTOSCALED):
        assert run("autoscale", job_file(tmp_path, name), "--advise", "--for", "60") in (0, 3)


def test_a_day_as_json_is_one_decision_a_line_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("autoscale", job_file(tmp_path, "day"), "--for", "7200", "--format", "json") == 0
    out, err = capsys.readouterr()
    told = entries(out)
    assert [each["number"] for each in told] == list(range(1, len(told) + 1))
    assert all(each["reasons"] for each in told)
    rescales = [each for each in told if each["action"] == "rescale"]
    assert rescales
    assert sum(rescales[0]["wanted"].values()) > sum(rescales[0]["running"].values())
    assert rescales[0]["predicted"]["sd"] > 0
    assert "simulated" in err
    assert "journal" in err
    assert "day (simulated)" in err
    assert not (tmp_path / "mlruns").exists()


def test_a_day_as_a_table_is_a_row_for_each_change_and_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("autoscale", job_file(tmp_path, "day"), "--for", "3600") == 0
    out = capsys.readouterr().out.splitlines()
    assert any("→" in line and "rate-up" in line for line in out)
    assert len(out) < 60  # of 120 looks
    assert "simulated" in out[-1]
    assert "prediction" in out[-2] or "standard deviations" in out[-2]


def test_advice_rescales_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("autoscale", job_file(tmp_path, "day"), "--advise", "--for", "4000", "--format", "json") in (0, 3)
    out, err = capsys.readouterr()
    actions = {each["action"] for each in entries(out)}
    assert "would-rescale" in actions
    assert not actions & {"rescale", "rescaled", "start"}
    assert "advice" in err


def test_a_session_is_journalled_explained_and_its_models_are_kept(
    name: str, store: MlflowStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("autoscale", job_file(tmp_path, name), "--for", "4200", "--format", "json") == 0
    out, err = capsys.readouterr()
    session = next(line.split()[1].rstrip(",") for line in err.splitlines() if line.startswith("session "))
    learned = [
        store.client.get_model_version(each.name, str(each.version)) for each in ModelLibrary(store).versions(name)
    ]
    (only,) = store.client.search_runs([store.experiment(name)])  # however often it rescaled
    assert (only.info.status, only.data.tags["autotrascale.session"]) == ("FINISHED", session)
    assert {each.run_id for each in learned} == {only.info.run_id}
    assert len(only.outputs.model_outputs) == len(learned) > 0
    assert run("explain", session, "--format", "json") == 0
    explained = json.loads(capsys.readouterr().out)
    assert explained["decisions"] == entries(out)
    assert explained["state"] == "finished"
    assert explained["simulated"] is True
    assert run("explain", name) == 0
    text = capsys.readouterr().out
    assert f"session {session} of {name}, finished" in text
    assert "rate-up: " in text
    assert text.rstrip().endswith(explained["summary"])
    assert run("explain", name, "--plots") == 0
    drawn = capsys.readouterr().out.removeprefix(text)
    assert all(title in drawn for name, title in LOOP_PLOTS if name != "batch")
    capsys.readouterr()
    assert run("explain", name, "--replay", "--at", "00:10:00", "--format", "json") == 0
    again = json.loads(capsys.readouterr().out)
    assert again["different"] == []
    assert again["steps"] == len(entries(out))
    assert again["at"]["written"] == again["at"]["now"]
    assert again["at"]["written"]["at"] <= 600
    assert run("explain", name, "--replay", "--at", "00:10:00") == 0
    assert "all are the same" in capsys.readouterr().out
    assert run("explain", name, "--replay", "--at", "yesterday") == 1
    assert run("explain", "nobody", "--replay") == 1


@pytest.mark.usefixtures("store")
def test_what_was_interrupted_goes_on_where_it_was(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wait, waits = SimulatedLiveJob.wait, [0]

    def impatient(self: SimulatedLiveJob, seconds: float) -> None:
        waits[0] += 1
        if waits[0] == 100:
            raise KeyboardInterrupt
        wait(self, seconds)

    monkeypatch.setattr(SimulatedLiveJob, "wait", impatient)
    path = job_file(tmp_path, name)
    assert run("autoscale", path, "--for", "7200", "--format", "json") == 130
    out, err = capsys.readouterr()
    assert f"autotrascale autoscale {path}" in err
    assert "Traceback" not in err
    last = entries(out)[-1]
    assert run("autoscale", path, "--for", "1200", "--format", "json") == 0
    out, err = capsys.readouterr()
    first = entries(out)[0]
    assert f"after entry {last['number']}" in err
    assert first["number"] == last["number"] + 1
    assert first["running"] == last["running"]
    assert first["at"] >= last["at"]


@pytest.mark.usefixtures("store")
def test_a_finished_simulated_day_is_begun_anew(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = job_file(tmp_path, name)
    for _ in range(2):
        assert run("autoscale", path, "--for", "300", "--format", "json") == 0
        assert entries(capsys.readouterr().out)[0]["number"] == 1


def test_a_target_missed_at_the_end_is_another_exit_code(tmp_path: Path) -> None:
    path = job_file(tmp_path, "hopeless", target={"latency_seconds": 0.01})
    assert run("autoscale", path, "--for", "1200", "--format", "json") == 3


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({"trace": {"kind": "steps"}}, "trace.times: "),
        ({"trace": {"kind": "weekly"}}, "trace.kind"),
        ({"trace": {"kind": "recorded", "file": "nowhere.csv"}}, "trace.file: "),
        ({"planning": {"band": 0.5}}, "planning.band: "),
        ({"rescales_per_day": 0}, "rescales_per_day"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_a_bad_section_is_one_line(
    section: dict[str, Any], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("autoscale", job_file(tmp_path, "bad", autoscale=section), "--for", "60") == 1
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("autotrascale:")]
    assert says in line


def test_a_recorded_trace_is_read_from_beside_the_job_file(tmp_path: Path) -> None:
    (tmp_path / "rates.csv").write_text("0,100\n100,300\n")
    schedule = RateTrace("recorded", file="rates.csv").rate_function(0.0, tmp_path)
    assert schedule(50.0) == pytest.approx(200.0)
    (tmp_path / "rates.csv").write_text("seconds,rate\n")
    with pytest.raises(InputError, match="seconds,rate"):
        RateTrace("recorded", file="rates.csv").rate_function(0.0, tmp_path)


def test_every_kind_of_trace_gives_a_rate() -> None:
    kinds = [
        RateTrace(),
        RateTrace("steps", times=(0.0, 10.0), rates=(1.0, 2.0)),
        RateTrace("ramp", times=(0.0, 10.0), rates=(1.0, 2.0)),
        RateTrace("diurnal", low=1.0, high=2.0, jitter=0.1),
        RateTrace("spikes", starts=(5.0,), height=2.0, width=1.0),
    ]
    for kind in kinds:
        assert kind.rate_function(1.0, Path())(5.0) > 0


def test_knobs_that_were_left_alone_are_as_a_loop_needs_them() -> None:
    assert fill_loop_knobs(Knobs(), Target(0.1), is_micro_batch=False) == LOOP_KNOBS
    given = fill_loop_knobs(Knobs(interval_seconds=5.0, ignore_instances=1), Target(0.1), is_micro_batch=False)
    assert (given.interval_seconds, given.ignore_instances) == (5.0, 1)
    assert given.running_seconds == LOOP_KNOBS.running_seconds


def test_our_own_policy_weighs_its_rescales_and_what_a_file_says_counts() -> None:
    """What is left open goes by what a rescale costs; other policies, and programs, by the constants."""
    settings, left = AutoscalingSettings(Target(0.1)), AutoscaleSection()
    weighed = build_loop_rules(left.with_cost_aware_planning(), settings, LOOP_KNOBS)
    assert weighed.planning == COST_AWARE_PLANNING
    assert weighed.rescales_per_day is None
    plain = build_loop_rules(left, settings, LOOP_KNOBS)
    assert plain.planning.late_worth is None
    assert (plain.rescales_per_day, plain.settings.confidence) == (10, 0.75)
    said = AutoscaleSection(PlanningSettings(late_worth=0.0, worth=0.3), confidence=0.6, rescales_per_day=10)
    own = build_loop_rules(said.with_cost_aware_planning(), settings, LOOP_KNOBS)
    assert (own.planning.late_worth, own.planning.worth, own.planning.band) == (0.0, 0.3, 1.0)
    assert (own.rescales_per_day, own.settings.confidence) == (10, 0.6)
    knobs = fill_loop_knobs(Knobs(), Target(0.1), is_micro_batch=False, is_cost_aware=True)
    assert knobs == replace(LOOP_KNOBS, scale_down_delay_seconds=0.0)


def test_the_simulated_day_of_the_configs_is_read() -> None:
    from autotrascale.app.job_file import read_job_file

    file = read_job_file(Path(__file__).parents[2] / "configs" / "wordcount-autoscale-simulated.yaml")
    assert file.autoscale.trace.kind == "diurnal"


def test_what_waits_for_the_next_micro_batch_is_no_backlog() -> None:
    assert fill_loop_knobs(Knobs(), Target(5.0), is_micro_batch=True).backlog_seconds == 5.0
    own = Knobs(backlog_seconds=2.0, catch_up_seconds=60.0)
    assert fill_loop_knobs(own, Target(5.0), is_micro_batch=True).backlog_seconds == 2.0


LOG = ROOT / "tests" / "analyze" / "data" / "wordcount-events.jsonl"


def test_advice_on_a_job_that_somebody_else_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Through the recorded log of the word count, but for its last line, which ends the query."""
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    lines = LOG.read_text().splitlines(keepends=True)
    (folder / "events_1_app-1").write_text("".join(line for line in lines if "QueryTerminated" not in line[:120]))
    spark = ROOT / "configs" / "wordcount.yaml"
    assert run("autoscale", spark, "--advise", "--event-log", tmp_path, "--for", "1", "--format", "json") in (0, 3)
    (entry, *_), err = entries((printed := capsys.readouterr()).out), printed.err
    assert entry["running"] == {"source": 2, "flatmap": 3, "count": 4, "sink": 2}
    assert entry["action"] in ("stay", "would-rescale")
    assert "advising on wordcount" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--advise"], "--advise: "),
        (["--event-log", "/tmp"], "--event-log: "),
        (["--advise", "--event-log", "/nowhere"], "--event-log: "),
    ],
)
def test_advice_needs_something_to_look_at(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("autoscale", ROOT / "configs" / "wordcount.yaml", *arguments) == 1
    assert says in capsys.readouterr().err
