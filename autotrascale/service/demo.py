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

from autotrascale.files import write_new
from autotrascale.service.output import Format, FormatOption, emit, note, say
from autotrascale.service.store import NO_STORE
from autotrascale.service.tune import EngineChoice
from autotrascale.service.tuning_output import TARGET_NOT_MET

if TYPE_CHECKING:
    from autotrascale.knowledge.store import Store
    from autotrascale.service.jobfile import JobFile
    from autotrascale.service.tuning_runs import Finished

FOLDER = Path("autotrascale-demo")
JOB_FILES = {EngineChoice.simulator: "wordcount-simulated.yaml", EngineChoice.spark: "wordcount.yaml"}


def demo(
    engine: Annotated[
        EngineChoice | None, typer.Option(help="Only this one; else the simulator, and Spark where it can run.")
    ] = None,
    to: Annotated[Path, typer.Option(metavar="FOLDER", help="Where its job files and runs are kept.")] = FOLDER,
    form: FormatOption = Format.table,
) -> None:
    """Tune a word count: simulated in seconds, then on real Spark in minutes, where there are Java and pyspark.

    All that it writes is in its own folder: the job files, to look at and to change, and the runs.
    """
    from autotrascale.service.store import open_store
    from autotrascale.service.tuning_output import ending_cleanly, show

    wanted = _wanted(engine)
    job_files = {each: _put(to, name) for each, name in JOB_FILES.items()}
    finished: list[Finished] = []
    with ending_cleanly():
        store = open_store(_store_in(to))
        for each in wanted:
            if finished:
                note("\nnow on real Spark, which takes some minutes; Ctrl-C ends it")
            finished.append(_tuned(job_files[each], each, store, to, form))
            if form is Format.table:
                show(finished[-1])
    _then(finished, to, form)
    if not finished[-1].outcome.met_target:
        raise typer.Exit(TARGET_NOT_MET)


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def _wanted(engine: EngineChoice | None) -> list[EngineChoice]:
    """Those that can run here. Spark that was asked for by name and cannot is an error, before there is a folder."""
    from autotrascale.domain.errors import EngineError
    from autotrascale.execute.spark.preflight import preflight
    from autotrascale.reading import read_yaml
    from autotrascale.service.jobfile import JobFile

    if engine is EngineChoice.simulator:
        return [engine]
    file = read_yaml(_text(JOB_FILES[EngineChoice.spark]), JobFile, place=JOB_FILES[EngineChoice.spark])
    try:
        if file.spark is not None:
            preflight(file.spark)
    except EngineError as error:
        if engine is not None:
            raise
        note(f"real Spark is left out: {error}")
        return [EngineChoice.simulator]
    return [EngineChoice.spark] if engine else [EngineChoice.simulator, EngineChoice.spark]


def _text(name: str) -> str:
    return (files("autotrascale.service.starting") / name).read_text(encoding="utf-8")


def _put(folder: Path, name: str) -> Path:
    """A job file that somebody has changed is theirs."""
    from autotrascale.domain.errors import InputError

    path = folder / name
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True)
        write_new(path, _text(name))
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


def _tuned(path: Path, engine: EngineChoice, store: Store | None, folder: Path, form: Format) -> Finished:
    from autotrascale.service import tuning_output, tuning_runs
    from autotrascale.service.jobfile import read_job_file

    def unfinished(run_id: str) -> None:
        note(f"what was measured is kept; go on with: cd {quote(str(folder))}; autotrascale runs resume {run_id}")

    work = folder / "spark"
    file = _working_in(read_job_file(path), work)
    try:
        asked = tuning_runs.Asked(file, path, engine.value, file.tuning)
        return tuning_runs.start(asked, store, replace(tuning_output.listener(form), unfinished=unfinished))
    finally:
        with suppress(OSError):  # not there, or what a run left is still in it
            work.rmdir()


def _working_in(file: JobFile, work: Path) -> JobFile:
    return file if file.spark is None else replace(file, spark=replace(file.spark, work_dir=str(work.absolute())))


def _then(finished: list[Finished], folder: Path, form: Format) -> None:
    from autotrascale.service.tuning_output import answer

    kept = finished[-1].run_id is not None
    following = [
        f"cd {quote(str(folder))}",
        *(["autotrascale explain last        # why this parallelism"] if kept else []),
        "autotrascale tune wordcount-simulated.yaml --rate 280000   # another rate",
        "autotrascale init                # a job file of your own",
        "autotrascale doctor              # what is here, what is missing",
    ]
    said = {"folder": str(folder), "runs": [answer(each) for each in finished]}
    emit(form, said, lambda: say("\n".join(["", "next:", *(f"    {line}" for line in following)])))
