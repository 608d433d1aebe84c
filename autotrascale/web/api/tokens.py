"""Access tokens and the names of their owners. The token file is read again while the server runs:

    # to change a token, add the new one first and remove the old one when no client uses it
    alice 9f2c…
    alice 51d0…
    77ab…

A line has a token, with a name before it if there are several clients. If the file becomes unusable, the server says so
once and keeps the tokens that it has read before.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from pathlib import Path

from autotrascale.app import environment_variables
from autotrascale.app.run_queue import server_log
from autotrascale.domain.errors import InputError
from autotrascale.validation import read_text

VARIABLE = environment_variables.TOKEN
MIN_TOKEN_LENGTH = 16
MAX_FILE_BYTES = 100_000
UNNAMED = "the token"  # as the owner of a token without a name

_TOKEN = re.compile(r"[!-~]+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


class Tokens:
    """The tokens as digests, so that no dump of this process shows them."""

    def __init__(self, known: dict[bytes, str], path: Path | None = None) -> None:
        self._known, self._path, self._problem = known, path, ""

    @classmethod
    def of(cls, *tokens: str) -> Tokens:
        return cls({_digest(token.encode()): UNNAMED for token in tokens})

    def owner(self, given: bytes) -> str | None:
        """Return the owner of a token, or None. Takes the same time for every token."""
        digest, found = _digest(given), None
        for known, name in self._known.items():
            if hmac.compare_digest(known, digest):
                found = name
        return found

    def reread(self) -> None:
        if self._path is None:
            return
        try:
            known, problem = _read(self._path), ""
        except InputError as error:
            known, problem = self._known, str(error)
        if problem and problem != self._problem:
            server_log.warning("token file cannot be used: the earlier tokens stay valid", why=problem)
        elif known != self._known:
            server_log.info("tokens changed", count=len(known))
        self._known, self._problem = known, problem


def read_tokens(path: Path | None) -> Tokens | None:
    """Return the tokens of a file, or of the environment variable; None if there are none.

    There is no command-line option: every user of the machine can read command lines.
    """
    if path is not None:
        return Tokens(_read(path), path)
    text = os.environ.pop(VARIABLE, "")  # tuning processes shall not inherit it
    return Tokens(_parse(text, VARIABLE)) if text else None


def _read(path: Path) -> dict[bytes, str]:
    try:
        text = read_text(path, MAX_FILE_BYTES)
    except InputError as error:
        raise InputError(
            str(path), f"cannot be read as a token file: it {error.problem}", remedy="write one line of ASCII to it"
        ) from None
    return _parse(text, str(path))


def _parse(text: str, place: str) -> dict[bytes, str]:
    """Return owners by digest. Errors never show a line's content: it may be a mistyped token."""
    known: dict[bytes, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        name, token = words if len(words) == 2 else (UNNAMED, words[0])
        if len(words) > 2 or len(token) < MIN_TOKEN_LENGTH or not _TOKEN.fullmatch(token):
            raise InputError(
                f"{place}:{number}",
                f"holds no token of at least {MIN_TOKEN_LENGTH} printable characters",
                remedy="make one: openssl rand -hex 32",
            )
        if name != UNNAMED and not _NAME.fullmatch(name):
            raise InputError(
                f"{place}:{number}",
                "has a name with characters other than letters, digits, dots, dashes, underscores",
                remedy="write NAME TOKEN",
            )
        known[_digest(token.encode())] = name
    if not known:
        raise InputError(
            place,
            f"holds no token of at least {MIN_TOKEN_LENGTH} printable characters",
            remedy="make one: openssl rand -hex 32",
        )
    return known


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
