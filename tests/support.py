"""What the tests of the model share: floats by their bits, the exact model on whole arrays, comparison bit for bit."""

from __future__ import annotations

import os
import random
import zlib
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec import exact, reals
from mxspec.formats import BFLOAT16, BLOCKS, FLOAT16, FLOAT32, BlockFormat, FloatFormat, ScalarFormat
from mxspec.profiles import Profile, list_profiles
from mxspec.reals import Real, decode_real, encode_real, make_real
from mxspec.rounding import Overflow
from mxspec.tensorscale import TensorScale

Array = npt.NDArray[Any]
Codes = npt.NDArray[np.uint8]
Float32s = npt.NDArray[np.float32]

SIGN = 0x80000000
INF = 0x7F800000
NAN = 0x7FC00000
FLT_MAX = 0x7F7FFFFF
MIN_NORMAL = 0x00800000

BFLOAT = np.dtype(ml_dtypes.bfloat16)
#: dtype name -> (NumPy dtype, format, unsigned dtype of the same width).
FLOAT_TYPES: dict[str, tuple[np.dtype[Any], FloatFormat, np.dtype[Any]]] = {
    "float32": (np.dtype(np.float32), FLOAT32, np.dtype(np.uint32)),
    "float16": (np.dtype(np.float16), FLOAT16, np.dtype(np.uint16)),
    "bfloat16": (BFLOAT, BFLOAT16, np.dtype(np.uint16)),
}

#: Every registered profile with every format that it covers.
PAIRS: list[tuple[Profile, str]] = [(p, fmt) for fmt in BLOCKS for p in list_profiles(fmt)]
PAIR_NAMES: list[str] = [f"{fmt}-{p.id}" for p, fmt in PAIRS]


#: First lines of a process that a test stops with SIGINT: a shell that runs the tests in the background has it ignored,
#: and children inherit that.
HEED_SIGINT = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "


def seed() -> int:
    """The run's seed; the first lines of the run print it."""
    return int(os.environ["MXSPEC_SEED"])


def rng(*names: object) -> random.Random:
    """A generator that depends on the run's seed and on names, not on the order of tests."""
    return random.Random(seed() << 32 | zlib.crc32("/".join(map(str, names)).encode()))


def floats(bits: Iterable[int]) -> Float32s:
    """float32 numbers by their bits."""
    return np.array(list(bits), np.uint32).view(np.float32)


def bits_of(x: Array) -> Array:
    """The bits of a float array."""
    return np.ascontiguousarray(x).view(np.dtype(f"u{x.dtype.itemsize}")).reshape(x.shape)


def float_bits(value: Fraction | int | float) -> int:
    """float32 bits of a finite number, rounded to nearest even."""
    return encode_real(make_real(Fraction(value)), FLOAT32, overflow=Overflow.OWN)


def around(bits: int, reach: int = 1) -> list[int]:
    """float32 bits and their neighbours up to `reach` steps away, in the same sign, not beyond infinity."""
    magnitude, sign = bits & ~SIGN, bits & SIGN
    low, high = max(magnitude - reach, 0), min(magnitude + reach, INF)
    return [m | sign for m in range(low, high + 1)]


@lru_cache(maxsize=1 << 16)
def real(bits: int, fmt: FloatFormat = FLOAT32) -> Real:
    """The exact number that a float's bits mean."""
    return decode_real(bits, fmt)


def reals_of(x: Array) -> list[Real]:
    """The exact numbers of a float array, flattened."""
    fmt = next(f for dtype, f, _ in FLOAT_TYPES.values() if dtype == x.dtype)
    return [real(int(b), fmt) for b in bits_of(x).ravel()]


def float_of(x: Real) -> np.float32:
    """A Real that float32 holds; a NaN keeps its sign."""
    assert FLOAT32.nan_code is not None
    code = FLOAT32.join(x.sign, FLOAT32.nan_code) if x.nan else encode_real(x, FLOAT32, overflow=Overflow.OWN)
    value: np.float32 = np.uint32(code).view(np.float32)
    return value


def same_real(a: Real, b: Real) -> bool:
    """Equal, zeros by their sign; all NaN are one."""
    return (a.nan and b.nan) or a == b


def rounded_bits(x: Real, fmt: FloatFormat) -> int:
    """Bits of x rounded once to nearest even; NaN is the canonical one."""
    if x.nan:
        assert fmt.nan_code is not None
        return fmt.nan_code
    return encode_real(x, fmt, overflow=Overflow.OWN)


def assert_same(actual: Array, expected: Array, describe: Callable[[tuple[int, ...]], str] = str) -> None:
    """Equal in dtype, shape and every bit; the message shows the first index that differs."""
    assert actual.dtype == expected.dtype, f"dtype {actual.dtype}, expected {expected.dtype}"
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    left, right = (a if a.dtype.kind in "iub" else bits_of(a) for a in (actual, expected))
    differs = np.argwhere(left != right)
    if len(differs):
        index = tuple(int(i) for i in differs[0])
        raise AssertionError(
            f"{len(differs)} of {left.size} differ, first at {index}: {int(left[index]):#x}, "
            f"expected {int(right[index]):#x}; {describe(index)}"
        )


