"""How many bits of a sum count, and how one that does not fit is rounded."""

from __future__ import annotations

from mxspec.dot import Direction
from mxspec_conformance.judge.products.asking import Asker

#: The widest gap between two numbers that is tried.
_WIDEST = 44


def find_width(asker: Asker, places: tuple[int, int, int], k: int) -> int | None:
    """The widest gap at which a one still counts between a number and its negative; None where none is lost."""
    first, middle, last = places
    gaps = range(1, _WIDEST + 1)
    answers: dict[int, float] = {}
    for start in range(0, len(gaps), 16):
        batch = list(gaps[start : start + 16])
        kept = asker.ask([{first: (1, t), middle: (1, 0), last: (-1, t)} for t in batch], k)
        if kept is None:  # one by one, to the widest that can be written
            for t in batch:
                single = asker.ask([{first: (1, t), middle: (1, 0), last: (-1, t)}], k)
                if single is None:
                    break
                answers[t] = float(single[0])
            break
        answers |= dict(zip(batch, kept.tolist(), strict=True))
    lost = [t for t, answer in answers.items() if answer != 1]
    return min(lost) - 1 if lost else None


def find_rounding(asker: Asker, bits: int, k: int) -> Direction | None:
    """What becomes of 2^(bits + 1) plus one, and plus three, of either sign."""
    first, last = 0, k - 1
    base = 2.0 ** (bits + 1)
    sums = asker.ask([{first: (s, bits + 1), last: (s * number, 0)} for s in (1, -1) for number in (1, 3)], k)
    if sums is None:
        return None
    wanted = {
        Direction.NEAREST: (base, base + 4, -base, -base - 4), Direction.ZERO: (base, base + 2, -base, -base - 2),
        Direction.DOWN: (base, base + 2, -base - 2, -base - 4), Direction.UP: (base + 2, base + 4, -base, -base - 2),
    }  # fmt: skip
    return next((direction for direction, values in wanted.items() if tuple(sums.tolist()) == values), None)
