"""What the server and its workers say on stderr: one JSON object a line, its time, level and event first."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

NAME = "autotrascale.service"
MINUTE = 60.0
_log = logging.getLogger(NAME)


class _Lines(logging.Formatter):
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


class _NowAndThen(logging.Filter):
    """What uvicorn says of single requests that are none, once a minute: a client must not be able to fill a disk."""

    OF_REQUESTS = ("Invalid HTTP request", "Unsupported upgrade", "No supported WebSocket", "socket.accept() out of")

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = next((words for words in self.OF_REQUESTS if record.getMessage().startswith(words)), None)
        if kind is None or record.created - self._said.get(kind, 0.0) >= MINUTE:
            self._said[kind or ""] = record.created
            return True
        return False


def configure(level: int = logging.INFO) -> None:
    """uvicorn's own lines too, but not one for each request: `/metrics` counts those."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    for name in (NAME, "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = ([handler] if name != "uvicorn.error" else []), name == "uvicorn.error"
        logger.setLevel(level)
    logging.getLogger("uvicorn.error").addFilter(_NowAndThen())
    logging.getLogger("asyncio").addFilter(_NowAndThen())


def info(event: str, **fields: Any) -> None:
    _log.info(event, extra={"fields": fields})


def warning(event: str, **fields: Any) -> None:
    _log.warning(event, extra={"fields": fields})


def exception(event: str, **fields: Any) -> None:
    """Within an exception's handler: what nobody expected, with where it came from."""
    _log.exception(event, extra={"fields": fields})
