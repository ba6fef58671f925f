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
from mxspec.finding import FoundCodes, find_codes
from mxspec.formats import BlockFormat, floor_log2, get_block
from mxspec.profiles.schema import Kind, Profile
from mxspec_conformance.targets.dtypes import DTYPES, cast_input, is_representable
from mxspec_conformance.targets.errors import BadReturn

#: Elements of a block whose wrong rounding is no sign of another scale.
_FEW = 2
#: Steps of a scale byte that a rule may lie away from a profile's.
_OFFSETS = (0, -1, 1)


@dataclass(frozen=True, slots=True)
class ScaleRule:
    """A profile's scales, moved by some steps."""

    profile: Profile
    offset: int = 0
    #: A scale code below which no scale goes, as where maxima are at least some eps.
    least: int = 0
    #: How far it is believed where another scale leaves fewer roundings wrong (`find_codes`).
    trust: int = 0

    def expect(self, x: npt.NDArray[np.float32], fmt: BlockFormat, tensor_scale: float | None) -> tuple[Any, Any]:
        """Codes and scales of numbers. Raises ValueError where the profile says nothing of them."""
        tensor = None if tensor_scale is None else mxspec.TensorScale("decode", float(tensor_scale))
        with np.errstate(all="ignore"):
            t = mxspec.quantize(x, fmt, profile=self.profile, tensor_scale=tensor, convert=True)
        moved = np.clip(t.scales.astype(np.int64) + self.offset, self.least, fmt.scale.max_code)
        return t.codes, np.where(t.scales > fmt.scale.max_code, t.scales, moved).astype(np.uint8)


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


def find_rule(call: Callable[[npt.NDArray[Any]], npt.NDArray[Any]], fmt: str, dtype: str, tensor_scale: float | None) -> ScaleRule:
    """The rule whose scales explain the most blocks, with the fewest wrong roundings; call: the values of numbers [rows, k]."""
    block = get_block(fmt)
    x = cast_input(_list_numbers(block), dtype)
    values = call(x)
    best: tuple[tuple[int, ...], ScaleRule] | None = None
    for rule in _list_rules(block):
        try:
            _, scales = rule.expect(x.astype(np.float32), block, tensor_scale)
        except ValueError:
            continue
        found = read_values(values, x, fmt, rule, scales=scales, tensor_scale=tensor_scale)
        cost = int((found.unexplained != 0).any(axis=1).sum()), abs(rule.offset), int(found.misrounded.sum())
        if best is None or cost < best[0]:
            best = cost, rule
    assert best is not None
    if best[0][0] or not block.scale.is_power_of_two:  # scales that lie close together do not tell one rule from another
        return best[1]
    # Where all elements were right, a wrong one is more likely under another scale; where some were not, they are what is wrong.
    rule = replace(best[1], trust=block.k if best[0][2] else _FEW)
    return _with_least(rule, call, fmt, dtype)


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
    for offset in _OFFSETS if block.scale.is_power_of_two else (0,):
        yield from (ScaleRule(profile, offset) for profile in profiles)


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
