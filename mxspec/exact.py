"""The definition: every profile, one block at a time, in exact rationals.

This module is slow on purpose. It imports no array arithmetic, and the array model takes nothing from it. What they share
is data (formats, profiles and their expressions, the measured reciprocal) and three functions of `reals` that read it:
what a code means (`decode_real`), and which code stands for a NaN or for overflow (`nan_codes`, `overflow_code`). There
the equality of the two models shows nothing; libraries, headers and a chip do. What this module computes is what a
profile means; everything faster is held to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from mxspec import reals
from mxspec.expressions import Domain, Expr, Op, Test, evaluate
from mxspec.formats import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    BlockFormat,
    ElementFormat,
    FloatFormat,
    ScaleFormat,
    floor_log2,
    get_block,
    power_of_two,
)
from mxspec.profiles import get_profile
from mxspec.profiles.schema import (
    TENSOR_LEAF,
    AmaxNan,
    ElementRule,
    ErrorNorm,
    ErrorOrder,
    ExponentUnderflow,
    Profile,
    QuantizationSteps,
    ScaleRule,
    ScaleStep,
)
from mxspec.rcp_table import load_rcp_table
from mxspec.reals import Real, decode_real, encode_real, make_real, round_real
from mxspec.rounding import MAGNITUDE_RULES, Overflow, Rounding, ZeroPolicy

_ROUNDED: dict[Domain, tuple[FloatFormat, ...]] = {
    Domain.EXACT: (),
    Domain.F32: (FLOAT32,),
    Domain.F32_FTZ: (FLOAT32,),
    Domain.BF16: (FLOAT32, BFLOAT16),
    Domain.F16: (FLOAT32, FLOAT16),
}
#: Results below this are flushed: rounded to 24 bits with any exponent they are less than 2**-126 (`Domain.F32_FTZ`).
_FLUSHED_BELOW = Fraction(1, 1 << 126) * (1 - Fraction(1, 1 << 25))


@lru_cache(maxsize=1024)
def _decode_constant(bits: int) -> Real:
    return decode_real(bits, FLOAT32)


class ExactArithmetic:
    """`expressions.Arithmetic` over exact numbers."""

    def constant(self, bits: int) -> Real:
        """The float32 with these bits."""
        return _decode_constant(bits)

    def apply(self, op: Op, domain: Domain, args: tuple[Real, ...]) -> Real:
        """One operation, rounded in its domain. NaN operands pass their sign on."""
        if op is Op.RCP:
            return rcp_approx(args[0])
        if op in (Op.FMIN, Op.FMAX) and sum(a.nan for a in args) == 1:
            return next(a for a in args if not a.nan)
        if op is not Op.ABS and any(a.nan for a in args):
            return next(a for a in args if a.nan)
        if op in (Op.MIN, Op.FMIN):
            return args[1] if reals.less(args[1], args[0]) else args[0]
        if op in (Op.MAX, Op.FMAX):
            return args[1] if reals.less(args[0], args[1]) else args[0]
        if op is Op.ABS:
            return reals.absolute(args[0])
        if op is Op.CEIL_POW2:
            return _ceil_pow2(args[0])
        if domain is Domain.F32_FTZ and op is not Op.ROUND:  # what is rounded is no operand: it may be exact
            args = tuple(reals.flush_subnormal(a, FLOAT32) for a in args)
        if op is Op.ROUND:
            result = args[0]
        elif op is Op.ADD:
            result = reals.add(*args)
        elif op is Op.SUB:
            result = reals.add(args[0], reals.negate(args[1]))
        elif op is Op.MUL:
            result = reals.multiply(*args)
        else:
            result = reals.divide(*args)
        if domain is Domain.F32_FTZ and result.is_finite and reals.absolute(result).value < _FLUSHED_BELOW:
            return Real(result.sign, Fraction(0))
        for fmt in _ROUNDED[domain]:
            result = round_real(result, fmt)
        return result

    def choose(self, left: Real, test: Test, right: Real, then: Real, otherwise: Real) -> Real:
        """then where the test holds, else otherwise."""
        if test is Test.EQUAL:
            holds = not (left.nan or right.nan) and not reals.less(left, right) and not reals.less(right, left)
        elif test is Test.LESS:
            holds = reals.less(left, right)
        else:
            holds = left.nan if test is Test.IS_NAN else left.is_infinite
        return then if holds else otherwise


EXACT = ExactArithmetic()


def _ceil_pow2(x: Real) -> Real:
    if x.magnitude is None or x.magnitude == 0:
        return x
    power = power_of_two(floor_log2(x.magnitude))
    return Real(x.sign, power if power == x.magnitude else 2 * power)


def rcp_approx(x: Real) -> Real:
    """`rcp.approx.ftz.f32` by the measured table: the rounded reciprocal, moved by -1, 0 or 1 in its last place."""
    x = reals.flush_subnormal(x, FLOAT32)
    if not x.is_finite or x.is_zero:
        return reals.divide(make_real(1), x)
    significand = encode_real(reals.absolute(x), FLOAT32) & 0x7FFFFF
    rounded = encode_real(reals.divide(make_real(1), x), FLOAT32, overflow=Overflow.OWN)
    return reals.flush_subnormal(decode_real(rounded + int(load_rcp_table()[significand]), FLOAT32), FLOAT32)


@lru_cache(maxsize=4096)
def rounded_log2(value: Fraction) -> Fraction:
    """log2 of a positive rational, correctly rounded to float32."""
    exponent = floor_log2(value)
    if value == Fraction(2) ** exponent:
        return Fraction(exponent)
    with localcontext() as context:
        context.prec = 60
        ratio = value / Fraction(2) ** exponent
        log = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln() / Decimal(2).ln() + exponent
        return round_real(make_real(Fraction(log)), FLOAT32).value


def _scale_exponent(value: Fraction, rule: ScaleRule, element: ElementFormat) -> int:
    floor = floor_log2(value)
    step = rule.step
    if step is ScaleStep.FLOOR:
        e = floor
    elif step is ScaleStep.CEIL:
        e = floor + (value != Fraction(2) ** floor)
    elif step is ScaleStep.HALF_UP:
        half_unit = (element.max_value - element.magnitude(element.max_code - 1)) / Fraction(2) ** element.emax / 2
        e = floor + (value / Fraction(2) ** floor + half_unit >= 2)
    elif step is ScaleStep.LOG2F_FLOOR:
        e = rounded_log2(value).__floor__()
    elif step is ScaleStep.LOG2BF16_FLOOR:
        e = round_real(make_real(rounded_log2(value)), BFLOAT16).value.__floor__()
    elif step is ScaleStep.LOG2F_CEIL:
        e = rounded_log2(value).__ceil__()
    else:
        e = round(rounded_log2(value))
    return e + rule.offset - (element.emax if rule.subtract_emax else 0)


def _ggml_ue4m3(value: Fraction) -> int:
    clipped = min(value, Fraction(448))
    exponent = floor_log2(clipped) + 7
    if exponent <= 0:
        # value * 512 + 0.5f in float32: it rounds up to 1 just below a half.
        half_up = EXACT.apply(Op.ADD, Domain.F32, (make_real(clipped * 512), make_real(Fraction(1, 2))))
        return min(half_up.value.__floor__(), 7)
    half_ups = (clipped / Fraction(2) ** (exponent - 7) * 8 + Fraction(1, 2)).__floor__()  # 8 .. 16
    code = (exponent << 3) + half_ups - 8
    return 0x7E if code >= 15 << 3 else code


def encode_scale(value: Real, rule: ScaleRule, scale: ScaleFormat, element: ElementFormat) -> int:
    """The scale code of a scale expression's value."""
    value = reals.absolute(value)
    low, high = rule.byte_range
    if value.nan:
        assert scale.nan_code is not None
        return scale.nan_code if rule.on_nan is None else rule.on_nan
    if value.magnitude is None:
        return high if rule.on_inf is None else rule.on_inf
    if value.is_zero:
        return low if rule.on_zero is None else rule.on_zero
    if rule.step is ScaleStep.GGML_UE4M3:
        return _ggml_ue4m3(value.magnitude)
    if rule.step is ScaleStep.ENCODE:
        return min(max(encode_real(value, scale, rounding=rule.rounding), low), high)
    code = _scale_exponent(value.magnitude, rule, element) + scale.bias << scale.mantissa_bits
    if rule.underflow is ExponentUnderflow.WRAP:
        return min(code, high) & 0xFF
    return min(max(code, low), high)


