"""Testing what the proof rests on: a lane's code, and the block's scale, are the same whatever else the call holds.

Pairs of a maximum and an element are drawn where codes and scales change. Each is tested alone, the other lanes zero; then with
other lanes replaced, in every position, among other blocks, in calls of other sizes, again, and from arrays that lie
otherwise in memory. The target is compared with itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec_conformance.proving.answers import PairAnswers
from mxspec_conformance.proving.pairs import Patterns
from mxspec_conformance.targets.capabilities import ARRANGEMENTS, Capabilities
from mxspec_conformance.targets.errors import CallError, FailureKind

#: Pairs that are drawn.
PAIRS = 512
#: Sizes, in blocks, of the calls in which the same blocks are tested.
CALL_SIZES = (1, 2, 3, 5, 7, 8, 9, 16, 31, 33, 64, 127, 128, 129, 255, 257, 511, 512, 513, 1025, 4097)

#: Blocks to a row of the calls that hold many: few, as many as there are rows, powers of two with a neighbour, all in one row.
WIDTHS = (2, 3, 5, 8, 16, 33, 64, 128, 256, 512)
#: Blocks below each other, along the first axis.
DEPTHS = (1, 2, 3, 16, 64)

#: How a target refuses a call.
REFUSALS = (FailureKind.ERROR, FailureKind.UNSUPPORTED)
#: What no context tries, whatever the target offers.
NOT_VARIED = ("threads", "calls in other formats before", "rows that end within a block")

Ask = Callable[..., tuple[Any, Any]]


@dataclass(slots=True)
class Independence:
    """What was tried, and what broke."""

    #: Context -> comparisons of a lane with itself elsewhere.
    compared: dict[str, int] = field(default_factory=dict)
    broken: dict[str, int] = field(default_factory=dict)
    #: The first block that answered otherwise, as patterns, with words.
    first: dict[str, Any] | None = None
    #: What was not tried, and why.
    left_out: list[str] = field(default_factory=list)

    def enter(self, context: str, wrong: npt.NDArray[np.bool_], blocks: Patterns, words: str) -> None:
        """Count comparisons, one for each block."""
        self.compared[context] = self.compared.get(context, 0) + len(wrong)
        if wrong.any():
            self.broken[context] = self.broken.get(context, 0) + int(wrong.sum())
            if self.first is None:
                row = int(np.argmax(wrong))
                self.first = {
                    "context": context, "words": f"{words} (block {row} of {len(wrong)})",
                    "block": "".join(f"{int(p):04x}" for p in blocks[row]),
                }  # fmt: skip


def draw_pairs(answers: PairAnswers, rng: np.random.Generator, count: int = PAIRS) -> tuple[Patterns, Patterns]:
    """Signed maxima and elements: maxima over all binades, elements at, below and above places where the code changes."""
    space = answers.space
    maxima = (np.linspace(1, space.largest, count).astype(np.int64) + rng.integers(-60, 60, count)).clip(1, space.largest)
    elements = np.empty(count, np.int64)
    for i, m in enumerate(maxima.tolist()):
        row = answers.row(m)[: m + 1]
        steps = np.flatnonzero(row[1:] != row[:-1]) + 1
        chosen = rng.choice(steps) + rng.integers(-1, 2) if steps.size and i % 4 else rng.integers(0, m + 1)
        elements[i] = min(int(chosen), m)
    signs = rng.integers(0, 2, (2, count)) << 15
    return (maxima | signs[0]).astype(np.uint16), (elements | signs[1]).astype(np.uint16)


def probe_lanes(capabilities: Capabilities, answers: PairAnswers, ask: Ask, seed: int) -> Independence:
    """Try every context.

    ask: blocks of patterns [n, k] -> (scales [n], codes [n, k]); takes an arrangement in memory, `width`: so many to a row, and `axis`.
    """
    rng = np.random.default_rng(seed)
    maxima, elements = draw_pairs(answers, rng)
    n, k = len(maxima), answers.space.k
    found = Independence()
    alone = np.zeros((n, k), np.uint16)
    places = np.stack([rng.permutation(k)[:2] for _ in range(n)])
    index = np.arange(n)
    alone[index, places[:, 0]], alone[index, places[:, 1]] = maxima, elements
    scales, codes = ask(alone)
    reference = np.stack([scales, codes[index, places[:, 0]], codes[index, places[:, 1]]])

    def check(context: str, blocks: Patterns, where: npt.NDArray[Any], pairs: npt.NDArray[Any], words: str) -> None:
        scales, codes = ask(blocks)
        rows = np.arange(len(blocks))
        now = np.stack([scales, codes[rows, where[:, 0]], codes[rows, where[:, 1]]])
        found.enter(context, (now != reference[:, pairs]).any(axis=0), blocks, words)

    for name, others in _other_lanes(maxima, elements, k, rng):
        blocks = others.copy()
        blocks[index, places[:, 0]], blocks[index, places[:, 1]] = maxima, elements
        check("other lanes", blocks, places, index, f"the other lanes {name} change what a lane becomes")
    for shift in (1, 2, 5, k // 2, k - 1):
        pairs = np.repeat(index, k)
        where = np.stack([np.tile(np.arange(k), n), (np.tile(np.arange(k), n) + shift) % k], axis=1)
        blocks = np.zeros((n * k, k), np.uint16)
        blocks[np.arange(n * k), where[:, 0]] = maxima[pairs]
        blocks[np.arange(n * k), where[:, 1]] = elements[pairs]
        check("positions", blocks, where, pairs, "the pair at other positions becomes something else")
    mixed = _draw_lanes(maxima, k, rng)
    mixed[index, places[:, 0]], mixed[index, places[:, 1]] = maxima, elements
    whole_scales, whole = ask(mixed)

    def compare(context: str, part: Any, words: str, got: tuple[Any, Any], codes: Any = whole) -> None:
        wrong = (got[0] != whole_scales[part]) | (got[1] != codes[part]).any(axis=1)
        found.enter(context, wrong, mixed[part], words)

    order = np.stack([rng.permutation(k) for _ in range(n)])
    moved = ask(np.take_along_axis(mixed, order, axis=1))
    words = "the block's lanes in another order become something else"
    compare("permutations", slice(None), words, moved, np.take_along_axis(whole, order, axis=1))
    for size in CALL_SIZES:
        rows = np.resize(rng.permutation(n), max(size, min(4 * size, 257)) // size * size)
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            compare("call sizes", part, f"a call of {size} blocks gives something else", ask(mixed[part]))
    compare("again", slice(None), "the same call again gives something else", ask(mixed))
    # The same blocks several to a row, and along the first axis; a target may refuse them.
    places_of = [("rows of several blocks", width, -1) for width in WIDTHS]
    if capabilities.has("quantize", "axis"):
        places_of += [("the first axis", depth, 0) for depth in DEPTHS]
    else:
        found.left_out.append("the axis (not offered)")
    for context, count, axis in places_of:
        cut = slice(n // count * count)
        try:
            got = ask(mixed[cut], width=count, axis=axis)
        except CallError as failure:
            if failure.kind not in REFUSALS:
                raise
            found.left_out.append(f"{context}, {count} (refused)")
            continue
        lines = f"{count} blocks to a row" if axis == -1 else f"columns of {count} block{'s' * (count > 1)}"
        compare(context, cut, f"{lines} give something else", got)
    for arrangement in ARRANGEMENTS[1:-1]:
        try:
            got = ask(mixed, "arranged", arrangement)
        except CallError:  # it may refuse arrays that are not contiguous
            found.left_out.append(f"inputs that lie in memory as {arrangement!r} (refused)")
            continue
        compare("memory", slice(None), f"inputs that lie otherwise in memory ({arrangement}) give something else", got)
    found.left_out += NOT_VARIED
    return found


def _draw_lanes(maxima: Patterns, k: int, rng: np.random.Generator) -> Patterns:
    """Blocks [n, k] of any lanes up to their maxima."""
    shape = (len(maxima), k)
    drawn = (rng.random(shape) * ((maxima & 0x7FFF).astype(np.int64)[:, None] + 1)).astype(np.int64)
    return (drawn | rng.integers(0, 2, shape) << 15).astype(np.uint16)


def _other_lanes(maxima: Patterns, elements: Patterns, k: int, rng: np.random.Generator) -> Iterator[tuple[str, Patterns]]:
    n = len(maxima)
    for number in range(3):
        yield f"(any, {number})", _draw_lanes(maxima, k, rng)
    yield "(the maximum with the other sign)", np.repeat((maxima ^ 0x8000)[:, None], k, axis=1)
    yield "(the same element)", np.repeat(elements[:, None], k, axis=1)
    yield "(the element with the other sign)", np.repeat((elements ^ 0x8000)[:, None], k, axis=1)
    yield "(-0)", np.full((n, k), 0x8000, np.uint16)
    near = ((maxima & 0x7FFF).astype(np.int64)[:, None] - rng.integers(0, 3, (n, k))).clip(0)
    yield "(just below the maximum)", (near | rng.integers(0, 2, (n, k)) << 15).astype(np.uint16)
    yield "(the smallest subnormal)", np.ones((n, k), np.uint16)
