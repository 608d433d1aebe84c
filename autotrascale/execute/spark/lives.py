"""The lives of one application, each with settings of its own, as values: of a program that is adopted and of a job of ours.

A life that replaced another is on trial until some time after its first batches. Should it fail or not come up, the next
one has the settings of before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Next:
    """The settings of a life to come, for which action on sizes. `within`: so many seconds it may take until its first
    batches are done; `trial`: for so long after them it is started with the settings of before, should it fail."""

    action: int
    settings: Mapping[str, str]
    within: float
    trial: float


@dataclass(frozen=True)
class Life:
    """The present one. `why` it was given the settings of before again, if it was, and how often that was tried;
    `left_at`: when the queries of the one before had stopped."""

    number: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    action: int = 0
    why: str = ""
    former: Mapping[str, str] | None = None
    left_at: float | None = None
    within: float = 0.0
    trial: float = 0.0
    tries: int = 1


@dataclass(frozen=True)
class Arrived:
    """The first batches of a life were done."""

    at: float
