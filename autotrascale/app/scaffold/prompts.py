"""A few questions on a terminal, each with what is usual: return takes that. Where nobody sits there, what is usual is
taken without asking, and the job file says so."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

from autotrascale.app.console import note
from autotrascale.domain.errors import InputError

T = TypeVar("T")


class Prompts:
    """`assumed` are the options that nobody gave or answered."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet or not sys.stdin.isatty()
        self.assumed: list[str] = []

    def ask(self, option: str, question: str, given: T | None, usual: T, read: Callable[[str], T]) -> T:
        """`read` refuses what is no answer; then it is asked again."""
        if given is not None:
            return given
        while not self._quiet:
            answer = self._answer(f"{question} [{_shown(usual)}]: ", option).strip()
            if not answer:
                return usual
            try:
                return read(answer)
            except InputError as error:
                note(str(error))
        self.assumed.append(option)
        return usual

    @staticmethod
    def _answer(prompt: str, option: str) -> str:
        print(prompt, end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            raise InputError(option, "has no answer: the input ended", remedy=f"give {option}, or --yes for the usual")
        return line


def number_parser(option: str) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise InputError(option, "is no number", seen=text, remedy="write one, such as 2.5") from None

    return read


def count_parser(option: str) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < 1:
            raise InputError(option, "is no whole number from 1", seen=text, remedy="write one, such as 8")
        return int(text)

    return read


def parse_names(text: str) -> tuple[str, ...]:
    return tuple(text.replace(",", " ").split())


def _shown(usual: object) -> str:
    if isinstance(usual, tuple):
        return " ".join(str(each) for each in usual)
    return f"{usual:g}" if isinstance(usual, float) else str(usual or "none")
