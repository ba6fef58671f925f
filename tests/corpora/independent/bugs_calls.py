"""Bugs that depend on the call: sizes, places, memory, state, dtypes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import numpy as np

from tests.corpora.independent.catalogue import Bug, Stage
from tests.corpora.independent.implementation import Kernel

Array = Any


def whole(change: Callable[[Callable[[], tuple[Array, Array]], Array, int, bool], tuple[Array, Array]]) -> Stage:
    """The whole of `quantize`, with its signature; change sees (the right answer, x, axis, pad)."""

    @wraps(change)
    def quantize(
        right: Stage, x: Array, fmt: str, tensor_scale: float | None = None, axis: int = -1, pad: bool = False,
        block: tuple[int, int] | None = None,
    ) -> Any:  # fmt: skip
        return change(lambda: right(x, fmt, tensor_scale, axis, pad, block), x, axis, pad)

    del quantize.__wrapped__  # signatures are read through it
    return quantize


def wrong_where(pick: Callable[[Array, int, bool], Any], *, last: bool = True) -> Stage:
    """The last row (or block) has its lowest code bit flipped where pick says so."""

    def change(answer: Callable[[], tuple[Array, Array]], x: Array, axis: int, pad: bool) -> tuple[Array, Array]:
        codes, scales = answer()
        if pick(x, axis, pad):
            codes = codes.copy()
            codes[-1 if last else 0, -1] ^= 1
        return codes, scales

    return whole(change)


def row_limit(rows: int) -> Stage:
    """Rows from a number on stay zeros."""

    def change(answer: Callable[[], tuple[Array, Array]], x: Array, axis: int, pad: bool) -> tuple[Array, Array]:
        codes, scales = (a.copy() for a in answer())
        codes[rows:], scales[rows:] = 0, 0
        return codes, scales

    return whole(change)


def column_limit(columns: int, k: int) -> Stage:
    """Columns from a number on stay zeros."""

    def change(answer: Callable[[], tuple[Array, Array]], x: Array, axis: int, pad: bool) -> tuple[Array, Array]:
        codes, scales = (a.copy() for a in answer())
        if axis in (-1, 1):
            codes[:, columns:], scales[:, columns // k :] = 0, 0
        return codes, scales

    return whole(change)


def pad_repeats(right: Stage, x: Array, k: int, pad: bool) -> Array:
    """A ragged tail is filled with its last number."""
    missing = -x.shape[-1] % k if pad else 0
    filled = np.concatenate([x, np.repeat(x[..., -1:], missing, axis=-1)], axis=-1)
    return right(filled, k, False)


def pad_minus_zero(right: Stage, x: Array, k: int, pad: bool) -> Array:
    """A ragged tail is filled with -0."""
    missing = -x.shape[-1] % k if pad else 0
    filled = np.concatenate([x, np.full((*x.shape[:-1], missing), -0.0, np.float32)], axis=-1)
    return right(filled, k, False)


def pad_drops(count: int) -> Stage:
    """The last numbers of a ragged tail are not read."""

    def arrange(right: Stage, x: Array, k: int, pad: bool) -> Array:
        rest = x.shape[-1] % k
        if pad and rest:
            x = x.copy()
            x[..., x.shape[-1] - rest % count :] = 0
        return right(x, k, pad)

    return arrange


def contiguous_only(right: Stage, x: Array) -> Array:
    """Strides are ignored: the buffer's first numbers are read."""
    array = np.asarray(x)
    if array.flags.c_contiguous or array.base is None:
        return right(x)
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    if base.dtype != array.dtype or base.size < array.size:
        return right(x)
    return right(base.reshape(-1)[: array.size].reshape(array.shape))


class Remember:
    """State between calls."""

    def __init__(self) -> None:
        self.amax: Array = None
        self.calls = 0
        self.buffer: Array = None

    def keep_amax(self, right: Stage, b: Array) -> Array:
        """The maximum buffer is not cleared between calls of one shape."""
        amax = right(b)
        if self.amax is not None and self.amax.shape == amax.shape:
            amax = np.maximum(amax, self.amax)
        self.amax = amax
        return amax

    def every_64th(self, right: Stage, b: Array) -> Array:
        """Each 64th call misses the last lane."""
        self.calls += 1
        return right(b[..., :-1] if self.calls % 64 == 0 else b)

    def cached(self, right: Stage, x: Array) -> Array:
        """Answers are cached by the address of the input and its shape."""
        return right(x)


def state(name: str) -> Stage:
    """A stage with state of its own for each kernel."""
    memory: dict[int, Remember] = {}

    def stage(right: Stage, *args: Array) -> Array:
        kernel: Kernel = right.__self__ if hasattr(right, "__self__") else right.args[0]  # type: ignore[attr-defined]
        return getattr(memory.setdefault(id(kernel), Remember()), name)(right, *args)

    return stage


def rows_of(x: Array) -> int:
    """Rows of a call."""
    return int(np.asarray(x).shape[0])


def odd_blocks(k: int) -> Callable[[Array, int, bool], bool]:
    """Whether rows have an odd number of blocks above 1."""
    return lambda x, axis, pad: bool(axis in (-1, 1) and x.shape[1] // k > 1 and x.shape[1] // k % 2 == 1)


def call(id_: str, story: str, fmt: str, **change: Stage) -> Bug:
    """A bug of `quantize`."""
    return Bug(id_, story, "quantize", fmt, "nvfp4-te" if fmt == "nvfp4" else "mx-floor", change)


def _calls() -> Iterator[Bug]:
    for fmt, k in (("mxfp4", 32), ("mxint8", 32), ("nvfp4", 16)):
        yield call("odd-rows", "the last row of an odd number above 1", fmt,
                   quantize=wrong_where(lambda x, axis, pad: rows_of(x) > 1 and rows_of(x) % 2 == 1))  # fmt: skip
        yield call("rows-mod-8", "the last row where rows are 1 modulo 8, above 8", fmt,
                   quantize=wrong_where(lambda x, axis, pad: rows_of(x) > 8 and rows_of(x) % 8 == 1))  # fmt: skip
        yield call("rows-mod-128", "the last row where rows are 127 modulo 128", fmt,
                   quantize=wrong_where(lambda x, axis, pad: rows_of(x) % 128 == 127))  # fmt: skip
        yield call("odd-blocks", "the last block where a row has an odd number above 1", fmt,
                   quantize=wrong_where(odd_blocks(k)))  # fmt: skip
        for rows in (129, 256, 1024, 4096, 65535):
            yield call(f"rows-from-{rows}", "rows from there on are not written", fmt, quantize=row_limit(rows))
        for blocks in (8, 32, 66, 68, 128, 256):
            yield call(f"blocks-from-{blocks}", "blocks of a row from there on are not written", fmt,
                       quantize=column_limit(blocks * k, k))  # fmt: skip
        yield call("pad-repeats", "ragged tails are filled with the last number", fmt, arrange=pad_repeats)
        yield call("pad-minus-zero", "ragged tails are filled with -0", fmt, arrange=pad_minus_zero)
        for count in (2, 4, 8):
            yield call(f"pad-drops-{count}", f"of a ragged tail only whole vectors of {count} are read", fmt, arrange=pad_drops(count))
        yield call("strides", "strides are ignored", fmt, load=contiguous_only)
        yield call("keeps-maximum", "the maximum buffer is not cleared", fmt, amax=state("keep_amax"))
        yield call("every-64th-call", "each 64th call misses a lane", fmt, amax=state("every_64th"))


BUGS = tuple(_calls())
