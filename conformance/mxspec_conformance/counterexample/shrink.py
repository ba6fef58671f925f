"""From a mismatch in a batch to one small block: first the pattern of calling that it needs, then its lanes, then its numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mxspec_conformance.counterexample.calls import Call
from mxspec_conformance.counterexample.kinds import CallKind, PatternKind
from mxspec_conformance.counterexample.probe import CallPattern, Prober, among
from mxspec_conformance.counterexample.sample_space import Float32s

#: Calls after loading that are tried where nothing else reproduces a mismatch.
MAX_HISTORY = 6


def find_pattern(prober: Prober, call: Call, blocks: Float32s, row: int) -> tuple[CallPattern, Float32s] | None:
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
            return pattern, block
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


def _find_window(prober: Prober, blocks: Float32s, row: int, call: Call) -> CallPattern | None:
    """A call of the block with those beside it, in rows as they were, as few as will do; the prober keeps them.

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


def _shrink_call(prober: Prober, block: Float32s, pattern: CallPattern) -> CallPattern:
    """A call of fewer blocks, with the block as far to the front as it may be, in which it is still wrong."""
    best = pattern
    for place in (0, 1, pattern.place):
        low, high = place, pattern.blocks - 1  # the call of place + 1 blocks may be right, the whole one is wrong
        if place != pattern.place and prober.look(block, among(pattern, pattern.blocks, place)) is None:
            continue
        while low < high:
            middle = (low + high) // 2
            if prober.look(block, among(pattern, middle + 1, place)) is not None:
                high = middle
            else:
                low = middle + 1
        found = among(pattern, low + 1, place)
        if prober.look(block, found) is not None and found.blocks < best.blocks:
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
    return last if last.blocks < best.blocks and prober.look(block, last) is not None else best


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
    lanes = np.flatnonzero(_nonzero(best))
    for part in (lanes[: len(lanes) // 2], lanes[len(lanes) // 2 :], *lanes[:, None]):
        tried = best.copy()
        tried[part] = 0
        if len(part) and (tried.view(np.uint32) != best.view(np.uint32)).any() and prober.look(tried, pattern) is not None:
            best = tried
    return best


def _nonzero(block: Float32s) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Lanes that are not +0."""
    flags: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] = block.view(np.uint32) != 0
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
        candidates = [
            m | s for m in (0x7F800000, 0x7FC00000) for s in (0, sign) if (m > 0x7F800000) == (magnitude > 0x7F800000)
        ]
        yield from (c for c in candidates if c != bits)
        return
    for kept in (0, 1, 2, 3, 4, 6, 8, 11, 16):
        mask = 0x7FFFFFFF & ~((1 << 23 - kept) - 1)
        for s in (0, sign) if sign else (0,):
            if magnitude & mask | s != bits:
                yield magnitude & mask | s
    if sign:
        yield magnitude
