"""`autotrascale tune`: one tuning run at one input rate, on real Spark or on the simulator."""

from __future__ import annotations

import os
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from autotrascale.app.console import FormatOption, OutputFormat, note
from autotrascale.app.stores import MetricsOption, StoreOption
from autotrascale.atomic_files import draft_path, write_atomically
from autotrascale.cli.completion import complete_job_files
from autotrascale.cli.tuning_output import TARGET_NOT_MET as TARGET_NOT_MET


class SinkChoice(StrEnum):
    discard = "discard"
    scratch = "scratch"
    real = "real"


class EngineChoice(StrEnum):
    spark = "spark"
    simulator = "simulator"


def tune(
    job_file: Annotated[
        Path, typer.Argument(metavar="JOB.yaml", help="The job file.", autocompletion=complete_job_files)
    ],
    engine: Annotated[
        EngineChoice | None, typer.Option(help="What runs the job; else what the file describes.")
    ] = None,
    rate: Annotated[float | None, typer.Option(metavar="R", help="Records per second, all sources together.")] = None,
    total_trials: Annotated[
        int | None, typer.Option(metavar="N", help="Trials in all, those for the floor included.")
    ] = None,
    max_seconds: Annotated[float | None, typer.Option(metavar="S", help="No trial begins after this long.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="S", help="Seed of the search and of a simulated job.")] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Who decides what to run, of those that decide knows; else what the file says."
        ),
    ] = None,
    warm_start: Annotated[
        str,
        typer.Option(
            metavar="auto|none|MODEL",
            help="Models to start from: the nearest stored, none, or a file, a models:/ URI, rate-R.",
        ),
    ] = "auto",
    sink: Annotated[
        SinkChoice | None,
        typer.Option(
            help="Where a Spark job's output goes in its trials: counted and dropped, to scratch files, or to the job's"
            " own sink; else what the file says, else discard."
        ),
    ] = None,
    save_model: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to put the benefit model.")] = None,
    store: StoreOption = None,
    metrics: MetricsOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Find the least parallelism that holds the latency target at one input rate.

    Runs the job a few times: first for the floor, the least parallelism that holds the rate; then above it, for what
    meets the latency target with fewest instances. Ends with the answer and its reasons, or with the nearest miss and
    what to try. docs/glossary.md explains the words.

    Exit codes: 0 a configuration can be trusted to meet the target, 1 an error (the job or its host broke, too), 2 bad
    usage, 3 no configuration can be trusted to meet it.
    """
    from autotrascale.app import tuning_run, unit_warnings
    from autotrascale.app.job_file import read_job_file
    from autotrascale.app.metric_recording import open_metric_recorder
    from autotrascale.app.stores import open_store
    from autotrascale.cli import tuning_output
    from autotrascale.domain.errors import InputError

    file = read_job_file(job_file)
    given: dict[str, Any] = {"total_trials": total_trials, "max_seconds": max_seconds, "seed": seed}
    settings = replace(file.tuning, **{name: value for name, value in given.items() if value is not None})
    name = file.engine_name(None if engine is None else engine.value)
    if save_model is not None:
        _check_writable(save_model)
    if sink is not None and name == "simulator":
        raise InputError(
            "--sink", "is for a Spark job: a simulated one writes nothing", seen=sink.value, remedy="leave it out"
        )
    _check_models(file.policy_named(policy).name, warm_start, save_model)
    unit_warnings.warn_about_units(file, note)
    asked = tuning_run.TuningRequest(
        file, job_file, name, settings, rate, warm_start, sink=None if sink is None else sink.value, policy=policy
    )
    with tuning_output.exit_on_sigterm():
        runs = open_store(store)
        with open_metric_recorder(metrics, journalled=runs is not None) as meter:
            finished = tuning_run.start(asked, runs, tuning_output.create_listener(form), meter)
    if save_model is not None and finished.outcome.model is not None:
        write_atomically(save_model, finished.outcome.model.to_json() + "\n")
    tuning_output.print_result_and_exit(form, finished)


def register(app: typer.Typer) -> None:
    app.command("tune")(tune)


def _check_models(policy: str, warm_start: str, save_model: Path | None) -> None:
    """Another policy than ours starts from no model and makes none."""
    from autotrascale.domain.errors import InputError
    from autotrascale.plan.policies import OURS

    if policy == OURS:
        return
    if warm_start not in ("auto", "none"):
        raise InputError(
            "--warm-start",
            f"is for the policy {OURS}: {policy} starts from no model",
            seen=warm_start,
            remedy="leave it out",
        )
    if save_model is not None:
        raise InputError(
            "--save-model",
            f"is for the policy {OURS}: {policy} makes no model",
            seen=str(save_model),
            remedy="leave it out",
        )


def _check_writable(path: Path) -> None:
    """Before the trials, not after: they may take hours. Only a file is replaced, never a device."""
    from autotrascale.domain.errors import InputError

    place, seen = "--save-model", str(path)
    if not path.absolute().parent.is_dir():
        raise InputError(place, "is in a folder that does not exist", seen=seen, remedy="make it")
    try:
        if os.path.lexists(path) and not path.is_file():
            raise InputError(place, "is there already and is no file", seen=seen, remedy="name a file")
        draft_path(path).touch()
        draft_path(path).unlink()
    except OSError as error:
        raise InputError(place, f"cannot be written: {error.strerror}", seen=seen, remedy="name another file") from None
