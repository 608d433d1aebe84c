"""`autotrascale models ls|show|export|import`, and `tune --warm-start`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autotrascale.cli import main
from autotrascale.knowledge.mlflow_store import MlflowStore
from autotrascale.knowledge.model_library import ModelLibrary, registered_model_name
from tests.knowledge.mlflow_stores import job, job_file, learned


def run(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main.main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, Any]:
    capsys.readouterr()
    assert run(*arguments, "--format", "json") == 0
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    return data


def add(store: MlflowStore, name: str, rate: float = 300_000.0, **card: Any) -> str:
    return ModelLibrary(store).import_model(*learned(job(name, rate), **card)).uri


def test_models_are_listed_and_shown(store: MlflowStore, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("models", "ls", "--job", name) == 0
    assert "no models yet" in capsys.readouterr().out
    uri = add(store, name)
    (model,) = answer(capsys, "models", "ls", "--job", name)["models"]
    assert (model["uri"], model["rate"], model["aliases"]) == (uri, 300_000.0, ["rate-300000"])
    assert model["operators"] == ["source", "count"]
    shown = answer(capsys, "models", "show", "rate-300000", "--job", name)
    assert (shown["floor"], shown["p_max"]) == ([4, 8], [24, 24])
    assert [sample["k"] for sample in shown["samples"]] == [[4, 8], [5, 10]]
    assert run("models", "show", uri) == 0
    assert "floor: source 4, count 8; P_max: source 24, count 24\n2 configurations" in capsys.readouterr().out
    assert run("models", "show", "nonsense") == 1
    assert "model: is not a reference" in capsys.readouterr().err


def test_a_model_of_somebody_else_is_listed_with_what_is_wrong(
    store: MlflowStore, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store.client.create_registered_model(registered_model_name(name))
    store.client.create_model_version(registered_model_name(name), source="/nowhere")
    (model,) = answer(capsys, "models", "ls", "--job", name)["models"]
    assert model["unreadable"].startswith("tags.")
    assert run("models", "ls", "--job", name) == 0
    assert model["unreadable"] in capsys.readouterr().out
    assert run("models", "export", f"models:/{registered_model_name(name)}/1") == 1
    assert "cannot be exported" in capsys.readouterr().err


def test_what_a_run_would_start_from_is_said(
    store: MlflowStore, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = job_file(tmp_path, name)
    near = add(store, name, 250_000.0)
    other = add(store, name, 260_000.0, statistic="p95")
    found = answer(capsys, "models", "ls", "--for", path)
    assert found["sources"] == [near]
    assert found["reasons"] == [f"warm start from {near}, made at 250000 records/s", found["reasons"][1]]
    assert found["reasons"][1].startswith(f"skipped {other}: ")
    assert "p95" in found["reasons"][1]
    assert run("models", "ls", "--for", path, "--rate", "1000", "--engine", "simulator") == 0
    assert capsys.readouterr().out.splitlines() == found["reasons"]
    assert run("models", "ls", "--rate", "5") == 2
    assert "needs --for" in capsys.readouterr().err


def test_models_travel_in_files(
    store: MlflowStore, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(store, name)
    add(store, name, 200_000.0)
    exported = answer(capsys, "models", "export", "--job", name, "--to", tmp_path)["files"]
    assert [Path(file).name for file in exported] == [f"{name}-rate-300000.json", f"{name}-rate-200000.json"]
    assert run("models", "export", "rate-200000", "--job", name, "--to", tmp_path) == 0
    assert capsys.readouterr().out == f"{tmp_path}/{name}-rate-200000.json\n"
    assert run("models", "import", *exported) == 1
    assert f"model of {name} at 300000/s: is in the store already, as models:/" in capsys.readouterr().err
    text = Path(exported[0]).read_text().replace(name, f"{name}-copy")
    (tmp_path / "copy.json").write_text(text)
    (tmp_path / "broken.json").write_text(text.replace('"rate": 300000.0', '"rate": 1.0', 1))
    assert run("models", "import", tmp_path / "copy.json", tmp_path / "broken.json") == 1
    assert "broken.json: tags.rate: does not match" in capsys.readouterr().err
    assert ModelLibrary(store).versions(f"{name}-copy") == []
    taken = answer(capsys, "models", "import", tmp_path / "copy.json")["models"]
    assert taken == [f"models:/autotrascale.{name}-copy/1"]
    assert run("models", "export", "--job", "nobody", "--to", tmp_path) == 0
    assert capsys.readouterr().out == "the store has no model to export\n"


def test_a_run_starts_from_the_model_it_is_given(
    store: MlflowStore, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, uri = job_file(tmp_path, name), add(store, name)
    (export,) = answer(capsys, "models", "export", uri, "--to", tmp_path)["files"]
    bare = tmp_path / "bare.json"
    bare.write_text(learned(job(name))[0].to_json())
    for said, named in ((uri, uri), ("rate-300000", uri), (export, export), (str(bare), str(bare))):
        found = answer(capsys, "tune", path, "--warm-start", said, "--rate", "290000")
        assert found["warm_start"] == [f"warm start from {named}, made at 300000 records/s"]


def test_a_model_that_does_not_fit_is_refused_when_asked_for(
    store: MlflowStore, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, uri = job_file(tmp_path, name), add(store, name, topology="elsewhere")
    (export,) = answer(capsys, "models", "export", uri, "--to", tmp_path)["files"]
    for said in (uri, export):
        assert run("tune", path, "--warm-start", said) == 1
        assert "--warm-start: names a model that does not fit" in capsys.readouterr().err
    bare = tmp_path / "bare.json"
    bare.write_text(learned(job(name))[0].to_json().replace('"pipelined"', '"micro-batch"'))
    assert run("tune", path, "--warm-start", bare) == 1
    assert "micro-batch" in capsys.readouterr().err
    three = job_file(
        tmp_path,
        f"{name}-three",
        operators={"a": {}, "b": {"upstream": ["a"]}, "c": {"upstream": ["b"]}},
        source_rates={"a": 10.0},
        simulator={"operators": {o: {"service_seconds": 1e-5} for o in "abc"}},
    )
    bare.write_text(learned(job(name))[0].to_json())
    assert run("tune", three, "--warm-start", bare) == 1
    assert "2 operators" in capsys.readouterr().err
    assert run("tune", path, "--warm-start", tmp_path / "none.json") == 1
    assert "cannot be read" in capsys.readouterr().err
    assert run("tune", path, "--warm-start", "rate-300000", "--store", "none") == 1
    assert "--warm-start: " in capsys.readouterr().err


def test_models_that_do_not_fit_leave_a_run_cold_and_say_why(
    store: MlflowStore, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = add(store, name, topology="elsewhere")
    assert run("tune", job_file(tmp_path, name)) == 0
    err = capsys.readouterr().err.splitlines()
    assert err[1] == f"cold start: none of the 1 models of {name} fits"
    assert err[2].startswith(f"skipped {uri}: ")


def test_models_are_deprecated_and_removed(store: MlflowStore, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    old = add(store, name)
    run_id = store.client.create_run(store.experiment(name)).info.run_id
    new = ModelLibrary(store).register(*learned(job(name), run_id="b" * 32), run_id).uri
    assert run("models", "deprecate", "rate-300000", "--job", name, "--why", "made on a broken machine") == 0
    assert f"{new} is deprecated: made on a broken machine" in capsys.readouterr().out
    assert run("models", "ls", "--job", name) == 0
    assert "deprecated" in capsys.readouterr().out
    first, second = answer(capsys, "models", "ls", "--job", name)["models"]
    assert (first["aliases"], first["deprecated"]) == (["rate-300000"], None)
    assert (second["aliases"], second["deprecated"]) == ([], "made on a broken machine")
    assert run("models", "deprecate", new, "--undo") == 0
    assert answer(capsys, "models", "ls", "--job", name)["models"][1]["aliases"] == ["rate-300000"]
    assert run("models", "rm", old, "models:/autotrascale.nobody/7") == 1
    assert "is not in the store" in capsys.readouterr().err
    assert len(answer(capsys, "models", "ls", "--job", name)["models"]) == 2  # all or none
    assert answer(capsys, "models", "rm", old, new, old)["removed"] == [old, new]
    assert answer(capsys, "models", "ls", "--job", name)["models"] == []


def test_a_deprecated_model_is_no_start_even_where_it_is_named(
    store: MlflowStore, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = add(store, name)
    assert run("models", "deprecate", uri, "--why", "made on a broken machine") == 0
    assert run("tune", job_file(tmp_path, name), "--warm-start", uri) == 1
    assert "made on a broken machine" in capsys.readouterr().err
