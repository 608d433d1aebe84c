"""Questions on a terminal, each with a default. Without a terminal the defaults are used, and the job file says so."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

from autotrascale.app.console import note
from autotrascale.domain.errors import InputError

T = TypeVar("T")


class Prompts:
    """Asks questions. `assumed` lists the options whose default was used without asking."""

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_quiet = is_quiet or not sys.stdin.isatty()
        self.assumed: list[str] = []

    def ask(self, option: str, question: str, given: T | None, default: T, parse: Callable[[str], T]) -> T:
        """Return the value of an option: as given, else as answered, else the default.

        Args:
            option: name of the option.
            question: text of the question.
            given: value on the command line.
            default: value for an empty answer.
            parse: reads an answer; an InputError is printed and the question is asked again.

        Raises:
            InputError: the input ended before an answer.
        """
        if given is not None:
            return given
        while not self._is_quiet:
            print(f"{question} [{_format_default(default)}]: ", end="", file=sys.stderr, flush=True)
            line = sys.stdin.readline()
            if not line:
                remedy = f"give {option}, or --yes to use the default"
                raise InputError(option, "has no answer, as the input ended", remedy=remedy)
            if not line.strip():
                return default
            try:
                return parse(line.strip())
            except InputError as error:
                note(str(error))
        self.assumed.append(option)
        return default


def number_parser(option: str) -> Callable[[str], float]:
    """Return a parser of numbers whose errors name `option`."""

    def parse(text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise InputError(option, "is not a number", seen=text, remedy="write a number such as 2.5") from None

    return parse


def count_parser(option: str) -> Callable[[str], int]:
    """Return a parser of whole numbers from 1 whose errors name `option`."""

    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < 1:
            raise InputError(option, "is not a whole number of at least 1", seen=text, remedy="write one such as 8")
        return int(text)

    return parse


def parse_names(text: str) -> tuple[str, ...]:
    """Return names that are separated by spaces or commas."""
    return tuple(text.replace(",", " ").split())


def _format_default(default: object) -> str:
    if isinstance(default, tuple):
        return " ".join(str(each) for each in default)
    return f"{default:g}" if isinstance(default, float) else str(default or "none")
