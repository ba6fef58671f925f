"""What a failing block depends on: it is moved, scaled, turned and called otherwise until it is right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from mxspec.enums import StrEnum
from mxspec_conformance.counterexample.kinds import GARBLED, TIED, CallKind, PatternKind
from mxspec_conformance.counterexample.mismatch import Mismatch, Part
from mxspec_conformance.counterexample.probe import CallPattern, ObservedMismatch, Prober, among
from mxspec_conformance.counterexample.sample_space import Float32s

#: Calls in which a block is tried: (blocks, place).
CALLS = ((1, 0), (2, 0), (2, 1), (3, 1), (3, 2), (4, 0), (4, 3), (5, 4), (8, 3), (8, 7), (16, 15), (513, 0), (513, 512), (514, 513))


class Stand(StrEnum):
    """Where a block stands in the calls in which it is wrong."""

    FIRST = "as the first block of a call"
    LAST = "as the last block of a call"
    ANYWHERE = "in calls"


@dataclass(frozen=True, slots=True)
class ShownCalls:
    """Some of the calls in which a block was tried."""

    stand: Stand
    #: Their numbers of blocks; empty where they are all in which it stood there.
    counts: tuple[int, ...] = ()

    @property
    def words(self) -> str:
        """In words."""
        return self.stand.value + (f" of {_listed(self.counts)} blocks" if self.counts else "")


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The lane adjacent to the wrong one, and the code that it must hold."""

    #: Whether it is the lane before.
    before: bool
    code: int

    @property
    def words(self) -> str:
        """In words."""
        return f"{'after' if self.before else 'before'} a lane of code {self.code:02x}"


class Parity(StrEnum):
    """Every second lane, or most of them."""

    EVEN = "even lanes"
    ODD = "odd lanes"


def group_lanes(lanes: tuple[int, ...] | None) -> Parity | tuple[int, ...] | None:
    """Many lanes of one parity as that; others as they are."""
    if lanes is None or len(lanes) < 6 or len({i % 2 for i in lanes}) > 1:
        return lanes
    return Parity.ODD if lanes[0] % 2 else Parity.EVEN


@dataclass(frozen=True, slots=True)
class Cause:
    """What a failure depends on; None where it does not."""

    part: Part
    pattern: CallPattern
    #: Lanes and scale bytes in which it shows.
    lanes: tuple[int, ...] | None
    scales: tuple[int, ...] | None
    #: Expected and returned code without signs (of a scale: the difference), where neither lane nor scale byte decides.
    codes: tuple[int, int] | None
    #: Calls in which it shows.
    calls: ShownCalls | None
    #: Only with this sign (`positive`, `negative`), or "".
    sign: str
    #: The adjacent code without which it does not show.
    neighbour: Neighbour | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """Findings with one key have one cause."""
        return (
            None if self.pattern.kind in GARBLED else self.part,
            self.pattern.kind,
            self.pattern.arrangement,
            self.pattern.axis,
            self.pattern.nth,
            self.lanes,
            self.scales,
            self.codes,
            self.calls,
        )

    def facts(self, expected: int, returned: int) -> tuple[object, ...]:
        """All that a report says of a finding; two with the same facts are one."""
        return (
            self.part, group_lanes(self.lanes), self.scales, self.pattern, self.calls, self.neighbour, self.sign, expected, returned,
        )  # fmt: skip

    def explains(self, mismatch: Mismatch, sign_bit: int) -> bool:
        """Whether a mismatch is likely to be the same thing."""
        same_part = mismatch.part == self.part
        restricted = (
            self.lanes is not None or self.scales is not None or self.pattern.kind is not PatternKind.BLOCK or self.calls is not None
        )
        if self.pattern.kind in GARBLED:
            same = mismatch.kind is (CallKind.REUSED if self.pattern.kind is PatternKind.REUSED else CallKind.ARRANGED)
            return same and self.pattern.arrangement in ("contiguous", mismatch.arrangement)
        if not same_part and not (restricted and {mismatch.part, self.part} <= {Part.CODE, Part.ZERO_SIGN}):
            return False
        if self.lanes is not None and mismatch.lane not in self.lanes:
            return False
        if self.scales is not None and mismatch.scale not in self.scales:
            return False
        if self.pattern.kind is PatternKind.CALL and mismatch.blocks < self.pattern.blocks:
            return False
        if self.codes is not None:
            return fold_codes(self.part, mismatch.expected, mismatch.returned, sign_bit) == self.codes
        return True


