"""`autotrascale tune`: one tuning run at one input rate, on Spark or on the simulator."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotrascale.app.console import OutputFormat, note
from autotrascale.cli.options import (
    JOB_FILE,
    EngineOption,
    FormatOption,
    GroupedCommand,
    JobFileArgument,
    MetricsOption,
    PolicyOption,
    StoreOption,
    option,
)

if TYPE_CHECKING:
    from autotrascale.domain.trial import Sink

SEARCH = "Search"
MODELS = "Models"


class SinkChoice(StrEnum):
    discard = "discard"
    scratch = "scratch"
    real = "real"


def tune(
    job_file: JobFileArgument,
    engine: EngineOption = None,
    rate: Annotated[
        float | None, option("Input rate of all sources together, records/s.", "R", default=JOB_FILE)
    ] = None,
    sink: Annotated[
        SinkChoice | None,
        option(
            "Sink of trials on Spark: count and drop, write to scratch files, or write to the job's own sink.",
            default=f"{JOB_FILE}, else discard",
        ),
    ] = None,
    total_trials: Annotated[int | None, option("Limit for trials.", "N", default=JOB_FILE, panel=SEARCH)] = None,
    max_seconds: Annotated[
        float | None, option("Seconds after which no trial begins.", "S", default=JOB_FILE, panel=SEARCH)
    ] = None,
    seed: Annotated[
        int | None, option("Seed of the search and of a simulated job.", "S", default=JOB_FILE, panel=SEARCH)
    ] = None,
    policy: PolicyOption = None,
    warm_start: Annotated[
        str,
        option(
            "Models to start from: the nearest stored ones, none, or a file, a models:/ URI or rate-R.",
            "auto|none|MODEL",
            panel=MODELS,
        ),
    ] = "auto",
    save_model: Annotated[
        Path | None, option("File for the benefit model.", "FILE", default="no file", panel=MODELS)
    ] = None,
    store: StoreOption = None,
    metrics: MetricsOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Tune a job for one input rate.

    The first trials find the floor: the least parallelism that sustains the rate. The trials above the floor find the
    configuration with the fewest instances that meets the latency target. The answer states a reason for each
    operator. If no configuration meets the target, the answer is the nearest miss. The terms are explained in
    docs/reference/glossary.md.

    Exit codes: 0 the target is met, 1 an error, 2 bad usage, 3 the target is not met.
    """
    from autotrascale.app import tuning_options, tuning_run, unit_warnings
    from autotrascale.app.job_file import read_job_file
    from autotrascale.app.metric_recording import open_metric_recorder
    from autotrascale.app.stores import open_store
    from autotrascale.app.termination import exit_on_sigterm
    from autotrascale.atomic_files import write_atomically
    from autotrascale.cli import tuning_output

    file = read_job_file(job_file)
    engine_name = file.choose_engine(None if engine is None else engine.value)
    sink_name: Sink | None = None if sink is None else sink.value
    tuning_options.check_options(
        file, engine_name, policy=policy, warm_start=warm_start, sink=sink_name, save_model=save_model
    )
    unit_warnings.warn_about_units(file, note)
    settings = tuning_options.override_settings(file.tuning, total_trials, max_seconds, seed)
    request = tuning_run.TuningRequest(
        file, job_file, engine_name, settings, rate, warm_start, sink=sink_name, policy=policy
    )
    with exit_on_sigterm():
        runs = open_store(store)
        with open_metric_recorder(metrics, journalled=runs is not None) as recorder:
            result = tuning_run.start(request, runs, tuning_output.create_listener(form), recorder)
    if save_model is not None and result.outcome.model is not None:
        write_atomically(save_model, result.outcome.model.to_json() + "\n")
    tuning_output.print_result_and_exit(form, result)


def register(app: typer.Typer) -> None:
    app.command("tune", cls=GroupedCommand)(tune)
