"""In which order bins move: all at once, one after the other, or as many at a time as do not get in each other's way
(Megaphone §5.1.2).

    symbol   meaning
    step     moves that are made together; the next step waits until all of them are done
    Δ        the most bins that any one worker has to give, or to take

Two moves are in conflict if they have the same giver or the same taker: one of them would wait for the other's
transfer, and every record for its bin with it. A plan without conflicts has at least Δ steps, since the busiest worker
has Δ moves, and Δ are enough: steps are the colours of the edges of a bipartite graph (givers, takers), and those need
exactly as many as the largest degree (König).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from experiments.state_migration.bins import Move

MoveStep = tuple[Move, ...]
MovePlan = tuple[MoveStep, ...]


def plan_all_at_once(moves: Sequence[Move]) -> MovePlan:
    return (tuple(moves),) if moves else ()


def plan_fluid(moves: Sequence[Move]) -> MovePlan:
    """A bin at a time."""
    return tuple((move,) for move in moves)


def plan_batched(moves: Sequence[Move]) -> MovePlan:
    """The fewest steps without a conflict. Large bins come into the same steps as far as that costs none: a step takes
    as long as its largest."""
    steps = _Steps(count_least_steps(moves))
    for move in sorted(moves, key=lambda move: (-move.size, move.bin)):
        steps.put(move)
    return tuple(tuple(sorted(step, key=lambda move: move.bin)) for step in steps.taken())


def count_least_steps(moves: Sequence[Move]) -> int:
    """Δ."""
    giving, taking = Counter(move.giver for move in moves), Counter(move.taker for move in moves)
    return max([*giving.values(), *taking.values()], default=0)


class _Steps:
    """The colours of the edges so far. A worker that gives is another node than the same worker when it takes."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._at: dict[tuple[str, int], dict[int, Move]] = {}  # node → step → the move it makes then

    def put(self, move: Move) -> None:
        giver, taker = ("gives", move.giver), ("takes", move.taker)
        free, other = self._first_free(giver), self._first_free(taker)
        if free != other:
            self._swap(taker, free, other)
        self._at.setdefault(giver, {})[free] = move
        self._at.setdefault(taker, {})[free] = move

    def taken(self) -> list[list[Move]]:
        steps = [
            [move for node, at in self._at.items() if node[0] == "gives" and (move := at.get(step))]
            for step in range(self._count)
        ]
        return [step for step in steps if step]

    def _first_free(self, node: tuple[str, int]) -> int:
        busy = self._at.get(node, {})
        return next(step for step in range(self._count) if step not in busy)

    def _swap(self, node: tuple[str, int], step: int, other: int) -> None:
        """Along the path of moves that are in these two steps in turn, from this node on: it ends elsewhere than at the
        giver, for which `step` is free, because a path that came there would come by a move in `step`."""
        path, at, wanted = list[Move](), node, step
        while move := self._at.get(at, {}).get(wanted):
            path.append(move)
            at = ("gives", move.giver) if at[0] == "takes" else ("takes", move.taker)
            wanted = other if wanted == step else step
        found = [(move, step if number % 2 == 0 else other) for number, move in enumerate(path)]
        for move, now in found:
            for end in (("gives", move.giver), ("takes", move.taker)):
                del self._at[end][now]
        for move, now in found:
            for end in (("gives", move.giver), ("takes", move.taker)):
                self._at[end][other if now == step else step] = move
