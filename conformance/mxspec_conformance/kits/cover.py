"""A greedy cover: the fewest members, nearly, that every set holds one of, or several."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def cover_greedily(wanted: Iterable[Iterable[T]], cost: Callable[[T], float] = lambda _: 1.0, *, times: int = 1) -> list[T]:
    """Members, in the order in which they were chosen, such that every set of `wanted` holds one of them.

    The member that covers most for its cost comes first; of equal ones the lowest by order, so that the result is always the same.
    times: how many members each set has to hold, or all that it has where it has fewer.
    """
    left = {number: frozenset(members) for number, members in enumerate(wanted)}
    if any(not members for members in left.values()):
        raise ValueError("an empty set cannot be covered")
    lacks = {number: min(times, len(members)) for number, members in left.items()}
    holders: dict[T, set[int]] = {}
    for number, members in left.items():
        for member in members:
            holders.setdefault(member, set()).add(number)
    chosen: list[T] = []
    while lacks:
        best = min(holders, key=lambda m: (-len(holders[m]) / cost(m), str(m)))
        chosen.append(best)
        for number in holders.pop(best):
            lacks[number] -= 1
            if lacks[number]:
                continue
            del lacks[number]
            for member in left[number] - {best}:
                if member in holders:
                    holders[member].discard(number)
                    if not holders[member]:
                        del holders[member]
    return chosen
