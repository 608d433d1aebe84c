"""Spark's errors, pages long and in three languages, as the one line that says what went wrong."""

from __future__ import annotations

import re
from pathlib import Path

PARENT_GONE, JVM_GONE = 3, 4
"""Exit codes of a host."""

_LONGEST = 300
_PYTHON = re.compile(r"^(?:\w+\.)*(\w+(?:Error|Exception|Interrupt|Exit): .+)$", re.MULTILINE)
_CLASS = re.compile(r"^(?:Exception in thread .*?|Caused by: )?(?:[a-z_0-9]+\.)+(?=[A-Z]\w*)")
_NOISE = re.compile(
    r"^((?:Py4JJavaError: )?An error occurred while calling|Writing job aborted|Job aborted|\[STREAM_FAILED\]|=== )"
)
_TELLING = (
    ("java.lang.OutOfMemoryError", "the JVM ran out of memory: raise spark.driver_memory"),
    ("java.net.BindException", "a port that Spark was told to use is taken"),
    ("No space left on device", "the disk is full"),
    ("waiting for the Python worker to connect back", "the machine is too busy: Python did not start within 10 s"),
    ("Cannot allocate memory", "the machine has no memory left"),
)


def explain_error(text: str) -> str:
    """The deepest error of the user's own Python, where there is one; else the last cause that Java names; else the
    first line."""
    for sign, words in _TELLING:
        if sign in text:
            return words
    if "Traceback (most recent call last)" in text:
        after = text[text.rindex("Traceback (most recent call last)") :]
        if found := _PYTHON.search(after):
            return _short(found.group(1))
    stripped = [line.strip().removeprefix(": ") for line in text.splitlines()]
    lines = [line for line in stripped if line and not line.startswith("at ")]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    reasons = [line for line in causes[::-1] + lines if not _NOISE.match(_CLASS.sub("", line))]
    return _short(_CLASS.sub("", reasons[0])) if reasons else "no reason was given"


def explain_exit(code: int | None, log: Path, log_from: int = 0) -> str:
    """How a host came to its end, from its exit code and the tail of its log, which begins at `log_from`."""
    tail = _tail(log, log_from)
    for sign, words in _TELLING:
        if sign in tail:
            return words
    if code is not None and code < 0:
        return f"the host was killed by signal {-code}"
    if code == JVM_GONE:
        return "the JVM ended by itself"
    return "the host ended by itself" if code is None else f"the host ended with exit code {code}"


def _tail(log: Path, begin: int, size: int = 20_000) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(begin, log.stat().st_size - size))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""


def _short(line: str) -> str:
    return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."
