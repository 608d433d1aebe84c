"""Whether a second query, B, that is led through the batches of the first one, A, ever comes near enough to take over.

    symbol   meaning                                                             unit
    a        time from one batch that A commits to the next                      s
    c        what B takes for one of them                                        s
    b        how many A has committed and B has not                              0, 1, …
    t        until B has come up: b · c of its own, while A commits t / a more   s

t = b · c + t · c / a, so t = b · c / (1 - c / a); with c ≥ a there is none. B is near enough with one batch to go,
which it does while A does its last, or with so little that it is not noticed.

They go by rounds: in each, B does what A had committed at its begin. The first one carries B's start and the code that
is compiled for it, so nobody judges by it; a and c are those of all later ones together, in which one of A's batches
may be there by chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from autotrascale.plan import formatting

_NOT_NOTICED = 0.5  # seconds


@dataclass(frozen=True)
class CatchUpRound:
    seconds: float
    done: int  # batches that B did
    came: int  # batches that A committed meanwhile
    behind: int  # b, at its end

    @property
    def each(self) -> float:
        """c."""
        return self.seconds / self.done if self.done else math.inf

    @property
    def apart(self) -> float:
        """a."""
        return self.seconds / (self.came - 1) if self.came > 1 else math.inf


@dataclass(frozen=True)
class CatchUpStep:
    do: Literal["follow", "hand over", "give up"]
    why: str = ""  # of giving up


def decide_catch_up(rounds: Sequence[CatchUpRound], patience: float) -> CatchUpStep:
    """`patience`: the most seconds that following may take.

    >>> begun = Round(4.0, 3, came=5, behind=5)
    >>> next_step([begun], 60.0)
    Step(do='follow', why='')
    >>> next_step([begun, Round(2.0, 5, came=1, behind=1)], 60.0)
    Step(do='hand over', why='')
    >>> next_step([begun, Round(5.0, 5, came=11, behind=11)], 60.0).why
    'a batch comes each 500 ms and the second query takes 1.00 s for one: it would never come up'
    """
    if not rounds:
        return CatchUpStep("follow")
    found = _together(rounds[1:] or rounds)
    if found.behind <= 1 or found.behind * found.each <= _NOT_NOTICED:
        return CatchUpStep("hand over")
    left, had = estimate_left_seconds(found), sum(one.seconds for one in rounds)
    if had >= patience:
        return CatchUpStep(
            "give up",
            f"{formatting.format_seconds(had)} did not bring the second query up, {found.behind} batches behind",
        )
    if len(rounds) == 1 or left <= patience - had:
        return CatchUpStep("follow")
    apart, each = formatting.format_seconds(found.apart), formatting.format_seconds(found.each)
    when = "it would never come up" if left == math.inf else f"it would come up in {formatting.format_seconds(left)}"
    return CatchUpStep("give up", f"a batch comes each {apart} and the second query takes {each} for one: {when}")


def estimate_left_seconds(found: CatchUpRound) -> float:
    """t."""
    if found.each >= found.apart:
        return math.inf
    return found.behind * found.each / (1 - found.each / found.apart)


def _together(rounds: Sequence[CatchUpRound]) -> CatchUpRound:
    seconds, done, came = (sum(getattr(one, name) for one in rounds) for name in ("seconds", "done", "came"))
    return CatchUpRound(seconds, done, came, rounds[-1].behind)
