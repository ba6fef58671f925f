"""Scalars: real -> code and code -> real for every element and scale format, on arrays.

Every deterministic encoder is a step function of the sign and of |x|, and all its steps lie at numbers with at most
eight significand bits or just above one. The upper 16 bits of a float32 and one sticky bit for the lower 16 therefore
decide the code: 2**17 cases, one table per encoder.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, Literal

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec import reals
from mxspec.environment import check_environment
from mxspec.formats import BFLOAT16, FLOAT16, FLOAT32, ElementFormat, ScalarFormat, ScalarName, ScaleFormat, get_scalar
from mxspec.inputs import as_array, as_index
from mxspec.rounding import MAGNITUDE_RULES, MagnitudeRule, NanName, NanPolicy, Overflow, OverflowName, Rounding, RoundingName
from mxspec.suggestions import refuse_name

Codes = npt.NDArray[np.uint8]
#: Scale codes: uint8, or the bits of float32 scales as uint32.
ScaleCodes = npt.NDArray[np.unsignedinteger[Any]]
Float32s = npt.NDArray[np.float32]

#: Input dtypes that every function takes; float64 is taken when each value survives float32 and back.
INPUT_DTYPES = ("float32", "float16", "bfloat16")

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def name_first(name: str, array: npt.NDArray[Any], mask: npt.NDArray[np.bool_]) -> tuple[str, Any]:
    """Where the first marked entry stands, as `name[1, 2]`, and the entry."""
    index = tuple(int(i) for i in np.argwhere(mask)[0])
    return (f"{name}[{', '.join(map(str, index))}]" if index else name), array[index]


def as_float32(x: object, *, name: str = "x") -> Float32s:
    """x as a float32 array of the same values; tensors of torch and CuPy are read, too (`as_array`).

    Raises TypeError for dtypes other than float32, float16, bfloat16 and float64, and ValueError, naming the first
    index and value, for float64 data that float32 cannot hold.
    """
    array = as_array(x, name=name)
    if array.dtype == np.float32:
        return array
    if array.dtype in (np.float16, _BFLOAT16):
        return array.astype(np.float32)
    if array.dtype == np.float64:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            narrow = array.astype(np.float32)
        changed = (narrow.astype(np.float64) != array) & ~np.isnan(array)
        if changed.any():
            place, value = name_first(name, array, changed)
            raise ValueError(
                f"{place} = {value!r} is float64 and not exactly a float32; "
                "round it yourself (x.astype('float32')) so that no rounding is hidden"
            )
        return narrow
    origin = f" (a {type(x).__name__})" if array.dtype == object and not isinstance(x, np.ndarray) else ""
    raise TypeError(
        f"{name} has dtype {array.dtype}{origin}; allowed are {', '.join(INPUT_DTYPES)}, and float64 whose values are "
        "exactly float32; convert it first"
    )


#: Dtypes of ml_dtypes whose bytes are codes of these formats, one to a byte.
_CODE_DTYPES = {
    "e2m1": (np.dtype(ml_dtypes.float4_e2m1fn),),
    "e4m3": (np.dtype(ml_dtypes.float8_e4m3fn),),
    "e5m2": (np.dtype(ml_dtypes.float8_e5m2),),
    "e8m0": (np.dtype(ml_dtypes.float8_e8m0fnu),),
    "ue4m3": (np.dtype(ml_dtypes.float8_e4m3fn),),
    "f32": (np.dtype(np.float32),),
}


def code_dtype(fmt: ScalarFormat) -> np.dtype[Any]:
    """The dtype of a format's codes in arrays: uint8, or uint32 for float32 scales."""
    return np.dtype(f"u{fmt.storage_bits // 8}")


