"""Decide whether the second query of an overlap, which follows the batches of the first, catches up in time.

    symbol   meaning                                                                            unit
    a        time between two batches that the first query commits                              s
    c        time that the second query takes for a batch                                       s
    b        batches that the first query has committed and the second query has not            0, 1, …
    t        time until the second query has caught up                                          s

The first query commits t / a batches meanwhile: t = b · c + t · c / a, so t = b · c / (1 − c / a). With c ≥ a the
second query never catches up. One batch behind is near enough: the second query does it while the first query does its
last batch. So is a backlog that takes less than half a second.

The second query works in rounds. In each round it does the batches that were committed at its begin. The first round
includes the start of the query and the compilation of its code, so it is not used to estimate a and c, which come from
all later rounds together. One of the batches counted in a may be there by chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from autotrascale.plan.formatting import format_seconds

_NEGLIGIBLE_SECONDS = 0.5


@dataclass(frozen=True)
class CatchUpRound:
    """A round of the second query.

    Args:
        seconds: duration of the round.
        done: batches that the second query did.
        came: batches that the first query committed meanwhile.
        behind: b at the end of the round.
    """

    seconds: float
    done: int
    came: int
    behind: int

    @property
    def each(self) -> float:
        """Time of the second query for a batch (c), in seconds."""
        return self.seconds / self.done if self.done else math.inf

    @property
    def apart(self) -> float:
        """Time between two batches of the first query (a), in seconds."""
        return self.seconds / (self.came - 1) if self.came > 1 else math.inf


@dataclass(frozen=True)
class CatchUpStep:
    """The next step of the overlap. `why` is the reason of giving up."""

    do: Literal["follow", "hand over", "give up"]
    why: str = ""


def decide_catch_up(rounds: Sequence[CatchUpRound], patience: float) -> CatchUpStep:
    """Return the next step after `rounds`. `patience` is the longest time to follow, in seconds.

    >>> first = CatchUpRound(4.0, 3, came=5, behind=5)
    >>> decide_catch_up([first], 60.0)
    CatchUpStep(do='follow', why='')
    >>> decide_catch_up([first, CatchUpRound(2.0, 5, came=1, behind=1)], 60.0)
    CatchUpStep(do='hand over', why='')
    >>> decide_catch_up([first, CatchUpRound(5.0, 5, came=11, behind=11)], 60.0).why
    'a batch arrives every 500 ms and the second query takes 1.00 s for each: it never catches up'
    """
    if not rounds:
        return CatchUpStep("follow")
    total = _sum_rounds(rounds[1:] or rounds)
    if total.behind <= 1 or total.behind * total.each <= _NEGLIGIBLE_SECONDS:
        return CatchUpStep("hand over")
    left, spent = estimate_left_seconds(total), sum(one.seconds for one in rounds)
    if spent >= patience:
        why = f"after {format_seconds(spent)} the second query is still {total.behind} batches behind"
        return CatchUpStep("give up", why)
    if len(rounds) == 1 or left <= patience - spent:
        return CatchUpStep("follow")
    when = "it never catches up" if left == math.inf else f"it catches up in {format_seconds(left)}"
    apart, each = format_seconds(total.apart), format_seconds(total.each)
    why = f"a batch arrives every {apart} and the second query takes {each} for each: {when}"
    return CatchUpStep("give up", why)


def estimate_left_seconds(total: CatchUpRound) -> float:
    """Return t; infinite when the second query never catches up."""
    if total.each >= total.apart:
        return math.inf
    return total.behind * total.each / (1 - total.each / total.apart)


def _sum_rounds(rounds: Sequence[CatchUpRound]) -> CatchUpRound:
    seconds, done, came = (sum(getattr(one, name) for one in rounds) for name in ("seconds", "done", "came"))
    return CatchUpRound(seconds, done, came, rounds[-1].behind)
