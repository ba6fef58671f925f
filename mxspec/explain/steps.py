"""One block or one number through the exact model, every step kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec import exact, reals, tensorscale
from mxspec.elements import as_float32, default_nan_policy
from mxspec.exact import EXACT, ExactBlock
from mxspec.explain.records import BlockExplanation, Candidate, LaneExplanation, RuleText, ScalarExplanation, ScaleExplanation
from mxspec.explain.text import float32_bits
from mxspec.explain.trace import RECORDING, Node, Place, Step, StepNamer, Where, leaf_node, locate
from mxspec.explain.words import element_rule_words, overflow_words, rounding_words
from mxspec.expressions import Const, Leaf, evaluate, leaves
from mxspec.formats import BFLOAT16, FLOAT32, BlockFormat, ElementFormat, ScalarFormat, ScaleFormat, floor_log2, get_block, get_scalar
from mxspec.profiles import get_profile
from mxspec.profiles.schema import TENSOR_LEAF, ExponentUnderflow, Profile, QuantizationSteps, ScaleRule, ScaleStep
from mxspec.reals import Real, decode_real, encode_real, make_real, round_real
from mxspec.rounding import MAGNITUDE_RULES, NanPolicy, Overflow, Rounding
from mxspec.tensorscale import TensorScale, check_tensor_scale, find_tensor_amax


def explain_block(
    x: npt.ArrayLike,
    fmt: str | BlockFormat,
    *,
    profile: str | Profile | None = None,
    tensor_scale: TensorScale | str | None = None,
    convert: bool = False,
    amax: Real | None = None,
) -> BlockExplanation:
    """Every step of one block through one profile.

    x: the k elements of a 1 x k block, in a dtype that `quantize` takes.
    tensor_scale: None for the one-level form, a `TensorScale`, "auto" for a tensor that is this block alone.
    convert: allow a tensor scale of another kind than the profile's.
    amax: the largest magnitude where it is not the block's own (16 x 16 blocks).

    Raises TypeError and ValueError as `quantize` does, and ValueError for another number of elements than k.
    """
    fmt, profile = get_block(fmt), get_profile(profile, fmt)
    values = _check_block(x, fmt)
    tmax = None
    if isinstance(tensor_scale, str):
        if tensor_scale != "auto":
            raise ValueError(f"tensor_scale={tensor_scale!r}; allowed are None, a TensorScale and 'auto'")
        scale: TensorScale | None = tensorscale.tensor_scale(values, fmt, profile)
        assert profile.tensor is not None
        tmax = decode_real(find_tensor_amax(values, nan=profile.tensor.amax_nan), FLOAT32)
    else:
        scale = None if tensor_scale is None else check_tensor_scale(tensor_scale, profile, convert=convert)
    return _Explainer(values, fmt, profile, scale, tmax, amax).explain()


def _check_block(x: npt.ArrayLike, block: BlockFormat) -> npt.NDArray[np.float32]:
    values = as_float32(x)
    if values.shape != (block.k,):
        raise ValueError(f"x has shape {values.shape}; one block of {block.name} is {block.k} elements, shape ({block.k},)")
    return np.ascontiguousarray(values)


def _bits_of(values: npt.NDArray[np.float32]) -> list[int]:
    return [int(b) for b in values.view(np.uint32)]


def with_quantization(profile: Profile, quantization: QuantizationSteps, *, two_level: bool) -> Profile:
    """The profile with other steps in one of its forms."""
    return replace(profile, two_level=quantization) if two_level else replace(profile, one_level=quantization)


def with_scale_rule(profile: Profile, rule: ScaleRule, *, two_level: bool) -> Profile:
    """The profile with this scale rule in one of its forms, and no alternative there."""
    quantization = profile.steps(with_tensor_scale=two_level)
    return with_quantization(profile, replace(quantization, scale=rule, alternative=None), two_level=two_level)


def with_scale_code(profile: Profile, code: int, *, two_level: bool) -> Profile:
    """The profile with a scale that is this code whatever the block holds."""
    return with_scale_rule(profile, ScaleRule(value=Const(0), step=ScaleStep.ENCODE, on_zero=code), two_level=two_level)


class _Explainer:
    """The state shared by the steps of one explanation."""

    def __init__(
        self,
        values: npt.NDArray[np.float32],
        block: BlockFormat,
        profile: Profile,
        scale: TensorScale | None,
        tmax: Real | None,
        amax: Real | None,
    ) -> None:
        self.bits = _bits_of(values)
        self.given = [decode_real(b, FLOAT32) for b in self.bits]
        self.block, self.profile, self.scale, self.tmax, self.forced_amax = block, profile, scale, tmax, amax
        self.native = None if scale is None else scale.real
        self.quantization = profile.steps(with_tensor_scale=scale is not None)
        self.bound: dict[str, Node] = {"M": leaf_node("M", make_real(block.element.max_value))}

    def explain(self) -> BlockExplanation:
        tensor_steps = self._bind_tensor_scale()
        candidates, rule, result = self._results()
        seen = self._seen()
        bound = {**self.bound, "amax": leaf_node("amax", result.amax)}
        scale = _explain_scale(rule, bound, result, self.block, count=_numbered(tensor_steps))
        sf = leaf_node("sf", result.scale)
        nodes = [evaluate(self.quantization.scaled, {**bound, "sf": sf, "x": leaf_node("x", x)}, RECORDING) for x in seen]
        shared = StepNamer(count=_numbered(tensor_steps) + _numbered(scale.steps))
        for node in nodes:
            _add_shared(node, shared)
        lanes = self._lanes(seen, nodes, result, shared, {name: n.result for name, n in bound.items()})
        return BlockExplanation(
            format=self.block,
            profile=self.profile,
            quantization=self.quantization,
            tensor_scale=self.scale,
            tensor_steps=tensor_steps,
            leaves=tuple((name, node.result) for name, node in self.bound.items() if name != "M"),
            amax=result.amax,
            amax_bits=float32_bits(result.amax),
            amax_lane=_find_lane(seen, result.amax),
            scale=scale,
            candidates=candidates,
            shared_steps=tuple(shared.steps),
            lanes=lanes,
        )

    def _bind_tensor_scale(self) -> tuple[Step, ...]:
        rule = self.profile.tensor
        if self.native is None or rule is None:
            return ()
        namer = StepNamer()
        native = TENSOR_LEAF[rule.native]
        if self.tmax is not None and rule.from_amax != Leaf(native):
            namer.add(evaluate(rule.from_amax, {"tmax": leaf_node("tmax", self.tmax)}, RECORDING), native)
            self.bound["tmax"] = leaf_node("tmax", self.tmax)
        known = {native: leaf_node(native, self.native)}
        for leaf, expr in rule.derived:
            node = evaluate(expr, known, RECORDING)
            namer.add(node, leaf.name)
            known[leaf.name] = leaf_node(leaf.name, node.result)
        self.bound |= known
        return tuple(namer.steps)

    def _seen(self) -> list[Real]:
        """The elements as the profile's stages see them."""
        bindings = {name: node.result for name, node in self.bound.items()}
        return list(exact.prepare_block(self.given, self.profile, self.quantization, bindings))

    def _quantize(self, profile: Profile) -> ExactBlock:
        return exact.quantize_block(self.given, self.block, profile=profile, tensor_scale=self.native, amax=self.forced_amax)

    def _results(self) -> tuple[tuple[Candidate, ...], ScaleRule, ExactBlock]:
        """Both candidates (none without an alternative), the scale rule that was chosen, and its result."""
        result = self._quantize(self.profile)
        other = self.quantization.alternative
        if other is None:
            return (), self.quantization.scale, result
        two_level = self.scale is not None
        rules = (self.quantization.scale, other.scale)
        results = [self._quantize(with_scale_rule(self.profile, r, two_level=two_level)) for r in rules]
        bindings = {name: node.result for name, node in self.bound.items()}
        errors = [exact._error(self._seen(), r, self.quantization, self.block, bindings) for r in results]
        chosen = int(reals.less(errors[1], errors[0]))
        assert results[chosen] == result
        candidates = tuple(
            Candidate(scale_code=r.scale_code, codes=r.codes, error=e, chosen=i == chosen)
            for i, (r, e) in enumerate(zip(results, errors, strict=True))
        )
        return candidates, rules[chosen], result

    def _lanes(
        self, seen: list[Real], nodes: list[Node], result: ExactBlock, shared: StepNamer, bindings: dict[str, Real]
    ) -> tuple[LaneExplanation, ...]:
        made: dict[tuple[int, int], LaneExplanation] = {}
        values: dict[int, tuple[Real, int]] = {}
        lanes = []
        for i, bits in enumerate(self.bits):
            code = result.codes[i]
            if (bits, code) not in made:
                if code not in values:
                    value = exact.dequantize_element(code, result.scale_code, self.block, profile=self.profile, tensor_scale=self.native)
                    values[code] = value, _rounded_bits(value)
                made[bits, code] = self._lane(i, seen[i], nodes[i], result, shared, bindings, values[code])
            lanes.append(replace(made[bits, code], lane=i))
        return tuple(lanes)

    def _lane(
        self, i: int, x: Real, node: Node, result: ExactBlock, shared: StepNamer, bindings: dict[str, Real], value: tuple[Real, int]
    ) -> LaneExplanation:
        element, rule = self.block.element, self.quantization.element
        scaled, code = result.scaled[i], result.codes[i]
        assert node.result == scaled
        namer = shared.fork()
        if self.quantization.normalize is not None:
            given = reals.flush_subnormal(self.given[i], FLOAT32) if self.profile.flush_inputs else self.given[i]
            namer.add(evaluate(self.quantization.normalize, {**self.bound, "x": leaf_node("x", given)}, RECORDING), "x")
        namer.add(node)
        wide = element.twos_complement and rule.int8_lowest == -128 and scaled.sign
        place = locate(scaled, element, top=element.max_code + 1 if wide else None)
        errors: tuple[tuple[int, Real], ...] = ()
        under_nan = result.scale.nan and rule.under_nan_scale is not None
        if rule.error is not None and not under_nan:
            near = [n.code for n in (place.lower, place.upper) if n is not None and n.code is not None]
            known = {**bindings, "sf": result.scale, "x": x, "scaled": scaled}
            errors = tuple((c, evaluate(rule.error, {**known, "q": decode_real(c, element)}, EXACT)) for c in dict.fromkeys([*near, code]))
        return LaneExplanation(
            lane=i,
            bits=self.bits[i],
            x=x,
            steps=tuple(namer.steps),
            scaled=scaled,
            place=place,
            errors=errors,
            rule=element_rule_words(rule, element, scaled, place, code, scale_is_nan=result.scale.nan),
            code=code,
            q=decode_real(code, element),
            value=value[0],
            value_bits=value[1],
        )


