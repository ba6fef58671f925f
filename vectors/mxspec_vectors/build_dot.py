"""The files of products: operands by recipe, and for each class of accumulations the outputs that it may give."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec import dot
from mxspec.dot import Accumulator, Allowed, Factor, Special, Sums
from mxspec.dot.rounding import DTYPES as _DTYPES, OUTPUTS, lowest_bit
from mxspec.formats import BLOCKS
from mxspec_vectors.document import Document, case_id
from mxspec_vectors.entries import hex_floats, hex_words, make_header
from mxspec_vectors.inputs_dot import Desk, DotInput, OperandWriter
from mxspec_vectors.recipes_dot import make_operands

#: (format of a, format of b) of every file.
PAIRS: tuple[tuple[str, str], ...] = (
    *((fmt, fmt) for fmt in ("mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8", "nvfp4")),
    ("mxfp8_e4m3", "mxfp4"),
    *((plain, fmt) for plain in ("float32", "bfloat16", "float16") for fmt in ("mxfp4", "nvfp4", "mxfp8_e4m3")),
)  # fmt: skip
#: Files by the name of their format.
DOT_FILES = tuple(f"{a}@{b}" for a, b in PAIRS)
#: Classes of accumulations in the order in which they joined. `fused-f25-8` is for TF32 numbers, which no pair of formats here has.
CLASSES = (
    "float32-nearest", "float32", "fused-f25-16", "fused-f25-32", "fused-f24-8", "fused-f23-4", "fused-f13-32-promoted-128",
    "fused-f13-32", "fused-f13-16", "float16", "bfloat16",
)  # fmt: skip
#: Topics that ask only those classes in which every output has one result.
CERTAIN = ("identity", "code", "sum", "block-scale", "shape", "scale-code", "nan", "inf")


def build_dot(name: str) -> Document:
    """The products of a pair of formats with the outputs that every class allows."""
    a, b = name.split("@")
    desk = Desk(OperandWriter(a, b), OperandWriter(b, a))
    inputs = list(desk.list_inputs())
    document = make_header("dot", name, CLASSES, {f for i in inputs for f in i.flags})
    digits = {"a": desk.a.side.digits, "b": desk.b.side.digits, "a_scales": 2, "b_scales": 2}
    document["sides"] = {"a": desk.a.side.as_dict(), "b": desk.b.side.as_dict()}
    document["recipes"] = {
        "sides": {
            part: {table: hex_words(entries, digits[part]) for table, entries in known.items()} for part, known in desk.tables.items()
        }
    }
    document["cases"] = [_make_case(name, desk, given, document["recipes"]["sides"]) for given in inputs]
    return document


def _make_case(name: str, desk: Desk, given: DotInput, tables: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    sides = {"a": desk.a.side, "b": desk.b.side}
    operands = make_operands(sides, tables, given.shape, given.recipe)
    scales = {f"{w}_tensor_scale": f"{bits:08x}" for w, bits in zip("ab", given.tensor_scales, strict=True) if bits is not None}
    question = {"shape": list(given.shape), "out": given.out, **scales, **operands}
    identity = {"operation": "dot", "format": name, **question}
    found = allow_case(name, question)
    if given.topic in CERTAIN:
        found = {accumulator: ends for accumulator, ends in found.items() if ends[0] == ends[1]}
        assert "float32" in found, given.slug
    grouped: dict[tuple[str, str], list[str]] = {}
    for accumulator, ends in found.items():
        grouped.setdefault(ends, []).append(accumulator)
    return {
        "id": case_id(given.slug, identity), "topic": given.topic, "flags": list(given.flags), **question, "recipe": list(given.recipe),
        "expect": [{"profiles": names, "low": low, "high": high} for (low, high), names in grouped.items()],
    }  # fmt: skip


def read_factor(fmt: str, entry: Mapping[str, Any], which: str, rows: int, k: int) -> Factor:
    """One side of a case as the model multiplies it."""
    text = entry[which]
    if fmt not in BLOCKS:
        width = len(text) // (rows * k)
        bits = np.array([int(text[i : i + width], 16) for i in range(0, len(text), width)], f"u{width // 2}")
        return dot.plain_factor(bits.view(_DTYPES[fmt]).reshape(rows, k))
    width = len(text) // (rows * k)
    codes = np.array([int(text[i : i + width], 16) for i in range(0, len(text), width)], np.uint8).reshape(rows, k)
    scales = np.frombuffer(bytes.fromhex(entry[f"{which}_scales"]), np.uint8).reshape(rows, -1)
    bits32 = int(entry.get(f"{which}_tensor_scale", "3f800000"), 16)
    return dot.block_factor(codes, scales, fmt, tensor_scale=float(np.uint32(bits32).view(np.float32)))


def allow_case(name: str, entry: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Class -> the smallest and the largest of every output that it may give, as bits of the output's dtype.

    Classes of which nothing is proven for some output are left out.
    """
    m, n, k = entry["shape"]
    a, b = (read_factor(fmt, entry, w, rows, k) for fmt, w, rows in zip(name.split("@"), "ab", (m, n), strict=True))
    sums = _refine(dot.sum_products(a, b), a, b)
    found = {}
    for accumulator in CLASSES:
        allowed = dot.allow_outputs(sums, dot.get_accumulator(accumulator), entry["out"], tensor_scale=a.tensor_scale * b.tensor_scale)
        ends = _bound_overflows(allowed, dot.get_accumulator(accumulator), a, b, entry["out"])
        if ((ends[0] == -np.inf) & (ends[1] == np.inf)).any():
            continue  # nothing is proven: partial sums may overflow, and infinities cancel
        low, high = (_bits(end, allowed.special, entry["out"]) for end in ends)
        found[accumulator] = (low, high)
    return found


def _refine(sums: Sums, a: Factor, b: Factor) -> Sums:
    """The same with the lowest bit of those products that are not zero, not a bound of it by runs."""
    left, right = (lowest_bit(np.where(np.isfinite(x.values), x.values, 0)).astype(np.int64) for x in (a, b))
    unit = (left[:, None, :] + right[None, :, :]).min(axis=2, initial=8192)
    return replace(sums, unit=np.minimum(unit, 8192).astype(np.int16))


def _bound_overflows(
    allowed: Allowed, accumulator: Accumulator, a: Factor, b: Factor, out: str
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The ends of each output; where no product is negative and one alone is beyond the class, from its largest number on.

    Sums that cannot fall stay infinite, or at that number, once they are.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        products = a.values[:, None, :] * b.values[None, :, :]
        beyond = (products >= 0).all(axis=2) & (products.max(axis=2, initial=0) >= 2.0 ** (accumulator.most + 1))
    largest = math.ldexp(2 - math.ldexp(1, 1 - accumulator.precision), accumulator.most)
    sure = beyond & (a.tensor_scale * b.tensor_scale == 1)
    return np.where(sure, min(largest, float(OUTPUTS[out].max_value)), allowed.low), np.where(sure, np.inf, allowed.high)


def _bits(end: npt.NDArray[np.float64], special: npt.NDArray[np.int8], out: str) -> str:
    for kind, value in ((Special.NAN, np.nan), (Special.PLUS_INF, np.inf), (Special.MINUS_INF, -np.inf)):
        end = np.where(special == kind, value, end)
    with np.errstate(over="ignore"):
        return hex_floats((end + 0.0).astype(np.float32).astype(_DTYPES[out]))
