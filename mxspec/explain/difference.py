"""Where a returned block parts from a profile, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from mxspec import exact, reals
from mxspec.exact import EXACT
from mxspec.explain.compare import candidate_words
from mxspec.explain.records import BlockExplanation, LaneExplanation
from mxspec.explain.steps import explain_block, with_quantization, with_scale_code
from mxspec.explain.text import code_text
from mxspec.explain.trace import Where
from mxspec.explain.words import lane_words
from mxspec.expressions import AMAX, ONE, Apply, Choose, Domain, Expr, M, Op, children, evaluate, f32
from mxspec.formats import BFLOAT16, FLOAT16, FLOAT32, BlockFormat
from mxspec.profiles.schema import AmaxNan, ElementRule, Profile, QuantizationSteps, ScaleRule, ScaleStep
from mxspec.reals import Real, decode_real, make_real, round_real
from mxspec.rounding import DETERMINISTIC, NanPolicy, Overflow, Rounding, ZeroPolicy
from mxspec.tensorscale import TensorScale

#: Lanes of a failing block that get a sentence of their own.
_MOST_LANES = 3


def explain_difference(
    x: npt.ArrayLike,
    fmt: str | BlockFormat,
    profile: str | Profile | None,
    tensor_scale: TensorScale | str | None,
    got_scale: int,
    got_codes: Sequence[int] | npt.NDArray[np.uint8],
    *,
    amax: Real | None = None,
    guess: bool = True,
) -> tuple[str, ...]:
    """Where a returned block parts from a profile, in sentences; none where every bit is the profile's.

    The scale has a sentence, and so has each of the first wrong lanes. Codes are judged under the returned
    scale, so that a wrong scale is reported once. Where a simple mistake would give what was returned, the
    sentence ends in "as if ..."; without `guess` it does not, for one block shows less than many.

    Raises ValueError for another number of codes than k, and as `explain_block` does.
    """
    e = explain_block(x, fmt, profile=profile, tensor_scale=tensor_scale, convert=True, amax=amax)
    block = e.format
    if len(got_codes) != block.k:
        raise ValueError(f"{len(got_codes)} codes were returned; a block of {block.name} has {block.k}")
    got = tuple(int(c) for c in got_codes)
    if got_scale == e.scale.code and got == e.codes:
        return ()
    sentences: list[str] = []
    under = e
    if got_scale != e.scale.code:
        sentences.append(_scale_sentence(e, got_scale, guess=guess))
        if got_scale >= block.scale.code_count:
            return tuple(sentences)
        under = _under_scale(e, got_scale, amax)
    wrong = [lane for lane, code in zip(under.lanes, got, strict=True) if lane.code != code]
    if sentences:
        sentences.append(_codes_sentence(e, under, got, amax))
    lanes = [_lane_sentence(under, lane, got[lane.lane], guess=guess) for lane in wrong[:_MOST_LANES]]
    if not sentences or not _fits_another_scale(e, got_scale, got, amax):
        sentences += lanes
        if len(wrong) > _MOST_LANES:
            sentences.append(_rest_sentence(under, wrong, got, guess=guess))
        mistakes = " or ".join(_matching_mistakes(under, got)[:2]) if wrong and guess else ""
        if mistakes and (len(wrong) > 1 or mistakes not in lanes[0]):
            sentences.append(f"every code is as if {mistakes}")
    return tuple(sentences)


def _under_scale(e: BlockExplanation, scale_code: int, amax: Real | None) -> BlockExplanation:
    """The block through the same profile with a scale given."""
    forced = with_scale_code(e.profile, scale_code, two_level=e.tensor_scale is not None)
    return explain_block(_block_of(e), e.format, profile=forced, tensor_scale=e.tensor_scale, amax=amax)


def _block_of(e: BlockExplanation) -> npt.NDArray[np.float32]:
    return np.array([lane.bits for lane in e.lanes], np.uint32).view(np.float32)


# The scale


def _scale_sentence(e: BlockExplanation, got: int, *, guess: bool) -> str:
    scale = e.format.scale
    words = f"scale: {candidate_words(e)}; returned {got:02x}"
    if got >= scale.code_count:
        return f"{words}, which has more than the {scale.bits} bits of {scale.name}"
    if scale.is_nan(got):
        words += ", a NaN"
    elif not scale.is_nan(e.scale.code):
        steps = got - e.scale.code
        count = "one step" if abs(steps) == 1 else f"{abs(steps)} steps"
        words += f", {count} {'higher' if steps > 0 else 'lower'}"
    guesses = list(dict.fromkeys(mistake for mistake, code in _scale_mistakes(e) if code == got)) if guess else []
    return f"{words}: as if {' or '.join(guesses[:2])}" if guesses else words


def _scale_mistakes(e: BlockExplanation) -> Iterator[tuple[str, int]]:
    """(what was done instead, the scale code that it gives), likelier mistakes first."""
    block, rule, amax = e.format, e.scale.rule, e.amax
    numbers = [lane.x for lane in e.lanes if not lane.x.nan]

    def from_amax(largest: Real, changed: ScaleRule = rule) -> int:
        bound = dict(e.leaves) | {"M": make_real(block.element.max_value), "amax": largest}
        value = evaluate(changed.value, bound, EXACT)
        return exact.encode_scale(value, changed, block.scale, block.element)

    def from_value(**changes: object) -> int:
        changed = replace(rule, **changes)  # type: ignore[arg-type]  # fields of ScaleRule, by the callers below
        return exact.encode_scale(e.scale.value, changed, block.scale, block.element)

    yield from (("the other candidate were kept", c.scale_code) for c in e.candidates if not c.chosen)
    if len(numbers) < len(e.lanes):
        yield "NaN lanes were passed over", from_amax(exact.find_amax(numbers, AmaxNan.SKIP))
    if block.scale.mantissa_bits == 0 and amax.is_finite and not amax.is_zero:
        if rule.value == _RATIO:
            yield "amax / M were rounded to float32 first", from_amax(amax, replace(rule, value=f32.div(AMAX, M)))
        for words, other in _EXPONENT_RULES:
            ratio = reals.divide(amax, make_real(block.element.max_value))
            value = ratio if other.step is ScaleStep.ENCODE else amax
            yield words, exact.encode_scale(value, other, block.scale, block.element)
        if rule.subtract_emax:
            yield "emax were not subtracted", from_value(subtract_emax=False)
    elif e.scale.value.is_finite and rule.step is ScaleStep.ENCODE:
        yield "the scale were rounded toward zero", from_value(rounding=Rounding.RTZ)
        yield "the scale were rounded up", from_value(rounding=Rounding.RTP)
        yield "scale ties went away from zero", from_value(rounding=Rounding.RNA)
        yield "by ggml's ue4m3 encoder", from_value(step=ScaleStep.GGML_UE4M3)
        yield ("nothing were rounded before the scale", from_amax(amax, replace(rule, value=without_rounding(rule.value))))
        if e.tensor_scale is not None:
            yield "the tensor scale were left out", from_amax(amax, replace(rule, value=_RATIO))
    if numbers and not amax.nan:
        largest = max(numbers, key=_order)
        yield "the maximum were taken of x, not of |x|", from_amax(reals.absolute(largest))
        for fmt in (BFLOAT16, FLOAT16):
            yield f"the maximum were held in {fmt.name}", from_amax(round_real(amax, fmt))
        others = [x for x in numbers if reals.absolute(x) != amax]
        yield "the lane of the maximum were not looked at", from_amax(exact.find_amax(others, AmaxNan.SKIP))
        if reals.flush_subnormal(amax, FLOAT32) != amax:
            yield "subnormals counted as zeros", from_amax(reals.ZERO)


_RATIO = Apply(Op.DIV, Domain.EXACT, (AMAX, M))
#: Scale rules in use for e8m0; the encoder's value is amax / M, that of the others amax.
_EXPONENT_RULES: tuple[tuple[str, ScaleRule], ...] = (
    ("by floor(log2 amax) - emax", ScaleRule(value=AMAX, step=ScaleStep.FLOOR, subtract_emax=True)),
    ("by amax / max rounded up", ScaleRule(value=AMAX, step=ScaleStep.ENCODE, rounding=Rounding.RTP)),
    ("by ceil(log2 amax) - emax", ScaleRule(value=AMAX, step=ScaleStep.CEIL, subtract_emax=True)),
    ("amax were rounded half up first", ScaleRule(value=AMAX, step=ScaleStep.HALF_UP, subtract_emax=True)),
    ("log2 were a float32 function", ScaleRule(value=AMAX, step=ScaleStep.LOG2F_FLOOR, subtract_emax=True)),
    ("log2 were rounded", ScaleRule(value=AMAX, step=ScaleStep.LOG2F_ROUND, subtract_emax=True)),
)


def _order(x: Real) -> tuple[int, Fraction]:
    """A sort key of numbers that puts infinities at the ends."""
    if x.magnitude is None:
        return (-1 if x.sign else 1), Fraction(0)
    return 0, x.value


def without_rounding(expr: Expr) -> Expr:
    """The expression with every operation exact; a reciprocal becomes a division."""
    if isinstance(expr, Apply):
        args = tuple(without_rounding(a) for a in expr.args)
        if expr.op is Op.RCP:
            return Apply(Op.DIV, Domain.EXACT, (ONE, *args))
        return Apply(expr.op, Domain.EXACT, args)
    if isinstance(expr, Choose):
        left, right, then, otherwise = (without_rounding(c) for c in children(expr))
        return Choose(left, expr.test, right, then, otherwise)
    return expr


# The codes


def _codes_sentence(e: BlockExplanation, under: BlockExplanation, got: tuple[int, ...], amax: Real | None) -> str:
    if got == under.codes:
        return "codes: all are what the profile gives under the returned scale"
    other = _fits_another_scale(e, under.scale.code, got, amax)
    if other:
        return f"codes: they belong to {other}, not to the one returned"
    wrong = sum(a != b for a, b in zip(got, under.codes, strict=True))
    return f"codes: under the returned scale {wrong} of {len(got)} differ from the profile"


def _fits_another_scale(e: BlockExplanation, got_scale: int, got: tuple[int, ...], amax: Real | None) -> str:
    """The other scale under which all codes are the profile's, in words; empty if none nearby is."""
    if got == _under_scale(e, got_scale, amax).codes:
        return ""
    fmt = e.format.scale
    if got == e.codes:
        return f"the profile's scale {code_text(e.scale.code, fmt)}"
    for code in (got_scale + 1, got_scale - 1):
        if 0 <= code <= fmt.max_code and got == _under_scale(e, code, amax).codes:
            return f"the scale {code_text(code, fmt)}"
    return ""