def _numbered(steps: Sequence[Step]) -> int:
    """How many steps are called by a number, not by a leaf's name."""
    return sum(step.name[1:].isdigit() for step in steps)


def _rounded_bits(value: Real) -> int:
    """float32 bits of a dequantized value, rounded once to nearest even."""
    assert FLOAT32.nan_code is not None
    return FLOAT32.nan_code if value.nan else encode_real(value, FLOAT32, overflow=Overflow.OWN)


def _add_shared(node: Node, namer: StepNamer) -> None:
    """The steps of the largest parts of a node that do not involve x."""
    if "x" not in leaves(node.expr):
        namer.add(node)
        return
    for part in node.parts:
        _add_shared(part, namer)


def _find_lane(block: Sequence[Real], amax: Real) -> int | None:
    for i, x in enumerate(block):
        if x.nan if amax.nan else (not x.nan and x.magnitude == amax.magnitude):
            return i
    return None


_LOG2_STEPS = (ScaleStep.LOG2F_FLOOR, ScaleStep.LOG2BF16_FLOOR, ScaleStep.LOG2F_CEIL, ScaleStep.LOG2F_ROUND)
_ENCODERS = (ScaleStep.ENCODE, ScaleStep.GGML_UE4M3)


def _explain_scale(rule: ScaleRule, bound: dict[str, Node], result: ExactBlock, block: BlockFormat, *, count: int) -> ScaleExplanation:
    node = evaluate(rule.value, bound, RECORDING)
    assert node.result == result.scale_value
    namer = StepNamer(count=count)
    namer.add(node)
    value = reals.absolute(node.result)
    floor = log2 = raw = exponent = unclamped = place = None
    if value.is_finite and value.magnitude:
        floor = floor_log2(value.magnitude)
        open_ended = replace(rule, byte_range=(-(1 << 40), 1 << 40), underflow=ExponentUnderflow.CLAMP)
        unclamped = exact.encode_scale(value, open_ended, block.scale, block.element)
        if rule.step in _ENCODERS:
            place = locate(value, block.scale)
            exponent = unclamped - block.scale.bias if block.scale.mantissa_bits == 0 else None
        else:
            exponent = unclamped - block.scale.bias
            raw = exponent - rule.offset + (block.element.emax if rule.subtract_emax else 0)
        if rule.step in _LOG2_STEPS:
            log2 = exact.rounded_log2(value.magnitude)
            if rule.step is ScaleStep.LOG2BF16_FLOOR:
                log2 = round_real(make_real(log2), BFLOAT16).value
    return ScaleExplanation(
        rule=rule,
        format=block.scale,
        steps=tuple(namer.steps),
        value=node.result,
        floor_log2=floor,
        log2=log2,
        raw_exponent=raw,
        exponent=exponent,
        unclamped=unclamped,
        place=place,
        code=result.scale_code,
        decoded=result.scale,
    )