def fold_codes(part: Part, expected: int, returned: int, sign_bit: int) -> tuple[int, int]:
    """Codes without their signs; of scales the difference."""
    if part is Part.SCALE:
        return (0, returned - expected)
    return (expected & (sign_bit - 1), returned & (sign_bit - 1)) if sign_bit else (expected, returned)


def diagnose(prober: Prober, block: Float32s, pattern: CallPattern, seen: ObservedMismatch) -> Cause:
    """Move, scale, turn, and call otherwise."""
    special = not np.isfinite(block).all()
    lanes = None if special else _lanes(prober, block, pattern, seen)
    scales = None if special or pattern.kind in TIED else _scales(prober, block, pattern, seen)
    calls = _calls(prober, block) if pattern.kind is PatternKind.BLOCK else None
    element = prober.space.fmt.element
    sign_bit = 0 if element.twos_complement else element.sign_bit
    codes = None
    if lanes is None and scales is None and calls is None and pattern.kind is PatternKind.BLOCK:
        codes = fold_codes(seen.part, seen.expected, seen.returned, sign_bit)
    turned = prober.look((-block).astype(np.float32), pattern)
    lane = seen.lane if seen.lane >= 0 else int(np.argmax(np.abs(np.nan_to_num(block))))
    sign = "" if turned is not None or pattern.kind in TIED else ("negative" if np.signbit(block[lane]) else "positive")
    neighbour = None if special else _find_neighbour(prober, block, pattern, seen)
    return Cause(part=seen.part, pattern=pattern, lanes=lanes, scales=scales, codes=codes, calls=calls, sign=sign, neighbour=neighbour)


def _find_neighbour(prober: Prober, block: Float32s, pattern: CallPattern, seen: ObservedMismatch) -> Neighbour | None:
    """Whether the wrong lane is right where its neighbours are zero, and which of them it needs."""
    lane = seen.lane
    if lane < 0 or pattern.kind in TIED:
        return None
    for other in (lane - 1, lane + 1):
        if not 0 <= other < len(block) or not block.view(np.uint32)[other]:
            continue
        # Its neighbour changes places with a lane that is neither.
        far = next(i for i in range(len(block)) if abs(i - lane) > 1 and not block.view(np.uint32)[i])
        moved = block.copy()
        moved[far], moved[other] = block[other], block[far]
        if prober.look(moved, pattern) is None:
            return Neighbour(other < lane, int(seen.codes[other]))
    return None


def _lanes(prober: Prober, block: Float32s, pattern: CallPattern, seen: ObservedMismatch) -> tuple[int, ...] | None:
    """Lanes in which the failure shows when the block is turned (of a wrong scale: those of the maximum); None where they
    are all, or many."""
    if pattern.kind in TIED:
        return None
    k = len(block)
    lane = seen.lane if seen.lane >= 0 else int(np.argmax(np.abs(block)))
    shown = {lane}
    for turn in range(1, k):
        again = prober.look(np.roll(block, turn), pattern)
        if again is not None:
            shown.add((lane + turn) % k if seen.lane < 0 else max(again.lane, 0))
    if len(shown) == 1 and np.count_nonzero(block.view(np.uint32)) > 1:
        # Another lane may have to stay where it is: this one is moved alone.
        for other in np.flatnonzero(block.view(np.uint32) == 0).tolist():
            moved = block.copy()
            moved[other], moved[lane] = block[lane], 0
            if prober.look(moved, pattern) is not None:
                shown.add(other)
    return tuple(sorted(shown)) if len(shown) <= k // 2 else None


def _scales(prober: Prober, block: Float32s, pattern: CallPattern, seen: ObservedMismatch) -> tuple[int, ...] | None:
    """Scale bytes under which the failure shows when the block is moved to other scales; None where they are many."""
    shown, tried = {seen.scale}, {seen.scale}
    for moved in _moved_blocks(prober, block, seen):
        if not np.isfinite(moved).all():
            continue
        scales, codes = prober.space.expect(moved[None])
        if seen.lane >= 0 and codes[0, seen.lane] != seen.expected:
            continue  # where scales are at an end of their range, the quotient is another
        again = prober.look(moved, pattern)
        tried.add(int(scales[0, 0]) if again is None else again.scale)
        if again is not None and again.part == seen.part:
            shown.add(again.scale)
        if len(shown) > 8:
            return None
    return tuple(sorted(shown)) if len(tried) > 4 and 2 * len(shown) < len(tried) else None


