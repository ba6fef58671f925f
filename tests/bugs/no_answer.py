"""Targets that return what is no answer: exceptions, other types, shapes and dtypes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import mxspec
from mxspec_conformance.results.report import Verdict

from tests.bugs.building import Array, make, right
from tests.bugs.entry import Entry


def always_raises(x: Array, fmt: str) -> Any:
    raise ValueError("no thanks")


def wrong_signature(x: Array) -> Any:
    return x


class Unreadable(Exception):
    """Its message cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError


def raises_unreadable(x: Array, fmt: str) -> Any:
    raise Unreadable


def spoiled(codes: Callable[[Array], Any] = lambda a: a, scales: Callable[[Array], Any] = lambda a: a) -> Any:
    """`quantize` with its codes or its scales made into something else."""

    def quantize(x: Array, fmt: str) -> Any:
        answer = right(x, fmt)
        return codes(answer[0]), scales(answer[1])

    return quantize


#: What is asked of a `quantize` without `axis` and `pad`.
ASKED = (
    "quantize/above-tie,axis,below-tie,exact,inf,mixture,nan,overflow,position,scale-boundary,scale-clamp,subnormal,tie-even",
    "quantize/zero-block,zero-sign",
    "scale/scale-boundary",
)


def _none(id_: str, what: str, note: str, quantize: Any) -> Entry:
    """Nothing that `quantize` returns is an answer."""
    return Entry(
        id=id_, what=what, formats=("mxfp4",), target=lambda: make(["mxfp4"], quantize=quantize), must_fail=ASKED,
        verdicts=(Verdict.ERROR,), note=note,
    )  # fmt: skip


def _value(
    id_: str, what: str, *must: str, verdict: Verdict = Verdict.ERROR, formats: tuple[str, ...] = ("mxfp4",), **members: Any
) -> Entry:  # fmt: skip
    return Entry(id=id_, what=what, formats=formats, target=lambda: make(formats, **members), must_fail=must, verdicts=(verdict,))  # fmt: skip


#: `quantize` that answers nothing.
NO_ANSWER: tuple[Entry, ...] = (
    _none("always raises", "every call raises", "ValueError: no thanks", always_raises),
    _none("a list", "codes and scales are lists", "codes is a list, not an array", lambda x, fmt: [a.tolist() for a in right(x, fmt)]),
    _none("None", "nothing is returned", "quantize returned a NoneType; return (codes, scales)", lambda x, fmt: None),
    _none("codes alone", "codes are returned, and no scales", "quantize returned an ndarray", lambda x, fmt: right(x, fmt)[0]),
    _none("one lane short", "the first column of codes is missing", "was expected for x of shape (", spoiled(codes=lambda a: a[:, 1:])),
    _none("scales flat", "scales have one axis", "scales have shape (", spoiled(scales=lambda a: a.reshape(-1))),
    _none("codes as int64", "codes are int64", "codes have dtype int64; return uint8", spoiled(codes=lambda a: a.astype(np.int64))),
    _none("codes as floats", "codes are float32", "codes have dtype float32; return uint8", spoiled(codes=lambda a: a.astype(np.float32))),
    _none("scales as floats", "scales are their values", "scales have dtype float64; return uint8", spoiled(scales=lambda a: np.ldexp(1.0, a.astype(int) - 127))),
    _none("sys.exit", "every call ends the interpreter", "SystemExit: 3", lambda x, fmt: sys.exit(3)),
    _none("a wrong signature", "quantize takes no format", "TypeError: wrong_signature() takes 1 positional argument", wrong_signature),
    _none("an exception that cannot be read", "the exception's message raises", "Unreadable: its message cannot be read", raises_unreadable),
)  # fmt: skip

#: Other functions whose answers are none, or hold what they must not.
BAD_VALUES: tuple[Entry, ...] = (
    _value("NaN where none may be", "dequantize returns NaN for everything", "dequantize/scale-code", "dequantize/refusal", verdict=Verdict.FAIL, dequantize=lambda codes, scales, fmt: np.full(codes.shape, np.nan, np.float32)),
    _value("float64 values", "dequantize returns float64", "dequantize/code", dequantize=lambda codes, scales, fmt: mxspec.dequantize(codes, scales, fmt).astype(np.float64)),
    _value("a list of values", "dequantize returns a list", "dequantize/code", dequantize=lambda codes, scales, fmt: mxspec.dequantize(codes, scales, fmt).tolist()),
    _value("values of another shape", "dequantize returns one row of three values", "dequantize/code", dequantize=lambda codes, scales, fmt: mxspec.dequantize(codes, scales, fmt)[:1, :3]),
    _value("decode gives None", "decode returns nothing", "decode/e2m1/code", decode=lambda codes, element: None),
    _value("encode gives floats", "encode returns its input", "encode/e2m1/above-tie,below-tie,exact,inf,mixture,nan,overflow,subnormal,tie-even,zero-sign", encode=lambda x, element: x),
    _value("a tensor scale of two numbers", "tensor_scale returns an array", "tensor_scale/inf,nan,tensor-scale,zero-block", formats=("nvfp4",), tensor_scale=lambda x, fmt: np.ones(2, np.float32)),
    _value("a tensor scale of None", "tensor_scale returns nothing", "tensor_scale/inf,nan,tensor-scale,zero-block", formats=("nvfp4",), tensor_scale=lambda x, fmt: None),
    _value("a tensor scale beyond float32", "tensor_scale returns 1e300", "tensor_scale/tensor-scale", verdict=Verdict.FAIL, formats=("nvfp4",), tensor_scale=lambda x, fmt: 1e300),
)  # fmt: skip

ENTRIES = NO_ANSWER + BAD_VALUES
