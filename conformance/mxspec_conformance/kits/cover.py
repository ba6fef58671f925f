"""A greedy cover: the fewest members, nearly, that every set holds one of."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def cover_greedily(wanted: Iterable[Iterable[T]], cost: Callable[[T], float] = lambda _: 1.0) -> list[T]:
    """Members, in the order in which they were chosen, such that every set of `wanted` holds one of them.

    The member that covers most for its cost comes first; of equal ones the lowest by order, so that the result is always the same.
    """
    left = {number: frozenset(members) for number, members in enumerate(wanted)}
    if any(not members for members in left.values()):
        raise ValueError("an empty set cannot be covered")
    holders: dict[T, set[int]] = {}
    for number, members in left.items():
        for member in members:
            holders.setdefault(member, set()).add(number)
    chosen: list[T] = []
    while left:
        best = min(holders, key=lambda m: (-len(holders[m]) / cost(m), str(m)))
        chosen.append(best)
        for number in list(holders[best]):
            for member in left.pop(number):
                holders[member].discard(number)
                if not holders[member]:
                    del holders[member]
    return chosen
