"""From a mismatch in a batch to one small block: first the pattern of calling that it needs, then its lanes, then its numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile
from mxspec_conformance.counterexample.calls import Call, ask_blocks, scale_argument
from mxspec_conformance.counterexample.failure import describe_bits, make_call_snippet
from mxspec_conformance.counterexample.kinds import TIED, CallKind, PatternKind
from mxspec_conformance.counterexample.probe import CallPattern, CallProber, Prober, Rows, among, bits_of
from mxspec_conformance.counterexample.sample_space import Codes, Float32s, SampleSpace
from mxspec_conformance.observations.quantize import WHOLE_BLOCK, Observed
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.tensor_scales import TensorScales

#: Calls after loading that are tried where nothing else reproduces a mismatch.
MAX_HISTORY = 6
#: Numbers of the largest call that is made smaller.
LARGEST = 1 << 20


@dataclass(slots=True)
class CallFailure(Failure):
    """A block that is answered otherwise in a call than alone, as it was seen: `show_smallest_call` makes the call smaller."""

    call: Call | None = None
    #: The blocks [n, k] that `call.rows` chooses from, and the wrong one of those.
    blocks: Float32s | None = None
    row: int = 0
    dtype: str = "float32"
    tensor: TensorScales | None = None

    @property
    def as_seen(self) -> Failure:
        """The failure alone."""
        return Failure(self.case, self.given, self.expected, self.returned, self.steps, self.also, self.snippet)


@dataclass(slots=True)
class OwnSpace(SampleSpace):
    """A space in which a block has to be answered as the target answers it alone."""

    session: TargetSession

    def expect(self, x: Float32s) -> tuple[Codes, Codes]:
        """Scales [n, 1] and codes [n, k]; raises CallError."""
        alone = [ask_blocks(self.session, self, block[None]) for block in x]
        return np.stack([scales for scales, _ in alone]), np.concatenate([codes for _, codes in alone])


def show_smallest_call(session: TargetSession, seen: CallFailure, fmt: BlockFormat, profile: Profile) -> Failure | None:
    """The failure in the smallest call in which the block still has another answer than alone; None where none is found."""
    if seen.call is None or seen.blocks is None or len(seen.call.rows) * fmt.k > LARGEST:
        return None
    try:
        space = OwnSpace(fmt, profile, None if seen.tensor is None else seen.tensor.amax, seen.dtype, session)
        prober = Prober(session, space)
        found = find_pattern(prober, seen.call, seen.blocks[seen.call.rows].astype(np.float32), seen.row)
        if found is None or found[0].kind is PatternKind.BLOCK:
            return None
        pattern, block = found
        block = shrink_lanes(prober, block, pattern)
        block = block if pattern.kind in TIED else simplify(prober, block, pattern)
        scales, codes = space.expect(block[None])
        wrong = prober.look(block, pattern)
    except (CallError, ValueError):  # the target answers it no more, or the profile knows no such tensor scale
        return None
    if wrong is None:
        return None
    x, place = prober.lay(block, pattern)
    lanes = [i for i in range(fmt.k) if block.view(np.uint32)[i] or codes[0, i] != wrong.codes[i]]
    return Failure(
        case=seen.case,
        given={
            "x": {f"lane {i}": describe_bits(block[i]) for i in lanes}, "other lanes": "+0", "call": f"only {pattern.words}",
            **({} if seen.dtype == "float32" else {"dtype": seen.dtype}),
            **({} if seen.tensor is None else {"tensor scale": seen.tensor.as_dict()}),
        },
        expected={"scale": f"{int(scales[0, 0]):02x}", "codes": {f"lane {i}": f"{int(codes[0, i]):02x}" for i in lanes}},
        returned={"scale": f"{wrong.scale:02x}", "codes": {f"lane {i}": f"{wrong.codes[i]:02x}" for i in lanes}},
        steps=["alone the target returns what is expected here", *(step for step in seen.steps if step != ALONE)],
        snippet=make_call_snippet(x, pattern.width, pattern.axis, place, fmt, seen.dtype, scale_argument(session, space))
        if pattern.arrangement == "contiguous" and pattern.kind is not PatternKind.REUSED else "",
    )  # fmt: skip


#: What is expected of a block in a call.
ALONE = "expected is what the target itself returned for the block in another call"


def show_among_vectors(
    session: TargetSession, answered: Sequence[Observed], one: Observed, fmt: BlockFormat, profile: Profile
) -> Failure | None:
    """A block that is right alone in the smallest call in which it is not, as in that of the vectors; None where none is found."""
    special = one.case.topic in WHOLE_BLOCK and one.case.topic
    batch = [
        s for s in answered
        if s.case.is_row and (s.dtype, s.case.tensor, s.case.topic in WHOLE_BLOCK and s.case.topic) == (one.dtype, one.case.tensor, special)
    ]  # fmt: skip
    row = next(i for i, s in enumerate(batch) if s is one)
    seen = CallFailure(
        one.label, {}, {}, {}, call=Call(CallKind.SIZE, np.arange(len(batch))), blocks=np.concatenate([s.case.x for s in batch]), row=row, dtype=one.dtype,
        tensor=one.case.tensor,
    )  # fmt: skip
    return show_smallest_call(session, seen, fmt, profile)


def find_pattern(prober: CallProber[Any], call: Call, blocks: Rows, row: int) -> tuple[CallPattern, Rows] | None:
    """The plainest pattern of calling in which the block is wrong, and the block; None where it is not wrong again."""
    block = blocks[row]
    if prober.twice(block, CallPattern()) is not None:
        return CallPattern(), block
    if call.kind is CallKind.ARRANGED:
        pattern = CallPattern(PatternKind.ARRANGED, arrangement=call.arrangement)
        if prober.twice(block, pattern) is not None:
            return pattern, block
    if call.kind is CallKind.REUSED and prober.twice(block, CallPattern(PatternKind.REUSED)) is not None:
        return CallPattern(PatternKind.REUSED), block
    if call.kind in (CallKind.WIDE, CallKind.AXIS):
        pattern = CallPattern(PatternKind.WIDE, width=call.width, place=row % call.width, axis=call.axis)
        if prober.twice(block, pattern) is not None:
            return _shrink_call(prober, block, pattern), block
    pattern = CallPattern(PatternKind.CALL, blocks=len(blocks), place=row)
    if prober.twice(block, pattern) is not None:
        return _shrink_call(prober, block, pattern), block
    window = _find_window(prober, blocks, row, call)
    if window is not None:
        return window, block
    for nth in range(1, MAX_HISTORY + 1):
        pattern = CallPattern(PatternKind.HISTORY, nth=nth)
        if prober.look(block, pattern) is not None:
            return pattern, block
    return None


def _find_window(prober: CallProber[Any], blocks: Rows, row: int, call: Call) -> CallPattern | None:
    """A call of the block with those adjacent to it, in rows as they were, as few as will do; the prober keeps them.

    The last one is the whole call as it was: what is right in it has not been seen again.
    """
    width = call.width
    line, lines = row // width, len(blocks) // width
    windows = [(1, 0), (0, 1), (1, 1), (2, 0), (3, 3), (7, 8), (31, 32)]
    for before, after in [*windows, (line, lines - line - 1)]:
        first, end = max(0, line - before) * width, min(lines, line + after + 1) * width
        prober.others = blocks[first:end].copy()
        pattern = CallPattern(
            PatternKind.AMONG, blocks=end - first, place=row - first, width=width, axis=call.axis, arrangement=call.arrangement
        )
        if prober.twice(blocks[row], pattern) is not None:
            return pattern
    prober.others = None
    return None


def _shrink_call(prober: CallProber[Any], block: Rows, pattern: CallPattern) -> CallPattern:
    """A call of fewer blocks, or a row of fewer, with the block as far to the front as it may be, in which it is still wrong."""
    best = pattern
    for place in sorted({0, min(1, pattern.size - 1), pattern.place}):
        low, high = place, pattern.size - 1  # the call of place + 1 blocks may be right, the whole one is wrong
        if place != pattern.place and prober.look(block, among(pattern, pattern.size, place)) is None:
            continue
        while low < high:
            middle = (low + high) // 2
            if prober.look(block, among(pattern, middle + 1, place)) is not None:
                high = middle
            else:
                low = middle + 1
        found = among(pattern, low + 1, place)
        if prober.look(block, found) is not None and found.size < best.size:
            best = found
    # As the last block of the call, with fewer blocks before it.
    low, high = 0, best.place
    while low < high:
        middle = (low + high) // 2
        if prober.look(block, among(pattern, middle + 1, middle)) is not None:
            high = middle
        else:
            low = middle + 1
    last = among(pattern, low + 1, low)
    return last if last.size < best.size and prober.look(block, last) is not None else best


def shrink_lanes(prober: Prober, block: Float32s, pattern: CallPattern) -> Float32s:
    """The same failure with as few lanes as will do; the others become +0."""
    seen = prober.look(block, pattern)
    if seen is None:
        return block
    best = block
    magnitude = np.abs(np.where(np.isnan(block), np.float32(np.inf), block))
    top = int(np.argmax(magnitude))
    lane = seen.lane if seen.lane >= 0 else top
    for keep in ({lane}, {top}, {lane, top}, {lane, lane ^ 1}, {lane, lane ^ 1, top}, {top, _opposite(block, top)}):
        tried = _kept(block, keep)
        if np.count_nonzero(_nonzero(tried)) < np.count_nonzero(_nonzero(best)) and prober.look(tried, pattern) is not None:
            best = tried
            break
    return drop_lanes(prober, best, pattern)


def drop_lanes(prober: CallProber[Any], item: Rows, pattern: CallPattern, kept: Collection[int] = ()) -> Rows:
    """The same failure without the lanes that it does not need, but for those `kept`: halves, then one by one."""
    best, lanes = item, np.setdiff1d(np.flatnonzero(_nonzero(item)), list(kept))
    for part in (lanes[: len(lanes) // 2], lanes[len(lanes) // 2 :], *lanes[:, None]):
        tried = best.copy()
        tried[part] = 0
        if (bits_of(tried) != bits_of(best)).any() and prober.look(tried, pattern) is not None:
            best = tried
    return best


def _nonzero(block: Rows) -> npt.NDArray[np.bool_]:
    """Lanes that are not +0."""
    flags: npt.NDArray[np.bool_] = bits_of(block) != 0
    return flags


def _opposite(block: Float32s, top: int) -> int:
    """The lane of the largest number of the other sign, or the same lane."""
    other = np.where(np.signbit(block) != np.signbit(block[top]), np.abs(block), np.float32(-1))
    return int(np.nanargmax(other)) if not np.isnan(other).all() else top


def _kept(block: Float32s, lanes: set[int]) -> Float32s:
    tried = np.zeros_like(block)
    index = [i for i in lanes if 0 <= i < len(block)]
    tried[index] = block[index]
    return tried


def simplify(prober: Prober, block: Float32s, pattern: CallPattern) -> Float32s:
    """The same failure with simpler numbers: near one, positive, with few significant bits."""
    best = block
    if np.isfinite(block).all() and block.any():
        exponent = int(np.frexp(np.abs(block).max())[1])
        with np.errstate(all="ignore"):
            moved = np.ldexp(block, 1 - exponent).astype(np.float32)
            moved = prober.space.cast(moved.view(np.uint32))
        if prober.look(moved, pattern) is not None:
            best = moved
    for lane in np.flatnonzero(_nonzero(best)):
        for bits in _simpler(int(best.view(np.uint32)[lane])):
            tried = best.copy()
            tried.view(np.uint32)[lane] = bits
            tried = prober.space.cast(tried.view(np.uint32))
            if prober.look(tried, pattern) is not None:
                best = tried
                break
    return best


def _simpler(bits: int) -> Iterator[int]:
    """Float bits to try instead, the simplest first."""
    magnitude, sign = bits & 0x7FFFFFFF, bits & 0x80000000
    if magnitude >= 0x7F800000:
        candidates = [m | s for m in (0x7F800000, 0x7FC00000) for s in (0, sign) if (m > 0x7F800000) == (magnitude > 0x7F800000)]
        yield from (c for c in candidates if c != bits)
        return
    for kept in (0, 1, 2, 3, 4, 6, 8, 11, 16):
        mask = 0x7FFFFFFF & ~((1 << 23 - kept) - 1)
        for s in (0, sign) if sign else (0,):
            if magnitude & mask | s != bits:
                yield magnitude & mask | s
    if sign:
        yield magnitude
