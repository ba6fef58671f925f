"""Hypothesis strategies for tests of quantizers: blocks, tensors, codes and scales that lie where rules change their answers.

>>> from hypothesis import given
>>> from mxspec_conformance.testing import strategies as mx
>>> import mxspec
>>> @given(mx.blocks("mxfp4"))
... def test_my_kernel(x):
...     q = mxspec.quantize(x, "mxfp4")  # your kernel's answer would be compared with this
...     assert q.codes.shape == x.shape
>>> test_my_kernel()

A failing block shrinks to few lanes that are not +0 and to simple numbers in them: 1, then powers of two, then the element
format's own values, then what lies between.

This module needs hypothesis, an optional extra: pip install hypothesis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

try:
    from hypothesis import strategies as st
    from hypothesis.errors import InvalidArgument
except ImportError as error:
    raise ImportError("mxspec_conformance.testing.strategies needs hypothesis, which is not installed: pip install hypothesis") from error

from mxspec.formats import BLOCKS, ELEMENTS, SCALES, BlockFormat, ElementFormat, ScaleFormat, power_of_two
from mxspec.profiles import Profile, get_profile
from mxspec.scales import log2f_thresholds, significand_bits
from mxspec.sparsity import KEPT, SPARSE_FORMATS, SparseFormat
from mxspec.tensorscale import TensorScale, derive_tensor_scale
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.testing.affine_groups import affine_groups
from mxspec_conformance.testing.product_operands import Operands, operands
from mxspec_conformance.testing.sparse_stored import SparseStored, sparse_stored
from mxspec_vectors.points import TENSOR_AMAXES

__all__ = [
    "Operands", "SparseStored", "adversarial", "affine_groups", "blocks", "codes", "near_powers_of_two", "operands", "random_words",
    "scales", "sparse_codes", "sparse_stored", "tensor_scales", "tensors", "ties",
]  # fmt: skip

Array = npt.NDArray[Any]

_SIGN = 0x80000000
_INF = 0x7F800000
_FLT_MAX = 0x7F7FFFFF
_ONE = 0x3F800000
_NANS = (0x7FC00000, 0xFFC00000, 0x7FFFFFFF)
#: Exponents of the largest number of a block, the simplest first, and the ends of what each dtype holds.
_EXPONENTS = (0, 1, -1, 2, -2, 7, -6, 14, -13, 33, -20, 60, -60, 100, -100, 119, -118, 126, -124, -126, -130, -140, -149, 127)
_RANGE = {"float32": (-149, 127), "bfloat16": (-133, 127), "float16": (-24, 15)}


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise InvalidArgument(message)


def _block_format(fmt: str | BlockFormat) -> BlockFormat:
    if isinstance(fmt, BlockFormat):
        return fmt
    _check(isinstance(fmt, str), f"fmt={fmt!r} of type {type(fmt).__name__} is not a block format; pass its name")
    _check(fmt in BLOCKS, f"fmt={fmt!r} is not a block format; known are {', '.join(BLOCKS)}")
    return BLOCKS[fmt]


def _scalar_format(name: str | ElementFormat | ScaleFormat) -> ElementFormat | ScaleFormat:
    if isinstance(name, (ElementFormat, ScaleFormat)):
        return name
    known: dict[str, ElementFormat | ScaleFormat] = {**ELEMENTS, **SCALES}
    _check(name in known, f"element={name!r} is not a scalar format; known are {', '.join(known)}")
    return known[name]


def _check_dtype(dtype: str) -> str:
    name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    _check(name in DTYPES, f"dtype={dtype!r} is not an input of quantizers; allowed are {', '.join(DTYPES)}")
    return name


def _check_exponents(bounds: tuple[int, int] | None, dtype: str) -> tuple[int, int]:
    low, high = _RANGE[dtype]
    if bounds is None:
        return low, high
    _check(
        isinstance(bounds, tuple) and len(bounds) == 2 and all(isinstance(b, int) for b in bounds),
        f"exponents={bounds!r} must be a pair of integers (smallest, largest)",
    )
    _check(bounds[0] <= bounds[1], f"exponents={bounds!r}: the smallest, {bounds[0]}, is beyond the largest, {bounds[1]}")
    _check(low <= bounds[0] and bounds[1] <= high, f"exponents={bounds!r} go beyond those of {dtype}, which are {low} to {high}")
    return bounds


def _float_bits(value: Fraction | int) -> int:
    """float32 bits of a positive number that float32 holds, or of the nearest float below it, at most the largest one."""
    value = Fraction(value)
    if value >= power_of_two(128):
        return _FLT_MAX
    bits = int(np.float32(float(value)).view(np.uint32))
    while Fraction(float(np.uint32(bits).view(np.float32))) > value:
        bits -= 1
    return bits


@cache
def _grid(element: ElementFormat | ScaleFormat) -> tuple[Fraction, ...]:
    return tuple(element.magnitude(m) for m in range(element.max_code + 1))


@cache
def _middles(element: ElementFormat | ScaleFormat) -> tuple[Fraction, ...]:
    """Midpoints, those of large values first: they shrink toward one."""
    points = [(a + b) / 2 for a, b in pairwise(_grid(element))]
    return tuple(sorted(points, key=lambda p: (abs(p - 1), p)))


@cache
def _values(element: ElementFormat | ScaleFormat) -> tuple[Fraction, ...]:
    return tuple(sorted((v for v in _grid(element) if v), key=lambda v: (v.numerator * v.denominator, v)))


@cache
def _significands(fmt: BlockFormat) -> tuple[Fraction, ...]:
    """Significands in [1, 2) at which scale rules change their answers, the simplest first."""
    element = fmt.element
    top = element.max_value / power_of_two(element.emax)
    half_up = 2 - Fraction(1, 1 << (significand_bits(element) + 1))
    steps = [p for p in ((a + b) / 2 for a, b in pairwise(_grid(fmt.scale))) if 1 <= p < 2] if fmt.has_tensor_scale else []
    return tuple(dict.fromkeys([Fraction(1), Fraction(3, 2), top, half_up, *steps]))


def _beside(bits: int, steps: int) -> int:
    return min(max(bits + steps, 0), _FLT_MAX)


def _as_dtype(bits: Sequence[int], dtype: str) -> Array:
    x = np.array(bits, np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        cast = x.astype(DTYPES[dtype])
        # Rounding into a narrower dtype may leave its range.
        lost = np.isinf(cast.astype(np.float32)) & np.isfinite(x)
    if lost.any():
        cast = np.where(lost, DTYPES[dtype](0), cast).astype(DTYPES[dtype])
    return np.asarray(cast)


def ties(element: str | ElementFormat | ScaleFormat, *, near: int = 1) -> st.SearchStrategy[np.float32]:
    """float32 midpoints between neighbouring values of a scalar format, and up to `near` floats on either side; both signs.

    >>> import numpy as np
    >>> from hypothesis import find
    >>> find(ties("e2m1"), lambda x: True)
    np.float32(0.75)
    >>> float(find(ties("e2m1", near=0), lambda x: x > 3))
    3.5
    """
    fmt = _scalar_format(element)
    _check(isinstance(near, int) and near >= 0, f"near={near!r} must be an integer from 0 on")
    signs = (0, _SIGN) if fmt.signed else (0,)
    return st.builds(
        lambda point, step, sign: np.uint32(_beside(_float_bits(point), step) | sign).view(np.float32),
        st.sampled_from(_middles(fmt)),
        st.sampled_from(sorted(range(-near, near + 1), key=lambda s: (abs(s), s < 0))),
        st.sampled_from(signs),
    )


def near_powers_of_two(*, exponents: tuple[int, int] | None = None, dtype: str = "float32", near: int = 8) -> st.SearchStrategy[Any]:
    """Numbers within `near` steps of a power of two, both signs, and where a float32 log2 reaches the next integer.

    These part floor(log2 x) as exponent fields give it from what a float log2 gives.

    >>> from hypothesis import find
    >>> find(near_powers_of_two(), lambda x: True)
    np.float32(1.0)
    """
    name = _check_dtype(dtype)
    low, high = _check_exponents(exponents, name)
    _check(isinstance(near, int) and near >= 0, f"near={near!r} must be an integer from 0 on")
    first, last = log2f_thresholds()

    def build(exponent: int, kind: int, step: int, sign: int) -> Any:
        value = (2.0**exponent, float(first[exponent + 149]), float(last[exponent + 149]))[kind]
        bits = max(_beside(int(np.float32(value).view(np.uint32)), step), 1)
        return _as_dtype([bits | sign], name)[0]

    return st.builds(
        build,
        st.sampled_from(sorted(range(low, high + 1), key=lambda e: (abs(e), e < 0))),
        st.sampled_from((0, 1, 2)),
        st.sampled_from(sorted(range(-near, near + 1), key=lambda s: (abs(s), s < 0))),
        st.sampled_from((0, _SIGN)),
    )


def codes(
    fmt: str | BlockFormat, *, shape: tuple[int, ...] | None = None, finite: bool = False
) -> st.SearchStrategy[npt.NDArray[np.uint8]]:
    """uint8 element codes of a block format, one in each byte; by default of one block.

    shape: the last axis is a whole number of blocks.  finite: leave out codes of NaN and infinity.

    >>> from hypothesis import find
    >>> find(codes("mxfp4"), lambda c: c.any()).sum()
    np.uint64(1)
    """
    block = _block_format(fmt)
    shape = (block.k,) if shape is None else _check_shape(shape, block)
    known = [c for c in range(block.element.code_count) if not finite or _is_finite(block.element, c)]
    return _sparse_arrays(shape, st.sampled_from(known), block.k)


def scales(fmt: str | BlockFormat, *, shape: tuple[int, ...] = (1,), finite: bool = False) -> st.SearchStrategy[npt.NDArray[np.uint8]]:
    """uint8 scale codes of a block format. finite: leave out NaN.

    >>> from hypothesis import find
    >>> find(scales("mxfp4"), lambda s: True)
    array([127], dtype=uint8)
    """
    block = _block_format(fmt)
    _check(
        isinstance(shape, tuple) and all(isinstance(n, int) and n >= 0 for n in shape),
        f"shape={shape!r} must be a tuple of sizes from 0 on",
    )
    known = [c for c in range(block.scale.code_count) if not finite or c != block.scale.nan_code]
    one = block.scale.bias << block.scale.mantissa_bits
    ends = [c for c in (0, 1, block.scale.max_code, block.scale.max_code - 1) if c in known]
    order = sorted(known, key=lambda c: (abs(c - one), c))
    each = st.one_of(st.sampled_from(order), st.sampled_from(ends))
    size = int(np.prod(shape))
    return st.lists(each, min_size=size, max_size=size).map(lambda c: np.array(c, np.uint8).reshape(shape))


def sparse_codes(
    fmt: str | SparseFormat, *, max_rows: int = 4, max_groups: int = 16, pruned: bool = False, columns: int | None = None
) -> st.SearchStrategy[npt.NDArray[np.uint8]]:
    """uint8 codes [rows, K] of a sparse format, one in each byte, without NaN and infinity: groups with equal magnitudes, with
    zeros of either sign, with fewer numbers than are kept.

    pruned: at most two of each group (of pairs: two pairs) are not zero, -0 among the others; else any.
    columns: K is a multiple of this; default: of a group.

    >>> from hypothesis import find
    >>> find(sparse_codes("e2m1-2to4"), lambda c: (c & 7).any()).tolist()
    [[0, 0, 0, 1]]
    """
    _check(
        isinstance(fmt, SparseFormat) or fmt in SPARSE_FORMATS, f"fmt={fmt!r} is not a sparse format; known are {', '.join(SPARSE_FORMATS)}"
    )
    chosen = fmt if isinstance(fmt, SparseFormat) else SPARSE_FORMATS[fmt]
    for given, label in ((max_rows, "max_rows"), (max_groups, "max_groups")):
        _check(isinstance(given, int) and given >= 1, f"{label}={given!r} must be an integer from 1 on")
    step = chosen.group if columns is None else columns
    _check(
        isinstance(step, int) and step > 0 and step % chosen.group == 0,
        f"columns={columns!r} must be a multiple of the {chosen.group} codes of a group of {chosen.name}",
    )
    return _sparse_groups(chosen, max_rows, max_groups, bool(pruned), step)


@st.composite
def _sparse_groups(draw: st.DrawFn, fmt: SparseFormat, max_rows: int, max_groups: int, pruned: bool, step: int) -> npt.NDArray[np.uint8]:
    order = fmt.codes.table
    assert order is not None
    # Infinity of e5m2 is above all numbers.
    top = order.max() if fmt.kind == "e5m2" else order.max() + 1
    finite = [c for c in range(len(order)) if 0 <= order[c] < top]
    zeros = [c for c in finite if order[c] == 0]
    alike = st.sampled_from([[c for c in finite if order[c] == size] for size in sorted({int(order[c]) for c in finite})])
    unit = fmt.sparsity.unit
    rows = draw(st.integers(1, max_rows))
    units = step // unit
    wide = units * draw(st.integers(1, max(max_groups * fmt.group // step, 1)))
    dense = np.zeros((rows, wide // 4, 4, unit), np.uint8)
    places = st.tuples(st.integers(0, rows - 1), st.integers(0, wide // 4 - 1))
    for row, group in draw(st.lists(places, max_size=6)):
        near = draw(alike)
        # Zeros first: lanes become zero one by one, whatever the others are.
        each = st.one_of(st.sampled_from(zeros), st.sampled_from(near), st.sampled_from(finite))
        drawn = draw(st.lists(each, min_size=4 * unit, max_size=4 * unit))
        dense[row, group] = np.array(drawn, np.uint8).reshape(4, unit)
        if pruned:
            kept = draw(st.sampled_from(list(KEPT.values())))
            for place in set(range(4)) - set(kept):
                dense[row, group, place] = draw(st.sampled_from(zeros))
    return dense.reshape(rows, -1)


def _is_finite(element: ElementFormat, code: int) -> bool:
    return element.twos_complement or element.split(code)[1] <= element.max_code


def _check_shape(shape: tuple[int, ...], block: BlockFormat) -> tuple[int, ...]:
    _check(
        isinstance(shape, tuple) and bool(shape) and all(isinstance(n, int) and n >= 0 for n in shape),
        f"shape={shape!r} must be a tuple of at least one size, each from 0 on",
    )
    _check(
        shape[-1] % block.k == 0,
        f"shape={shape!r}: the last axis, {shape[-1]}, is not a multiple of the {block.k}-element block of {block.name}",
    )
    return shape


@st.composite
def _sparse_arrays(draw: st.DrawFn, shape: tuple[int, ...], each: st.SearchStrategy[int], period: int) -> npt.NDArray[np.uint8]:
    """Zeros with a few entries, or a whole block of codes repeated, which has more to draw and so shrinks to the former."""
    size = int(np.prod(shape))
    if size and draw(st.booleans()):
        flat = np.resize(np.array(draw(st.lists(each, min_size=period, max_size=period)), np.uint8), size)
    else:
        flat = np.zeros(size, np.uint8)
    if size:
        for position, code in draw(st.lists(st.tuples(st.integers(0, size - 1), each), max_size=12)):
            flat[position] = code
    return flat.reshape(shape)


@st.composite
def _maxima(draw: st.DrawFn, fmt: BlockFormat, low: int, high: int) -> int:
    """float32 bits of a block's largest magnitude."""
    exponent = draw(st.one_of(
        st.sampled_from([e for e in _EXPONENTS if low <= e <= high] or [low]), st.integers(low, high)
    ))  # fmt: skip
    significand = draw(st.sampled_from(_significands(fmt)))
    bits = _float_bits(significand * power_of_two(exponent))
    step = draw(st.sampled_from((0, -1, 1)))
    return max(_beside(bits, step), 1)


