"""The tokens that let a client in, and whose they are. The file is read again while the server runs:

    # alice's next one is added first, and the old one is removed when all of hers are changed
    alice 9f2c…
    alice 51d0…
    77ab…

One token on each line, a name before it where there are several clients. A file that cannot be used any more is said
once, and the tokens of before stay good.
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
MIN_TOKEN_LENGTH = 16  # characters
MAX_FILE_BYTES = 100_000
UNNAMED = "the token"

_TOKEN = re.compile(r"[!-~]+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


class Tokens:
    """Kept as digests, so that no dump of this process' state shows them."""

    def __init__(self, known: dict[bytes, str], path: Path | None = None) -> None:
        self._known, self._path, self._problem = known, path, ""

    @classmethod
    def of(cls, *tokens: str) -> Tokens:
        return cls({_digest(token.encode()): UNNAMED for token in tokens})

    def owner(self, given: bytes) -> str | None:
        """Whose it is. All are compared, whichever fits."""
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
            server_log.warning("token file cannot be used: the tokens of before stay good", why=problem)
        elif known != self._known:
            server_log.info("tokens read again", count=len(known))
        self._known, self._problem = known, problem


def read_tokens(path: Path | None) -> Tokens | None:
    """From a file or the environment: a command line can be read by everybody on the machine."""
    if path is not None:
        return Tokens(_read(path), path)
    text = os.environ.pop(VARIABLE, "")  # the runs are not to inherit it
    return Tokens(_parse(text, VARIABLE)) if text else None


def _read(path: Path) -> dict[bytes, str]:
    try:
        text = read_text(path, MAX_FILE_BYTES)
    except InputError as error:
        raise InputError(
            str(path), f"cannot be read as a token: it {error.problem}", remedy="write one line of ASCII to it"
        ) from None
    return _parse(text, str(path))


def _parse(text: str, place: str) -> dict[bytes, str]:
    """Nothing of what a line holds is shown: it may be a token with a slip in it."""
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
                "names nobody in letters, digits, dots, dashes, underscores",
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