def check_codes(codes: object, fmt: ScalarFormat, *, name: str = "codes") -> npt.NDArray[Any]:
    """Codes as an array of the format's `code_dtype`.

    Arrays and tensors of the format's own dtype (`float8_e4m3fn` for e4m3 and ue4m3, `float8_e8m0fnu` ...) are taken by their
    bits. Raises TypeError for another dtype than these and that of codes, and ValueError for codes with bits beyond the format's width.
    """
    array = as_array(codes, name=name)
    if array.dtype in _CODE_DTYPES.get(fmt.name, ()):
        array = array.view(code_dtype(fmt))
    if array.dtype != code_dtype(fmt):
        origin = f" (a {type(codes).__name__})" if array.dtype == object and not isinstance(codes, np.ndarray) else ""
        fix = f"; convert it: numpy.asarray({name}, dtype=numpy.{code_dtype(fmt)})" if array.dtype.kind in "iu" else ""
        raise TypeError(
            f"{name} has dtype {array.dtype}{origin}; codes are {code_dtype(fmt)}, one code in the low {fmt.bits} bits of each{fix}"
        )
    if fmt.bits < fmt.storage_bits and array.size and int(array.max()) >= fmt.code_count:
        place, code = name_first(name, array, array >= fmt.code_count)
        raise ValueError(
            f"{place} = {int(code):#04x} has more than the {fmt.bits} bits of {fmt.name}; "
            + ("are the codes packed? unpack them to one code per byte" if fmt.bits < 8 else "a scale has no sign")
        )
    return array


@cache
def decode_table(fmt: ScalarFormat) -> npt.NDArray[np.float32]:
    """The float32 value of every code, in code order; exact for all registered scalar formats of at most 8 bits."""
    assert fmt.bits <= 8
    check_environment()  # what is kept must be right for all later calls
    values = np.empty(fmt.code_count, np.float32)
    for code in range(fmt.code_count):
        x = reals.decode_real(code, fmt)
        if x.is_finite:
            values[code] = -0.0 if x.is_zero and x.sign else float(x.value)
        elif x.is_infinite:
            values[code] = -np.inf if x.sign else np.inf
        else:
            values[code] = np.nan
    values.flags.writeable = False
    return values


def decode_codes(codes: npt.NDArray[Any] | int, fmt: ScalarFormat) -> Float32s:
    """The float32 values of codes that were checked, in their shape; of float32 scales NaN becomes the canonical one."""
    if fmt.bits <= 8:
        result: Float32s = decode_table(fmt)[codes]
        return result
    values = np.asarray(codes, np.uint32).view(np.float32)
    return np.where(np.isnan(values), np.float32(np.nan), values)


def decode(codes: object, element: ScalarName | str | ElementFormat | ScaleFormat) -> Float32s:
    """The values of codes of an element or scale format.

    Args:
        codes: uint8 of any shape, one code in the low bits of each byte; an array, or a tensor of torch or CuPy.
        element: An element or scale format or its name: "e2m1", ..., "e8m0", "ue4m3".

    Returns:
        float32 in the shape of `codes`; every value is exact. NaN codes give the NaN 7fc00000.

    Raises:
        TypeError: `codes` is not uint8.
        ValueError: A code has bits beyond the width of the format.
    """
    fmt = get_scalar(element)
    result: Float32s = np.asarray(decode_codes(check_codes(codes, fmt), fmt))
    return result


# Table index of a float32: its upper 16 bits, then a bit that says whether any of the lower 16 is set.
_INDEX_COUNT = 1 << 17
_INFINITY_INDEX = 0xFF00


def _index_of(value: float) -> int:
    """Index of a non-negative number that bfloat16 holds exactly."""
    bits = int(np.float32(value).view(np.uint32))
    if bits & 0xFFFF or float(np.float32(value)) != value:
        raise AssertionError(f"{value!r} needs more than 8 significand bits; the table index cannot resolve it")
    return bits >> 15


def _step_indices(fmt: ScalarFormat, rule: MagnitudeRule) -> list[int]:
    """For each magnitude code m >= 1 up to one past the largest: the first index whose magnitude rounds to m or more."""
    steps = []
    for m in range(1, fmt.max_code + 2):
        low, high = float(fmt.magnitude(m - 1)), float(fmt.magnitude(m))
        if high > float(np.finfo(np.float32).max):
            # One past e8m0's largest: nearest and downward never reach it below infinity except through the midpoint.
            high = np.inf
        if rule is MagnitudeRule.DOWN:
            steps.append(_index_of(high))
        elif rule is MagnitudeRule.UP:
            steps.append(_index_of(low) + 1)
        else:
            middle = low * 1.5 if np.isinf(high) else (low + high) / 2
            up_at_tie = rule is MagnitudeRule.TIES_AWAY or (rule is MagnitudeRule.EVEN and m % 2 == 0)
            steps.append(_index_of(middle) + (0 if up_at_tie else 1))
    return steps


