"""Calls that every right implementation answers as its profile says, whatever it does inside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.corpora.calls import inputs
from tests.corpora.calls.catalogue import Ask, Entry, call_target
from tests.corpora.calls.formats import BFLOAT16, BLOCKS, Array
from tests.corpora.calls.kernel import Offer

#: Functions whose answer is bytes, however they are grouped.
FLAT = ("pack", "swizzle")


@dataclass(frozen=True)
class Common:
    """A call, and what may be answered."""

    ask: Ask
    #: A call of the unchanged kernel that has the right answer.
    like: Ask
    #: Whether anybody may refuse it.
    optional: bool = False


def _sure(*asks: Ask) -> Iterator[Common]:
    return (Common(a, a) for a in asks)


def _quantize(fmt: str, offer: Offer, seed: int) -> Iterator[Common]:
    k = BLOCKS[fmt].k
    rng = np.random.default_rng([seed, k])
    shapes = [(1, k), (3, 2 * k), (128, 128), (128, 256), (256, 384), (int(rng.integers(2, 200)), k * int(rng.integers(1, 12)))]
    for dtype in offer.dtypes:
        for rows, columns in shapes:
            yield from _sure(inputs.quantize(fmt, rows, columns, seed=seed, dtype=dtype, of=inputs.with_specials))
    rows, columns = shapes[-1]
    for arrange in (inputs.fortran, inputs.pitched(5), inputs.upside_down, inputs.offset(1), inputs.one_row):
        yield from _sure(inputs.quantize(fmt, rows, columns, seed=seed, arrange=arrange))
    yield Common(empty := inputs.quantize_array(fmt, lambda: np.zeros((0, 2 * k), np.float32)), empty, optional=True)
    ragged = inputs.quantize(fmt, 5, k + 5, seed=seed)
    yield Common(ragged, replace(ragged, options={"pad": True}), optional=True)
    wide = replace(shapes_ask := inputs.quantize(fmt, 4, 2 * k, seed=seed), arrays=lambda: [shapes_ask.arrays()[0].astype(np.float64)])
    yield Common(wide, shapes_ask, optional=True)
    if "axis" in offer.options:
        yield from _sure(inputs.quantize(fmt, 2 * k, 5, seed=seed, axis=0), inputs.quantize(fmt, 4, 2 * k, seed=seed, axis=1))
    if "pad" in offer.options:
        yield from _sure(inputs.quantize(fmt, 5, k + 5, seed=seed, pad=True))
    if "block" in offer.options:
        yield from _sure(inputs.quantize(fmt, 48, 80, seed=seed, block=(16, 16)))
    if "tensor_scale" in offer.options:
        yield from _sure(*(inputs.quantize(fmt, 128, 128, seed=seed, tensor_scale=t) for t in (0.0, 3.0, 700.0)))


def _dequantize(fmt: str, offer: Offer, seed: int) -> Iterator[Common]:
    k = BLOCKS[fmt].k
    for rows, columns in ((1, k), (4, 4 * k), (128, 128), (128, 256), (67, 5 * k)):
        yield from _sure(inputs.dequantize(fmt, rows, columns, seed=seed))
    yield from _sure(inputs.dequantize(fmt, 6, 4 * k, seed=seed, arrange=inputs.fortran, arrange_scales=inputs.pitched(3)))
    if "tensor_scale" in offer.options:
        yield from _sure(*(inputs.dequantize(fmt, 128, 128, seed=seed, tensor_scale=t) for t in (0.0, 3.0, 700.0)))


def _numbers(offer: Offer, seed: int) -> Iterator[Common]:
    for element in offer.elements:
        for n in (1, 77, 5000):
            if "encode" in offer.functions:
                yield from _sure(inputs.encode(element, n, seed=seed), inputs.encode(element, n, seed=seed, arrange=inputs.columns_apart))
            if "decode" in offer.functions:
                yield from _sure(inputs.decode(element, n, seed=seed))
            if "encode_stochastic" in offer.functions:
                yield from _sure(inputs.stochastic(element, n, seed=seed))
    if "tensor_scale" in offer.functions:
        yield from _sure(*(inputs.tensor_scale(9, 33, at=at, seed=seed) for at in (0, 100, -1)))


def _layouts(offer: Offer, seed: int) -> Iterator[Common]:
    for layout in offer.layouts:
        for rows, columns in ((1, 4), (37, 12), (128, 32), (300, 8)):
            if "pack" in offer.functions:
                yield from _sure(inputs.pack(layout, rows, columns, seed=seed), inputs.unpack(layout, rows, columns, seed=seed))
            else:
                yield from _sure(inputs.swizzle(rows, columns, seed=seed), inputs.unswizzle(rows, columns, seed=seed))


def list_common(offer: Offer, seed: int) -> list[Common]:
    """The calls that an offer covers."""
    asked = [c for fmt in offer.formats if "quantize" in offer.functions for c in _quantize(fmt, offer, seed)]
    asked += [c for fmt in offer.formats if "dequantize" in offer.functions for c in _dequantize(fmt, offer, seed)]
    return [*asked, *_numbers(offer, seed), *_layouts(offer, seed)]


def _array(part: Any) -> Array:
    if isinstance(part, (bytes, bytearray, memoryview)):
        return np.frombuffer(part, np.uint8)
    if not isinstance(part, np.ndarray) and hasattr(part, "__dlpack__"):
        return np.from_dlpack(part)
    return np.asarray(part)


def bits_of(function: str, answer: Any) -> list[tuple[tuple[int, ...], bytes]]:
    """Shapes and bytes of an answer, in whatever form it comes; any NaN is one NaN."""
    members = answer if isinstance(answer, (tuple, list)) else [answer]
    if function == "tensor_scale":
        return [((), np.float32(_array(members[0]).reshape(-1)[0]).tobytes())]
    arrays: list[Array] = [np.ascontiguousarray(_array(m)).reshape(_array(m).shape) for m in members]
    arrays = [a.reshape(-1).view(np.uint8) if function in FLAT else a for a in arrays]
    arrays = [a.astype(np.float32) if a.dtype == BFLOAT16 else a for a in arrays]
    arrays = [np.where(np.isnan(a), a.dtype.type(np.nan), a) if a.dtype == np.float32 else a for a in arrays]
    return [(a.shape, a.tobytes()) for a in arrays]


def find_wrong(entry: Entry, seed: int) -> tuple[list[Ask], int]:
    """The common calls that a right implementation answers wrongly, or refuses without leave; and how many it answers.

    Inputs are overwritten, and other calls made, before an answer is looked at.
    """
    target, reference = (
        entry.build(),
        Entry(
            entry.id, entry.group, "", replace(entry.offer, options=("axis", "pad", "block", "tensor_scale", "rounding")), entry.hooks
        ).reference(),
    )
    seen: list[tuple[Common, Any, Any]] = []
    wrong: list[Ask] = []
    for common in list_common(entry.offer, seed):
        arrays: Sequence[Any] = common.ask.arrays()
        kept = [np.array(a) for a in arrays]
        answer = call_target(target, common.ask, arrays)
        if any(a.tobytes() != b.tobytes() for a, b in zip(arrays, kept, strict=True)):
            wrong.append(common.ask)
        for array in (a for a in arrays if a.flags.writeable):
            array[...] = 0x15
        seen.append((common, answer, call_target(reference, common.like, common.like.arrays())))
    answered = 0
    for common, answer, right in seen:
        if isinstance(answer, str):
            if answer != "refused" or not (common.optional or entry.refuses):
                wrong.append(common.ask)
            continue
        answered += 1
        if bits_of(common.ask.function, answer) != bits_of(common.ask.function, right):
            wrong.append(common.ask)
    return wrong, answered
