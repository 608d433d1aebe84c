"""Small matrices on one thread: with ten to a hundred runs, threads of a BLAS cost more than they bring.

On a machine whose cores are busy, which is where a tuner runs, they cost ten times as much.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
R = TypeVar("R")


def on_one_thread(function: Callable[P, R]) -> Callable[P, R]:
    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        with _controller().limit(limits=1):
            return function(*args, **kwargs)

    return limited


@cache
def _controller() -> ThreadpoolController:
    """Looks for the loaded libraries once: that takes milliseconds, using it takes microseconds."""
    return ThreadpoolController()
