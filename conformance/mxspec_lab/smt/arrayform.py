"""The two functions as the array model computes them: float64 quotients, and a table of the upper 16 bits and what lies below.

Quotients and conversions are SMT-LIB's own floats; the tables are read from `mxspec.elements`.
"""

from __future__ import annotations

import numpy as np

from mxspec import elements
from mxspec.blocks import element_table
from mxspec.formats import BlockFormat, ElementFormat
from mxspec.lowering import UnsupportedProfileError, lost_codes
from mxspec.profiles.schema import QuantizationSteps, ScaleRule, ScaleStep
from mxspec.rounding import NanPolicy, Overflow
from mxspec.scales import significand_bits
from mxspec_lab.smt import terms
from mxspec_lab.smt.definition import check_scaled, divides_maximum, give_special_bytes
from mxspec_lab.smt.terms import (
    Term,
    binary,
    both,
    concat,
    const,
    double,
    double_of_float32,
    either,
    extract,
    float_op,
    ite,
    negate,
    zero_extend,
)


def exact_index(value: Term) -> Term:
    """`elements.exact_table_index` of a float64, 17 bits."""
    narrow = float_op("f32.from_f64", value)
    wide = float_op("f64.from_f32", narrow)
    bits = float_op("f32.bits", narrow)
    bits = binary("bvsub", bits, zero_extend(ite(float_op("f64.abs_gt", wide, value), const(1, 1), const(0, 1)), 32))
    sticky = either(
        negate(binary("=", extract(bits, 15, 0), const(0, 16))), both(float_op("f64.ne", wide, value), negate(float_op("f64.isnan", value)))
    )
    return concat(extract(bits, 31, 16), ite(sticky, const(1, 1), const(0, 1)))


def look_up(table: np.ndarray[tuple[int], np.dtype[np.uint8]], index: Term) -> Term:
    """A table as the steps at which it changes, found by halving."""
    starts = [0, *(np.flatnonzero(np.diff(table.astype(np.int64))) + 1).tolist()]

    def find(first: int, last: int) -> Term:
        if first == last:
            return const(int(table[starts[first]]), 8)
        middle = (first + last + 1) // 2
        below = binary("bvult", index, const(starts[middle], index.width))
        return ite(below, find(first, middle - 1), find(middle, last))

    return find(0, len(starts) - 1)


def _clip(code: Term, low: int, high: int) -> Term:
    def at(n: int) -> Term:
        return const(n, code.width)

    return ite(terms.less(code, at(low), is_signed=True), at(low), ite(terms.less(at(high), code, is_signed=True), at(high), code))


def _exponent(bits: Term, rule: ScaleRule, element: ElementFormat) -> Term:
    """`scales.scale_exponents` of a normal float64's bits, 16 bits."""
    floor = binary("bvsub", zero_extend(extract(bits, 62, 52), 16), const(1023, 16))
    part = extract(bits, 51, 0)
    if rule.step is ScaleStep.FLOOR:
        up = terms.FALSE
    elif rule.step is ScaleStep.CEIL:
        up = negate(binary("=", part, const(0, 52)))
    elif rule.step is ScaleStep.HALF_UP:  # 2 fraction >= 2 - 2^-(bits + 1), both sides less 1
        up = negate(binary("bvult", part, const((1 << 52) - (1 << 52 >> significand_bits(element) + 1), 52)))
    else:
        raise UnsupportedProfileError(f"finds scales by {rule.step.value}")
    offset = rule.offset - (element.emax if rule.subtract_emax else 0)
    return binary("bvadd", binary("bvadd", floor, zero_extend(ite(up, const(1, 1), const(0, 1)), 16)), const(offset, 16))


def array_scale(amax: Term, steps: QuantizationSteps, fmt: BlockFormat) -> Term:
    """The scale byte (8 bits) of a maximum's bits (32, of which the sign is not looked at)."""
    rule, scale, element = steps.scale, fmt.scale, fmt.element
    value = double_of_float32(concat(const(0, 1), extract(amax, 30, 0)))
    if divides_maximum(rule):
        value = float_op("f64.div", value, double(float(element.max_value)))
    low, high = rule.byte_range
    if rule.step is ScaleStep.ENCODE:
        table = elements.encode_table(scale, rule.rounding, Overflow.SATURATE, NanPolicy.NAN)
        code = extract(_clip(zero_extend(look_up(table, exact_index(value)), 16), low, high), 7, 0)
    else:
        exponents = binary("bvadd", _exponent(float_op("f64.bits", value), rule, element), const(scale.bias, 16))
        code = extract(_clip(exponents, low, high), 7, 0)
    is_zero = negate(float_op("f64.ne", value, double(0.0)))
    return give_special_bytes(code, (is_zero, float_op("f64.isinf", value), float_op("f64.isnan", value)), rule, scale)


def _float32_of_byte(byte: Term) -> Term:
    """The float32 bits of a scale's value, as `decode_table` has them: 2^-127 is subnormal, FF is NaN."""
    bits = concat(const(0, 1), concat(byte, const(0, 23)))
    lowest = const(1 << 22, 32)
    return ite(binary("=", byte, const(255, 8)), const(0x7FC00000, 32), ite(binary("=", byte, const(0, 8)), lowest, bits))


def array_element(x: Term, byte: Term, steps: QuantizationSteps, fmt: BlockFormat) -> Term:
    """The code (8 bits) of an element's bits (32) under a scale byte (8)."""
    rule, element = steps.element, fmt.element
    lost = lost_codes(rule, element)
    if not rule.has_table or lost is None:
        raise UnsupportedProfileError("has codes that no table has")
    check_scaled(steps)
    scaled = float_op("f64.div", double_of_float32(x), double_of_float32(_float32_of_byte(byte)))
    code = look_up(element_table(element, rule), exact_index(scaled))
    number_is_nan = float_op("f64.isnan", double_of_float32(x))
    under_nan = binary("=", byte, const(255, 8))
    signed = ite(number_is_nan, binary("=", extract(x, 31, 31), const(1, 1)), both(negate(under_nan), const(rule.invalid_sign, 0)))
    code = ite(float_op("f64.isnan", scaled), ite(signed, const(lost[1], 8), const(lost[0], 8)), code)
    return code if rule.under_nan_scale is None else ite(under_nan, const(rule.under_nan_scale, 8), code)