@st.composite
def _lanes(draw: st.DrawFn, fmt: BlockFormat, largest: int) -> int:
    """float32 bits of a lane in a block of that maximum: a value of the element format, a midpoint, a neighbour, anything."""
    kind = draw(st.sampled_from(("value", "tie", "power", "any", "largest", "zero")))
    if kind == "zero":
        return draw(st.sampled_from((0, 1)))
    if kind == "largest":
        return largest
    if kind == "any":
        return draw(st.integers(0, largest))
    # The scale's exponent is that of the maximum less the element's, or one next to it.
    exponent = max(largest >> 23, 1) - 127 - fmt.element.emax
    if kind == "power":
        return min(_float_bits(power_of_two(max(exponent + fmt.element.emax - draw(st.integers(0, 20)), -149))), largest)
    points = _values(fmt.element) if kind == "value" else _middles(fmt.element)
    moved = draw(st.sampled_from(points)) * power_of_two(exponent + draw(st.sampled_from((0, 1, -1))))
    return min(_beside(_float_bits(moved), draw(st.sampled_from((0, -1, 1)))), largest)


def blocks(
    fmt: str | BlockFormat, *, dtype: str = "float32", exponents: tuple[int, int] | None = None,
    allow_nan: bool = False, allow_infinity: bool = False,
) -> st.SearchStrategy[Array]:  # fmt: skip
    """One block [k] of a format: a maximum where scale rules change their answers, and a few lanes where, under its scale,
    elements are values, midpoints or one float off; the rest is one filler.

    dtype: float32, float16 or bfloat16.  exponents: smallest and largest binary exponent of the maximum.
    allow_nan, allow_infinity: whether lanes may hold them.

    >>> from hypothesis import find
    >>> x = find(blocks("nvfp4"), lambda x: x.any())
    >>> x[x != 0], x.shape, x.dtype
    (array([1.], dtype=float32), (16,), dtype('float32'))
    """
    block, name = _block_format(fmt), _check_dtype(dtype)
    low, high = _check_exponents(exponents, name)
    return _blocks(block, name, low, high, bool(allow_nan), bool(allow_infinity))


