"""Options and arguments that several verbs share, exit codes, and help texts with grouped options."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from autotrascale.app.console import OutputFormat
from autotrascale.app.environment_variables import METRICS, STORE_VARIABLES
from autotrascale.cli.completion import complete_job_files

FAILED = 1
BAD_USAGE = 2
TARGET_NOT_MET = 3
INTERRUPTED = 130  # exit code of shells for SIGINT: 128 + 2

STORES = "Stores and output"  # heading in --help


class EngineChoice(StrEnum):
    spark = "spark"
    simulator = "simulator"


FormatOption = Annotated[
    OutputFormat,
    typer.Option("--format", help="Print a table for people or JSON for programs.", rich_help_panel=STORES),
]
StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URI|none",
        help=f"MLflow store of runs and models. [default: {', '.join(STORE_VARIABLES)}, ./mlruns/mlflow.db]",
        rich_help_panel=STORES,
    ),
]
MetricsOption = Annotated[
    str | None,
    typer.Option(
        "--metrics",
        metavar="FILE|none",
        help=f"File that describes the metric store. [default: {METRICS}, ./mlruns/metrics.db]",
        rich_help_panel=STORES,
    ),
]
EngineOption = Annotated[
    EngineChoice | None,
    typer.Option(help="Engine that runs the job. [default: spark if the job file has that section]"),
]
PolicyOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Scaling policy; an unknown name lists all. [default: the job file's]"),
]
JobFileArgument = Annotated[
    Path, typer.Argument(metavar="JOB.yaml", help="Job file.", autocompletion=complete_job_files)
]


class GroupedCommand(TyperCommand):
    """A verb whose --help lists its options under the headings of `rich_help_panel`."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                is_argument = parameter.param_type_name == "argument"
                heading = getattr(parameter, "rich_help_panel", None) or ("Arguments" if is_argument else "Options")
                groups.setdefault(heading, []).append(record)
        for heading, records in groups.items():
            with formatter.section(heading):
                formatter.write_dl(records)
