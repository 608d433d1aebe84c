"""`autotrascale demo`: a word count tuned, simulated at once, and on real Spark where this machine has one."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from autotrascale.app.console import FormatOption, OutputFormat, note, print_answer, say
from autotrascale.app.stores import NO_STORE
from autotrascale.atomic_files import create_file
from autotrascale.cli.tune import EngineChoice
from autotrascale.cli.tuning_output import TARGET_NOT_MET

if TYPE_CHECKING:
    from autotrascale.app.job_file import JobFile
    from autotrascale.app.tuning_run import TuningResult
    from autotrascale.knowledge.mlflow_store import MlflowStore

FOLDER = Path("autotrascale-demo")
JOB_FILES = {EngineChoice.simulator: "wordcount-simulated.yaml", EngineChoice.spark: "wordcount.yaml"}


def demo(
    engine: Annotated[
        EngineChoice | None, typer.Option(help="Only this one; else the simulator, and Spark where it can run.")
    ] = None,
    to: Annotated[Path, typer.Option(metavar="FOLDER", help="Where its job files and runs are kept.")] = FOLDER,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Tune a word count: simulated in seconds, then on real Spark in minutes, where there are Java and pyspark.

    All that it writes is in its own folder: the job files, to look at and to change, and the runs.
    """
    from autotrascale.app.stores import open_store
    from autotrascale.cli.tuning_output import exit_on_sigterm, print_result

    wanted = _wanted(engine)
    job_files = {each: _put(to, name) for each, name in JOB_FILES.items()}
    finished: list[TuningResult] = []
    with exit_on_sigterm():
        store = open_store(_store_in(to))
        for each in wanted:
            if finished:
                note("\nnow on real Spark, which takes some minutes; Ctrl-C ends it")
            finished.append(_tuned(job_files[each], each, store, to, form))
            if form is OutputFormat.table:
                print_result(finished[-1])
    _then(finished, to, form)
    if not finished[-1].outcome.met_target:
        raise typer.Exit(TARGET_NOT_MET)


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def _wanted(engine: EngineChoice | None) -> list[EngineChoice]:
    """Those that can run here. Spark that was asked for by name and cannot is an error, before there is a folder."""
    from autotrascale.app.job_file import JobFile
    from autotrascale.domain.errors import EngineError
    from autotrascale.execute.spark.controller.preflight import check_machine
    from autotrascale.validation import read_yaml

    if engine is EngineChoice.simulator:
        return [engine]
    file = read_yaml(_text(JOB_FILES[EngineChoice.spark]), JobFile, place=JOB_FILES[EngineChoice.spark])
    try:
        if file.spark is not None:
            check_machine(file.spark)
    except EngineError as error:
        if engine is not None:
            raise
        note(f"real Spark is left out: {error}")
        return [EngineChoice.simulator]
    return [EngineChoice.spark] if engine else [EngineChoice.simulator, EngineChoice.spark]


def _text(name: str) -> str:
    return (files("autotrascale.app.scaffold") / name).read_text(encoding="utf-8")


def _put(folder: Path, name: str) -> Path:
    """A job file that somebody has changed is theirs."""
    from autotrascale.domain.errors import InputError

    path = folder / name
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True)
        create_file(path, _text(name))
    except FileExistsError as error:
        if not folder.is_dir():
            raise InputError(
                str(folder), f"is no folder: {error.strerror}", remedy="name another one with --to"
            ) from None
        if not path.is_file() or path.read_text(encoding="utf-8", errors="replace") != _text(name):
            raise InputError(
                str(path),
                "is there and is not the demo's, so it is left as it is",
                remedy=f"tune it: autotrascale tune {path}, or name another folder: --to",
            ) from None
    except OSError as error:
        raise InputError(
            str(path), f"cannot be written: {error.strerror}", remedy="name another folder with --to"
        ) from None
    return path


def _store_in(folder: Path) -> str:
    """Whatever store the environment names is for work, and not for this."""
    if find_spec("mlflow") is None:
        note("runs are not kept: mlflow is not installed (pip install 'autotrascale[mlflow]')")
        return NO_STORE
    return f"sqlite:///{folder}/mlruns/mlflow.db"


def _tuned(
    path: Path, engine: EngineChoice, store: MlflowStore | None, folder: Path, form: OutputFormat
) -> TuningResult:
    from autotrascale.app import tuning_run
    from autotrascale.app.job_file import read_job_file
    from autotrascale.cli import tuning_output

    def unfinished(run_id: str) -> None:
        note(f"what was measured is kept; go on with: cd {quote(str(folder))}; autotrascale runs resume {run_id}")

    work = folder / "spark"
    file = _working_in(read_job_file(path), work)
    try:
        asked = tuning_run.TuningRequest(file, path, engine.value, file.tuning)
        return tuning_run.start(asked, store, replace(tuning_output.create_listener(form), unfinished=unfinished))
    finally:
        with suppress(OSError):  # not there, or what a run left is still in it
            work.rmdir()


def _working_in(file: JobFile, work: Path) -> JobFile:
    return file if file.spark is None else replace(file, spark=replace(file.spark, work_dir=str(work.absolute())))


def _then(finished: list[TuningResult], folder: Path, form: OutputFormat) -> None:
    from autotrascale.cli.tuning_output import result_as_dict

    kept = finished[-1].run_id is not None
    following = [
        f"cd {quote(str(folder))}",
        *(["autotrascale explain last        # why this parallelism"] if kept else []),
        "autotrascale tune wordcount-simulated.yaml --rate 280000   # another rate",
        "autotrascale init                # a job file of your own",
        "autotrascale doctor              # what is here, what is missing",
    ]
    said = {"folder": str(folder), "runs": [result_as_dict(each) for each in finished]}
    print_answer(form, said, lambda: say("\n".join(["", "next:", *(f"    {line}" for line in following)])))
