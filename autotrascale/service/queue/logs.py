"""What the server and its workers say on stderr: one JSON object a line, its time, level and event first."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

NAME = "autotrascale.service"
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


def set_up(level: int = logging.INFO) -> None:
    """uvicorn's own lines too, but not one for each request: `/metrics` counts those."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    for name in (NAME, "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = ([handler] if name != "uvicorn.error" else []), name == "uvicorn.error"
        logger.setLevel(level)


def say(event: str, **fields: Any) -> None:
    _log.info(event, extra={"fields": fields})


def warn(event: str, **fields: Any) -> None:
    _log.warning(event, extra={"fields": fields})


def trace(event: str, **fields: Any) -> None:
    """Within an exception's handler: what nobody expected, with where it came from."""
    _log.exception(event, extra={"fields": fields})
