"""`autotrascale serve`: the verbs over HTTP, and the queue of the runs that were asked for that way."""

from __future__ import annotations

import gc
import re
import socket
import sys
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotrascale.app import environment_variables
from autotrascale.app.console import note
from autotrascale.app.stores import StoreOption

if TYPE_CHECKING:
    from types import FrameType

    from fastapi import FastAPI

    from autotrascale.web.api.server_state import ServerState

PREFIX = environment_variables.SERVE  # of each option's variable
TOKEN_VARIABLE = environment_variables.TOKEN
SWITCH_SECONDS = 0.001  # that a computation keeps the loop from answering others; Python's own is five times as long


def serve(
    configs: Annotated[
        Path, typer.Option(metavar="FOLDER", envvar=f"{PREFIX}CONFIGS", help="The job files that may be tuned.")
    ] = Path("configs"),
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS", envvar=f"{PREFIX}HOST", help="Where to listen; all but loopback wants a token."
        ),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, envvar=f"{PREFIX}PORT", help="0: any that is free.")] = 8765,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar=f"{PREFIX}TOKEN_FILE",
            help=f"Holds the tokens, and may change; else {TOKEN_VARIABLE}.",
        ),
    ] = None,
    parallel_runs: Annotated[
        int, typer.Option(min=1, max=64, metavar="N", envvar=f"{PREFIX}PARALLEL_RUNS", help="Runs under way at a time.")
    ] = 1,
    queue_limit: Annotated[
        int, typer.Option(min=1, max=10_000, metavar="N", envvar=f"{PREFIX}QUEUE_LIMIT", help="Runs that may wait.")
    ] = 100,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", envvar=f"{PREFIX}NAME", help="Whose runs these are; else this machine's name."),
    ] = None,
    notify: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar=f"{PREFIX}NOTIFY", help="Whom to tell what is new of the control loops."),
    ] = None,
    store: StoreOption = None,
) -> None:
    """Serve the HTTP API, and run what it is asked for."""
    check_installed()
    from autotrascale.web.api.tokens import read_tokens

    tokens = read_tokens(token_file)
    loopback = check_address(host, secured=tokens is not None)
    server = check_name(name)
    from autotrascale.app.notifications import Notifier, read_notifications
    from autotrascale.app.run_queue import server_lock, server_log
    from autotrascale.app.stores import require_store
    from autotrascale.web.api.job_catalog import JobCatalog
    from autotrascale.web.api.server_state import ServerState
    from autotrascale.web.app import create_app

    told = Notifier(() if notify is None else read_notifications(notify), server_log.warning)
    catalog = JobCatalog(configs)
    opened = require_store(store)
    server_log.configure()
    with server_lock.hold_server_name(opened, server, note) as ours, listening(host, port) as bound:
        for listed in catalog.all():
            if listed.problem:
                server_log.warning("job file cannot be used", job=listed.name, why=listed.problem)
        state = ServerState.of(ours, catalog, server, parallel_runs, queue_limit)
        state.index.loops.notifier = told
        try:
            _run(create_app(state, tokens, loopback=loopback), state, bound)
        finally:
            told.close()


def register(app: typer.Typer) -> None:
    app.command("serve")(serve)


def _run(app: FastAPI, state: ServerState, bound: socket.socket) -> None:
    import uvicorn

    from autotrascale.web.api.connections import BACKLOG, ConnectionLimits, configure_server

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            bound.listen(BACKLOG)
            gc.collect()
            gc.freeze()  # what is imported stays: looking through all of it again takes a tenth of a second each time
            address, at = bound.getsockname()[:2]
            note(f"listening on http://{f'[{address}]' if ':' in address else address}:{at}")

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            state.closing = True  # streams would else go on
            super().handle_exit(sig, frame)

    sys.setswitchinterval(SWITCH_SECONDS)
    Server(configure_server(app, ConnectionLimits.of_this_process())).run(sockets=[bound])


def listening(host: str, port: int) -> socket.socket:
    """Bound before anything is started, so that a port that is taken is known at once."""
    from autotrascale.domain.errors import InputError

    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise InputError(
            "--host, --port",
            f"cannot be listened on: {error.strerror or error}",
            seen=f"{host}:{port}",
            remedy="name another port, or end what has it",
        ) from None
    return bound


def check_address(host: str, *, secured: bool) -> bool:
    """Whether it is a loopback address."""
    from autotrascale.domain.errors import InputError

    try:
        loopback = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        raise InputError(
            "--host", "is no address", seen=host, remedy="use 127.0.0.1, ::1, 0.0.0.0 or one of this machine's own"
        ) from None
    if not loopback and not secured:
        raise InputError(
            "--host",
            "can be reached from other machines, and there is no token",
            seen=host,
            remedy=f"give --token-file or set {TOKEN_VARIABLE}",
        )
    return loopback


def check_installed() -> None:
    from autotrascale.domain.errors import InputError

    wanted = ("fastapi", "uvicorn", "prometheus_client", "mlflow", "jinja2", "plotly", "fastapi_offline")
    missing = [package for package in wanted if not find_spec(package)]
    if missing:
        raise InputError(
            "serve",
            f"needs packages that are not installed: {', '.join(missing)}",
            remedy="pip install 'autotrascale[service]'",
        )


def check_name(name: str | None) -> str:
    from autotrascale.domain.errors import InputError

    chosen = name or re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:64] or "server"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", chosen):
        raise InputError(
            "--name", "is no name of letters, digits, dots, dashes, underscores", seen=chosen, remedy="choose another"
        )
    return chosen
