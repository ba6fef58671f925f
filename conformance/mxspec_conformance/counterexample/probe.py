"""Whether one block is answered wrongly in one call pattern: the question that shrinking and diagnosis repeat."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from mxspec_conformance.counterexample.calls import ask_blocks, ask_reused
from mxspec_conformance.counterexample.kinds import GARBLED, PatternKind
from mxspec_conformance.counterexample.mismatch import Part, find_wrong, find_wrong_special
from mxspec_conformance.counterexample.sample_space import Float32s, SampleSpace
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.sessions import TargetSession

Rows = npt.NDArray[Any]
#: What is wrong with an item.
Seen = TypeVar("Seen")


def bits_of(x: Rows) -> Rows:
    """The bits of an array as unsigned integers of the same size."""
    return x.view(f"u{x.itemsize}")


@dataclass(frozen=True, slots=True)
class CallPattern:
    """A pattern of calling: alone, among zeros, in other memory, as a later call."""

    kind: PatternKind = PatternKind.BLOCK
    #: Blocks of the call, and the block's place.
    blocks: int = 1
    place: int = 0
    arrangement: str = "contiguous"
    #: Blocks of a row, or of a column where the axis is 0.
    width: int = 1
    axis: int = -1
    #: The number of the call since the target was loaded (1: the first); 0: any.
    nth: int = 0
    #: What is called.
    item: str = "block"

    @property
    def words(self) -> str:
        """The pattern in words."""
        if self.kind is PatternKind.CALL:
            return f"as {self.item} {self.place} of a call of {self.blocks} (the others zero)"
        if self.kind is PatternKind.AMONG:
            lies = "" if self.arrangement == "contiguous" else f", from an input that lies in memory as {self.arrangement!r}"
            if self.width > 1 or self.axis == 0:
                line, place = divmod(self.place, self.width)
                lines = self.blocks // self.width
                whole = f"{lines} {self.line}{'' if lines == 1 else 's'} of {self.width}"
                return f"as {self.item} {place} of {self.line} {line} of a call of {whole}, together with the others{lies}"
            return f"as {self.item} {self.place} of a call of {self.blocks}, together with the others{lies}"
        if self.kind is PatternKind.ARRANGED:
            return f"from an input that lies in memory as {self.arrangement!r}"
        if self.kind is PatternKind.REUSED:
            return "from memory in which another input lay at the call before"
        if self.kind is PatternKind.WIDE:
            return f"as {self.item} {self.place} of a {self.line} of {self.width}"
        if self.kind is PatternKind.HISTORY:
            return f"in call {self.nth} after loading"
        return "alone"

    @property
    def size(self) -> int:
        """Blocks of the call, or of its row."""
        return self.width if self.kind is PatternKind.WIDE else self.blocks

    @property
    def line(self) -> str:
        """What blocks lie in."""
        return "column" if self.axis == 0 else "row"

    @property
    def flags(self) -> list[str]:
        """How a saved case says it."""
        return {
            PatternKind.ARRANGED: [f"call-arranged-{self.arrangement}"],
            PatternKind.REUSED: ["call-reused"],
            PatternKind.WIDE: [f"call-wide-{self.width}"] + ["call-axis-0"] * (self.axis == 0),
            PatternKind.AMONG: [f"call-wide-{self.width}"] * (self.width > 1)
            + ["call-axis-0"] * (self.axis == 0)
            + [f"call-arranged-{self.arrangement}"] * (self.arrangement != "contiguous"),
            PatternKind.HISTORY: [f"call-repeated-{self.nth}"],
        }.get(self.kind, [])


@dataclass(frozen=True, slots=True)
class ObservedMismatch:
    """A wrong block: what differs, as `Mismatch` tells it."""

    part: Part
    lane: int
    want_scale: int
    got_scale: int
    expected: int
    returned: int
    #: What was returned for the block.
    scale: int
    codes: tuple[int, ...]


class CallProber(ABC, Generic[Seen]):
    """Calls a target with one item (a block, a code, a number), a row of the array of a call."""

    #: The call's items for the pattern `among`.
    others: Rows | None = None

    def lay(self, item: Rows, pattern: CallPattern) -> tuple[Rows, int]:
        """The items [n, ...] of the call, and which of them is the one meant."""
        if pattern.kind in GARBLED:
            return np.stack([np.roll(item, 1), np.zeros_like(item), item]), 2
        if pattern.kind is PatternKind.AMONG:
            assert self.others is not None
            # Lanes that shrinking has made +0 become so in the others: what two items share goes from both.
            gone = (bits_of(item) == 0) & (bits_of(self.others[pattern.place]) != 0)
            x = np.where(gone, np.zeros((), item.dtype), self.others)
        else:
            x = np.zeros((pattern.size, *item.shape), item.dtype)
        x[pattern.place] = item
        return x, pattern.place

    @abstractmethod
    def look_at(self, x: Rows, place: int, pattern: CallPattern) -> Seen | None:
        """What is wrong with item `place` of a call."""

    def look(self, item: Rows, pattern: CallPattern) -> Seen | None:
        """What is wrong with one item, called in a pattern."""
        return self.look_at(*self.lay(item, pattern), pattern)

    def twice(self, item: Rows, pattern: CallPattern) -> Seen | None:
        """The same, if it is seen in each of two calls."""
        return self.look(item, pattern) if self.look(item, pattern) is not None else None


class Prober(CallProber[ObservedMismatch]):
    """Calls a target with blocks, and restarts it where its history matters."""

    def __init__(self, session: TargetSession, space: SampleSpace, restart: Callable[[], TargetSession] | None = None) -> None:
        self.session, self.space = session, space
        self._restart = restart
        self.asked = 0

    def answer(self, x: Float32s, pattern: CallPattern) -> tuple[Any, Any] | None:
        """Scales [n] and codes [n, k], or None where the target does not answer."""
        self.asked += 1
        try:
            if pattern.kind is PatternKind.REUSED:
                return ask_reused(self.session, self.space, x)
            if pattern.kind is PatternKind.HISTORY:
                if self._restart is None:
                    return None
                fresh = self._restart()
                try:
                    for _ in range(pattern.nth - 1):
                        ask_blocks(fresh, self.space, x)
                    return ask_blocks(fresh, self.space, x)
                finally:
                    fresh.close()
            return ask_blocks(self.session, self.space, x, width=pattern.width, axis=pattern.axis, arrangement=pattern.arrangement)
        except CallError:
            return None

    def look_at(self, x: Float32s, place: int, pattern: CallPattern) -> ObservedMismatch | None:
        """What is wrong with block `place` of a call."""
        got = self.answer(x, pattern)
        if got is None:
            return None
        block = x[place : place + 1]
        scales, codes = self.space.expect(block)
        want = scales.reshape(-1), codes
        own = got[0][place : place + 1], got[1][place : place + 1]
        plain = bool(np.isfinite(block).all() and block.any())
        wrong = (find_wrong if plain else find_wrong_special)(self.space, block, want, own)
        if wrong is None:
            return None
        part, lane = Part.SCALE, -1
        if not wrong.scale[0]:
            lanes = wrong.codes[0] if wrong.codes[0].any() else wrong.signs[0]
            part = Part.CODE if wrong.codes[0].any() else Part.ZERO_SIGN
            lane = int(np.argmax(lanes))
        return ObservedMismatch(
            part=part, lane=lane, want_scale=int(want[0][0]), got_scale=int(own[0][0]),
            expected=int(wrong.expected[0, lane]) if lane >= 0 else int(want[0][0]),
            returned=int(own[1][0, lane]) if lane >= 0 else int(own[0][0]),
            scale=int(own[0][0]), codes=tuple(int(c) for c in own[1][0]),
        )  # fmt: skip


def among(pattern: CallPattern, blocks: int, place: int) -> CallPattern:
    """The pattern of a call of so many blocks, or of a row of so many."""
    if pattern.kind is PatternKind.WIDE:
        return replace(pattern, width=blocks, place=place)
    return replace(pattern, kind=PatternKind.BLOCK if blocks == 1 else PatternKind.CALL, blocks=blocks, place=place)