def find_amax(block: Sequence[Real], nan: AmaxNan) -> Real:
    """The largest magnitude of a block."""
    must_hold_a_number = {AmaxNan.SKIP_UNLESS_ALL: block, AmaxNan.SKIP_UNLESS_ODD: block[1::2]}.get(nan, ())
    if must_hold_a_number and all(x.nan for x in must_hold_a_number):
        return reals.NAN
    best = reals.ZERO
    for x in block:
        if x.nan:
            if nan is AmaxNan.PROPAGATE:
                return reals.NAN
        elif reals.less(best, reals.absolute(x)):
            best = reals.absolute(x)
    return best


def encode_element(scaled: Real, x: Real, scale_is_nan: bool, rule: ElementRule, element: ElementFormat) -> int:
    """The code of one scaled element; x is the element before scaling, whose sign a NaN keeps.

    Under `unbounded_fields` it is the eight bits that `share_bytes` makes codes of.
    """
    if rule.unbounded_fields:
        return _unbounded_fields(scaled)
    if scaled.nan:
        return _encode_lost(x, scale_is_nan, rule, element)
    if rule.add_half_floor_f32 and scaled.magnitude is not None:
        magnitude_code = _add_half_floor(scaled.magnitude, element, rule)
        code = element.join(scaled.sign, min(magnitude_code, element.max_code))
    elif rule.binade_log2f and scaled.magnitude:
        code = encode_real(_floor_in_log2f_binade(scaled, element), element)
    elif element.twos_complement and rule.int8_lowest == -128 and scaled.sign and scaled.magnitude is not None:
        steps = reals.round_magnitude(scaled.magnitude, element, MAGNITUDE_RULES[rule.rounding][1])
        code = element.join(1, min(steps, 128))
    elif element.twos_complement and rule.int8_lowest == -128 and scaled.sign:
        code = 0x80
    else:
        code = encode_real(scaled, element, rounding=rule.rounding, overflow=rule.overflow)
    if element.split(code)[1] == 0 and not element.twos_complement:
        if rule.zero is ZeroPolicy.PLUS:
            return 0
        if rule.zero is ZeroPolicy.MINUS_UNLESS_POSITIVE and scaled.is_zero:
            return element.join(1, 0)
        if rule.zero is ZeroPolicy.PLUS_UNLESS_UNDERFLOW and scaled.is_zero:
            return 0
    return code


