"""Demo: tune a word count, simulated, and on Spark if this machine has Java and pyspark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from autotrascale.app import tuning_run
from autotrascale.app.console import note
from autotrascale.app.job_file import EngineName, JobFile, read_job_file
from autotrascale.app.stores import NO_STORE, SQLITE_PREFIX, open_store
from autotrascale.atomic_files import create_file
from autotrascale.domain.errors import EngineError, InputError
from autotrascale.execute.spark.controller import preflight
from autotrascale.validation import read_yaml

FOLDER = Path("autotrascale-demo")
JOB_FILES: dict[EngineName, str] = {"simulator": "wordcount-simulated.yaml", "spark": "wordcount.yaml"}


def run_demo(
    engine: EngineName | None, folder: Path, listener: tuning_run.RunListener
) -> Iterator[tuning_run.TuningResult]:
    """Tune the word count, and yield the result of each engine.

    Args:
        engine: the only engine to use; None: the simulator, then Spark if it can run here.
        folder: where to write job files and runs.
        listener: what to call on the way.

    Raises:
        EngineError: Spark was named and cannot run here. Nothing is written then.
        InputError: a file in the folder has been changed, or cannot be written.
    """
    engines = _choose_engines(engine)
    job_files = {name: _write_job_file(folder, file_name) for name, file_name in JOB_FILES.items()}
    store = open_store(_choose_store(folder))
    for i, name in enumerate(engines):
        if i:
            note("\nnow on Spark, which takes some minutes; Ctrl-C ends it")
        work = folder / "spark"
        file = read_job_file(job_files[name])
        if file.spark is not None:
            file = replace(file, spark=replace(file.spark, work_dir=str(work.absolute())))
        try:
            request = tuning_run.TuningRequest(file, job_files[name], name, file.tuning)
            yield tuning_run.start(request, store, listener)
        finally:
            with suppress(OSError):  # missing, or a run left files in it
                work.rmdir()


def read_demo_file(name: str) -> str:
    """Return the text of one of the demo's job files."""
    return (files("autotrascale.app.scaffold") / name).read_text(encoding="utf-8")


def _choose_engines(engine: EngineName | None) -> list[EngineName]:
    if engine == "simulator":
        return ["simulator"]
    name = JOB_FILES["spark"]
    file = read_yaml(read_demo_file(name), JobFile, place=name)
    try:
        if file.spark is not None:
            preflight.check_machine(file.spark)
    except EngineError as error:
        if engine is not None:
            raise
        note(f"leaving out Spark: {error}")
        return ["simulator"]
    return ["spark"] if engine else ["simulator", "spark"]


def _write_job_file(folder: Path, name: str) -> Path:
    """Write one of the demo's job files. A file that the user has changed is never replaced."""
    path = folder / name
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True)
        create_file(path, read_demo_file(name))
    except FileExistsError as error:
        if not folder.is_dir():
            raise InputError(
                str(folder), f"is not a folder: {error.strerror}", remedy="name another one with --to"
            ) from None
        if not path.is_file() or path.read_text(encoding="utf-8", errors="replace") != read_demo_file(name):
            raise InputError(
                str(path),
                "has been changed, and is not replaced",
                remedy=f"tune it with autotrascale tune {path}, or name another folder with --to",
            ) from None
    except OSError as error:
        raise InputError(
            str(path), f"cannot be written: {error.strerror}", remedy="name another folder with --to"
        ) from None
    return path


def _choose_store(folder: Path) -> str:
    # The store that the environment names is for work, not for a demo.
    if find_spec("mlflow") is None:
        note("runs are not kept: mlflow is not installed; pip install 'autotrascale[mlflow]'")
        return NO_STORE
    return f"{SQLITE_PREFIX}{folder}/mlruns/mlflow.db"
