"""Bugs that depend on the call: its size, its memory, what was called before, what may be asked."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np

import mxspec
from mxspec_conformance.results.report import Verdict
from mxspec_vectors.topics import TOPICS

from tests.bugs.building import Answer, Array, find_amax, make, model, on_blocks, right
from tests.bugs.entry import Entry, Kind


def two_blocks_swapped(x: Array, fmt: str) -> Answer:
    codes, scales = model(x, fmt)
    if len(x) > 1000:
        codes[[700, 701]], scales[[700, 701]] = codes[[701, 700]], scales[[701, 700]]
    return codes, scales


def wrong_axis(x: Array, fmt: str, axis: int = -1) -> Answer:
    if axis in (-1, x.ndim - 1) or x.shape[0] != x.shape[1]:
        t = mxspec.quantize(x, fmt, axis=axis)
        return t.codes, t.scales
    t = mxspec.quantize(x, fmt, axis=-1)
    return t.codes, np.ascontiguousarray(t.scales.T)


def by_chance() -> SimpleNamespace:
    """The first code of a call is wrong every other time."""
    chance = random.Random(0)

    def quantize(x: Array, fmt: str) -> Answer:
        codes, scales = model(x, fmt)
        codes[0, 0] ^= chance.random() < 0.5
        return codes, scales

    return make(["mxfp4"], quantize=on_blocks(quantize))


def kept_by_shape() -> SimpleNamespace:
    """The first answer for each shape is given for ever."""
    kept: dict[tuple[int, ...], Answer] = {}
    return make(["mxfp4"], quantize=lambda x, fmt: kept.setdefault(x.shape, right(x, fmt)))


def written_into(x: Array, fmt: str) -> Answer:
    codes, scales = right(x, fmt)
    x[...] = 7
    return codes, scales


def refuse_nan(x: Array) -> None:
    if np.isnan(x).any():
        raise FloatingPointError("NaN is not supported")


def quantize_numbers_only(x: Array, fmt: str) -> Answer:
    refuse_nan(x)
    return right(x, fmt)


def encode_numbers_only(x: Array, element: str) -> Array:
    refuse_nan(x)
    return mxspec.encode(x, element)


def encode_stochastic_numbers_only(x: Array, element: str, random_bits: Array) -> Array:
    refuse_nan(x)
    return mxspec.encode(x, element, rounding="sr", random_bits=random_bits)


def raise_on_one_block(x: Array, fmt: str) -> Answer:
    if ((x[:, 0] == 5) & (find_amax(x) == 5)).any():
        raise RuntimeError("this one")
    return model(x, fmt)


def _entry(id_: str, what: str, *must: str, **members: Any) -> Entry:
    return Entry(id=id_, what=what, formats=("mxfp4",), target=lambda: make(["mxfp4"], **members), must_fail=must)


ENTRIES: tuple[Entry, ...] = (
    _entry("two blocks swapped in large calls", "blocks 700 and 701 of calls of more than 1000 change places", "quantize/call-size", quantize=on_blocks(two_blocks_swapped)),
    _entry("P58 wrong axis", "square inputs are quantized along the last axis, whichever is asked for", "quantize/axis,exact,overflow,subnormal", quantize=wrong_axis),
    Entry(
        id="the answer depends on chance", what="the first code of a call is wrong every other time", formats=("mxfp4",),
        target=by_chance, must_fail=("quantize/call-size",), may_fail=("quantize/" + ",".join(TOPICS),),
    ),
    Entry(
        id="answers kept by the shape of the input", what="the first answer for each shape is given for ever", formats=("mxfp4",),
        # Whichever topic's call has a shape that was asked for before gets that call's answer.
        target=kept_by_shape, must_fail=("quantize/call-size",), may_fail=("quantize/" + ",".join(TOPICS),),
    ),
    _entry("writes into its input", "the answer is right; the input is 7 afterwards", "quantize/memory", quantize=written_into),
    Entry(
        id="raises on NaN alone", what="NaN raises FloatingPointError", formats=("mxfp4", "mxfp8_e4m3"), kind=Kind.OPEN,
        target=lambda: make(["mxfp4", "mxfp8_e4m3"], quantize=quantize_numbers_only, encode=encode_numbers_only, encode_stochastic=encode_stochastic_numbers_only),
        note="FloatingPointError: NaN is not supported",
    ),
    Entry(
        id="raises on one block", what="one block of hundreds raises RuntimeError", formats=("mxfp4",),
        target=lambda: make(["mxfp4"], quantize=on_blocks(raise_on_one_block)),
        must_fail=("quantize/position",), may_fail=("quantize/call-size",), verdicts=(Verdict.ERROR,), note="RuntimeError: this one",
    ),
)  # fmt: skip
