"""A stored model loaded by MLflow: columns count by name, and wrong input fails in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotrascale import Study
from autotrascale.domain.errors import InputError
from autotrascale.knowledge import pyfunc
from autotrascale.knowledge.mlflow_store import MlflowStore, quiet_warnings
from autotrascale.knowledge.model_library import ModelLibrary, _save
from autotrascale.knowledge.pyfunc import Predictor
from autotrascale.plan.search.benefit_model import BenefitModel
from tests.knowledge.mlflow_stores import job, learned

NAMES = ("source", "flat map", "größe", "sink")
FLOOR, MOST = (2, 3, 1, 4), (9, 8, 7, 6)


def model(faithful: bool = False) -> BenefitModel:
    study = Study(FLOOR, MOST, 0.1, faithful=faithful)
    study.tell(FLOOR, latency=0.14)
    study.tell((3, 4, 2, 5), latency=0.08)
    return study.model(1000.0)


MODEL = model()
ROWS = st.lists(
    st.tuples(*(st.integers(least, most) for least, most in zip(FLOOR, MOST, strict=True))), min_size=1, max_size=5
)
ORDERS = st.permutations(range(len(NAMES)))


@given(rows=ROWS, order=ORDERS, as_floats=st.booleans())
def test_columns_may_come_in_any_order(rows: list[tuple[int, ...]], order: list[int], as_floats: bool) -> None:
    in_order = pd.DataFrame(rows, columns=list(NAMES))
    mixed = in_order[[NAMES[i] for i in order]].astype(float if as_floats else "int64")
    asked = Predictor(MODEL, NAMES)
    expected = asked.predict(in_order)
    assert expected.equals(asked.predict(mixed))
    assert expected.equals(asked.predict({name: list(mixed[name]) for name in mixed.columns}))
    mean, std = MODEL.predict(rows)
    assert np.array_equal(expected["mean"], mean)
    assert np.array_equal(expected["std"], std)
    log_ratio, _ = MODEL.log_ratio(rows)
    assert np.allclose(expected["latency_ms"], 100.0 * np.exp(log_ratio))


@given(
    rows=ROWS, order=ORDERS, fault=st.sampled_from(["unknown", "missing", "doubled", "surplus"]), at=st.integers(0, 3)
)
def test_columns_that_are_not_the_operators_are_refused(
    rows: list[tuple[int, ...]], order: list[int], fault: str, at: int
) -> None:
    frame = pd.DataFrame(rows, columns=list(NAMES))[[NAMES[i] for i in order]]
    name = NAMES[at]
    if fault == "unknown":
        frame = frame.rename(columns={name: name.replace("s", "z") + "k"})
    elif fault == "missing":
        frame = frame.drop(columns=[name])
    elif fault == "doubled":
        frame = pd.concat([frame, frame[[name]]], axis=1)
    else:
        frame = frame.assign(other=1)
    with pytest.raises(InputError) as refused:
        Predictor(MODEL, NAMES).predict(frame)
    assert "\n" not in str(refused.value)
    assert "give one for each of source, flat map, größe, sink" in str(refused.value)


@given(rows=ROWS, row=st.integers(0, 4), at=st.integers(0, 3), by=st.integers(1, 100), above=st.booleans())
def test_what_lies_out_of_bounds_is_refused_by_name(
    rows: list[tuple[int, ...]], row: int, at: int, by: int, above: bool
) -> None:
    row = row % len(rows)
    changed = [list(each) for each in rows]
    changed[row][at] = MOST[at] + by if above else FLOOR[at] - by
    with pytest.raises(InputError) as refused:
        Predictor(MODEL, NAMES).predict(pd.DataFrame(changed, columns=list(NAMES)))
    said = str(refused.value)
    assert said.startswith(f"row {row}: {NAMES[at]}: lies outside [{FLOOR[at]}, {MOST[at]}]")
    assert "\n" not in said


@pytest.mark.parametrize("value", [2.5, float("nan"), float("inf"), "two", None])
def test_what_is_no_count_is_refused(value: object) -> None:
    frame = pd.DataFrame([[value, 4, 2, 5]], columns=list(NAMES))
    with pytest.raises(InputError, match=r"whole number|are not numbers"):
        Predictor(MODEL, NAMES).predict(frame)


@given(rows=ROWS)
def test_rows_without_names_are_in_the_order_of_the_model(rows: list[tuple[int, ...]]) -> None:
    asked = Predictor(MODEL, NAMES)
    bare = asked.predict(np.array(rows))
    assert bare.equals(asked.predict(rows))
    assert np.array_equal(bare["mean"], MODEL.predict(rows)[0])


def test_the_papers_model_knows_no_latency() -> None:
    faithful = model(faithful=True)
    answer = Predictor(faithful, NAMES).predict(pd.DataFrame([FLOOR], columns=list(NAMES)))
    assert list(answer) == ["mean", "std"]
    assert pyfunc.build_signature(faithful, NAMES).outputs.input_names() == ["mean", "std"]


def test_the_signature_names_operators_and_the_metadata_units_and_bounds(tmp_path: Path) -> None:
    from mlflow.models import Model

    made, card = learned(job())
    read = Model.load(str(_save(made, card, tmp_path)))
    schema = read.get_input_schema()
    assert [(each.name, each.type.name) for each in schema.inputs] == [("source", "long"), ("count", "long")]
    assert read.get_output_schema().input_names() == ["mean", "std", "latency_ms"]
    assert read.metadata["inputs"]["count"] == {"unit": "instances", "least": 8, "most": 24}
    assert "milliseconds" in read.metadata["outputs"]["latency_ms"]
    assert (read.metadata["rate_per_second"], read.metadata["latency_target_ms"]) == (300_000.0, 70.0)


def asked(embedded: MlflowStore, monkeypatch: pytest.MonkeyPatch, uri: str, frame: object) -> pd.DataFrame:
    # Both are needed: without one of them MLflow makes a store in the current folder.
    monkeypatch.setenv("MLFLOW_TRACKING_URI", embedded.uri)
    monkeypatch.setenv("MLFLOW_REGISTRY_URI", embedded.uri)
    with quiet_warnings():
        import mlflow

        answer: pd.DataFrame = mlflow.pyfunc.load_model(uri).predict(frame)
    return answer


def test_by_way_of_mlflow_a_column_is_what_it_is_called(
    embedded: MlflowStore, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, card = learned(job(name))
    run_id = embedded.client.create_run(embedded.experiment(name)).info.run_id
    uri = ModelLibrary(embedded).register(made, card, run_id).uri
    mixed = pd.DataFrame([[10, 5], [24, 24]], columns=["count", "source"])
    answer = asked(embedded, monkeypatch, uri, mixed)
    assert np.allclose(answer["mean"], made.predict([[5, 10], [24, 24]])[0])
    assert list(answer) == ["mean", "std", "latency_ms"]
    from mlflow.exceptions import MlflowException

    for columns in (["source", "zount"], [0, 1]):
        with pytest.raises(MlflowException, match="missing inputs"):
            asked(embedded, monkeypatch, uri, pd.DataFrame([[5, 10]], columns=columns))
    doubled = pd.DataFrame([[5, 10, 10]], columns=["source", "count", "count"])
    with pytest.raises(Exception, match="count"):  # MLflow or the predictor notices it first
        asked(embedded, monkeypatch, uri, doubled)
    assert answer.equals(asked(embedded, monkeypatch, uri, mixed.assign(other=1)))  # MLflow drops the column
    with pytest.raises(InputError, match=r"row 0: count: lies outside \[8, 24\]"):
        asked(embedded, monkeypatch, uri, pd.DataFrame([[5, 7]], columns=["source", "count"]))