@st.composite
def _blocks(draw: st.DrawFn, fmt: BlockFormat, dtype: str, low: int, high: int, allow_nan: bool, allow_infinity: bool) -> Array:
    k = fmt.k
    if draw(st.sampled_from((False,) * 15 + (True,))):
        row = [draw(st.sampled_from((0, _SIGN)))] * k
        largest = 0
    else:
        largest = draw(_maxima(fmt, low, high))
        filler = draw(st.sampled_from((0, 0, _SIGN, largest)))
        row = [filler] * k
        place = draw(st.integers(0, k - 1))
        lanes = st.tuples(st.integers(0, k - 1), _lanes(fmt, largest), st.sampled_from((0, _SIGN)))
        for position, bits, sign in draw(st.lists(lanes, max_size=6)):
            row[position] = bits | sign
        row[place] = largest | draw(st.sampled_from((0, _SIGN)))
    special = [*(_NANS if allow_nan else ()), *((_INF, _INF | _SIGN) if allow_infinity else ())]
    if special:
        entries = st.tuples(st.integers(0, k - 1), st.sampled_from(special))
        for position, bits in draw(st.lists(entries, max_size=2)):
            row[position] = bits
    return _as_dtype(row, dtype)


def tensors(
    fmt: str | BlockFormat, *, max_rows: int = 4, max_blocks: int = 4, dtype: str = "float32",
    exponents: tuple[int, int] | None = None, allow_nan: bool = False, allow_infinity: bool = False, ragged: bool = False,
) -> st.SearchStrategy[Array]:  # fmt: skip
    """Matrices [rows, columns] of up to `max_rows` x `max_blocks` blocks; ragged: the last block of each row may be cut.

    Rows repeat, so that few blocks decide a failure.

    >>> from hypothesis import find
    >>> find(tensors("mxfp8_e4m3"), lambda x: x.any()).shape
    (1, 32)
    """
    block, name = _block_format(fmt), _check_dtype(dtype)
    for given, label in ((max_rows, "max_rows"), (max_blocks, "max_blocks")):
        _check(isinstance(given, int) and given >= 1, f"{label}={given!r} must be an integer from 1 on")
    low, high = _check_exponents(exponents, name)
    return _tensors(block, name, low, high, bool(allow_nan), bool(allow_infinity), max_rows, max_blocks, bool(ragged))


