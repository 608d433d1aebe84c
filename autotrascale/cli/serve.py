"""`autotrascale serve`: the HTTP API, its pages, and the queue of the runs requested there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotrascale.app import environment_variables
from autotrascale.cli.options import GroupedCommand, StoreOption, option

PREFIX = environment_variables.SERVE  # of each option's environment variable
RUNS = "Runs"


def serve(
    host: Annotated[
        str, option("Address to listen on; other than loopback needs a token.", "ADDRESS", envvar=f"{PREFIX}HOST")
    ] = "127.0.0.1",
    port: Annotated[
        int, option("Port to listen on; 0: any free port.", envvar=f"{PREFIX}PORT", min=0, max=65535)
    ] = 8765,
    token_file: Annotated[
        Path | None,
        option(
            "File of tokens, read again when it changes.",
            "FILE",
            default=environment_variables.TOKEN,
            envvar=f"{PREFIX}TOKEN_FILE",
        ),
    ] = None,
    name: Annotated[
        str | None,
        option(
            "Name under which a later server finds its runs.",
            "NAME",
            default="the machine's name",
            envvar=f"{PREFIX}NAME",
        ),
    ] = None,
    notify: Annotated[
        Path | None,
        option(
            "File of notification targets for events of control loops.",
            "FILE",
            default="none",
            envvar=f"{PREFIX}NOTIFY",
        ),
    ] = None,
    configs: Annotated[
        Path, option("Folder of the job files that may be tuned.", "FOLDER", panel=RUNS, envvar=f"{PREFIX}CONFIGS")
    ] = Path("configs"),
    parallel_runs: Annotated[
        int, option("Limit for runs under way.", "N", panel=RUNS, envvar=f"{PREFIX}PARALLEL_RUNS", min=1, max=64)
    ] = 1,
    queue_limit: Annotated[
        int, option("Limit for waiting runs.", "N", panel=RUNS, envvar=f"{PREFIX}QUEUE_LIMIT", min=1, max=10_000)
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