@lru_cache(maxsize=256)
def encode_table(fmt: ScalarFormat, rounding: Rounding, overflow: Overflow, nan: NanPolicy) -> npt.NDArray[np.uint8]:
    """The code of every table index; see the module's first lines.

    Raises ValueError where a policy needs an Inf or NaN that the format does not have (a NaN code is looked up only if
    `nan` is not `raise`, which leaves those entries 0 for the caller to refuse).
    """
    check_environment()
    table = np.zeros(_INDEX_COUNT, np.uint8)
    half = _INDEX_COUNT // 2
    for sign in (0, 1):
        rule = MAGNITUDE_RULES[rounding][sign]
        magnitudes = np.searchsorted(_step_indices(fmt, rule), np.arange(_INFINITY_INDEX), side="right")
        codes = np.array([fmt.join(sign, m) for m in range(fmt.max_code + 1)], np.uint8)
        part = table[sign * half : (sign + 1) * half]
        part[:_INFINITY_INDEX] = codes[np.minimum(magnitudes, fmt.max_code)]
        beyond = np.arange(_INFINITY_INDEX) > _index_of(float(fmt.max_value)) if rule is MagnitudeRule.DOWN else (
            magnitudes > fmt.max_code
        )  # fmt: skip
        if beyond.any():
            part[:_INFINITY_INDEX][beyond] = reals.overflow_code(
                fmt, sign, overflow, infinite=False, toward_zero=rule is MagnitudeRule.DOWN
            )
        part[_INFINITY_INDEX] = reals.overflow_code(fmt, sign, overflow, infinite=True, toward_zero=False)
        if nan is not NanPolicy.RAISE:
            part[_INFINITY_INDEX + 1 :] = reals.nan_codes(fmt, nan)[sign]
    table.flags.writeable = False
    return table


def table_index(x: Float32s) -> npt.NDArray[np.intp]:
    """The table index of each float32."""
    bits = x.view(np.uint32)
    index: npt.NDArray[np.intp] = ((bits >> np.uint32(15)) & np.uint32(0x1FFFE) | ((bits & np.uint32(0xFFFF)) != 0)).astype(np.intp)
    return index