def _lane_sentence(e: BlockExplanation, lane: LaneExplanation, got: int, *, guess: bool) -> str:
    words = f"lane {lane.lane}: {lane_words(e, lane)}; returned {code_text(got, e.format.element)}"
    return f"{words}: {_name_code(e, lane, got, guess=guess)}"


def _rest_sentence(e: BlockExplanation, wrong: Sequence[LaneExplanation], got: Sequence[int], *, guess: bool) -> str:
    rest = wrong[_MOST_LANES:]
    names = {_name_code(e, lane, got[lane.lane], guess=guess) for lane in wrong}
    words = f"{len(rest)} more wrong {'lane' if len(rest) == 1 else 'lanes'}, from lane {rest[0].lane} on"
    return words + (f"; all {len(wrong)}: {names.pop()}" if len(names) == 1 else "")


def _name_code(e: BlockExplanation, lane: LaneExplanation, got: int, *, guess: bool) -> str:
    """The simple mistake that gives the returned code instead of the profile's, or how far off it is: without `guess` always that."""
    element = e.format.element
    if got >= element.code_count:
        return f"more than the {element.bits} bits of {element.name}; are the codes packed?"
    sign, magnitude = element.split(got)
    due_sign, due = element.split(lane.code)
    if element.is_nan(got):
        return "a NaN"
    if magnitude == element.inf_code:
        return "an infinity"
    if magnitude == due:
        return "zero with the other sign" if magnitude == 0 else "the sign is wrong"
    if sign != due_sign and 0 not in (magnitude, due):
        return "the sign is wrong, and the magnitude too"
    mistake = _rounding_mistake(e, lane, magnitude) if guess else ""
    if mistake:
        return f"as if {mistake}"
    if magnitude == 0:
        return "zero"
    steps = abs(magnitude - due)
    side = "away from" if magnitude > due else "toward"
    return f"{'one code' if steps == 1 else f'{steps} codes'} {side} zero"


