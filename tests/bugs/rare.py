"""Rare bugs as objects: what the right answer is spoiled by depends on more than the block that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.bugs.building import Answer, Array, Quantize, make, right
from tests.bugs.entry import Entry, Fuzzed


def third_block_takes_the_first_scale(x: Array, fmt: str) -> Answer:
    codes, scales = right(x, fmt)
    if scales.shape[1] >= 3:
        scales[:, 2] = scales[:, 0]
    return codes, scales


def equal_neighbours_get_older_codes(x: Array, fmt: str) -> Answer:
    codes, scales = right(x, fmt)
    if len(x) > 2:
        equal = (x[1:] == x[:-1]).all(axis=1)
        codes[1:][equal] = np.roll(codes, 1, axis=0)[:-1][equal]
    return codes, scales


def maximum_in_the_upper_half_and_a_negative_zero_first(x: Array, fmt: str) -> Answer:
    codes, scales = right(x, fmt)
    if x.shape[1] == 32:
        largest = np.abs(x)
        hit = (largest.argmax(axis=1) >= 16) & (x[:, 0] == 0) & np.signbit(x[:, 0]) & (largest.max(axis=1) > 0)
        scales[hit & np.isfinite(largest).all(axis=1) & (scales[:, 0] < 0xFE)] += 1
    return codes, scales


def negative_maximum_alone_in_the_last_lane_is_lost(x: Array, fmt: str) -> Answer:
    x = np.array(x, np.float32)
    if x.shape[1] == 32:
        x[(x[:, :31] == 0).all(axis=1) & (x[:, 31] < 0), 31] = 0
    return right(x, fmt)


class Pointer:
    """Answers again what it answered when it is given the same array object."""

    def __init__(self) -> None:
        self._last: tuple[Any, Answer] | None = None

    def __call__(self, x: Array, fmt: str) -> Answer:
        if self._last is None or self._last[0] is not x:
            self._last = (x, right(x, fmt))
        return self._last[1]


def _entry(
    id_: str, what: str, fmt: str, quantize: Callable[[], Quantize], text: str, *must: str, may: tuple[str, ...] = ()
) -> Entry:  # fmt: skip
    return Entry(
        id=id_, what=what, formats=(fmt,), target=lambda: make([fmt], quantize=quantize()), must_fail=must, may_fail=may,
        fuzzed=Fuzzed(text=text, lanes=4, findings=2, pattern="", batches=6, profile="mx-floor"),
    )  # fmt: skip


ENTRIES: tuple[Entry, ...] = (
    _entry("wide", "block 2 of a row takes the scale of block 0", "mxfp4", lambda: third_block_takes_the_first_scale, "as block 2 of ", "quantize/axis,call-size,overflow,tie-even"),
    _entry("equal", "of equal neighbouring rows the second gets the codes before", "mxfp4", lambda: equal_neighbours_get_older_codes, "together with the others", "quantize/call-size"),
    _entry(
        "half", "a maximum in the upper half behind a -0 in lane 0 gets twice its scale", "mxfp6_e2m3",
        lambda: maximum_in_the_upper_half_and_a_negative_zero_first, "with the maximum in lanes 16 to 31", "quantize/call-size,mixture,scale-boundary,subnormal,tie-even",
    ),
    _entry("last", "a negative number alone in lane 31 is lost", "mxfp4", lambda: negative_maximum_alone_in_the_last_lane_is_lost, "in lane 31, for a negative number", "scale/scale-boundary"),
    _entry("pointer", "a call with the array of the call before gets its answer", "mxfp4", Pointer, "from memory in which another input lay", may=("quantize/call-size",)),
)  # fmt: skip
