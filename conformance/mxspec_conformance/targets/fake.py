"""Targets that return the values of quantized blocks in place of codes: which codes these are.

Under several scales a block of few numbers has the same values. It is read under the scale that the target's rule gives, where other
blocks show that rule; else under one that needs the fewest roundings to be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.elements import decode_codes, decode_table, default_nan_policy, encode_table, exact_table_index
from mxspec.expressions import AMAX, const, exact, f32
from mxspec.finding import FoundCodes, find_codes
from mxspec.formats import BlockFormat, ElementFormat, floor_log2, get_block
from mxspec.profiles.schema import Kind, Profile, ScaleRule as RuleOfProfile, ScaleStep
from mxspec.rounding import DETERMINISTIC, Overflow, Rounding
from mxspec_conformance.targets.dtypes import DTYPES, cast_input, is_representable
from mxspec_conformance.targets.errors import BadReturn

#: Elements of a block whose wrong rounding is no sign of another scale.
_FEW = 2
#: Steps of a scale byte that a rule may lie away from a profile's, besides the element's emax.
_OFFSETS = (-1, 1, -2, 2)


@dataclass(frozen=True, slots=True)
class ScaleRule:
    """A profile's scales, moved by some steps."""

    profile: Profile
    offset: int = 0
    #: Whether the profile's scale is that of a block's max - min, as of one number.
    of_range: bool = False
    #: A scale code below which no scale goes, as where maxima are at least some eps.
    least: int = 0
    #: How far it is believed where another scale leaves fewer roundings wrong (`find_codes`).
    trust: int = 0

    def expect(self, x: npt.NDArray[np.float32], fmt: BlockFormat, tensor_scale: float | None) -> tuple[Any, Any]:
        """Codes and scales of numbers. Raises ValueError where the profile says nothing of them."""
        tensor = None if tensor_scale is None else mxspec.TensorScale("decode", float(tensor_scale))
        with np.errstate(all="ignore"):
            t = mxspec.quantize(lay_range(x, fmt.k) if self.of_range else x, fmt, profile=self.profile, tensor_scale=tensor, convert=True)
            moved = np.clip(t.scales.astype(np.int64) + self.offset, self.least, fmt.scale.max_code)
            scales = np.where(t.scales > fmt.scale.max_code, t.scales, moved).astype(np.uint8)
            if self.of_range or (scales != t.scales).any():
                t = mxspec.quantize(x, fmt, scales=scales)
        return t.codes, scales


def shows_codes(tensor_scale: float) -> bool:
    """Whether values under a tensor scale are exact products, or nearly: no float32 of them is subnormal or infinite."""
    return 2.0**-110 <= tensor_scale <= 2.0**110


def read_values(
    values: npt.NDArray[Any], x: npt.NDArray[Any], fmt: str, rule: ScaleRule, *, scales: Any = None, tensor_scale: float | None = None
) -> FoundCodes:
    """The codes of values [..., n] that a target returned for numbers x of the same shape; zeros are added to a ragged tail.

    Raises BadReturn for another shape or dtype.
    """
    if values.shape != x.shape or values.dtype not in DTYPES.values():
        allowed = f"return {' or '.join(DTYPES)} in that shape"
        raise BadReturn(f"fake_quantize returned {values.dtype} {values.shape} for x of shape {x.shape}; {allowed}")
    block = get_block(fmt)
    more = [(0, 0)] * (x.ndim - 1) + [(0, -x.shape[-1] % block.k)]
    given, numbers = values.shape[-1], np.pad(x, more).astype(np.float32)
    values = np.pad(values, more)
    if given % block.k:  # a block that is NaN is NaN in the zeros, too
        tail = values[..., given - given % block.k : given]
        values[..., given:] = np.where(np.isnan(tail).all(axis=-1, keepdims=True), np.nan, 0)
    try:
        expected = rule.expect(numbers, block, tensor_scale)
    except ValueError:
        expected = None
    factor = 1.0 if tensor_scale is None else tensor_scale
    return find_codes(values, block, x=numbers, scales=scales, expected=expected, trust=rule.trust, tensor_scale=factor)


def lay_range(x: npt.NDArray[np.float32], k: int) -> npt.NDArray[np.float32]:
    """Blocks of k of one number, the max - min of others; 0 where float32 does not hold it."""
    blocks = x.reshape(-1, k)
    found = np.zeros_like(blocks)
    with np.errstate(all="ignore"):
        spread = blocks.max(axis=1) - blocks.min(axis=1)
    found[:, 0] = np.where(np.isfinite(spread), spread, 0)
    return found.reshape(x.shape)


def find_rule(call: Callable[[npt.NDArray[Any]], npt.NDArray[Any]], fmt: str, dtype: str, tensor_scale: float | None) -> ScaleRule:
    """The rule whose scales explain the most blocks, with the fewest elements that no one rounding explains; call: the values of numbers [rows, k]."""
    block = get_block(fmt)
    x = cast_input(_list_numbers(block), dtype)
    values, wide = call(x), x.astype(np.float32)
    best: tuple[tuple[int, ...], ScaleRule, bool] | None = None
    seen = set[bytes]()
    for rule in _list_rules(block):
        try:
            _, scales = rule.expect(wide, block, tensor_scale)
        except ValueError:
            continue
        if scales.tobytes() in seen:
            continue
        seen.add(scales.tobytes())
        found = read_values(values, x, fmt, rule, scales=scales, tensor_scale=tensor_scale)
        lost = int((found.unexplained != 0).any(axis=1).sum())
        if best is not None and lost > best[0][0]:
            continue
        cost = lost, _count_odd(wide, scales, found.codes, block), abs(rule.offset), int(found.misrounded.sum())
        if best is None or cost < best[0]:
            best = cost, rule, bool(found.misrounded.any())
    assert best is not None
    if best[0][0] or not block.scale.is_power_of_two:  # scales that lie close together do not tell one rule from another
        return best[1]
    # Where all elements were right, a wrong one is more likely under another scale; where some were not, they are what is wrong.
    rule = replace(best[1], trust=block.k if best[2] else _FEW)
    return _with_least(rule, call, fmt, dtype)


