"""Which blocks a kit of some size holds: a greedy order in which every prefix finds as much as it can, as often as it can."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import combinations, product
from pathlib import Path
from typing import Any

from mxspec_conformance.kits.golden import GROUPS, Block, list_blocks, list_flags

SCHEMA = "mxspec-kit-choice/1"
#: Blocks of a format in kits whose finds are measured, and the most that a kit holds.
SIZES = (16, 70, 140)
#: The choice by format, ids in order, and how many mutants the measured sizes find.
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
def _read() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(CHOSEN.read_text("ascii"))
    return document


def _chosen() -> dict[str, list[str]]:
    formats: dict[str, list[str]] = _read()["formats"]
    return formats


def chosen_formats() -> tuple[str, ...]:
    """The formats that kits exist for."""
    return tuple(_chosen())


def chosen_blocks(fmt: str, size: int) -> Sequence[Block]:
    """The blocks of a format's kit, in the order of the choice.

    Raises ValueError for a format without kit, or more blocks than are chosen.
    """
    if fmt not in (*_chosen(), *GROUPS):
        raise ValueError(f"no kit for {fmt}; there are kits for {', '.join((*_chosen(), *GROUPS))}")
    if not 0 < size <= SIZES[-1]:
        raise ValueError(f"no kit of {size} blocks; allowed are 1 to {SIZES[-1]}")
    known = {block["i"]: block for block in list_blocks(fmt)}
    return [known[name] for name in (_order_groups(fmt) if fmt in GROUPS else _chosen()[fmt])[:size]]


@lru_cache(maxsize=2)
def _order_groups(fmt: str) -> list[str]:
    """Blocks of FP8 in groups, which has no mutants of its own: chosen by the mistakes that cases are flagged with, and by pairs of rules that differ."""
    flags = list(list_flags(fmt).values())
    apart: dict[tuple[str, str], set[str]] = {}
    for block in list_blocks(fmt):
        for (one, _), (other, _) in combinations(block["a"], 2):
            for pair in product(one, other):
                apart.setdefault(pair, set()).add(block["i"])
    # Mistakes weigh as much as pairs of rules, of which each new rule brings many.
    return order_blocks([*flags * -(-len(apart) // len(flags)), *apart.values()], SIZES[-1])


def say_limits(formats: Iterable[str], size: int, *, calls: bool) -> str:
    """What a kit of so many blocks of each format does not detect, in sentences. calls: whether it has the call patterns."""
    at = max(s for s in SIZES if s <= max(size, SIZES[0]))
    shares, classes = [], []
    for fmt, entry in _read()["found"].items():
        if fmt in formats:
            missed = f"{entry['of'] - entry['found'][str(at)][calls]} of {entry['of']} mutants of {fmt}"
            others = f" and {entry['others'] - entry['found'][str(at)][2]} of {entry['others']} bugs by other authors" if calls else ""
            shares.append(missed + others)
            classes += [name for name in entry["missed"] if name not in classes]
    found = f"Not detected with {at} blocks: {'; '.join(shares)}" if shares else "How many mutants it detects has not been measured"
    kinds = f" (with {SIZES[-1]} blocks, of the classes {'; '.join(classes)})" if shares and calls else ""
    single = (
        ""
        if calls
        else " One call of a plain array is made: other sizes, views, 16-bit inputs, axes, tails, tiles and calls after each other are not seen."
    )
    return f"{found}{kinds}.{single} Not looked at: packed codes, swizzled scales, products, stochastic rounding, threads, streams, and memory next to the arrays."
