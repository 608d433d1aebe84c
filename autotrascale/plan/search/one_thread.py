"""Run linear algebra of small matrices on one thread.

With ten to a hundred runs, the threads of a BLAS library cost more time than they save. On a busy machine they take ten
times as long.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
R = TypeVar("R")


def on_one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Return `function`, limited to one BLAS thread while it runs."""

    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        with _controller().limit(limits=1):
            return function(*args, **kwargs)

    return limited


@cache
def _controller() -> ThreadpoolController:
    # Finding the loaded libraries takes milliseconds, limiting them takes microseconds.
    return ThreadpoolController()
