"""Which blocks a kit of some size holds: a greedy order in which every prefix finds as much as it can, as often as it can."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from mxspec_conformance.kits.golden import Block, list_blocks

SCHEMA = "mxspec-kit-choice/1"
#: Blocks of a format in a kit.
SIZES = (16, 70, 140)
#: The choice, by format: ids in order.
CHOSEN = Path(__file__).with_name("chosen.json")


def order_blocks(wanted: Iterable[Iterable[str]], count: int) -> list[str]:
    """At most `count` ids. wanted: for each mistake, the blocks that find it out.

    A block is worth the sum over the mistakes that it finds of 2^-n, where n blocks before it find them: once, then twice, and so on, as
    unseen mistakes resemble those that are found often. Of equal blocks the lowest id comes first.
    """
    sets = [frozenset(members) for members in wanted]
    holders: dict[str, list[int]] = {}
    for number, members in enumerate(sets):
        for member in members:
            holders.setdefault(member, []).append(number)
    times = [0] * len(sets)
    chosen: list[str] = []
    left = sorted(holders)
    while left and len(chosen) < count:
        best = max(left, key=lambda m: sum(0.5 ** times[n] for n in holders[m]))
        chosen.append(best)
        left.remove(best)
        for number in holders[best]:
            times[number] += 1
    return chosen


@lru_cache(maxsize=1)
def _chosen() -> dict[str, list[str]]:
    formats: dict[str, list[str]] = json.loads(CHOSEN.read_text("ascii"))["formats"]
    return formats


def chosen_formats() -> tuple[str, ...]:
    """The formats that kits exist for."""
    return tuple(_chosen())


def chosen_blocks(fmt: str, size: int) -> Sequence[Block]:
    """The blocks of a format's kit, in the order of the choice.

    Raises ValueError for a format without kit, or a size that is not offered.
    """
    if fmt not in _chosen():
        raise ValueError(f"no kit for {fmt}; there are kits for {', '.join(_chosen())}")
    if size not in SIZES:
        raise ValueError(f"no kit of {size} blocks; sizes are {', '.join(map(str, SIZES))}")
    known = {block["i"]: block for block in list_blocks(fmt)}
    return [known[name] for name in _chosen()[fmt][:size]]
