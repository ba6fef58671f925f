"""Asking whether one block is answered wrongly, in one way of calling: what shrinking and diagnosis are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mxspec_conformance.counterexample.calls import ask_blocks, ask_reused
from mxspec_conformance.counterexample.mismatch import find_wrong, find_wrong_special
from mxspec_conformance.counterexample.sample_space import Float32s, Ground
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.sessions import TargetSession


@dataclass(frozen=True, slots=True)
class Way:
    """A way of calling: alone, among zeros, in other memory, as a later call."""

    #: `block`, `call`, `among`, `arranged`, `reused`, `wide`, `history`.
    kind: str = "block"
    #: Blocks of the call, and the block's place.
    blocks: int = 1
    place: int = 0
    arrangement: str = "contiguous"
    width: int = 1
    #: The number of the call since the target was loaded (1: the first); 0: any.
    nth: int = 0

    @property
    def words(self) -> str:
        """The way in words."""
        if self.kind == "call":
            return f"as block {self.place} of a call of {self.blocks} (the others zero)"
        if self.kind == "among":
            return f"as block {self.place} of a call of {self.blocks}, beside the others"
        if self.kind == "arranged":
            return f"from an input that lies in memory as {self.arrangement!r}"
        if self.kind == "reused":
            return "from memory in which another input lay at the call before"
        if self.kind == "wide":
            return f"as block {self.place} of a row of {self.width}"
        if self.kind == "history":
            return f"in call {self.nth} after loading"
        return "alone"

    @property
    def flags(self) -> list[str]:
        """How a saved case says it."""
        return {
            "arranged": [f"call-arranged-{self.arrangement}"],
            "reused": ["call-reused"],
            "wide": [f"call-wide-{self.width}"],
            "history": [f"call-repeated-{self.nth}"],
        }.get(self.kind, [])


@dataclass(frozen=True, slots=True)
class Seen:
    """A wrong block: what differs, as `Sighting` tells it."""

    part: str
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

    def __init__(self, session: TargetSession, ground: Ground, restart: Callable[[], TargetSession] | None = None) -> None:
        self.session, self.ground = session, ground
        self._restart = restart
        #: The call's blocks for the way `among`.
        self.others: Float32s | None = None
        self.asked = 0

    def lay(self, block: Float32s, way: Way) -> tuple[Float32s, int]:
        """The blocks [n, k] of the call, and which of them is the one meant."""
        k = self.ground.fmt.k
        if way.kind in ("arranged", "reused"):
            return np.stack([np.roll(block, 1), np.zeros_like(block), block]).astype(np.float32), 2
        if way.kind == "among":
            assert self.others is not None
            # Lanes that shrinking has made +0 become so in the others: what two blocks share goes from both.
            gone = (block.view(np.uint32) == 0) & (self.others[way.place].view(np.uint32) != 0)
            x = np.where(gone, np.float32(0), self.others).astype(np.float32)
            x[way.place] = block
            return x, way.place
        if way.kind == "wide":
            x = np.zeros((way.width, k), np.float32)
            x[way.place] = block
            return x, way.place
        x = np.zeros((way.blocks, k), np.float32)
        x[way.place] = block
        return x, way.place

    def answer(self, x: Float32s, way: Way) -> tuple[Any, Any] | None:
        """Scales [n] and codes [n, k], or None where the target does not answer."""
        self.asked += 1
        try:
            if way.kind == "reused":
                return ask_reused(self.session, self.ground, x)
            if way.kind == "history":
                if self._restart is None:
                    return None
                fresh = self._restart()
                try:
                    for _ in range(way.nth - 1):
                        ask_blocks(fresh, self.ground, x)
                    return ask_blocks(fresh, self.ground, x)
                finally:
                    fresh.close()
            return ask_blocks(self.session, self.ground, x, width=way.width, arrangement=way.arrangement)
        except CallError:
            return None

    def look(self, block: Float32s, way: Way) -> Seen | None:
        """What is wrong with one block [k], called in a way."""
        x, place = self.lay(block, way)
        return self.look_at(x, place, way)

    def look_at(self, x: Float32s, place: int, way: Way) -> Seen | None:
        """What is wrong with block `place` of a call."""
        got = self.answer(x, way)
        if got is None:
            return None
        block = x[place : place + 1]
        scales, codes = self.ground.expect(block)
        want = scales.reshape(-1), codes
        own = got[0][place : place + 1], got[1][place : place + 1]
        plain = bool(np.isfinite(block).all() and block.any())
        wrong = (find_wrong if plain else find_wrong_special)(self.ground, block, want, own)
        if wrong is None:
            return None
        part, lane = "scale", -1
        if not wrong.scale[0]:
            lanes = wrong.codes[0] if wrong.codes[0].any() else wrong.signs[0]
            part = "code" if wrong.codes[0].any() else "zero-sign"
            lane = int(np.argmax(lanes))
        return Seen(
            part=part, lane=lane, want_scale=int(want[0][0]), got_scale=int(own[0][0]),
            expected=int(wrong.expected[0, lane]) if lane >= 0 else int(want[0][0]),
            returned=int(own[1][0, lane]) if lane >= 0 else int(own[0][0]),
            scale=int(own[0][0]), codes=tuple(int(c) for c in own[1][0]),
        )  # fmt: skip

    def twice(self, block: Float32s, way: Way) -> Seen | None:
        """The same, if it is seen in each of two calls."""
        return self.look(block, way) if self.look(block, way) is not None else None


def among(way: Way, blocks: int, place: int) -> Way:
    """The way of a call of so many blocks."""
    return replace(way, kind="block" if blocks == 1 else "call", blocks=blocks, place=place)
