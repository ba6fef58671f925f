"""Mistakes in writing outputs: rounding, order, nothing at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from mxspec import dot
from mxspec.dot import Direction
from mxspec.elements import decode_codes, decode_table
from mxspec_conformance.judge.products.cases import ProductCase
from mxspec_conformance.judge.products.mistakes.mistake import Floats, Mistake, keep_case
from mxspec_conformance.targets.operands import OperandKind


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


def _saturate_pairs(offset: int, case: ProductCase, exact: Floats) -> Floats | None:
    """Codes of b as integers, plus an offset that is taken off again: the sum of two products with 8-bit codes of a has 16 bits."""
    sides = case.a, case.b
    if any(x.spec.kind is not OperandKind.BLOCK or x.metadata is not None or x.codes.shape[1] % 2 for x in sides) or case.options:  # type: ignore[union-attr]
        return None
    tables = [decode_table(x.spec.block.element).astype(np.float64) for x in sides]
    steps = [np.abs(t[t != 0]).min() for t in tables]
    if case.a.spec.block.element.name != "int8" or (tables[1] % steps[1]).any() or np.abs(tables[1] / steps[1]).max() > 128:
        return None
    x, w = (t[s.codes] / step for t, s, step in zip(tables, sides, steps, strict=True))
    runs = [s.spec.block.k for s in sides]
    scales = [decode_codes(s.scales, s.spec.block.scale).astype(np.float64) for s in sides]  # type: ignore[arg-type]
    factors = [np.repeat(s, run // 2, axis=1) for s, run in zip(scales, runs, strict=True)]
    total = np.zeros(exact.shape)
    for i in range(0, x.shape[1], 2):
        pair = np.clip(x[:, i : i + 2] @ (w[:, i : i + 2].T + offset), -32768, 32767) - offset * x[:, i : i + 2].sum(axis=1)[:, None]
        total += pair * (factors[0][:, i // 2, None] * factors[1][:, i // 2]) * steps[0] * steps[1]
    return total.astype(np.float32).astype(np.float64)


def list_written_mistakes() -> Iterator[Mistake]:
    """Mistakes in what becomes of right outputs."""
    for added in (0, 8, 128):
        text = "sums of two products saturate at 16 bits" + f", with {added} added to codes of b" * (added > 0)
        yield Mistake(text, keep_case, None, partial(_saturate_pairs, added))
    for text, outputs in (
        ("the output is written transposed", _transposed), ("the output is transposed", _transposed_square),
        ("outputs are cut, not rounded", _cut_outputs), ("outputs midway are rounded away from zero", _ties_away),
        ("outputs are rounded to float16 on the way", partial(_through, "float16")),
        ("outputs are rounded to bfloat16 on the way", partial(_through, "bfloat16")),
        ("nothing is computed: all outputs are zero", _zeros), ("every product counts twice", _doubled),
    ):  # fmt: skip
        yield Mistake(text, keep_case, None, outputs)
    yield Mistake("the bias is added after the sum was rounded to the output's dtype", _without_bias, None, _late_bias)
