"""Start of the HTTP server: checks of its options, its socket, and its event loop."""

from __future__ import annotations

import gc
import re
import socket
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from autotrascale.app.console import note
from autotrascale.app.environment_variables import TOKEN
from autotrascale.domain.errors import InputError

if TYPE_CHECKING:
    from types import FrameType

    from fastapi import FastAPI

    from autotrascale.web.api.server_state import ServerState

SWITCH_SECONDS = 0.001  # how long a computation may delay other requests; Python's default is five times as long
REQUIRED_PACKAGES = ("fastapi", "uvicorn", "prometheus_client", "mlflow", "jinja2", "plotly", "fastapi_offline")


@dataclass(frozen=True)
class ServerOptions:
    """Options of `autotrascale serve`.

    Args:
        configs: folder of the job files that may be tuned.
        host: address to listen on.
        port: port to listen on; 0: any free port.
        token_file: file of tokens; None: the environment variable, or no token on loopback.
        parallel_runs: most runs under way at a time.
        queue_limit: most runs that may wait.
        name: name of the server, under which its runs are found again; None: the machine's name.
        notify: file of notification targets.
        store: the value of `--store`.
    """

    configs: Path
    host: str
    port: int
    token_file: Path | None
    parallel_runs: int
    queue_limit: int
    name: str | None
    notify: Path | None
    store: str | None


def run_server(options: ServerOptions) -> None:
    """Serve until the process receives SIGINT or SIGTERM.

    Raises:
        InputError: an option is wrong, a package is missing, or the port or the server's name is in use.
    """
    check_installed()
    from autotrascale.app.notifications import Notifier, read_notifications
    from autotrascale.app.run_queue import server_log
    from autotrascale.app.run_queue.server_lock import hold_server_name
    from autotrascale.app.stores import require_store
    from autotrascale.web.api.job_catalog import JobCatalog
    from autotrascale.web.api.server_state import ServerState
    from autotrascale.web.api.tokens import read_tokens
    from autotrascale.web.app import create_app

    tokens = read_tokens(options.token_file)
    is_loopback = check_address(options.host, has_token=tokens is not None)
    server = check_name(options.name)
    notifier = Notifier(() if options.notify is None else read_notifications(options.notify), server_log.warning)
    catalog = JobCatalog(options.configs)
    store = require_store(options.store)
    server_log.configure()
    with hold_server_name(store, server, note) as own_store, bind_socket(options.host, options.port) as bound:
        for listed in catalog.all():
            if listed.problem:
                server_log.warning("job file cannot be used", job=listed.name, why=listed.problem)
        state = ServerState.of(own_store, catalog, server, options.parallel_runs, options.queue_limit)
        state.loops.notifier = notifier
        try:
            _serve(create_app(state, tokens, loopback=is_loopback), state, bound)
        finally:
            notifier.close()


def check_installed() -> None:
    """Raise InputError if a package of the extra [service] is missing."""
    missing = [package for package in REQUIRED_PACKAGES if not find_spec(package)]
    if missing:
        raise InputError(
            "serve", f"needs the packages {', '.join(missing)}", remedy="pip install 'autotrascale[service]'"
        )


def check_address(host: str, *, has_token: bool) -> bool:
    """Return whether `host` is a loopback address.

    Raises:
        InputError: `host` is not an address, or other machines can reach it although there is no token.
    """
    try:
        is_loopback = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        remedy = "use 127.0.0.1, ::1, 0.0.0.0 or an address of this machine"
        raise InputError("--host", "is not an address", seen=host, remedy=remedy) from None
    if not is_loopback and not has_token:
        raise InputError(
            "--host", "is open to other machines without a token", seen=host, remedy=f"give --token-file or set {TOKEN}"
        )
    return is_loopback


def check_name(name: str | None) -> str:
    """Return the server's name: `name`, else the machine's name with other characters replaced by dashes."""
    chosen = name or re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:64] or "server"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", chosen):
        raise InputError(
            "--name", "is not made of letters, digits, dots, dashes, underscores", seen=chosen, remedy="use another"
        )
    return chosen


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a bound socket. Binding first reports a port in use before anything starts."""
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
            remedy="use another port, or stop the program that has it",
        ) from None
    return bound


def _serve(app: FastAPI, state: ServerState, bound: socket.socket) -> None:
    import uvicorn

    from autotrascale.web.api.connections import BACKLOG, ConnectionLimits, configure_server

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            bound.listen(BACKLOG)
            gc.collect()
            gc.freeze()  # scanning all imported objects in each collection takes a tenth of a second
            address, port = bound.getsockname()[:2]
            note(f"listening on http://{f'[{address}]' if ':' in address else address}:{port}")

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            state.closing = True  # ends event streams, which would otherwise keep the server alive
            super().handle_exit(sig, frame)

    sys.setswitchinterval(SWITCH_SECONDS)
    Server(configure_server(app, ConnectionLimits.of_this_process())).run(sockets=[bound])
