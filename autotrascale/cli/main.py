"""Entry point of the command line: `autotrascale VERB`.

To add a verb, write `autotrascale/cli/<verb>.py` with

    def register(app: typer.Typer) -> None:
        app.command("<verb>")(<function>)        # or app.add_typer(group, name="<verb>") for verbs of two words

and add its module to `VERBS`. All modules are imported for `autotrascale --help`, which must answer in half a second:
import numpy, pydantic, Spark or MLflow inside the function that needs them. A verb only declares options, calls a use
case in `autotrascale.app` and prints the result through `autotrascale.app.console`. Mistakes of the user raise
`InputError`. `typer.Exit(TARGET_NOT_MET)` means: done, but the target is not met.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any, NoReturn

try:
    import typer
    from typer.core import TyperGroup
except ModuleNotFoundError as _error:
    sys.exit(f"autotrascale: installation: lacks the package {_error.name}; pip install autotrascale")

from autotrascale import __version__
from autotrascale.app import environment_variables, optional_packages
from autotrascale.app.console import complain, note
from autotrascale.cli.options import FAILED, INTERRUPTED
from autotrascale.domain.errors import AuTraScaleError, InputError

# Modules of this package, in the order of `autotrascale --help`.
VERBS = (
    "demo",
    "init",
    "decide",
    "snapshot",
    "critical",
    "tune",
    "autoscale",
    "run",
    "status",
    "commands",
    "sizes",
    "runs",
    "models",
    "explain",
    "metrics",
    "serve",
    "doctor",
)


class _VerbGroup(TyperGroup):
    """Group that ends every verb cleanly on Ctrl-C and when the reader of a pipe has closed it."""

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            _discard_stdout()
            raise typer.Exit(0) from None
        return result


app = typer.Typer(
    cls=_VerbGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Find the least parallelism that holds the latency target of a streaming job, and keep the job there.",
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"autotrascale {__version__}")
        raise typer.Exit


@app.callback()
def _check_environment(
    version: Annotated[  # noqa: ARG001 - handled by the callback of the option
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    for warning in environment_variables.find_misspelled():
        note(warning)


for _verb in VERBS:
    import_module(f"autotrascale.cli.{_verb}").register(app)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    Exit codes: 0 done and target met, 1 error (one line on stderr), 2 bad usage, 3 done but target not met.

    Args:
        arguments: words of the command line; the default is sys.argv[1:].
    """
    try:
        app(args=arguments, prog_name="autotrascale")
    except AuTraScaleError as error:
        complain(str(error))
        sys.exit(FAILED)
    except ModuleNotFoundError as error:
        missing = optional_packages.explain_missing_package(error)
        if missing is None:
            raise
        complain(str(missing))
        sys.exit(FAILED)
    except OSError as error:
        _discard_stdout()
        complain(_describe_os_error(error))
        sys.exit(FAILED)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.exit(0)


def _discard_stdout() -> None:
    # Python flushes stdout once more when it exits, and would report the same error again.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _describe_os_error(error: OSError) -> str:
    place = str(error.filename or "standard output or a file")
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    remedy = "free disk space" if is_full else "correct the cause and try again"
    return str(InputError(place, f"cannot be used: {error.strerror or error}", remedy=remedy))


if __name__ == "__main__":
    main()
