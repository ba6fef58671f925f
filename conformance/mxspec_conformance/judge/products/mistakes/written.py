"""Mistakes in writing outputs: rounding, order, nothing at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from mxspec import dot
from mxspec.dot import Direction
from mxspec_conformance.judge.products.cases import ProductCase
from mxspec_conformance.judge.products.mistakes.mistake import Floats, Mistake, keep_case


def _without_bias(case: ProductCase) -> ProductCase | None:
    """A sum of float32 is not rounded before the bias is added, whenever that is."""
    if case.out_dtype == "float32" or case.options.get("bias") is None:
        return None
    return replace(case, options={k: v for k, v in case.options.items() if k != "bias"})


def _transposed(_case: ProductCase, exact: Floats) -> Floats | None:
    return np.ascontiguousarray(exact.T).reshape(exact.shape) if min(exact.shape) > 1 else None


def _transposed_square(_case: ProductCase, exact: Floats) -> Floats | None:
    return exact.T if exact.shape[0] == exact.shape[1] else None


def _zeros(_case: ProductCase, exact: Floats) -> Floats:
    return np.zeros_like(exact)


def _cut_outputs(case: ProductCase, exact: Floats) -> Floats:
    return dot.round_floats(exact, dot.OUTPUTS[case.out_dtype], Direction.ZERO)


def _ties_away(case: ProductCase, exact: Floats) -> Floats | None:
    """A tie of float32 numbers is none after a step of 2**-40 away from zero."""
    return dot.round_floats(exact * (1 + 2.0**-40), dot.OUTPUTS[case.out_dtype]) if case.out_dtype != "float32" else None


def _through(dtype: str, case: ProductCase, exact: Floats) -> Floats | None:
    if dtype == case.out_dtype:
        return None
    return dot.round_floats(dot.round_floats(exact, dot.OUTPUTS[dtype]), dot.OUTPUTS[case.out_dtype])


def _late_bias(case: ProductCase, exact: Floats) -> Floats | None:
    """exact: without the bias."""
    out = dot.OUTPUTS[case.out_dtype]
    return dot.round_floats(dot.round_floats(exact, out) + case.options["bias"].astype(np.float64), out)


def _doubled(_case: ProductCase, exact: Floats) -> Floats:
    return exact * 2


def list_written_mistakes() -> Iterator[Mistake]:
    """Mistakes in what becomes of right outputs."""
    for text, outputs in (
        ("the output is written transposed", _transposed), ("the output is transposed", _transposed_square),
        ("outputs are cut, not rounded", _cut_outputs), ("outputs midway are rounded away from zero", _ties_away),
        ("outputs are rounded to float16 on the way", partial(_through, "float16")),
        ("outputs are rounded to bfloat16 on the way", partial(_through, "bfloat16")),
        ("nothing is computed: all outputs are zero", _zeros), ("every product counts twice", _doubled),
    ):  # fmt: skip
        yield Mistake(text, keep_case, None, outputs)
    yield Mistake("the bias is added after the sum was rounded to the output's dtype", _without_bias, None, _late_bias)
