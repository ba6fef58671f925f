"""Known misreadings of codes and scale bytes: whole tables of values, compared with what a decoder returned."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from mxspec.elements import decode_table
from mxspec.formats import BlockFormat, ElementFormat, ScalarFormat
from mxspec_conformance.judge.explanation import Cause, ConversionMistake, Explanation
from mxspec_conformance.observations.tables import Values, rotated_table, same_values

Table = npt.NDArray[np.float64]


def list_misreadings(fmt: ScalarFormat) -> Iterator[tuple[ConversionMistake, Table]]:
    """The values of every code of a scalar format as each mistake would have them; those that differ from the right ones."""
    right = decode_table(fmt).astype(np.float64)
    makers = _of_scales(fmt, right) if fmt.exponent_bits and not fmt.mantissa_bits else _of_floats(fmt, right)
    for mistake, table in makers:
        if not _same(table.astype(np.float32), right.astype(np.float32)):
            yield mistake, table


def _of_scales(fmt: ScalarFormat, right: Table) -> Iterator[tuple[ConversionMistake, Table]]:
    codes = np.arange(fmt.code_count)
    zero, infinite = codes == 0, np.isnan(right)
    yield ConversionMistake.ZERO_BYTE, np.where(zero, 0.0, right)
    yield ConversionMistake.NAN_INFINITE, np.where(infinite, np.inf, right)
    yield ConversionMistake.FIELD_OF_FLOAT32, np.where(zero, 0.0, np.where(infinite, np.inf, right))
    yield ConversionMistake.BYTE_ITSELF, codes.astype(np.float64)
    yield ConversionMistake.SIGNED_BYTE, np.ldexp(1.0, np.where(codes > 127, codes - 256, codes))


def _of_floats(fmt: ScalarFormat, right: Table) -> Iterator[tuple[ConversionMistake, Table]]:
    if isinstance(fmt, ElementFormat) and fmt.twos_complement:
        return
    codes = np.arange(fmt.code_count)
    magnitude = codes & (fmt.sign_bit - 1) if fmt.signed else codes
    field, fraction = magnitude >> fmt.mantissa_bits, (magnitude & ((1 << fmt.mantissa_bits) - 1)) / (1 << fmt.mantissa_bits)
    sign = np.where(fmt.signed & ((codes & fmt.sign_bit) != 0), -1.0, 1.0)
    normal = sign * np.ldexp(1 + fraction, field - fmt.bias)
    small, special = (field == 0) & (fraction != 0), ~np.isfinite(right)
    yield ConversionMistake.SPECIALS_FINITE, np.where(special, normal, right)
    yield ConversionMistake.SUBNORMALS_NORMAL, np.where(small, normal, right)
    yield ConversionMistake.ALL_NORMAL, normal
    yield ConversionMistake.SUBNORMALS_HALVED, np.where(small, right / 2, right)
    yield ConversionMistake.SUBNORMALS_ZERO, np.where(small, np.copysign(0.0, sign), right)
    if not isinstance(fmt, ElementFormat):
        yield ConversionMistake.AS_E8M0, np.append(np.ldexp(1.0, np.arange(-127, 128)), np.nan)[: fmt.code_count]
        yield ConversionMistake.EXPONENT_ALONE, np.where(special, right, np.ldexp(1.0, field - fmt.bias))


def name_codes(fmt: ScalarFormat, returned: Values) -> frozenset[Explanation]:
    """The misreadings that give what was returned for every code of a scalar format."""
    return frozenset(_explain(m) for m, table in list_misreadings(fmt) if _same(table.astype(np.float32), returned))


def name_table(fmt: BlockFormat, returned: Values) -> frozenset[Explanation]:
    """The misreadings of scale bytes, or of element codes, that give every value of a table without a tensor scale."""
    codes, scales = rotated_table(fmt)
    elements, factors = decode_table(fmt.element).astype(np.float64), decode_table(fmt.scale).astype(np.float64)
    found = set()
    with np.errstate(all="ignore"):
        for mistake, table in list_misreadings(fmt.scale):
            if _same((elements[codes] * table[scales][:, None]).astype(np.float32), returned):
                found.add(_explain(mistake))
        for mistake, table in list_misreadings(fmt.element):
            if _same((table[codes] * factors[scales][:, None]).astype(np.float32), returned):
                found.add(_explain(mistake))
    return frozenset(found)


def _same(a: Values, b: Values) -> bool:
    return bool(same_values(a, b, signs=False).all())


def _explain(mistake: ConversionMistake) -> Explanation:
    return Explanation(Cause.CONVERSION_MISTAKE, mistake=mistake)