def explain_scalar(
    x: float | np.floating[Any] | npt.NDArray[Any],
    element: str | ElementFormat | ScaleFormat,
    *,
    rounding: str | Rounding = Rounding.RNE,
    overflow: str | Overflow = Overflow.SATURATE,
    nan: str | NanPolicy | None = None,
    random: int | None = None,
    random_bits: int = 32,
) -> ScalarExplanation:
    """Every step of one number through one encoder; unsigned formats encode the magnitude.

    x: one float32 (or float16, bfloat16, or float64 that is exactly float32).
    random: the word of stochastic rounding, of which the low `random_bits` bits count.

    Raises TypeError and ValueError as `elements.encode` does.
    """
    fmt = get_scalar(element)
    values = as_float32(x)
    if values.size != 1:
        raise ValueError(f"x has shape {values.shape}; pass one number")
    bits = _bits_of(values.reshape(1))[0]
    mode, policy = Rounding(rounding), default_nan_policy(fmt) if nan is None else NanPolicy(nan)
    given = decode_real(bits, FLOAT32)
    real = given if fmt.signed else reals.absolute(given)
    code = encode_real(real, fmt, rounding=mode, overflow=Overflow(overflow), nan=policy, random=random, random_bits=random_bits)
    place = locate(real, fmt)
    draw = None
    if mode is Rounding.SR and random is not None and place.lower and place.upper and place.lower != place.upper:
        low, high = place.lower.value.magnitude, place.upper.value.magnitude
        assert real.magnitude is not None
        assert low is not None
        assert high is not None
        draw = random, random_bits, ((real.magnitude - low) / (high - low) * (1 << random_bits)).__floor__()
    return ScalarExplanation(
        format=fmt,
        rounding=mode,
        overflow=Overflow(overflow),
        nan=policy,
        bits=bits,
        x=given,
        place=place,
        random=draw,
        rule=_scalar_rule(fmt, mode, Overflow(overflow), policy, real, place, draw),
        code=code,
        value=decode_real(code, fmt),
    )


def _scalar_rule(
    fmt: ScalarFormat, mode: Rounding, overflow: Overflow, nan: NanPolicy, x: Real, place: Place, draw: tuple[int, int, int] | None
) -> RuleText:
    if place.where is Where.NAN:
        return RuleText(f"NaN: {nan.value}")
    if place.where in (Where.BEYOND, Where.INFINITE):
        return overflow_words(overflow, infinite=place.where is Where.INFINITE)
    if draw is not None:
        random, count, fraction = draw
        sign = ">=" if fraction + random >= 1 << count else "<"
        way = "away from" if sign == ">=" else "toward"
        return RuleText(f"{fraction:#x} + {random:#x} {sign} 2^{count}: {way} zero")
    if mode is Rounding.SR:
        return RuleText("exact", is_exact=True)
    return rounding_words(MAGNITUDE_RULES[mode][x.sign], place)
