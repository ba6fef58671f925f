"""A Hypothesis strategy for both operands of a product, and the check of what a kernel makes of them.

Used through `mxspec_conformance.testing.strategies`, which says what is missing where Hypothesis is not installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument

from mxspec.dot import (
    DEFAULT_ACCUMULATOR,
    EXACTLY,
    OUTPUTS,
    PLAIN_DTYPES,
    PLAIN_FORMATS,
    Allowed,
    Epilogue,
    Factor,
    OperandContract,
    allow_outputs,
    explain_output,
    get_accumulator,
    sum_products,
)
from mxspec.elements import decode_table
from mxspec.formats import BlockFormat
from mxspec_conformance.judge.products.draw import takes_tensor_scale
from mxspec_conformance.judge.products.reference import make_factor, read_contract
from mxspec_conformance.render.product import describe_operand, explain_product_lines
from mxspec_conformance.targets.laying_out import hand_over
from mxspec_conformance.targets.operands import Numbers, OperandKind, OperandSpec, Product, parse_product
from mxspec_conformance.targets.product_sizes import find_sizes

#: Tensor scales, the simplest first.
_TENSOR_SCALES = tuple(float(np.float32(x)) for x in (1, 2, 0.5, 0.25, 3, 1 / 3, 0.3712, 1024, 2.0**-20))
#: Plain numbers, the simplest first; each dtype has those that it holds, and its own ends.
_NUMBERS = (1.0, -1.0, 2.0, 0.5, 3.0, -2.0, 1.5, 4.0, 0.25, 7.0, 255.0, 1024.0, 2.0**-10, 2.0**14, 2.0**-14, 2.0**60, 2.0**-60)


@dataclass(frozen=True, eq=False, repr=False)
class Operands:
    """Both operands of a product, as a kernel takes them, with what is right.

    `a` and `b` are what a target is handed: `Side` (codes, scales, tensor_scale, format, shape) in the layout that the product
    names, or the array of a plain side.
    """

    product: Product
    left: Numbers
    right: Numbers

    @property
    def a(self) -> Any:
        """The side of m rows."""
        return hand_over(self.left)

    @property
    def b(self) -> Any:
        """The side of n rows: the columns of the output."""
        return hand_over(self.right)

    @property
    def shape(self) -> tuple[int, int, int]:
        """m, n and k."""
        (m, k), n = self.left.shape, self.right.shape[0]
        return m, n, k

    def factors(self, contract: str | OperandContract = EXACTLY) -> tuple[Factor, Factor]:
        """Both sides for `mxspec.dot`, block sides rounded as a contract says."""
        wanted = self._read(contract)
        return make_factor(self.left, wanted), make_factor(self.right, wanted)

    def _read(self, contract: str | OperandContract) -> OperandContract:
        return contract if isinstance(contract, OperandContract) else read_contract(contract, (self.left.spec, self.right.spec))

    def allow(
        self, out_dtype: str = "float32", *, accumulator: str = DEFAULT_ACCUMULATOR, contract: str | OperandContract = EXACTLY,
        epilogue: Epilogue | None = None,
    ) -> Allowed:  # fmt: skip
        """Every output [m, n] that a legitimate kernel of the class may return.

        Raises ValueError for an unknown class, contract or dtype.
        """
        if out_dtype not in OUTPUTS:
            raise ValueError(f"out_dtype = {out_dtype!r}; allowed are {', '.join(OUTPUTS)}")
        a, b = self.factors(contract)
        with np.errstate(all="ignore"):
            return allow_outputs(
                sum_products(a, b), get_accumulator(accumulator), out_dtype, tensor_scale=a.tensor_scale * b.tensor_scale,
                epilogue=epilogue,
            )  # fmt: skip

    def check(
        self, output: npt.ArrayLike, *, accumulator: str = DEFAULT_ACCUMULATOR, contract: str | OperandContract = EXACTLY,
        epilogue: Epilogue | None = None,
    ) -> None:  # fmt: skip
        """Compare what a kernel returned with what it may return; the array's dtype is the output's.

        Raises AssertionError, with the first wrong output explained step by step, and TypeError or ValueError where dtype or
        shape are none of the product's.
        """
        y = np.asarray(output)
        m, n, _ = self.shape
        if y.dtype.name not in OUTPUTS:
            raise TypeError(f"the output is {y.dtype}; allowed are {', '.join(OUTPUTS)}")
        if y.shape != (m, n):
            raise ValueError(f"the output has shape {y.shape}; the product has {(m, n)}")
        allowed = self.allow(y.dtype.name, accumulator=accumulator, contract=contract, epilogue=epilogue)
        with np.errstate(all="ignore"):
            bad = ~allowed.accepts(y)
        if not bad.any():
            return
        row, column = (int(i) for i in np.argwhere(bad)[0])
        a, b = self.factors(contract)
        with np.errstate(all="ignore"):
            e = explain_output(
                a, b, row=row, column=column, accumulator=accumulator, out_dtype=y.dtype.name, epilogue=epilogue,
                returned=float(y[row, column]),
            )  # fmt: skip
            sides = describe_operand(self.left, row), describe_operand(self.right, column)
            lines = explain_product_lines(e, *sides, contract=self._read(contract))
        raise AssertionError("\n".join([f"{int(bad.sum())} of {bad.size} outputs are wrong; the first:", *lines]))

    def __repr__(self) -> str:
        m, n, k = self.shape
        return f"Operands({self.product.text!r}, m={m}, n={n}, k={k}, a={_draw(self.left)}, b={_draw(self.right)})"


def _draw(numbers: Numbers) -> str:
    """What is not zero, and scales that are not one."""
    if numbers.values is not None:
        found = [f"[{i}, {k}]: {float(numbers.values[i, k])!r}" for i, k in np.argwhere(numbers.values != 0).tolist()]
        return "{" + ", ".join(found) + "}"
    assert numbers.codes is not None
    assert numbers.scales is not None
    one = _scale_of_one(numbers.spec.block)
    parts = [f"[{i}, {k}]: {int(numbers.codes[i, k]):#04x}" for i, k in np.argwhere(numbers.codes != 0).tolist()]
    scales = [f"[{i}, {j}]: {int(numbers.scales[i, j]):#04x}" for i, j in np.argwhere(numbers.scales != one).tolist()]
    text = "codes={" + ", ".join(parts) + "}"
    if scales:
        text += ", scales={" + ", ".join(scales) + "}"
    if numbers.tensor_scale is not None:
        text += f", tensor_scale={numbers.tensor_scale!r}"
    return f"({text})"


def operands(
    product: str | Mapping[str, str] | Product, *, max_rows: int = 3, max_columns: int = 3, max_blocks: int = 3,
    allow_nan: bool = False, allow_infinity: bool = False, extreme: bool = True,
) -> st.SearchStrategy[Operands]:  # fmt: skip
    """Both operands of a product, of one k: few numbers or many, scales at the ends of their format, zero blocks under any scale, a
    number and its negative, numbers and codes at the ends of their formats.

    >>> from hypothesis import given
    >>> from mxspec import dot
    >>> from mxspec_conformance.testing import strategies as mx
    >>> @given(mx.operands("mxfp8_e4m3 @ mxfp4"))
    ... def test_my_gemm(p):
    ...     y = dot.matmul(*p.factors())  # your kernel's answer, of p.a.codes, p.a.scales, p.b.codes and p.b.scales
    ...     p.check(y)
    >>> test_my_gemm()

    A failing product shrinks to one row, one column and one block, few numbers in it, ones where that is enough.

    Args:
        product: Both sides as a target declares them: "A @ B", {"a": A, "b": B}; formats, dtypes, layouts.
        max_rows: The largest m; a layout in whole tiles may need more.
        max_columns: The largest n, likewise.
        max_blocks: The largest k in blocks (in 32 numbers where both sides are plain).
        allow_nan: Whether NaN codes, NaN scales and NaN are drawn.
        allow_infinity: Whether infinities are drawn.
        extreme: Whether scales and plain numbers reach the ends of their formats, where a number times its scale, or a product,
            may be beyond float32, or subnormal in it: legitimate kernels overflow or flush there. False: within 2**-40 and 2**40.

    Returns:
        A strategy of `Operands`.

    Raises InvalidArgument for a product that is none, for a kind of operand that cannot be drawn, and for sizes below 1.
    """
    try:
        found = product if isinstance(product, Product) else parse_product(product)
    except ValueError as error:
        raise InvalidArgument(f"product={product!r}: {error}") from None
    for side, spec in (("a", found.a), ("b", found.b)):
        if spec.kind not in (OperandKind.BLOCK, OperandKind.PLAIN):
            raise InvalidArgument(f"product={product!r}: {side} is {spec.kind}; block formats and plain dtypes are drawn")
    for label, size in (("max_rows", max_rows), ("max_columns", max_columns), ("max_blocks", max_blocks)):
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise InvalidArgument(f"{label}={size!r} must be an integer from 1 on")
    for label, flag in (("allow_nan", allow_nan), ("allow_infinity", allow_infinity), ("extreme", extreme)):
        if not isinstance(flag, bool):
            raise InvalidArgument(f"{label}={flag!r} must be True or False")
    choice = _Choice(allow_nan, allow_infinity, extreme)
    for spec in (found.a, found.b):  # tables are made here: Hypothesis takes a slow first draw for a slow strategy
        if spec.kind is OperandKind.BLOCK:
            _codes(spec.block, choice), _scales(spec.block, choice), _negatives(spec.block)
    find_sizes(found, (1, 1, 1))
    return _operands(found, max_rows, max_columns, max_blocks, choice)


@dataclass(frozen=True, slots=True)
class _Choice:
    """What may be drawn."""

    nan: bool
    infinity: bool
    extreme: bool


@st.composite
def _operands(draw: st.DrawFn, product: Product, max_rows: int, max_columns: int, max_blocks: int, choice: _Choice) -> Operands:
    sizes = find_sizes(product, (1, 1, 1))
    block = all(spec.kind is OperandKind.BLOCK for spec in (product.a, product.b))
    plain = all(spec.kind is OperandKind.PLAIN for spec in (product.a, product.b))
    wide = draw(st.integers(1, max_blocks * (32 if plain else 1)))
    m, n, k = sizes.fit(draw(st.integers(1, max_rows)), draw(st.integers(1, max_columns)), wide * (1 if plain else sizes.k))
    a, b = _draw_side(draw, product.a, m, k, choice), _draw_side(draw, product.b, n, k, choice)
    if k > 1 and draw(st.sampled_from((False, False, False, True))):
        a, b = _cancel(draw, a, b)
    if block and draw(st.sampled_from((False, False, False, True))):
        a = _empty_block(draw, a)
    return Operands(product, a, b)


def _draw_side(draw: st.DrawFn, spec: OperandSpec, rows: int, k: int, choice: _Choice) -> Numbers:
    place = st.tuples(st.integers(0, rows - 1), st.integers(0, k - 1))
    if spec.kind is OperandKind.PLAIN:
        each = st.one_of([st.sampled_from(p) for p in _plain_bits(spec.format, choice) if p])
        fmt = OUTPUTS[spec.format]
        bits = np.zeros((rows, k), f"u{fmt.bits // 8}")
        _fill(draw, bits, place, each)
        return Numbers(spec=spec, values=bits.view(PLAIN_DTYPES[spec.format]))
    fmt_block = spec.block
    codes = np.zeros((rows, k), np.uint8)
    _fill(draw, codes, place, st.sampled_from(_codes(fmt_block, choice)))
    ordered, ends = _scales(fmt_block, choice)
    scale = st.one_of(st.sampled_from(ordered), st.sampled_from(ends))
    runs = k // fmt_block.k
    scales = np.full((rows, runs), draw(scale) if draw(st.booleans()) else _scale_of_one(fmt_block), np.uint8)
    entries = st.tuples(st.integers(0, rows - 1), st.integers(0, runs - 1), scale)
    for row, run, code in draw(st.lists(entries, max_size=4)):
        scales[row, run] = code
    tensor = draw(st.one_of(st.none(), st.sampled_from(_TENSOR_SCALES))) if takes_tensor_scale(spec) else None
    return Numbers(spec=spec, codes=codes, scales=scales, tensor_scale=tensor)


def _fill(draw: st.DrawFn, held: npt.NDArray[Any], place: st.SearchStrategy[tuple[int, int]], each: st.SearchStrategy[int]) -> None:
    """Zeros with a few entries; sometimes their numbers in turn at all other places, too, which shrinks to the entries alone."""
    entries = draw(st.lists(st.tuples(place, each), max_size=8))
    if entries and draw(st.sampled_from((False, False, True))):
        held.reshape(-1)[:] = np.resize(np.array([value for _, value in entries], held.dtype), held.size)
    for (row, at), value in entries:
        held[row, at] = value


def _cancel(draw: st.DrawFn, a: Numbers, b: Numbers) -> tuple[Numbers, Numbers]:
    """A number and its negative in one row of a, at two places where every row of b has one number."""
    k = a.shape[1]
    row = draw(st.integers(0, a.shape[0] - 1))
    one = draw(st.integers(0, k - 1))
    other = draw(st.integers(0, k - 2))
    other += other >= one
    a, b = (_copy_place(x, rows, one, other) for x, rows in ((a, slice(row, row + 1)), (b, slice(None))))
    if a.values is not None:
        values = a.values.copy()
        values[row, other] = -values[row, one]
        return replace(a, values=values), b
    assert a.codes is not None
    codes = a.codes.copy()
    codes[row, other] = _negatives(a.spec.block)[int(codes[row, one])]
    return replace(a, codes=codes), b


def _copy_place(numbers: Numbers, rows: slice, source: int, to: int) -> Numbers:
    """What stands at one place along k, and its scale, at another, too."""
    if numbers.values is not None:
        values = numbers.values.copy()
        values[rows, to] = values[rows, source]
        return replace(numbers, values=values)
    assert numbers.codes is not None
    assert numbers.scales is not None
    run = numbers.spec.block.k
    codes, scales = numbers.codes.copy(), numbers.scales.copy()
    codes[rows, to] = codes[rows, source]
    scales[rows, to // run] = scales[rows, source // run]
    return replace(numbers, codes=codes, scales=scales)


def _empty_block(draw: st.DrawFn, numbers: Numbers) -> Numbers:
    """One block without a number."""
    assert numbers.codes is not None
    run = numbers.spec.block.k
    row, block = draw(st.integers(0, numbers.shape[0] - 1)), draw(st.integers(0, numbers.shape[1] // run - 1))
    codes = numbers.codes.copy()
    codes[row, block * run : (block + 1) * run] = 0
    return replace(numbers, codes=codes)


# What is drawn from, the simplest first.


def _simplicity(value: float) -> tuple[bool, bool, int, bool]:
    """Ones, then powers of two and small numbers, positive before negative, zeros, and what is no number last."""
    if not np.isfinite(value):
        return True, False, 0, False
    exact = Fraction(value)
    return False, not exact, abs(exact.numerator) * exact.denominator, exact < 0


@lru_cache(maxsize=64)
def _codes(fmt: BlockFormat, choice: _Choice) -> tuple[int, ...]:
    table = decode_table(fmt.element).astype(np.float64).tolist()
    kept = [c for c, v in enumerate(table) if (choice.nan or not np.isnan(v)) and (choice.infinity or not np.isinf(v))]
    return tuple(sorted(kept, key=lambda c: (*_simplicity(table[c]), c)))


@lru_cache(maxsize=64)
def _negatives(fmt: BlockFormat) -> tuple[int, ...]:
    """For each code that of its negative; its own where there is none."""
    table = decode_table(fmt.element).astype(np.float64).tolist()
    places = {v: c for c, v in reversed(list(enumerate(table))) if np.isfinite(v)}
    return tuple(places.get(-v, c) for c, v in enumerate(table))


def _scale_of_one(fmt: BlockFormat) -> int:
    return fmt.scale.bias << fmt.scale.mantissa_bits


@lru_cache(maxsize=64)
def _scales(fmt: BlockFormat, choice: _Choice) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """All scale codes by their distance from one, and the ends."""
    table = decode_table(fmt.scale).astype(np.float64).tolist()
    kept = [c for c in range(len(table)) if choice.nan or not np.isnan(table[c])]
    if not choice.extreme:
        kept = [c for c in kept if np.isnan(table[c]) or 2.0**-20 <= table[c] <= 2.0**20]
    one = _scale_of_one(fmt)
    ordered = tuple(sorted(kept, key=lambda c: (abs(c - one), c)))
    low, high = min(kept), max(c for c in kept if not np.isnan(table[c]))
    ends = dict.fromkeys((high, high - 1, low, low + 1, *(c for c in kept if np.isnan(table[c]))))
    return ordered, tuple(ends)


@lru_cache(maxsize=64)
def _plain_bits(dtype: str, choice: _Choice) -> tuple[tuple[int, ...], ...]:
    """Bits of simple numbers; of the ends; of what is no number."""
    fmt, kind = PLAIN_FORMATS[dtype], PLAIN_DTYPES[dtype]
    width = f"u{fmt.bits // 8}"
    limit = 2.0**20 if not choice.extreme else float("inf")
    with np.errstate(all="ignore"):
        numbers = np.array(_NUMBERS).astype(kind)
    exact = [x for x, v in zip(numbers, _NUMBERS, strict=True) if float(x) == v and 1 / limit <= abs(v) <= limit]
    simple = np.array([*exact, *([kind.type(1 + 2.0**-fmt.mantissa_bits)])], kind).view(width).tolist()
    least_normal = 1 << fmt.mantissa_bits
    ends = (
        [1, least_normal - 1, least_normal, fmt.max_code, fmt.sign_bit, fmt.sign_bit | fmt.max_code] if choice.extreme else [fmt.sign_bit]
    )
    special: list[int] = []
    if choice.nan and fmt.nan_code is not None:
        special.append(fmt.nan_code)
    if choice.infinity and fmt.inf_code is not None:
        special += [fmt.inf_code, fmt.inf_code | fmt.sign_bit]
    return tuple(simple), tuple(ends), tuple(special)