def _rounding_mistake(e: BlockExplanation, lane: LaneExplanation, magnitude: int) -> str:
    """The mistake in rounding that gives a magnitude code; signs of zeros are another matter."""
    element, place = e.format.element, lane.place
    lower, upper = (None if n is None or n.code is None else element.split(n.code)[1] for n in (place.lower, place.upper))
    early = " or ".join(list(dict.fromkeys(w for w, code in _early_roundings(e, lane) if element.split(code)[1] == magnitude))[:3])
    if place.where is Where.TIE and magnitude in (lower, upper):
        ties = f"ties went {'away from' if magnitude == upper else 'toward'} zero"
        return f"{ties} or {early}" if early else ties
    if early:
        return early
    if place.where in (Where.BELOW, Where.ABOVE) and magnitude in (lower, upper):
        return "rounded away from zero" if magnitude == upper else "cut toward zero"
    return ""


def _early_roundings(e: BlockExplanation, lane: LaneExplanation) -> Iterator[tuple[str, int]]:
    """What the profile's element rule gives when its input is rounded once more, or once less, on the way."""
    element, rule = e.format.element, e.quantization.element
    if rule.error is not None or not rule.is_lane_local or not lane.scaled.is_finite:
        return

    def code(scaled: Real, changed: ElementRule = rule) -> int:
        return exact.encode_element(scaled, lane.x, e.scale.decoded.nan, changed, element)

    unrounded = without_rounding(e.quantization.scaled)
    if unrounded != e.quantization.scaled:
        bound = dict(e.leaves) | {"M": make_real(element.max_value), "amax": e.amax}
        scaled = evaluate(unrounded, bound | {"sf": e.scale.decoded, "x": lane.x}, EXACT)
        yield "nothing were rounded on the way to scaled x", code(scaled)
    if not rule.add_half_floor_f32 and lane.place.where is Where.BELOW:
        added = replace(rule, add_half_floor_f32=True, rounding=Rounding.RNA)
        yield "1/2 were added in float32, which rounds up to the next step", code(lane.scaled, added)
    for fmt in (FLOAT32, FLOAT16, BFLOAT16):
        narrow = round_real(lane.scaled, fmt)
        if narrow != lane.scaled and narrow.is_finite:
            yield (f"{'x / scale' if unrounded == e.quantization.scaled else 'scaled x'} were held in {fmt.name}", code(narrow))