def exact_quantize(x: Float32s, fmt: str, profile: Profile, scale: TensorScale | None) -> tuple[Codes, Codes]:
    """Scales [n, 1] and codes [n, k] of rows [n, k] by the exact model, one block at a time."""
    tensor = None if scale is None else scale.real
    results = [exact.quantize_block(reals_of(row), fmt, profile=profile, tensor_scale=tensor) for row in x]
    return (
        np.array([[r.scale_code] for r in results], np.uint8).reshape(len(x), 1),
        np.array([r.codes for r in results], np.uint8).reshape(x.shape),
    )


class ExactValues:
    """What stored elements mean under one profile and tensor scale, by the exact model; answers are kept."""

    def __init__(self, fmt: str, profile: Profile, scale: TensorScale | None) -> None:
        self._fmt, self._profile = fmt, profile
        self._scale = None if scale is None else scale.real
        self._known: dict[tuple[int, int], Real] = {}
        self._bits: dict[tuple[int, str], int] = {}

    def value(self, code: int, scale_code: int) -> Real:
        """The exact value of one element."""
        key = code, scale_code
        if key not in self._known:
            self._known[key] = exact.dequantize_element(code, scale_code, self._fmt, profile=self._profile, tensor_scale=self._scale)
        return self._known[key]

    def bits(self, codes: Codes, scales: Codes, dtype: str = "float32") -> Array:
        """The values of codes [n, k] under scales [n, 1], rounded once to a dtype."""
        numpy_dtype, fmt, unsigned = FLOAT_TYPES[dtype]
        pairs = codes.astype(np.uint16) | scales.astype(np.uint16) << 8
        distinct, place = np.unique(pairs, return_inverse=True)
        for pair in distinct.tolist():
            if (pair, dtype) not in self._bits:
                self._bits[pair, dtype] = rounded_bits(self.value(pair & 0xFF, pair >> 8), fmt)
        table = np.array([self._bits[pair, dtype] for pair in distinct.tolist()], unsigned)
        return table[place].reshape(codes.shape).view(numpy_dtype)


def block_format(name: str) -> BlockFormat:
    """The block format of a name."""
    return BLOCKS[name]


@cache
def magnitudes(fmt: ScalarFormat) -> tuple[Fraction, ...]:
    """All finite magnitudes of a format, ascending, by their own formula and not the model's."""
    if fmt.exponent_bits == 0:
        return tuple(Fraction(c, 64) for c in range(128))
    values = []
    for code in range(fmt.max_code + 1):
        field, fraction = divmod(code, 2**fmt.mantissa_bits)
        significand = Fraction(fraction, 2**fmt.mantissa_bits)
        if field or not fmt.has_zero:
            values.append((1 + significand) * Fraction(2) ** (field - fmt.bias))
        else:
            values.append(significand * Fraction(2) ** (1 - fmt.bias))
    return tuple(values)


@cache
def rounding_points(fmt: ScalarFormat) -> tuple[int, ...]:
    """float32 bits of the magnitudes where an encoder's answer changes: values, midpoints, one step either side, and
    beyond the largest value; then the ends of float32."""
    grid = magnitudes(fmt)
    step = grid[-1] - grid[-2]
    middles = [(a + b) / 2 for a, b in pairwise(grid)]
    beyond = [grid[-1] + step * Fraction(n, 4) for n in (1, 2, 3, 4, 6, 8)] + [grid[-1] * 2, grid[-1] * 3]
    points: set[int] = {0, 1, 2, MIN_NORMAL - 1, MIN_NORMAL, MIN_NORMAL + 1, FLT_MAX, INF}
    for value in [*grid, *middles, *beyond, grid[0] / 2, grid[1] / 4]:
        points.update(around(float_bits(value)))
    return tuple(sorted(points))


NAN_BITS = (NAN, NAN | SIGN, 0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF)


def both_signs(bits: Sequence[int]) -> list[int]:
    """Magnitude bits with either sign."""
    return [*bits, *(b | SIGN for b in bits)]


__all__ = [
    "BFLOAT",
    "FLOAT_TYPES",
    "FLT_MAX",
    "INF",
    "MIN_NORMAL",
    "NAN",
    "NAN_BITS",
    "PAIRS",
    "PAIR_NAMES",
    "SIGN",
    "Array",
    "Codes",
    "ExactValues",
    "Float32s",
    "around",
    "assert_same",
    "bits_of",
    "block_format",
    "both_signs",
    "exact_quantize",
    "float_bits",
    "float_of",
    "floats",
    "magnitudes",
    "real",
    "reals",
    "reals_of",
    "rng",
    "rounded_bits",
    "rounding_points",
    "same_real",
    "seed",
]