@st.composite
def _tensors(
    draw: st.DrawFn, fmt: BlockFormat, dtype: str, low: int, high: int, allow_nan: bool, allow_infinity: bool,
    max_rows: int, max_blocks: int, ragged: bool,
) -> Array:  # fmt: skip
    rows, columns = draw(st.integers(1, max_rows)), draw(st.integers(1, max_blocks))
    each = _blocks(fmt, dtype, low, high, allow_nan, allow_infinity)
    drawn = draw(st.lists(each, min_size=1, max_size=min(rows * columns, 4)))
    whole = np.stack([drawn[i % len(drawn)] for i in range(rows * columns)]).reshape(rows, columns * fmt.k)
    cut = draw(st.integers(0, fmt.k - 1)) if ragged else 0
    return whole[:, : columns * fmt.k - cut]


def tensor_scales(
    profile: str | Profile = "nvfp4-te", *, fmt: str | BlockFormat = "nvfp4", allow_special: bool = False
) -> st.SearchStrategy[TensorScale]:
    """Tensor scales as a profile derives them from a tensor's largest magnitude, in its native kind: of ordinary maxima, tiny and
    huge ones; allow_special: of zero, an infinity and a NaN, too, and scales of zero, by which nothing can be divided.

    >>> from hypothesis import find
    >>> find(tensor_scales("nvfp4-exact"), lambda scale: scale.value > 0)
    TensorScale('decode', 0x39c30c31)
    """
    found = get_profile(profile, _block_format(fmt))
    _check(found.tensor is not None, f"profile={found.id!r} has no tensor scale")
    special = (0, _INF, _NANS[0]) if allow_special else ()
    named = [_ONE, *(bits for bits in TENSOR_AMAXES.values() if 0 < bits < _INF), *special]
    maxima = st.one_of(st.sampled_from(list(dict.fromkeys(named))), st.integers(1, _FLT_MAX))
    scales = maxima.map(lambda bits: derive_tensor_scale(bits, found))
    return scales if allow_special else scales.filter(lambda scale: scale.value != 0)


