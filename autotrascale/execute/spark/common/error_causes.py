"""Reduce Spark's errors, which are pages long and in three languages, to the line that says what went wrong."""

from __future__ import annotations

import re
from pathlib import Path

PARENT_GONE, JVM_GONE = 3, 4
"""Exit codes of a driver process that AuTraScale started: its parent or its JVM ended."""

_MAX_CHARACTERS = 300
_PYTHON = re.compile(r"^(?:\w+\.)*(\w+(?:Error|Exception|Interrupt|Exit): .+)$", re.MULTILINE)
_CLASS = re.compile(r"^(?:Exception in thread .*?|Caused by: )?(?:[a-z_0-9]+\.)+(?=[A-Z]\w*)")
_NOISE = re.compile(
    r"^((?:Py4JJavaError: )?An error occurred while calling|Writing job aborted|Job aborted|\[STREAM_FAILED\]|=== )"
)
_KNOWN_CAUSES = (
    ("java.lang.OutOfMemoryError", "the JVM ran out of memory: raise spark.driver_memory"),
    ("java.net.BindException", "a port in Spark's settings is in use: choose another port"),
    ("No space left on device", "the disk is full: free some space"),
    ("waiting for the Python worker to connect back", "the machine is too busy: Python did not start within 10 s"),
    ("Cannot allocate memory", "the machine has no memory left: free some memory"),
)


def explain_error(text: str) -> str:
    """Return the innermost error of the user's Python, else the last cause that Java names, else the first line."""
    for sign, cause in _KNOWN_CAUSES:
        if sign in text:
            return cause
    if "Traceback (most recent call last)" in text:
        after = text[text.rindex("Traceback (most recent call last)") :]
        if found := _PYTHON.search(after):
            return _shorten(found.group(1))
    stripped = [line.strip().removeprefix(": ") for line in text.splitlines()]
    lines = [line for line in stripped if line and not line.startswith("at ")]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    reasons = [line for line in causes[::-1] + lines if not _NOISE.match(_CLASS.sub("", line))]
    return _shorten(_CLASS.sub("", reasons[0])) if reasons else "Spark gave no reason"


def explain_exit(code: int | None, log: Path, log_from: int = 0) -> str:
    """Return how a driver process ended, by its exit code and the end of its log.

    `log_from`: byte at which the log of this process begins.
    """
    tail = _read_tail(log, log_from)
    for sign, cause in _KNOWN_CAUSES:
        if sign in tail:
            return cause
    if code is not None and code < 0:
        return f"the driver was killed by signal {-code}"
    if code == JVM_GONE:
        return "the JVM ended by itself"
    return "the driver ended by itself" if code is None else f"the driver ended with exit code {code}"


def _read_tail(log: Path, begin: int, size: int = 20_000) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(begin, log.stat().st_size - size))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""


def _shorten(line: str) -> str:
    return line if len(line) <= _MAX_CHARACTERS else line[: _MAX_CHARACTERS - 3] + "..."
