"""Numbers at the ends of what their formats, scales and factors hold: far apart, all of them the largest, too small for any output.

A narrow accumulator keeps the sums of like numbers and loses one next to a large one; integer units saturate where all codes are
the largest; what is scaled twice, at the sum and at the output, must not be cut in between.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.dot import PLAIN_FORMATS
from mxspec_conformance.judge.products.case import ProductCase
from mxspec_conformance.judge.products.draw import BlockWriter, takes_tensor_scale, with_tensor_scale
from mxspec_conformance.judge.products.making import ListCases, Maker
from mxspec_conformance.judge.products.variety import list_options
from mxspec_conformance.targets.operands import Numbers, OperandKind

#: Exponent of scales of both sides whose product no float32 number holds.
_BELOW = -100
#: alpha, of which float16 has few bits left, and the exponent of the numbers whose sums it takes back.
_ALPHA, _LARGE = 2.0**-18, 14
#: Rows and columns of what is scaled: less than a tile, and more.
_SCALED = (5, 6), (68, 72)
#: Tensor scales that take the largest block scales back; float16 has the second one as a subnormal number.
_TENSOR_SCALES = 2.0**-11, 2.0**-16
#: Plain dtypes whose subnormal numbers are operands like others.
_NARROW = ("float16", "float8_e4m3fn", "float8_e5m2")


def _list_full_width(maker: Maker) -> Iterator[ProductCase]:
    """Sums of two numbers that have all the bits that are certain: one large, one small, each at its own place."""
    if any(p.spec.kind is OperandKind.AFFINE for p in (maker.a, maker.b)):
        return
    run = math.lcm(maker.a.run, maker.b.run)
    m, n, k = maker.sizes.fit(6, 3, 2 * run)
    left = maker.bits - 1
    powers = []
    for writer in (maker.a, maker.b):
        step = min(left, writer.powers[1] - writer.powers[0])
        left -= step
        start = (sum(writer.powers) - step) // 2
        powers.append((start + step, start))
    if left:
        return
    sides = []
    for writer, rows, (high, low) in zip((maker.a, maker.b), (m, n), powers, strict=True):
        exponents = np.full((rows, k // writer.run), low)
        exponents[:, : run // writer.run] = high
        codes = np.full((rows, k), writer.code_of(1.0))
        if writer is maker.a:
            codes[:] = writer.code_of(0.0)
            codes[np.arange(rows), np.arange(rows) % run] = writer.code_of(1.0)
            codes[np.arange(rows), k - 1 - np.arange(rows) % run] = [
                writer.code_of(-1.0 if i % 2 and writer.has(-1.0) else 1.0) for i in range(rows)
            ]
        sides.append(writer.numbers(codes, exponents))
    yield ProductCase(topic="sum", label=f"a large number and a small one, k = {k}", a=sides[0], b=sides[1])


def _list_largest(maker: Maker) -> Iterator[ProductCase]:
    """Rows of the largest number alone, of the lowest one, and of both by turns."""
    m, n, k = maker.sizes.fit(3, 3, 64)
    sides = []
    for writer, rows in ((maker.a, m), (maker.b, n)):
        ends = [int(writer.finite[pick(writer.values[writer.finite])]) for pick in (np.argmax, np.argmin)]
        turn = np.arange(rows)[:, None]
        codes: npt.NDArray[Any] = np.where(turn % 3 == 2, np.resize(ends, k)[None, :], np.array(ends)[turn % 3 % 2])
        sides.append(writer.numbers(codes))
    yield ProductCase(topic="sum", label=f"the largest numbers, k = {k}", a=sides[0], b=sides[1])


def _list_below(maker: Maker) -> Iterator[ProductCase]:
    """Scales whose product is smaller than every number: their exponents must not come round."""
    if not all(isinstance(p, BlockWriter) and p.spec.block.is_mx for p in (maker.a, maker.b)):
        return
    m, n, k = maker.sizes.fit(4, 5, 64)
    a, b = (p.numbers(maker.integers(p, rows, k), _BELOW) for p, rows in ((maker.a, m), (maker.b, n)))
    yield ProductCase(topic="scale-code", label="scales whose product is below every number", a=a, b=b)


def _list_subnormals(maker: Maker, least: int) -> Iterator[ProductCase]:
    """One-hot rows against floats that are subnormal in their own dtype, in so many rows at least."""
    for side, writer, hot in (("a", maker.a, maker.b), ("b", maker.b, maker.a)):
        if writer.spec.kind is not OperandKind.PLAIN or writer.spec.format not in _NARROW or writer.spec.sparsity or hot.spec.sparsity:
            continue
        k = maker.sizes.fit(1, 1, 32)[2]
        m, n, _ = maker.sizes.fit(least, k, k) if side == "a" else maker.sizes.fit(k, least, k)
        rows, across = (m, n) if side == "a" else (n, m)
        fmt = PLAIN_FORMATS[writer.spec.format]
        steps = maker.draw.integers(1, 1 << fmt.mantissa_bits, (rows, k)) * maker.draw.choice([-1.0, 1.0], (rows, k))
        numbers: Numbers = writer.quantized(steps * float(fmt.min_subnormal))
        ones = hot.one_hot(across, k, np.where(np.arange(across) < k, np.arange(across), -1))
        a, b = (numbers, ones) if side == "a" else (ones, numbers)
        yield ProductCase(topic="identity", label=f"one-hot rows, subnormal numbers of {side}, {rows} rows", a=a, b=b)


def _ones(maker: Maker, rows: tuple[int, int], k: int, powers: tuple[int, int]) -> list[Numbers]:
    """Both sides of zeros and ones under a power of two; no row is without a one."""
    sides = []
    for writer, count, power in zip((maker.a, maker.b), rows, powers, strict=True):
        codes = writer.pick(np.array([writer.code_of(0.0), writer.code_of(1.0), writer.code_of(1.0)]), count, k)
        sides.append(writer.numbers(codes, power))
    return sides


def _list_factors(maker: Maker, dtype: str) -> Iterator[ProductCase]:
    """A small alpha over large sums."""
    if "alpha" not in maker.takes:
        return
    for m, n, k in dict.fromkeys(maker.sizes.fit(*shape, 64) for shape in _SCALED):
        first = min(maker.a.powers[1], _LARGE // 2)
        sides = _ones(maker, (m, n), k, (first, min(maker.b.powers[1], _LARGE - first)))
        label = f"alpha 2^-18, large sums, {m} x {n}"
        yield ProductCase(topic="epilogue", label=label, a=sides[0], b=sides[1], options={"alpha": _ALPHA})


def _list_tensor_scales(maker: Maker, dtype: str) -> Iterator[ProductCase]:
    """Tensor scales with alpha, C and bias; small ones over large block scales."""
    scaled = [takes_tensor_scale(writer.spec) for writer in (maker.a, maker.b)]
    if not any(scaled):
        return

    def scale(sides: Sequence[Numbers], values: tuple[float, float]) -> list[Numbers]:
        return [with_tensor_scale(x, v) if s else x for x, v, s in zip(sides, values, scaled, strict=True)]

    m, n, k = maker.sizes.fit(5, 6, 64)
    plain = scale([writer.numbers(maker.short(writer, rows, k)) for writer, rows in ((maker.a, m), (maker.b, n))], (0.125, 32.0))
    options = list_options(m, n, maker.takes, dtype)
    if "alpha" in maker.takes:
        options.append(("alpha", {"alpha": 0.5}))
    for label, given in options:
        yield ProductCase(topic="tensor-scale", label=f"tensor scales and {label}", a=plain[0], b=plain[1], options=given)
    large = [p.powers[1] if s else 0 for p, s in zip((maker.a, maker.b), scaled, strict=True)]
    for m, n, k in dict.fromkeys(maker.sizes.fit(*shape, 64) for shape in _SCALED):
        sides = scale(_ones(maker, (m, n), k, (large[0], large[1])), _TENSOR_SCALES)
        yield ProductCase(topic="tensor-scale", label=f"small tensor scales, large block scales, {m} x {n}", a=sides[0], b=sides[1])


def _list_added_nan(maker: Maker, dtype: str) -> Iterator[ProductCase]:
    """A NaN in what is added: it is one in the output."""
    m, n, k = maker.sizes.fit(5, 6, 32)
    sides: list[Numbers] = []
    for label, options in list_options(m, n, maker.takes, dtype)[:2]:
        for name in ("c", "bias"):
            if name in options:
                added = options[name].copy()
                added[(1, 2)[-added.ndim :]] = np.nan
                options = {**options, name: added}
        sides = sides or _ones(maker, (m, n), k, (0, 0))
        yield ProductCase(topic="nan", label=f"a NaN in {label}", a=sides[0], b=sides[1], options=options)


#: Groups of cases, asked in the first dtype of outputs; what an epilogue does in each.
FIRST: dict[str, ListCases] = {
    "full width": lambda maker, _: _list_full_width(maker),
    "largest numbers": lambda maker, _: _list_largest(maker),
    "scales below": lambda maker, _: _list_below(maker),
    "subnormal operands": lambda maker, _: _list_subnormals(maker, 8),
    "subnormal operands of tiles": lambda maker, _: _list_subnormals(maker, 36),
}
EVERY: dict[str, ListCases] = {
    "small factors": _list_factors,
    "tensor scales and epilogues": _list_tensor_scales,
    "added NaN": _list_added_nan,
}