def random_words(shape: tuple[int, ...], *, bits: int = 32) -> st.SearchStrategy[Array]:
    """Words of `bits` random bits for stochastic rounding, uint32 in a shape: any, and often none or all bits set, or the highest.

    >>> from hypothesis import find
    >>> find(random_words((2,), bits=8), lambda words: bool(words.all()))
    array([1, 1], dtype=uint32)
    """
    _check(isinstance(bits, int) and 1 <= bits <= 32, f"bits={bits!r} must be an integer from 1 to 32")
    top = (1 << bits) - 1
    word = st.one_of(st.integers(0, top), st.sampled_from((0, top, 1 << (bits - 1))))
    size = math.prod(shape)
    return st.lists(word, min_size=size, max_size=size).map(lambda words: np.array(words, np.uint32).reshape(shape))


def adversarial(fmt: str | BlockFormat, *, dtype: str = "float32", max_rows: int = 2) -> st.SearchStrategy[Array]:
    """Matrices [rows, k] made against kernels: blocks at thresholds, dense midpoints, maxima with both signs, one large lane
    among tiny ones, neighbours that differ by one float, subnormals, zeros of both signs, NaN and infinities.

    >>> from hypothesis import find
    >>> find(adversarial("mxfp4"), lambda x: bool(np.isnan(x).any())).shape[1]
    32
    """
    block, name = _block_format(fmt), _check_dtype(dtype)
    _check(isinstance(max_rows, int) and max_rows >= 1, f"max_rows={max_rows!r} must be an integer from 1 on")
    low, high = _RANGE[name]
    plain = _blocks(block, name, low, high, False, False)
    row = st.one_of(plain, _dense(block, name), _opposed(block, name), _blocks(block, name, low, high, True, True))
    return st.lists(row, min_size=1, max_size=max_rows).map(np.stack)


