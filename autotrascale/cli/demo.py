"""`autotrascale demo`: tune a word count, simulated and on Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from autotrascale.app.console import OutputFormat, note, print_answer, say
from autotrascale.cli.options import TARGET_NOT_MET, EngineChoice, FormatOption, option

if TYPE_CHECKING:
    from autotrascale.app.tuning_run import TuningResult


def demo(
    engine: Annotated[
        EngineChoice | None,
        option("Engine to use.", default="the simulator, then Spark if Java and pyspark are installed"),
    ] = None,
    to: Annotated[Path, option("Folder for job files and runs.", "FOLDER")] = Path("autotrascale-demo"),
    form: FormatOption = OutputFormat.table,
) -> None:
    """Tune a word count, simulated and on Spark.

    The simulated run takes seconds, the run on Spark minutes. Everything is written to one folder: job files to read
    and change, and the runs.

    Exit codes: 0 the target is met, 1 an error, 2 bad usage, 3 the target is not met.
    """
    from autotrascale.app.demo import run_demo
    from autotrascale.app.termination import exit_on_sigterm
    from autotrascale.cli.tuning_output import create_listener, print_result

    folder = quote(str(to))

    def print_how_to_resume(run_id: str) -> None:
        note(f"the finished trials are kept; continue with: cd {folder}; autotrascale runs resume {run_id}")

    listener = replace(create_listener(form), on_unfinished=print_how_to_resume)
    results: list[TuningResult] = []
    with exit_on_sigterm():
        for result in run_demo(None if engine is None else engine.value, to, listener):
            results.append(result)
            if form is OutputFormat.table:
                print_result(result)
    _print_next_steps(results, to, form)
    if not results[-1].outcome.met_target:
        raise typer.Exit(TARGET_NOT_MET)


def register(app: typer.Typer) -> None:
    app.command("demo")(demo)


def _print_next_steps(results: list[TuningResult], folder: Path, form: OutputFormat) -> None:
    from autotrascale.cli.tuning_output import result_as_dict

    steps = [
        f"cd {quote(str(folder))}",
        *(["autotrascale explain last        # why this parallelism"] if results[-1].run_id is not None else []),
        "autotrascale tune wordcount-simulated.yaml --rate 280000   # another rate",
        "autotrascale init                # a job file of your own",
        "autotrascale doctor              # check this machine",
    ]
    answer = {"folder": str(folder), "runs": [result_as_dict(each) for each in results]}
    print_answer(form, answer, lambda: say("\n".join(["", "next:", *(f"    {step}" for step in steps)])))