def _count_odd(x: npt.NDArray[np.float32], scales: npt.NDArray[Any], codes: npt.NDArray[Any], block: BlockFormat) -> int:
    """How many codes of numbers [rows, k] under scales are not those of the rounding, or the mistake, that explains the most of them."""
    element = block.element
    values = decode_table(element)
    with np.errstate(all="ignore"):
        scaled = x.astype(np.float64) / decode_codes(scales, block.scale).astype(np.float64)
        size, top = np.abs(scaled), reserved_end(element)
        wrong = [(r, scaled) for r in DETERMINISTIC]
        wrong += [(Rounding.RNE, np.where(size < float(element.min_normal), 0, scaled))]
        wrong += [] if top is None else [(Rounding.RNE, np.clip(scaled, -top, top))]
    tables = ((encode_table(element, r, Overflow.SATURATE, default_nan_policy(element)), q) for r, q in wrong)
    return min(int((values[table[exact_table_index(q)]] != values[codes]).sum()) for table, q in tables)


def reserved_end(element: ElementFormat) -> float | None:
    """The largest number of an element format if its largest exponent were reserved for infinity and NaN; None where it is, or there is none."""
    if element.twos_complement or element.inf_code is not None:
        return None
    return float(element.magnitude((element.max_code >> element.mantissa_bits << element.mantissa_bits) - 1))


def _with_least(rule: ScaleRule, call: Callable[[npt.NDArray[Any]], npt.NDArray[Any]], fmt: str, dtype: str) -> ScaleRule:
    """The rule with the least scale that small blocks show, if there is one."""
    block, numbers = get_block(fmt), _list_numbers(get_block(fmt))[:: len(_FRACTIONS) // 2 + 1]
    x = np.concatenate([numbers[:1] * np.float32(2.0**e) for e in range(-128, -8)])
    x = cast_input(x[is_representable(x, dtype).all(axis=1)], dtype)
    if not len(x):
        return rule
    values = call(x)
    found = read_values(values, x, fmt, rule)
    _, scales = rule.expect(x.astype(np.float32), block, None)
    above = np.flatnonzero((found.scales > scales).reshape(-1) & (values != 0).any(axis=1))
    if not above.size:
        return rule
    floored = replace(rule, least=int(found.scales.reshape(-1)[above[-1]]))
    again = read_values(values, x, fmt, floored, scales=floored.expect(x.astype(np.float32), block, None)[1])
    return rule if again.unexplained.any() or again.misrounded.any() else floored


def _list_rules(block: BlockFormat) -> Iterator[ScaleRule]:
    profiles = sorted(mxspec.list_profiles(block), key=lambda p: p.kind is not Kind.NORMATIVE)
    yield from (ScaleRule(profile) for profile in profiles)
    if not block.scale.is_power_of_two:
        return
    yield from (ScaleRule(profile, offset) for offset in (*_OFFSETS, block.element.emax) for profile in profiles)
    yield from (ScaleRule(profile, of_range=True) for profile in profiles)
    plain = next(p for p in profiles if p.one_level is not None)
    yield from (ScaleRule(replace(plain, one_level=replace(plain.one_level, scale=rule))) for rule in _list_unusual(block.element))  # type: ignore[type-var]


def _list_unusual(element: ElementFormat) -> Iterator[RuleOfProfile]:
    """Scale rules that no profile has: amax / M and amax / 2^emax to the nearest power of two, and amax / M up to one for a smaller M."""
    for value in (exact.div(AMAX, const(2**element.emax)), f32.div(AMAX, const(element.max_value))):
        yield RuleOfProfile(value=value, step=ScaleStep.LOG2F_ROUND)
        yield from (RuleOfProfile(value=value, step=ScaleStep.ENCODE, rounding=rounding) for rounding in (Rounding.RNE, Rounding.RNA))
    if (end := reserved_end(element)) is not None:
        yield RuleOfProfile(value=exact.div(AMAX, const(end)), step=ScaleStep.CEIL)


#: Fractions of maxima: all parts of a binade, and its end, where rules of 8-bit elements differ, and logarithms in float32 round up.
_FRACTIONS = (*(1 + j / 64 for j in range(64)), 1.9878, 1.9941, 1.9985, 2 - 2.0**-23)


def _list_numbers(block: BlockFormat) -> npt.NDArray[np.float32]:
    """Blocks whose maxima lie in all parts of nine binades, with numbers below them down to those that become zero.

    The binades are those in which float16 holds the least numbers of E5M2, too.
    """
    maxima = np.concatenate([np.array(_FRACTIONS) * 2.0**e for e in range(4, 13)])[:, None]
    x = np.clip(np.random.default_rng(1).standard_normal((len(maxima), block.k)) / 3, -1, 1)
    reach = floor_log2(block.element.max_value / block.element.min_subnormal) + 2
    x[:, ::2] = np.ldexp(x[:, ::2], -(np.arange(block.k // 2) * reach * 2 // block.k))
    x[:, 0] = 1
    numbers: npt.NDArray[np.float32] = (x * maxima).astype(np.float32)
    return numbers
