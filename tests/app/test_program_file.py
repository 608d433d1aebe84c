from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from autotrascale.app.autoscale_section import AutoscaleSection
from autotrascale.app.job_file import read_job_file
from autotrascale.app.program_file import (
    ExecutorBounds,
    ProgramFile,
    ProgramSettings,
    QuerySettings,
    read_program_file,
    render_program_file,
)
from autotrascale.domain.errors import InputError
from autotrascale.domain.target import Target
from autotrascale.plan.control.manager.knobs import Knobs
from autotrascale.validation import validate

BAD = json.loads((Path(__file__).parents[1] / "bad_input" / "programs.json").read_text())
SMALL: dict[str, Any] = {"job": "clicks", "program": {"executors": {"maximum": 8}}, "target": {"latency_seconds": 5.0}}


def write(tmp_path: Path, data: dict[str, Any] | str) -> Path:
    path = tmp_path / "program.yaml"
    path.write_text(data if isinstance(data, str) else yaml.safe_dump(data, sort_keys=False))
    return path


@pytest.mark.parametrize("case", BAD, ids=lambda case: case["name"])
def test_a_bad_file_is_refused_in_one_line_with_its_name(case: dict[str, Any], tmp_path: Path) -> None:
    whole = {name: value for name, value in SMALL.items() if name not in case.get("drop", [])}
    path = write(tmp_path, case.get("text", {**whole, **case.get("set", {})}))
    with pytest.raises(InputError) as caught:
        read_program_file(path)
    said = str(caught.value)
    assert said.startswith(f"{path}")
    assert all(token in said for token in case["says"])
    assert "\n" not in said


def test_a_query_of_a_program_is_a_job_of_one_operator(tmp_path: Path) -> None:
    file = read_program_file(write(tmp_path, {**SMALL, "program": {"executors": {"minimum": 2, "maximum": 8}}}))
    job = file.query_job("counts", Target(5.0), rate=100.0)
    assert (job.name, job.p_max, job.rate) == ("clicks.counts", 8, 100.0)
    assert list(job.topology) == ["executors"]
    assert job.topology.operators["executors"].minimum == 2


def test_a_target_may_be_left_for_the_program_to_show(tmp_path: Path) -> None:
    assert read_program_file(write(tmp_path, {"job": "a", "program": SMALL["program"]})).target is None


def test_who_takes_it_for_a_job_of_its_own_is_told_the_verb(tmp_path: Path) -> None:
    path = write(tmp_path, SMALL)
    with pytest.raises(InputError, match="a program") as caught:
        read_job_file(path)
    assert f"autotrascale run {path} -- PROGRAM" in str(caught.value)


names = st.text(st.characters(categories=("L", "Nd")), min_size=1, max_size=20)
targets = st.builds(Target, st.floats(0.001, 1e6), st.sampled_from(["mean", "p50", "p95", "p99"]))
files = st.builds(
    ProgramFile,
    job=names,
    program=st.builds(
        ProgramSettings,
        executors=st.integers(1, 50).flatmap(
            lambda most: st.builds(ExecutorBounds, st.just(most), st.integers(1, most))
        ),
        cores=st.none() | st.integers(1, 64),
        price=st.none() | st.floats(0.01, 100),
    ),
    target=st.none() | targets,
    queries=st.dictionaries(names, st.builds(QuerySettings, targets), max_size=3),
    manager=st.builds(
        Knobs,
        interval_seconds=st.floats(0, 1e4),
        paused=st.booleans(),
        maximum=st.sampled_from([{}, {"executors": 4}]),
        excluded=st.sampled_from([(), ("executors",)]),
    ),
    autoscale=st.builds(AutoscaleSection, rescales_per_day=st.integers(1, 99), confidence=st.floats(0.1, 0.9)),
)


@given(files, st.sampled_from(["", "learned: held for 95% of the last hour", "two\nlines: # of it"]))
def test_what_is_written_is_read_as_the_same_again(file: ProgramFile, remark: str) -> None:
    text = render_program_file(file, {"target": remark})
    assert validate(yaml.safe_load(text), ProgramFile, place="written") == file


@given(files, names, targets)
def test_a_target_of_its_own_is_one_querys_and_of_no_other(file: ProgramFile, name: str, target: Target) -> None:
    aimed = file.with_target(target, name)
    assert aimed.target_for(name) == target
    assert {aimed.target_for(other) for other in ("", "another one")} == {file.target}
    for other, wishes in file.queries.items():
        assert other == name or aimed.target_for(other) == wishes.target
    assert all(file.with_target(target).target_for(other) == wishes.target for other, wishes in file.queries.items())


def test_what_is_written_is_short_and_says_where_things_come_from(tmp_path: Path) -> None:
    file = ProgramFile("clicks", ProgramSettings(ExecutorBounds(8), price=0.2), Target(5.0))
    text = render_program_file(file, {"target": "held for 95% of the last hour, and a fifth more"})
    assert text.splitlines() == [
        "version: 1",
        "job: clicks",
        "program:",
        "  executors: {maximum: 8}",
        "  price: 0.2",
        "# held for 95% of the last hour, and a fifth more",
        "target: {latency_seconds: 5.0}",
    ]
    assert read_program_file(write(tmp_path, text)) == file


def test_what_a_file_leaves_open_is_as_it_usually_is_for_a_program(tmp_path: Path) -> None:
    usual = read_program_file(write(tmp_path, SMALL)).with_defaults()
    assert (usual.manager.interval_seconds, usual.autoscale.rescales_per_day) == (15.0, 48)
    assert usual.manager.backlog_seconds == Knobs().backlog_seconds  # which goes by the target
    said = {**SMALL, "manager": {"interval_seconds": 5.0}, "autoscale": {"planning": {"band": 1.5}}}
    filled = read_program_file(write(tmp_path, said)).with_defaults()
    assert (filled.manager.interval_seconds, filled.manager.running_seconds) == (5.0, 60.0)
    assert (filled.autoscale.planning.band, filled.autoscale.planning.review_seconds) == (1.5, 600.0)