def _encode_lost(x: Real, scale_is_nan: bool, rule: ElementRule, element: ElementFormat) -> int:
    """The code of a lane that is no number after scaling."""
    sign = x.sign if x.nan else (0 if scale_is_nan else rule.invalid_sign)
    policy = rule.nan if element.nan_code is None else rule.nan_own
    return reals.nan_codes(element, policy)[sign]


def _add_half_floor(magnitude: Fraction, element: ElementFormat, rule: ElementRule) -> int:
    """floor(steps + 1/2), the sum rounded in the rule's domain; under rne exact ties that came out odd go back."""
    lo, _ = reals.neighbours(magnitude, element)
    gap = element.magnitude(lo + 1) - element.magnitude(lo)
    steps = magnitude / gap
    half = make_real(Fraction(1, 2))
    rounded = EXACT.apply(Op.ADD, rule.half_floor_domain, (make_real(steps), half))
    if rounded.is_infinite:
        return element.max_code
    total = rounded.value.__floor__()
    if rule.rounding is Rounding.RNE and (steps - Fraction(1, 2)) % 2 == 0:
        total -= 1
    return lo + (total - (element.magnitude(lo) / gap).__floor__())


def _unbounded_fields(x: Real) -> int:
    """What the bfloat16 fields of the rounded value become, cut to eight bits; `ElementRule.unbounded_fields`."""
    if x.nan or x.magnitude is None:
        return (1 << 3 | (255 - 126) << 1 | 1) & 0xFF  # bfloat16 FFFF
    step = Fraction(1, 2) if x.magnitude < 2 else Fraction(1 if x.magnitude < 4 else 2)
    value = round(x.magnitude / step) * step
    if value == 0:
        return x.sign << 3
    exponent = floor_log2(value)
    first_bit = exponent == -1 or value / power_of_two(exponent) >= Fraction(3, 2)
    return (x.sign << 3 | (exponent + 1) << 1 | first_bit) & 0xFF


def share_bytes(fields: Sequence[int]) -> tuple[int, ...]:
    """Codes of eight-bit fields that are packed two per byte by OR, the first low."""
    codes: list[int] = []
    for low, high in zip(fields[::2], fields[1::2], strict=True):
        codes += [low & 0xF, (high | low >> 4) & 0xF]
    return tuple(codes)


