"""Rare bugs as objects: what the right answer is spoiled by depends on more than the block that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mxspec

Answer = tuple[Any, Any]


def right(x: Any, fmt: str) -> Answer:
    """Codes and scales by the format's default profile, writable."""
    t = mxspec.quantize(x, fmt)
    return np.array(t.codes), np.array(t.scales)


def third_block_takes_the_first_scale(x: Any, fmt: str) -> Answer:
    codes, scales = right(x, fmt)
    if scales.shape[1] >= 3:
        scales[:, 2] = scales[:, 0]
    return codes, scales


def equal_neighbours_get_older_codes(x: Any, fmt: str) -> Answer:
    codes, scales = right(x, fmt)
    if len(x) > 2:
        equal = (x[1:] == x[:-1]).all(axis=1)
        codes[1:][equal] = np.roll(codes, 1, axis=0)[:-1][equal]
    return codes, scales


def maximum_in_the_upper_half_and_a_negative_zero_first(x: Any, fmt: str) -> Answer:
    codes, scales = right(x, fmt)
    if x.shape[1] == 32:
        largest = np.abs(x)
        hit = (largest.argmax(axis=1) >= 16) & (x[:, 0] == 0) & np.signbit(x[:, 0]) & (largest.max(axis=1) > 0)
        scales[hit & np.isfinite(largest).all(axis=1) & (scales[:, 0] < 0xFE)] += 1
    return codes, scales


def negative_maximum_alone_in_the_last_lane_is_lost(x: Any, fmt: str) -> Answer:
    x = np.array(x, np.float32)
    if x.shape[1] == 32:
        x[(x[:, :31] == 0).all(axis=1) & (x[:, 31] < 0), 31] = 0
    return right(x, fmt)


class Pointer:
    """Answers again what it answered when it is given the same array object."""

    def __init__(self) -> None:
        self._last: tuple[Any, Answer] | None = None

    def __call__(self, x: Any, fmt: str) -> Answer:
        if self._last is None or self._last[0] is not x:
            self._last = (x, right(x, fmt))
        return self._last[1]


class Target:
    """A function as a target."""

    VERSION = "1"

    def __init__(self, name: str, fmt: str, quantize: Callable[[Any, str], Answer]) -> None:
        self.NAME, self.FORMATS = name, [fmt]
        self.quantize = lambda x, fmt: quantize(x, fmt)


#: name -> (format, quantize, words of the cause).
RARE: dict[str, tuple[str, Callable[[Any, str], Answer], str]] = {
    "wide": ("mxfp4", third_block_takes_the_first_scale, "as block 2 of a row of"),
    "equal": ("mxfp4", equal_neighbours_get_older_codes, "beside the others"),
    "half": ("mxfp6_e2m3", maximum_in_the_upper_half_and_a_negative_zero_first, "with the maximum in lanes 16 to 31"),
    "last": ("mxfp4", negative_maximum_alone_in_the_last_lane_is_lost, "in lane 31, for a negative number"),
    "pointer": ("mxfp4", Pointer(), "from memory in which another input lay"),
}
