"""Known misreadings of codes and scale bytes: whole tables of values, compared with what a decoder returned."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec.elements import decode_codes, decode_table
from mxspec.formats import BlockFormat, ElementFormat, ScalarFormat
from mxspec_conformance.judge.explanation import Cause, ConversionMistake, Explanation
from mxspec_conformance.observations.tables import Values, rotated_table, same_values

Table = npt.NDArray[np.float64]


def list_misreadings(fmt: ScalarFormat) -> Iterator[tuple[ConversionMistake, Table]]:
    """The values of every code of a scalar format as each mistake would have them; those that differ from the right ones.

    None of a float32, whose codes are what a program reads anyhow.
    """
    if fmt.bits > 8:
        return
    right = decode_table(fmt).astype(np.float64)
    makers = _of_scales(fmt, right) if fmt.exponent_bits and not fmt.mantissa_bits else _of_floats(fmt, right)
    for mistake, table in makers:
        if not _same(as_float32(table), as_float32(right)):
            yield mistake, table


def _of_scales(fmt: ScalarFormat, right: Table) -> Iterator[tuple[ConversionMistake, Table]]:
    codes = np.arange(fmt.code_count)
    zero, infinite = codes == 0, np.isnan(right)
    yield ConversionMistake.ZERO_BYTE, np.where(zero, 0.0, right)
    yield ConversionMistake.NAN_INFINITE, np.where(infinite, np.inf, right)
    yield ConversionMistake.NAN_POWER, np.where(infinite, np.ldexp(1.0, codes - fmt.bias), right)
    yield ConversionMistake.FIELD_OF_FLOAT32, np.where(zero, 0.0, np.where(infinite, np.inf, right))
    yield ConversionMistake.BYTE_ITSELF, codes.astype(np.float64)
    yield ConversionMistake.SIGNED_BYTE, np.ldexp(1.0, np.where(codes > 127, codes - 256, codes))


def _of_floats(fmt: ScalarFormat, right: Table) -> Iterator[tuple[ConversionMistake, Table]]:
    if isinstance(fmt, ElementFormat) and fmt.twos_complement:
        yield ConversionMistake.WHOLE_NUMBERS, np.ldexp(right, fmt.mantissa_bits - 1)
        return
    codes = np.arange(fmt.code_count)
    magnitude = codes & (fmt.sign_bit - 1) if fmt.signed else codes
    field, fraction = magnitude >> fmt.mantissa_bits, (magnitude & ((1 << fmt.mantissa_bits) - 1)) / (1 << fmt.mantissa_bits)
    sign = np.where(fmt.signed & ((codes & fmt.sign_bit) != 0), -1.0, 1.0)
    normal = sign * np.ldexp(1 + fraction, field - fmt.bias)
    small, special = (field == 0) & (fraction != 0), ~np.isfinite(right)
    yield ConversionMistake.SPECIALS_FINITE, np.where(special, normal, right)
    infinite = np.where(magnitude == fmt.sign_bit - 2, sign * np.inf, np.nan)
    yield ConversionMistake.LAST_BUT_ONE, np.where(special, infinite, right)
    yield ConversionMistake.SUBNORMALS_NORMAL, np.where(small, normal, right)
    yield ConversionMistake.ALL_NORMAL, normal
    yield ConversionMistake.SUBNORMALS_HALVED, np.where(small, right / 2, right)
    yield ConversionMistake.SUBNORMALS_ZERO, np.where(small, np.copysign(0.0, sign), right)
    if not isinstance(fmt, ElementFormat):
        yield ConversionMistake.AS_E8M0, np.append(np.ldexp(1.0, np.arange(-127, 128)), np.nan)[: fmt.code_count]
        yield ConversionMistake.EXPONENT_ALONE, np.where(special, right, np.ldexp(1.0, field - fmt.bias))


def name_codes(fmt: ScalarFormat, returned: Values) -> frozenset[Explanation]:
    """The misreadings that give what was returned for every code of a scalar format."""
    return _name_constant(returned) or frozenset(_explain(m) for m, table in list_misreadings(fmt) if _same(as_float32(table), returned))


def _name_constant(returned: Values) -> frozenset[Explanation]:
    """What gives one value, whatever the code is."""
    known = ((ConversionMistake.ALL_ZERO, 0.0), (ConversionMistake.ALL_NAN, np.nan))
    return frozenset(_explain(m) for m, value in known if _same(np.full_like(returned, value), returned))


def name_table(fmt: BlockFormat, returned: Values) -> frozenset[Explanation]:
    """The misreadings of scale bytes, or of element codes, that give every value of a table without a tensor scale."""
    codes, scales = rotated_table(fmt)
    elements, factors = decode_table(fmt.element).astype(np.float64), decode_codes(scales, fmt.scale).astype(np.float64)[:, None]
    found = set(_name_constant(returned))
    with np.errstate(all="ignore"):
        for mistake, table in list_misreadings(fmt.scale):
            if _same((elements[codes] * table[scales][:, None]).astype(np.float32), returned):
                found.add(_explain(mistake))
        for mistake, table in list_misreadings(fmt.element):
            if _same((table[codes] * factors).astype(np.float32), returned):
                found.add(_explain(mistake))
        right = (elements[codes] * factors).astype(np.float32)
        if not found and fmt.is_mx:
            found |= {_explain(m) for m, table in _add_exponents(elements[codes], scales) if _same(table, returned)}
        if not found:
            found |= _name_bytes(elements[codes], scales, right, returned)
    return frozenset(found)


#: Dtypes to whose bits an exponent may be added: the integer, bits of the fraction, the mistake.
_PATTERNS = (
    (np.dtype(ml_dtypes.bfloat16), np.dtype(np.uint16), 7, ConversionMistake.ADDED_TO_BFLOAT16),
    (np.dtype(np.float32), np.dtype(np.uint32), 23, ConversionMistake.ADDED_TO_FLOAT32),
)


def _add_exponents(elements: Table, scales: npt.NDArray[np.uint8]) -> Iterator[tuple[ConversionMistake, Values]]:
    """Values of elements [n, k] to whose bits the exponent of an E8M0 byte [n] was added as an integer; zeros stay."""
    for dtype, integer, fraction, mistake in _PATTERNS:
        bits = elements.astype(dtype).view(integer).astype(np.int64)
        moved = bits + ((scales.astype(np.int64) - 127) << fraction)[:, None]
        yield mistake, np.where(elements == 0, bits, moved).astype(integer).view(dtype).astype(np.float32)


#: Bytes that are read wrongly and can be named one by one.
_FEW = 4


def _name_bytes(elements: Table, scales: npt.NDArray[np.uint8], right: Values, returned: Values) -> set[Explanation]:
    """A few scale bytes that are read as NaN, infinity, zero or one, where all else is right."""
    wrong = ~same_values(returned, right, signs=False)
    bytes_ = np.unique(scales[wrong.any(axis=1)])
    words = []
    for byte in bytes_.tolist() if len(bytes_) <= _FEW else []:
        rows = scales == byte
        read = [
            name
            for name, value in (("NaN", np.nan), ("infinity", np.inf), ("zero", 0.0), ("one", 1.0))
            if _same((elements[rows] * value).astype(np.float32), returned[rows])
        ]
        if not read:
            return set()
        words.append(f"{byte:02X} were {read[0]}")
    return {Explanation(Cause.CONVERSION_MISTAKE, f"scale byte {' and '.join(words)}")} if words else set()


def as_float32(table: Table) -> Values:
    """A table's values in float32; those beyond it are infinite."""
    with np.errstate(over="ignore"):
        return table.astype(np.float32)


def _same(a: Values, b: Values) -> bool:
    return bool(same_values(a, b, signs=False).all())


def _explain(mistake: ConversionMistake) -> Explanation:
    return Explanation(Cause.CONVERSION_MISTAKE, mistake=mistake)
