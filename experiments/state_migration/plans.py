"""The order of moves: all at once, one after the other, or as many at a time as do not conflict (Megaphone §5.1.2).

    symbol   meaning
    step     moves that are made together; the next step waits until all of them are done
    Δ        most bins that any one worker has to give, or to take

Two moves conflict if they have the same giver or the same taker: one waits for the transfer of the other, and so does
every record for its bin. A plan without conflicts has at least Δ steps, because the busiest worker has Δ moves.
Δ steps suffice: steps are the colours of the edges of a bipartite graph (givers, takers), which needs exactly as many
colours as the largest degree (König).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from experiments.state_migration.bins import Move

MoveStep = tuple[Move, ...]
MovePlan = tuple[MoveStep, ...]


def plan_all_at_once(moves: Sequence[Move]) -> MovePlan:
    """Return a plan of one step with all moves."""
    return (tuple(moves),) if moves else ()


def plan_fluid(moves: Sequence[Move]) -> MovePlan:
    """Return a plan with one bin in each step."""
    return tuple((move,) for move in moves)


def plan_batched(moves: Sequence[Move]) -> MovePlan:
    """Return the plan with the fewest steps and no conflict.

    Large bins are put into the same steps where that adds no step, because a step lasts as long as its largest move.
    """
    steps = _EdgeColouring(count_least_steps(moves))
    for move in sorted(moves, key=lambda move: (-move.size, move.bin)):
        steps.add(move)
    return tuple(tuple(sorted(step, key=lambda move: move.bin)) for step in steps.list_steps())


def count_least_steps(moves: Sequence[Move]) -> int:
    """Return Δ."""
    giving, taking = Counter(move.giver for move in moves), Counter(move.taker for move in moves)
    return max([*giving.values(), *taking.values()], default=0)


class _EdgeColouring:
    """The step of each move so far. A worker is two nodes of the graph: one as giver, one as taker."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._moves_of: dict[tuple[str, int], dict[int, Move]] = {}  # node → step → its move in that step

    def add(self, move: Move) -> None:
        giver, taker = ("gives", move.giver), ("takes", move.taker)
        free, other = self._first_free(giver), self._first_free(taker)
        if free != other:
            self._swap_path(taker, free, other)
        self._moves_of.setdefault(giver, {})[free] = move
        self._moves_of.setdefault(taker, {})[free] = move

    def list_steps(self) -> list[list[Move]]:
        steps = [
            [move for node, of in self._moves_of.items() if node[0] == "gives" and (move := of.get(step))]
            for step in range(self._count)
        ]
        return [step for step in steps if step]

    def _first_free(self, node: tuple[str, int]) -> int:
        busy = self._moves_of.get(node, {})
        return next(step for step in range(self._count) if step not in busy)

    def _swap_path(self, node: tuple[str, int], step: int, other: int) -> None:
        """Swap the two steps along the path of moves that alternate between them, starting at `node`.

        The path does not end at the giver, for which `step` is free: it could only arrive there by a move in `step`.
        """
        path, at, wanted = list[Move](), node, step
        while move := self._moves_of.get(at, {}).get(wanted):
            path.append(move)
            at = ("gives", move.giver) if at[0] == "takes" else ("takes", move.taker)
            wanted = other if wanted == step else step
        coloured = [(move, step if number % 2 == 0 else other) for number, move in enumerate(path)]
        for move, colour in coloured:
            for end in (("gives", move.giver), ("takes", move.taker)):
                del self._moves_of[end][colour]
        for move, colour in coloured:
            for end in (("gives", move.giver), ("takes", move.taker)):
                self._moves_of[end][other if colour == step else step] = move
