"""Clients of the HTTP service, and the service itself in a thread."""

from __future__ import annotations

import socket
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI
from starlette.exceptions import StarletteDeprecationWarning

from autotrascale.web.api.connections import ConnectionLimits, configure_server

with warnings.catch_warnings():  # it would rather have another HTTP library than the one that is widely there
    warnings.simplefilter("ignore", StarletteDeprecationWarning)
    from starlette.testclient import TestClient as TestClient

PATIENCE = 60.0


@contextmanager
def serving(app: FastAPI, limits: ConnectionLimits = ConnectionLimits()) -> Iterator[str]:  # noqa: B008 - frozen
    """Serve the application on loopback until the block ends, and yield its address."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        server = uvicorn.Server(configure_server(app, limits))
        thread = threading.Thread(target=server.run, args=([bound],))
        thread.start()
        try:
            until = time.monotonic() + PATIENCE
            while not server.started and thread.is_alive() and time.monotonic() < until:
                time.sleep(0.01)
            assert server.started, "the server does not start"
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
