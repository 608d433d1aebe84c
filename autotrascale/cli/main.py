"""`autotrascale VERB`: one module of this package for each verb.

To add a verb, write `autotrascale/cli/<verb>.py` with

    def register(app: typer.Typer) -> None:
        app.command("<verb>")(<function>)        # or app.add_typer(group, name="<verb>") for verbs of two words

and name it in `VERBS`. The module is imported even for `autotrascale --help`, which shall answer in half a second:
import numpy, pydantic, Spark or MLflow inside the function that needs them. Print through
`autotrascale.app.console`: what was asked for on stdout, everything else on stderr. Raise `InputError` for what the
user can mend, `typer.Exit(3)` for "done, but the target is not met".
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any, NoReturn

try:
    import typer
    from typer.core import TyperGroup
except ModuleNotFoundError as _error:  # not even a verb can be read: said in one line all the same
    sys.exit(f"autotrascale: this program lacks a package of its own: {_error.name}; pip install autotrascale")

from autotrascale import __version__
from autotrascale.app import environment_variables, optional_packages
from autotrascale.app.console import complain, note
from autotrascale.domain.errors import AuTraScaleError, InputError

# In the order of the help. A verb whose module is not there is left out.
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
    "steer",
    "sizes",
    "runs",
    "models",
    "explain",
    "metrics",
    "serve",
    "doctor",
)

INTERRUPTED = 130  # 128 + SIGINT, as shells have it


class _Verbs(TyperGroup):
    """Ends cleanly on Ctrl-C and when the reader of a pipe has left, whichever verb it happens in."""

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            _drop_output()
            raise typer.Exit(0) from None
        return result


app = typer.Typer(
    cls=_Verbs,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Finds the least parallelism that holds a streaming job's latency target, and keeps it there.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"autotrascale {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[  # noqa: ARG001 - its callback does it
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of the command itself, before any verb."""
    for line in environment_variables.find_misspelled():
        note(line)


for _verb in VERBS:
    if find_spec(f"autotrascale.cli.{_verb}"):
        import_module(f"autotrascale.cli.{_verb}").register(app)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Exit codes: 0 done and target met, 1 error (one line on stderr), 2 bad usage, 3 done but target not met."""
    try:
        app(args=arguments, prog_name="autotrascale")
    except AuTraScaleError as error:
        complain(str(error))
        sys.exit(1)
    except ModuleNotFoundError as error:
        missing = optional_packages.explain_missing_package(error)
        if missing is None:
            raise
        complain(str(missing))
        sys.exit(1)
    except OSError as error:
        _drop_output()
        complain(_of_the_machine(error))
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    sys.exit(0)


def _drop_output() -> None:
    """Python flushes it once more at its end, and would complain once more."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _of_the_machine(error: OSError) -> str:
    """A disk that is full, a file system that is read-only, too many open files: whoever met it did not expect it."""
    where = str(error.filename or "standard output or a file")
    remedy = (
        "free some room" if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else "see to it, and try again"
    )
    return str(InputError(where, f"cannot be used: {error.strerror or error}", remedy=remedy))


if __name__ == "__main__":
    main()