def _moved_blocks(prober: Prober, block: Float32s, seen: ObservedMismatch) -> Iterator[Float32s]:
    """The block under other scales: times powers of two; or, where scales have a significand, its quotients times every
    scale, with the largest element value as the maximum."""
    space = prober.space
    if not space.fmt.has_tensor_scale:
        largest = int(np.abs(block).max().view(np.uint32)) >> 23
        low, high = space.exponents
        for shift in range(-largest - 22, 254 - largest):
            if shift and low <= max(largest + shift, 0) <= high:
                with np.errstate(all="ignore"):
                    yield space.cast(np.ldexp(block, shift).astype(np.float32).view(np.uint32))
        return
    units = space.units(np.arange(space.fmt.scale.max_code + 1, dtype=np.uint8))
    quotients = block.astype(np.float64) / units[min(seen.scale, space.fmt.scale.max_code)]
    top = int(np.argmax(np.abs(block)))
    if top != seen.lane:
        quotients[top] = np.copysign(float(space.fmt.element.max_value), block[top])
    for byte in range(1, space.fmt.scale.max_code + 1):
        if byte != seen.scale:
            with np.errstate(all="ignore"):
                yield space.cast((quotients * units[byte]).astype(np.float32).view(np.uint32))


def _calls(prober: Prober, block: Float32s) -> ShownCalls | None:
    """In which calls a block that is wrong alone is wrong; None where it is in all."""
    pattern = CallPattern()
    shown = [(n, place) for n, place in CALLS if prober.look(block, among(pattern, n, place)) is not None]
    if len(shown) == len(CALLS):
        return None
    counts = tuple(sorted({n for n, _ in shown}))
    if all(place == n - 1 for n, place in shown):
        return ShownCalls(Stand.LAST, () if _all_last(shown) else counts)
    if all(place == 0 for _, place in shown):
        return ShownCalls(Stand.FIRST)
    return ShownCalls(Stand.ANYWHERE, counts)


def _all_last(shown: list[tuple[int, int]]) -> bool:
    return all((n, p) in shown for n, p in CALLS if p == n - 1)


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def describe_lanes(lanes: tuple[int, ...]) -> str:
    """Lanes as a list, a range, or the even or odd ones."""
    if len(lanes) == 1:
        return f"lane {lanes[0]}"
    if len(lanes) > 3 and lanes == tuple(range(lanes[0], lanes[-1] + 1)):
        return f"lanes {lanes[0]} to {lanes[-1]}"
    group = group_lanes(lanes)
    return group.value if isinstance(group, Parity) else f"lanes {_listed(lanes)}"


def describe_cause(cause: Cause, seen: ObservedMismatch, nonzero: int) -> str:
    """The cause in one sentence."""
    if cause.part is Part.SCALE:
        what = f"the scale is {seen.got_scale:02x} instead of {seen.want_scale:02x}"
    else:
        name = {Part.CODE: "code", Part.ZERO_SIGN: "the sign of zero: code"}[cause.part]
        what = f"{name} {seen.returned:02x} instead of {seen.expected:02x}"
    limits = []
    if cause.lanes is not None:
        where = "with the maximum in" if cause.part is Part.SCALE else "in"
        limits.append(f"{where} {describe_lanes(cause.lanes)}")
    if cause.scales is not None:
        limits.append(f"under scale byte{'s' * (len(cause.scales) > 1)} {', '.join(f'{s:02x}' for s in cause.scales)}")
    if cause.pattern.kind is not PatternKind.BLOCK:
        limits.append(cause.pattern.words)
    if cause.calls is not None:
        limits.append(cause.calls.words)
    if cause.neighbour is not None:
        limits.append(cause.neighbour.words)
    if cause.sign:
        limits.append(f"for a {cause.sign} number")
    text = what + (", only " + ", ".join(limits) if limits else ", wherever the block stands")
    return text + f" ({nonzero} lane{'s' * (nonzero != 1)} not +0)"


__all__ = ["Cause", "describe_cause", "describe_lanes", "diagnose", "fold_codes"]
