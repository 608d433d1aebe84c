"""`autotrascale serve`: the HTTP API, its pages, and the queue of the runs requested there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotrascale.app import environment_variables
from autotrascale.cli.options import GroupedCommand, StoreOption

PREFIX = environment_variables.SERVE  # of each option's environment variable
RUNS = "Runs"


def serve(
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS", envvar=f"{PREFIX}HOST", help="Address to listen on; other than loopback needs a token."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, envvar=f"{PREFIX}PORT", help="Port to listen on; 0: any free port.")
    ] = 8765,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar=f"{PREFIX}TOKEN_FILE",
            help=f"File of tokens, read again when it changes. [default: {environment_variables.TOKEN}]",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            envvar=f"{PREFIX}NAME",
            help="Name under which a later server finds its runs. [default: the machine's name]",
        ),
    ] = None,
    notify: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar=f"{PREFIX}NOTIFY",
            help="File of notification targets for events of control loops. [default: none]",
        ),
    ] = None,
    configs: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER",
            envvar=f"{PREFIX}CONFIGS",
            help="Folder of the job files that may be tuned.",
            rich_help_panel=RUNS,
        ),
    ] = Path("configs"),
    parallel_runs: Annotated[
        int,
        typer.Option(
            min=1,
            max=64,
            metavar="N",
            envvar=f"{PREFIX}PARALLEL_RUNS",
            help="Limit for runs under way.",
            rich_help_panel=RUNS,
        ),
    ] = 1,
    queue_limit: Annotated[
        int,
        typer.Option(
            min=1,
            max=10_000,
            metavar="N",
            envvar=f"{PREFIX}QUEUE_LIMIT",
            help="Limit for waiting runs.",
            rich_help_panel=RUNS,
        ),
    ] = 100,
    store: StoreOption = None,
) -> None:
    """Serve the HTTP API and its pages.

    The server runs the tuning runs that clients request, and shows all runs and control loops of the store.
    """
    from autotrascale.web.server import ServerOptions, run_server

    run_server(ServerOptions(configs, host, port, token_file, parallel_runs, queue_limit, name, notify, store))


def register(app: typer.Typer) -> None:
    app.command("serve", cls=GroupedCommand)(serve)
