"""Log of the server and its workers on stderr: one JSON object a line, with time, level and event first."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

NAME = "autotrascale.server"
REPEAT_SECONDS = 60.0
_log = logging.getLogger(NAME)


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            fields["trace"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


class _RateLimit(logging.Filter):
    """Passes each warning of uvicorn about a malformed request once a minute, so that no client can fill the disk."""

    LIMITED = ("Invalid HTTP request", "Unsupported upgrade", "No supported WebSocket", "socket.accept() out of")

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = next((start for start in self.LIMITED if record.getMessage().startswith(start)), None)
        if kind is None or record.created - self._last.get(kind, 0.0) >= REPEAT_SECONDS:
            self._last[kind or ""] = record.created
            return True
        return False


def configure(level: int = logging.INFO) -> None:
    """Log to stderr, uvicorn's messages included, but no line for each request: `/metrics` counts requests."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    for name in (NAME, "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = ([handler] if name != "uvicorn.error" else []), name == "uvicorn.error"
        logger.setLevel(level)
    logging.getLogger("uvicorn.error").addFilter(_RateLimit())
    logging.getLogger("asyncio").addFilter(_RateLimit())


def info(event: str, **fields: Any) -> None:
    _log.info(event, extra={"fields": fields})


def warning(event: str, **fields: Any) -> None:
    _log.warning(event, extra={"fields": fields})


def exception(event: str, **fields: Any) -> None:
    """Log an unexpected error with its traceback, from within an exception handler."""
    _log.exception(event, extra={"fields": fields})