def _matching_mistakes(e: BlockExplanation, got: tuple[int, ...]) -> list[str]:
    """The single changes of the element's arithmetic under each of which the profile gives all returned codes."""
    found = []
    given = [decode_real(lane.bits, FLOAT32) for lane in e.lanes]
    native = None if e.tensor_scale is None else e.tensor_scale.real
    for words, changed in _changed_quantizations(e.quantization, e.format):
        profile = with_quantization(e.profile, changed, two_level=e.tensor_scale is not None)
        try:
            result = exact.quantize_block(given, e.format, profile=profile, tensor_scale=native, amax=e.amax)
        except ValueError:
            continue
        if result.codes == got:
            found.append(words)
    return found


def _changed_quantizations(quantization: QuantizationSteps, fmt: BlockFormat) -> Iterator[tuple[str, QuantizationSteps]]:
    """(mistake, arithmetic with it)."""
    for words, rule in _element_mistakes(quantization.element, fmt):
        yield words, replace(quantization, element=rule)
    unrounded = without_rounding(quantization.scaled)
    if unrounded != quantization.scaled:
        yield "nothing were rounded on the way to scaled x", replace(quantization, scaled=unrounded)


_ROUNDING_WORDS = {
    Rounding.RNE: "ties went to even",
    Rounding.RNA: "ties went away from zero",
    Rounding.RNZ: "ties went toward zero",
    Rounding.RNU: "ties went up, toward +infinity",
    Rounding.RTZ: "cut toward zero",
    Rounding.RTN: "rounded down, toward -infinity",
    Rounding.RTP: "rounded up, toward +infinity",
}


def _element_mistakes(rule: ElementRule, fmt: BlockFormat) -> Iterator[tuple[str, ElementRule]]:
    """(mistake, element rule with it), for the single changes that are met in the field."""
    plain = ElementRule(zero=rule.zero, nan=rule.nan, nan_own=rule.nan_own, under_nan_scale=rule.under_nan_scale)
    for rounding in DETERMINISTIC:
        yield _ROUNDING_WORDS[rounding], replace(plain, rounding=rounding)
    yield ("codes were floor(steps + 1/2), summed in float32", replace(plain, add_half_floor_f32=True, rounding=Rounding.RNA))
    for zero, words in ((ZeroPolicy.PLUS, "zeros lost their sign"), (ZeroPolicy.SIGNED, "zeros kept their sign")):
        yield words, replace(rule, zero=zero)
    if fmt.element.twos_complement:
        yield "the lowest code were 80", replace(rule, int8_lowest=-128)
        yield "the lowest code were 81", replace(rule, int8_lowest=-127)
    if fmt.element.nan_code is not None:
        yield "overflow gave the format's own Inf or NaN", replace(rule, overflow=Overflow.OWN)
        yield "infinities gave the format's own Inf or NaN", replace(rule, overflow=Overflow.SATURATE_FINITE)
    for nan in NanPolicy:
        if nan is not NanPolicy.RAISE and (fmt.element.nan_code is not None or "nan" not in nan.value):
            yield f"NaN lanes became {nan.value}", replace(rule, nan=nan, nan_own=nan, under_nan_scale=None)
