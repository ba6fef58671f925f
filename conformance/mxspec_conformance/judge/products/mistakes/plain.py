"""Mistakes in reading a plain side: numbers rounded before they are multiplied, FP8 codes read by another table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec import dot
from mxspec.dot import Direction, round_floats
from mxspec.formats import BFLOAT16, FLOAT16, TF32, FloatFormat
from mxspec_conformance.judge.products.cases import ProductCase
from mxspec_conformance.judge.products.mistakes.mistake import Mistake, replace_side
from mxspec_conformance.judge.products.mistakes.sides import SIDES
from mxspec_conformance.targets.operands import Numbers, OperandKind

Values = npt.NDArray[np.float32]
#: What is read instead of the numbers; None: this dtype is not read so.
Change = Callable[[Numbers], Values | None]

_FP8 = {"float8_e4m3fn": ml_dtypes.float8_e5m2, "float8_e5m2": ml_dtypes.float8_e4m3fn}


def _held(numbers: Numbers) -> Values:
    return numbers.held.astype(np.float32)


def _round(numbers: Numbers, fmt: FloatFormat, direction: Direction) -> Values | None:
    if numbers.spec.format != "float32":
        return None
    return round_floats(numbers.held.astype(np.float64), fmt, direction).astype(np.float32)


def _other_table(numbers: Numbers) -> Values | None:
    other = _FP8.get(numbers.spec.format)
    return None if other is None else numbers.held.view(other).astype(np.float32)


def _scaled(numbers: Numbers, by: int) -> Values | None:
    return np.ldexp(_held(numbers), by) if numbers.spec.format in _FP8 else None


def _no_subnormals(numbers: Numbers) -> Values:
    x = _held(numbers)
    return np.where(np.abs(x) < 2.0 ** (1 - dot.PLAIN_FORMATS[numbers.spec.format].bias), np.float32(0), x)


def _nan_as_number(numbers: Numbers) -> Values | None:
    if numbers.spec.format != "float8_e4m3fn":
        return None
    return np.where(np.isnan(_held(numbers)), np.where(numbers.held.view(np.uint8) < 0x80, 480, -480), _held(numbers)).astype(np.float32)


_MISTAKES: tuple[tuple[str, Change], ...] = (
    ("numbers of {side} are rounded to TF32", partial(_round, fmt=TF32, direction=Direction.NEAREST)),
    ("numbers of {side} are cut to TF32", partial(_round, fmt=TF32, direction=Direction.ZERO)),
    ("numbers of {side} are rounded to bfloat16", partial(_round, fmt=BFLOAT16, direction=Direction.NEAREST)),
    ("numbers of {side} are cut to bfloat16", partial(_round, fmt=BFLOAT16, direction=Direction.ZERO)),
    ("numbers of {side} are rounded to float16", partial(_round, fmt=FLOAT16, direction=Direction.NEAREST)),
    ("the codes of {side} are read as the other FP8 format", _other_table),
    ("numbers of {side} are half their value, as those of an FNUZ format", partial(_scaled, by=-1)),
    ("numbers of {side} are twice their value", partial(_scaled, by=1)),
    ("subnormal numbers of {side} are taken as zero", _no_subnormals),
    ("the NaN of {side} is taken as 480", _nan_as_number),
)


def list_plain_mistakes() -> Iterator[Mistake]:
    """Each mistake on each side."""
    for words, change in _MISTAKES:
        for sides, name in SIDES:
            yield Mistake(words.format(side=name), partial(_change_case, sides=sides, change=change))


def _change_case(case: ProductCase, sides: str, change: Change) -> ProductCase | None:
    made: ProductCase | None = case
    for side in sides:
        numbers = case.a if side == "a" else case.b
        if numbers.spec.kind is not OperandKind.PLAIN or numbers.metadata is not None:
            return None
        values = change(numbers)
        if values is None or made is None:
            return None
        made = replace_side(made, side, replace(numbers, values=values))
    return made