def _floor_in_log2f_binade(x: Real, element: ElementFormat) -> Real:
    """x cut toward zero to a multiple of the step of the binade that a float32 log2 puts it in."""
    assert x.magnitude is not None
    exponent = max(rounded_log2(x.magnitude).__floor__(), 1 - element.bias)
    gap = power_of_two(exponent - element.mantissa_bits)
    return make_real((-1 if x.sign else 1) * (x.magnitude // gap) * gap, negative_zero=bool(x.sign))


@dataclass(frozen=True, slots=True)
class ExactBlock:
    """One block through one profile, every stage kept."""

    amax: Real
    scale_value: Real
    scale_code: int
    scale: Real
    scaled: tuple[Real, ...]
    codes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RandomWords:
    """Random bits of a block."""

    #: One number in [0, 2**bits) for each element.
    words: Sequence[int]
    bits: int = 32


def bind_tensor_scale(profile: Profile, native: Real) -> dict[str, Real]:
    """The leaves that a native tensor scale gives."""
    assert profile.tensor is not None
    bindings = {TENSOR_LEAF[profile.tensor.native]: native}
    for leaf, expr in profile.tensor.derived:
        bindings[leaf.name] = evaluate(expr, bindings, EXACT)
    return bindings


def derive_tensor_scale(amax: Real, profile: Profile) -> Real:
    """The native tensor scale of a tensor whose largest magnitude is given.

    Raises ValueError for a profile without one.
    """
    if profile.tensor is None:
        raise ValueError(f"profile {profile.id} has no tensor scale")
    return evaluate(profile.tensor.from_amax, {"tmax": amax}, EXACT)


def _quantize_with_rule(
    block: Sequence[Real],
    amax: Real,
    scale_rule: ScaleRule,
    steps: QuantizationSteps,
    fmt: BlockFormat,
    bindings: dict[str, Real],
    random: RandomWords | None = None,
) -> ExactBlock:
    value = evaluate(scale_rule.value, {**bindings, "amax": amax}, EXACT)
    scale_code = encode_scale(value, scale_rule, fmt.scale, fmt.element)
    sf = decode_real(scale_code, fmt.scale)
    rule, known = steps.element, {**bindings, "amax": amax, "sf": sf}

    def encode_lane(x: Real, word: int | None = None) -> tuple[Real, int]:
        scaled = evaluate(steps.scaled, {**known, "x": x}, EXACT)
        if sf.nan and rule.under_nan_scale is not None:
            return scaled, rule.under_nan_scale
        if random is not None and scaled.nan:
            return scaled, _encode_lost(x, sf.nan, rule, fmt.element)
        if random is not None:
            return scaled, encode_real(scaled, fmt.element, rounding=Rounding.SR, random=word, random_bits=random.bits)
        if rule.error is not None:
            return scaled, _search_code({**known, "x": x, "scaled": scaled}, rule.error, fmt.element)
        return scaled, encode_element(scaled, x, sf.nan, rule, fmt.element)

    if random is not None:
        rounded = [encode_lane(x, word) for x, word in zip(block, random.words, strict=True)]
        return ExactBlock(amax, value, scale_code, sf, tuple(r[0] for r in rounded), tuple(r[1] for r in rounded))
    lanes = {x: encode_lane(x) for x in dict.fromkeys(block)}
    codes = tuple(lanes[x][1] for x in block)
    if rule.unbounded_fields and not (sf.nan and rule.under_nan_scale is not None):
        codes = share_bytes(codes)
    return ExactBlock(amax, value, scale_code, sf, tuple(lanes[x][0] for x in block), codes)


def _search_code(bindings: dict[str, Real], error: Expr, element: ElementFormat) -> int:
    """The first code of the least error; NaN errors never replace an earlier code."""
    errors = [evaluate(error, {**bindings, "q": decode_real(code, element)}, EXACT) for code in range(element.code_count)]
    best = 0
    for code, candidate in enumerate(errors):
        if reals.less(candidate, errors[best]):
            best = code
    return best


_COMBINE = {ErrorNorm.SQUARED: Op.ADD, ErrorNorm.ABSOLUTE: Op.ADD, ErrorNorm.MAXIMUM: Op.MAX}


def _error(block: Sequence[Real], result: ExactBlock, steps: QuantizationSteps, fmt: BlockFormat, b: dict[str, Real]) -> Real:
    assert steps.alternative is not None
    rule = steps.alternative

    def find_error(x: Real, code: int) -> Real:
        known = {**b, "x": x, "sf": result.scale, "q": decode_real(code, fmt.element)}
        y = _dequantize_code(code, result.scale, steps, fmt, b)
        return evaluate(rule.error, {**known, "y": y}, EXACT)

    pairs = list(zip(block, result.codes, strict=True))
    errors = {pair: find_error(*pair) for pair in dict.fromkeys(pairs)}
    lanes = [errors[pair] for pair in pairs]
    if rule.order is ErrorOrder.HALVES:
        half = len(lanes) // 2
        halves = zip(lanes[:half], lanes[half:], strict=True)
        lanes = [EXACT.apply(_COMBINE[rule.norm], Domain.F32, both) for both in halves]
    total = reals.ZERO
    for lane in lanes:
        total = EXACT.apply(_COMBINE[rule.norm], Domain.F32, (total, lane))
    return EXACT.apply(Op.ROUND, rule.total, (total,))


def prepare_block(block: Sequence[Real], profile: Profile, steps: QuantizationSteps, bindings: dict[str, Real]) -> Sequence[Real]:
    """The elements as the profile's stages see them: flushed and normalized where it does so."""
    if profile.flush_inputs:
        block = [reals.flush_subnormal(x, FLOAT32) for x in block]
    if steps.normalize is not None:
        block = [evaluate(steps.normalize, {**bindings, "x": x}, EXACT) for x in block]
    return block


def quantize_block(
    block: Sequence[Real],
    fmt: str | BlockFormat,
    *,
    profile: str | Profile | None = None,
    tensor_scale: Real | None = None,
    amax: Real | None = None,
    random: RandomWords | None = None,
) -> ExactBlock:
    """One block through a profile.

    block: exact numbers, k of them for a 1 x k block (any number for a part of a larger one).
    tensor_scale: the profile's native tensor scale; None for the one-level form.
    amax: the largest magnitude where it is not the block's own (16 x 16 blocks).
    random: a word for each element; numbers are then rounded by the integer rule of stochastic rounding.
    Raises ValueError for random words and a profile that chooses between answers by their errors.
    """
    fmt, profile = get_block(fmt), get_profile(profile, fmt)
    steps = profile.steps(with_tensor_scale=tensor_scale is not None)
    if random is not None and (steps.alternative is not None or steps.element.error is not None):
        raise ValueError(f"profile {profile.id} chooses between answers by their errors; quantize without random words")
    bindings = {"M": make_real(fmt.element.max_value)}
    if tensor_scale is not None:
        bindings |= bind_tensor_scale(profile, tensor_scale)
    block = prepare_block(block, profile, steps, bindings)
    largest = find_amax(block, profile.amax_nan) if amax is None else amax
    first = _quantize_with_rule(block, largest, steps.scale, steps, fmt, bindings, random)
    if steps.alternative is None:
        return first
    if amax is not None:
        raise ValueError(f"profile {profile.id} chooses between two scales for a whole tile, which is not modelled")
    second = _quantize_with_rule(block, largest, steps.alternative.scale, steps, fmt, bindings)
    better = reals.less(_error(block, second, steps, fmt, bindings), _error(block, first, steps, fmt, bindings))
    return second if better else first


def _dequantize_code(code: int, sf: Real, steps: QuantizationSteps, fmt: BlockFormat, bindings: dict[str, Real]) -> Real:
    q = decode_real(code, fmt.element)
    return evaluate(steps.dequantize, {**bindings, "q": q, "sf": sf}, EXACT)


def dequantize_element(
    code: int, scale_code: int, fmt: str | BlockFormat, *, profile: str | Profile | None = None, tensor_scale: Real | None = None
) -> Real:
    """The value of one stored element, before it is rounded to an output dtype."""
    fmt, profile = get_block(fmt), get_profile(profile, fmt)
    steps = profile.steps(with_tensor_scale=tensor_scale is not None)
    bindings = {"M": make_real(fmt.element.max_value)}
    if tensor_scale is not None:
        bindings |= bind_tensor_scale(profile, tensor_scale)
    return _dequantize_code(code, decode_real(scale_code, fmt.scale), steps, fmt, bindings)


def real_from_bits(bits: int, fmt: FloatFormat = FLOAT32) -> Real:
    """The exact number that a float's bits mean."""
    return decode_real(bits, fmt)


__all__ = [
    "EXACT",
    "ErrorNorm",
    "ExactBlock",
    "RandomWords",
    "bind_tensor_scale",
    "dequantize_element",
    "derive_tensor_scale",
    "encode_element",
    "encode_scale",
    "find_amax",
    "prepare_block",
    "quantize_block",
    "real_from_bits",
    "rounded_log2",
]