def exact_table_index(x: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """The table index of each float64, as if the index had been taken of the unrounded number."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        narrow = np.asarray(x.astype(np.float32))
        wide = narrow.astype(np.float64)
        toward_zero = np.abs(wide) > np.abs(x)
        inexact = (wide != x) & ~np.isnan(x)
    bits = narrow.view(np.uint32) - toward_zero.astype(np.uint32)
    index: npt.NDArray[np.intp] = table_index(bits.view(np.float32)) | inexact
    return index


def default_nan_policy(fmt: ScalarFormat) -> NanPolicy:
    """`nan` where the format has one; `max-positive`, as PTX does, where it has none."""
    return NanPolicy.NAN if fmt.nan_code is not None else NanPolicy.MAX_POSITIVE


def encode(
    x: object,
    element: ScalarName | str | ElementFormat | ScaleFormat,
    *,
    rounding: RoundingName | Rounding = Rounding.RNE,
    overflow: OverflowName | Overflow = Overflow.SATURATE,
    nan: NanName | NanPolicy | None = None,
    sign: Literal["raise", "ignore"] = "raise",
    random_bits: object = None,
    sr_bits: int = 32,
) -> Codes:
    """The codes of numbers in an element or scale format.

    A zero keeps its sign if the format has one; e8m0, which has no zero, encodes it as 00.

    Args:
        x: float32, float16 or bfloat16, or float64 whose values are exactly float32; any shape. An array, or a tensor of torch
            or CuPy, without its gradient.
        element: An element or scale format or its name: "e2m1", ..., "e8m0", "ue4m3".
        rounding: A mode of `Rounding`.
        overflow: A mode of `Overflow`.
        nan: A `NanPolicy`; default: the NaN of the format, or its largest finite value if it has none (as PTX does).
        sign: What a negative number does in an unsigned format: "raise", or "ignore" to encode |x|. Zeros never raise.
        random_bits: For `rounding="sr"`: unsigned integers in the shape of x.
        sr_bits: How many low bits n of each of these integers are used: 1 to 32. A number goes away from zero if and only if
            floor(f 2**n) + word >= 2**n, where f is how far it lies beyond the code nearer zero, in units of the gap.

    Returns:
        uint8 codes in the shape of x.

    Raises:
        TypeError: x has another dtype.
        ValueError: An unknown mode, a mode that the format does not allow, a negative number in an unsigned format, or random
            bits that do not fit. The message says what was given and what is allowed.

    Source: OCP MX v1.0 section 5.3; for FP8 elements OFP8.
    """
    fmt = get_scalar(element)
    mode, policy = Rounding(rounding), default_nan_policy(fmt) if nan is None else NanPolicy(nan)
    if sign not in ("raise", "ignore"):
        raise refuse_name(sign, f"sign={sign!r}; allowed are 'raise' and 'ignore'")
    values = as_float32(x)
    if policy is NanPolicy.RAISE and np.isnan(values).any():
        place, _ = name_first("x", values, np.isnan(values))
        raise ValueError(f"{place} is NaN and nan='raise' forbids it for {fmt.name}")
    if not fmt.signed:
        values = _magnitudes(values, fmt, sign)
    if mode is Rounding.SR:
        return _encode_stochastic(values, fmt, Overflow(overflow), policy, random_bits, sr_bits)
    if random_bits is not None:
        raise ValueError(f"random_bits were given, but rounding={mode.value!r} takes none; pass rounding='sr'")
    codes: Codes = np.asarray(encode_table(fmt, mode, Overflow(overflow), policy)[table_index(values)])
    return codes


def _magnitudes(values: Float32s, fmt: ScalarFormat, sign: str) -> Float32s:
    negative = values < 0
    if sign == "raise" and negative.any():
        place, value = name_first("x", values, negative)
        raise ValueError(f"{place} = {value!r} is negative and {fmt.name} is unsigned; pass sign='ignore' to encode the magnitude")
    return np.abs(values)


def _encode_stochastic(
    values: npt.NDArray[Any], fmt: ScalarFormat, overflow: Overflow, nan: NanPolicy, random_bits: object, sr_bits: int
) -> Codes:
    """Codes of float32 numbers, or of float64 ones that are not rounded before: a rounding moves the turning point."""
    random = check_random_bits(random_bits, values.shape, sr_bits)
    index = exact_table_index(values) if values.dtype == np.float64 else table_index(values)
    down = encode_table(fmt, Rounding.RTZ, Overflow.SATURATE, nan)[index]
    low = np.abs(decode_table(fmt).astype(np.float64)[down])
    with np.errstate(invalid="ignore", over="ignore"):
        magnitudes = np.abs(values.astype(np.float64))
        # Both operands share a binade or low is 0, so the difference and the quotient by a power of two are exact.
        fraction = (magnitudes - low) / _gap_above(fmt)[down]
        up = np.floor(fraction * 2.0**sr_bits) + random >= 2.0**sr_bits
    finite = np.isfinite(values)
    up &= finite
    if not fmt.has_zero:
        up &= magnitudes >= float(fmt.min_subnormal)
    magnitude_codes = _magnitude_codes(fmt)[down].astype(np.int64) + up
    codes = _joined_codes(fmt)[np.signbit(values).astype(np.intp), np.minimum(magnitude_codes, fmt.max_code)]
    codes = np.where(np.isnan(values), down, codes).astype(np.uint8)
    # Beyond the largest value a step up leaves the range; from one whole gap beyond it, so does a step down.
    beyond = finite & ((magnitude_codes > fmt.max_code) | (fraction >= 1))
    for s in (0, 1):
        side = np.signbit(values) == bool(s)
        for where, infinite in ((beyond & side, False), (np.isinf(values) & side, True)):
            if where.any():
                codes[where] = reals.overflow_code(fmt, s, overflow, infinite=infinite, toward_zero=False)
    return codes


def as_words(random_bits: object) -> npt.NDArray[Any]:
    """Random words as an array. Raises TypeError where they are not unsigned integers."""
    words = as_array(random_bits, name="random_bits")
    if words.dtype.kind != "u":
        raise TypeError(f"random_bits has dtype {words.dtype}; pass unsigned integers, uint32 say")
    return words


def check_random_bits(random_bits: object, shape: tuple[int, ...], sr_bits: int) -> npt.NDArray[np.float64]:
    """The low `sr_bits` of each random word, as exact float64.

    Raises ValueError for missing bits, another shape or a count outside 1 to 32; TypeError for a count or words of another type
    than (unsigned) integers.
    """
    sr_bits = as_index(sr_bits, "sr_bits")
    if not 1 <= sr_bits <= 32:
        raise ValueError(f"sr_bits = {sr_bits}; allowed are 1 to 32")
    if random_bits is None:
        raise ValueError("rounding='sr' needs random_bits: one unsigned word for each element of x")
    words = as_words(random_bits)
    if words.shape != shape:
        raise ValueError(f"random_bits has shape {words.shape}, x has {shape}; pass one word for each element")
    if 8 * words.dtype.itemsize < sr_bits:
        raise ValueError(
            f"random_bits has dtype {words.dtype}, of which sr_bits = {sr_bits} bits cannot be taken; pass wider words, or "
            f"sr_bits={8 * words.dtype.itemsize}"
        )
    return (words.astype(np.uint64) & np.uint64((1 << sr_bits) - 1)).astype(np.float64)


@cache
def _magnitude_codes(fmt: ScalarFormat) -> npt.NDArray[np.uint8]:
    return np.array([fmt.split(code)[1] for code in range(fmt.code_count)], np.uint8)


@cache
def _joined_codes(fmt: ScalarFormat) -> npt.NDArray[np.uint8]:
    return np.array([[fmt.join(s, m) for m in range(fmt.max_code + 1)] for s in (0, 1)], np.uint8)


@cache
def _gap_above(fmt: ScalarFormat) -> npt.NDArray[np.float64]:
    """For each code, the distance from its magnitude to the next one up (1 for codes that are not finite)."""
    gaps = np.ones(fmt.code_count)
    for code in range(fmt.code_count):
        _, m = fmt.split(code)
        if m <= fmt.max_code:
            gaps[code] = float(fmt.magnitude(m + 1) - fmt.magnitude(m))
    return gaps


def round_to_float32(x: npt.NDArray[np.float64]) -> Float32s:
    """float64 rounded once to float32, nearest even."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return x.astype(np.float32)


def round_to_bfloat16(x: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    """float64 rounded once to bfloat16, nearest even (ml_dtypes' cast of float64 arrays rounds twice)."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        narrow = x.astype(np.float32)
        # Round to odd: where float32 is inexact, make its last bit odd, so that the next rounding sees the truth.
        inexact = (narrow.astype(np.float64) != x) & np.isfinite(narrow) & np.isfinite(x)
        bits = narrow.view(np.uint32).copy()
        toward_zero = inexact & (np.abs(narrow.astype(np.float64)) > np.abs(x))
        bits[toward_zero] -= 1
        bits[inexact] |= 1
        return bits.view(np.float32).astype(_BFLOAT16)


def round_to(x: npt.NDArray[np.float64], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """float64 rounded once, to nearest even, to float32, float16 or bfloat16; NaN becomes the canonical quiet one.

    Raises TypeError for another dtype.
    """
    check_environment()
    kind = output_dtype(dtype)
    if kind == np.float32:
        result: npt.NDArray[Any] = round_to_float32(x)
        canonical: Any = np.uint32(FLOAT32.nan_code or 0)
    elif kind == np.float16:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            result = x.astype(np.float16)
        canonical = np.uint16(FLOAT16.nan_code or 0)
    else:
        result = round_to_bfloat16(x)
        canonical = np.uint16(BFLOAT16.nan_code or 0)
    result = np.asarray(result)
    lost = np.isnan(x)
    if lost.any():
        result.view(canonical.dtype)[lost] = canonical
    return result


def output_dtype(dtype: object) -> np.dtype[Any]:
    """The dtype, checked to be one that `round_to` writes.

    Raises TypeError otherwise.
    """
    allowed = "allowed are float32, float16 and bfloat16, of NumPy (ml_dtypes.bfloat16) or torch"
    if dtype is None:
        raise TypeError(f"dtype None is not an output; {allowed}")
    try:
        kind: np.dtype[Any] = np.dtype(dtype)  # type: ignore[call-overload]  # what it refuses is refused in words
    except TypeError:
        raise TypeError(f"dtype {dtype!r} is not an output; {allowed}") from None
    if kind not in (np.float32, np.float16, _BFLOAT16):
        raise TypeError(f"dtype {kind} is not an output; {allowed}")
    return kind
