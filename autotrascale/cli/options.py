"""Options and arguments that several verbs share, exit codes, and help texts with grouped options."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from autotrascale.app.console import OutputFormat
from autotrascale.app.environment_variables import METRICS, STORE_VARIABLES
from autotrascale.cli.completion import complete_job_files, complete_job_names

FAILED = 1
BAD_USAGE = 2
TARGET_NOT_MET = 3
INTERRUPTED = 130  # exit code of shells for SIGINT: 128 + 2

STORES = "Stores and output"  # heading in --help
JOB_FILE = "the job file's"  # default value in --help


class EngineChoice(StrEnum):
    spark = "spark"
    simulator = "simulator"


def option(help: str, metavar: str | None = None, *names: str, default: str = "", panel: str = "", **more: Any) -> Any:
    """Return an option.

    Args:
        help: one sentence.
        metavar: name of the value in the help text.
        names: names of the option, if they differ from the parameter's name.
        default: description of the default value; "": the value itself is shown, if it is not None.
        panel: heading in the help text.
        more: further arguments of `typer.Option`.
    """
    return typer.Option(
        *names, metavar=metavar, help=help, show_default=default or True, rich_help_panel=panel or None, **more
    )


def flag(name: str, help: str, panel: str = "") -> Any:
    """Return an option without a value."""
    return typer.Option(name, help=help, rich_help_panel=panel or None)


def argument(help: str, metavar: str, default: str = "", **more: Any) -> Any:
    """Return an argument. `default` describes the default value."""
    return typer.Argument(metavar=metavar, help=help, show_default=default or True, **more)


FormatOption = Annotated[
    OutputFormat, option("Print a table for people or JSON for programs.", None, "--format", panel=STORES)
]
StoreOption = Annotated[
    str | None,
    option(
        "MLflow store of runs and models.",
        "URI|none",
        "--store",
        default=f"{', '.join(STORE_VARIABLES)}, ./mlruns/mlflow.db",
        panel=STORES,
    ),
]
MetricsOption = Annotated[
    str | None,
    option(
        "File that describes the metric store.",
        "FILE|none",
        "--metrics",
        default=f"{METRICS}, ./mlruns/metrics.db",
        panel=STORES,
    ),
]
EngineOption = Annotated[
    EngineChoice | None, option("Engine that runs the job.", default="spark if the job file has that section")
]
PolicyOption = Annotated[str | None, option("Scaling policy; an unknown name lists all.", "NAME", default=JOB_FILE)]
JobFileArgument = Annotated[Path, argument("Job file.", "JOB.yaml", autocompletion=complete_job_files)]
JobOption = Annotated[str | None, option("Job.", "JOB", "--job", default="all jobs", autocompletion=complete_job_names)]


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