@st.composite
def _dense(draw: st.DrawFn, fmt: BlockFormat, dtype: str) -> Array:
    """Midpoints in all lanes, from some one on, in one binade."""
    low, high = _RANGE[dtype]
    exponent = draw(st.sampled_from([e for e in _EXPONENTS if low + 8 <= e <= high]))
    points, first = _middles(fmt.element), draw(st.integers(0, 1000))
    unit = power_of_two(exponent - fmt.element.emax)
    step = draw(st.sampled_from((0, -1, 1)))
    row = [_beside(_float_bits(points[(first + i) % len(points)] * unit), step) for i in range(fmt.k)]
    row[draw(st.integers(0, fmt.k - 1))] = _float_bits(fmt.element.max_value * unit)
    signs = draw(st.integers(0, 3))
    return _as_dtype([b | (_SIGN if signs >> (i & 1) & 1 else 0) for i, b in enumerate(row)], dtype)


@st.composite
def _opposed(draw: st.DrawFn, fmt: BlockFormat, dtype: str) -> Array:
    """The largest magnitude with both signs, or one step apart, the rest tiny or -0."""
    low, high = _RANGE[dtype]
    largest = draw(_maxima(fmt, low, high))
    row = [draw(st.sampled_from((0, _SIGN, 1, 0x00800000)))] * fmt.k
    first, second = draw(st.integers(0, fmt.k - 1)), draw(st.integers(0, fmt.k - 1))
    row[first], row[second] = largest, _beside(largest, -draw(st.sampled_from((0, 1)))) | _SIGN
    return _as_dtype(row, dtype)
