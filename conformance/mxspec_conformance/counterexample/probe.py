"""Asking whether one block is answered wrongly, in one pattern of calling: what shrinking and diagnosis are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mxspec_conformance.counterexample.calls import ask_blocks, ask_reused
from mxspec_conformance.counterexample.kinds import GARBLED, PatternKind
from mxspec_conformance.counterexample.mismatch import Part, find_wrong, find_wrong_special
from mxspec_conformance.counterexample.sample_space import Float32s, SampleSpace
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.sessions import TargetSession


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

    @property
    def words(self) -> str:
        """The pattern in words."""
        if self.kind is PatternKind.CALL:
            return f"as block {self.place} of a call of {self.blocks} (the others zero)"
        if self.kind is PatternKind.AMONG:
            lies = "" if self.arrangement == "contiguous" else f", from an input that lies in memory as {self.arrangement!r}"
            if self.width > 1 or self.axis == 0:
                line, place = divmod(self.place, self.width)
                lines = self.blocks // self.width
                whole = f"{lines} {self.line}{'' if lines == 1 else 's'} of {self.width}"
                return f"as block {place} of {self.line} {line} of a call of {whole}, beside the others{lies}"
            return f"as block {self.place} of a call of {self.blocks}, beside the others{lies}"
        if self.kind is PatternKind.ARRANGED:
            return f"from an input that lies in memory as {self.arrangement!r}"
        if self.kind is PatternKind.REUSED:
            return "from memory in which another input lay at the call before"
        if self.kind is PatternKind.WIDE:
            return f"as block {self.place} of a {self.line} of {self.width}"
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


class Prober:
    """Asks a target about blocks, and restarts it where its history matters."""

    def __init__(self, session: TargetSession, space: SampleSpace, restart: Callable[[], TargetSession] | None = None) -> None:
        self.session, self.space = session, space
        self._restart = restart
        #: The call's blocks for the pattern `among`.
        self.others: Float32s | None = None
        self.asked = 0

    def lay(self, block: Float32s, pattern: CallPattern) -> tuple[Float32s, int]:
        """The blocks [n, k] of the call, and which of them is the one meant."""
        k = self.space.fmt.k
        if pattern.kind in GARBLED:
            return np.stack([np.roll(block, 1), np.zeros_like(block), block]).astype(np.float32), 2
        if pattern.kind is PatternKind.AMONG:
            assert self.others is not None
            # Lanes that shrinking has made +0 become so in the others: what two blocks share goes from both.
            gone = (block.view(np.uint32) == 0) & (self.others[pattern.place].view(np.uint32) != 0)
            x = np.where(gone, np.float32(0), self.others).astype(np.float32)
            x[pattern.place] = block
            return x, pattern.place
        if pattern.kind is PatternKind.WIDE:
            x = np.zeros((pattern.width, k), np.float32)
            x[pattern.place] = block
            return x, pattern.place
        x = np.zeros((pattern.blocks, k), np.float32)
        x[pattern.place] = block
        return x, pattern.place

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

    def look(self, block: Float32s, pattern: CallPattern) -> ObservedMismatch | None:
        """What is wrong with one block [k], called in a pattern."""
        x, place = self.lay(block, pattern)
        return self.look_at(x, place, pattern)

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

    def twice(self, block: Float32s, pattern: CallPattern) -> ObservedMismatch | None:
        """The same, if it is seen in each of two calls."""
        return self.look(block, pattern) if self.look(block, pattern) is not None else None


def among(pattern: CallPattern, blocks: int, place: int) -> CallPattern:
    """The pattern of a call of so many blocks, or of a row of so many."""
    if pattern.kind is PatternKind.WIDE:
        return replace(pattern, width=blocks, place=place)
    return replace(pattern, kind=PatternKind.BLOCK if blocks == 1 else PatternKind.CALL, blocks=blocks, place=place)
