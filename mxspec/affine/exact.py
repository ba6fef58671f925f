"""The definition of affine profiles and contracts: one group at a time, in exact rationals.

Slow on purpose, and independent of `mxspec.affine.arrays`, which is held to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mxspec import reals
from mxspec.affine.contracts import AffineContract
from mxspec.affine.formats import AffineFormat, Offset
from mxspec.affine.schema import AffineProfile, Step
from mxspec.exact import EXACT
from mxspec.expressions import evaluate
from mxspec.formats import FLOATS, FloatFormat
from mxspec.profiles.schema import AmaxNan
from mxspec.reals import INFINITY, NAN, Real, decode_real, encode_real, make_real, negate, round_real
from mxspec.rounding import Overflow


@dataclass(frozen=True, slots=True)
class AffineGroup:
    """A quantized group: codes, and the bits of scale and offset (a zero point is a code)."""

    codes: tuple[int, ...]
    scale: int
    offset: int
    #: The steps of the group by name, for explanations: lo, hi, bins, and those of the profile.
    steps: dict[str, Real]


def _whole(value: Real) -> Real:
    """The nearest whole number, of two equally near ones the even one; zeros keep their sign."""
    if not value.is_finite:
        return value
    rounded = round(value.value)
    return make_real(rounded, negative_zero=bool(value.sign))


def _run(steps: Sequence[Step], bound: dict[str, Real]) -> None:
    for step in steps:
        value = evaluate(step.value, bound, EXACT)
        bound[step.name] = _whole(value) if step.whole else value


def _ends(values: Sequence[Real], nan: AmaxNan) -> tuple[Real, Real]:
    """The smallest and the largest; of equal ones the first."""
    if nan is AmaxNan.PROPAGATE and any(v.nan for v in values):
        return NAN, NAN
    lo, hi = INFINITY, negate(INFINITY)
    seen = False
    for value in values:
        if value.nan:
            continue
        lo = value if not seen or reals.less(value, lo) else lo
        hi = value if not seen or reals.less(hi, value) else hi
        seen = True
    return lo, hi


def _store(value: Real, scalar: FloatFormat) -> int:
    return encode_real(value, scalar, overflow=Overflow.OWN)


def _cut(value: Real, bins: int, nan_code: int) -> int:
    """A code: the whole number between 0 and bins."""
    if value.nan:
        return nan_code
    if value.magnitude is None:
        return 0 if value.sign else bins
    return min(max(int(value.value), 0), bins)


def quantize_group(values: Sequence[Real], fmt: AffineFormat, profile: AffineProfile) -> AffineGroup:
    """One group's codes, scale and offset.

    Raises ValueError where there are not as many values as the group has.
    """
    if len(values) != fmt.group:
        raise ValueError(f"{len(values)} values for a group of {fmt.group}; pass {fmt.group}")
    lo, hi = _ends(values, profile.nan)
    bound = {"lo": lo, "hi": hi, "bins": make_real(fmt.bins)}
    _run(profile.group, bound)
    scale = _store(bound["scale"], fmt.scalar)
    if fmt.offset is Offset.BIAS:
        offset = _store(bound["bias"], fmt.scalar)
        stored = {"b": decode_real(offset, fmt.scalar)}
    else:
        offset = _cut(bound["zero"], fmt.bins, 0)
        stored = {"z": make_real(offset)}
    shared = bound | stored | {"s": decode_real(scale, fmt.scalar)}
    codes = []
    for value in values:
        own = shared | {"x": value}
        _run(profile.element, own)
        codes.append(_cut(own["code"], fmt.bins, profile.nan_code))
    return AffineGroup(tuple(codes), scale, offset, bound)


def dequantize_code(code: int, scale: int, offset: int, fmt: AffineFormat, contract: AffineContract) -> Real:
    """The value of a code under the bits of its group's scale and offset, by a contract."""
    bound = {"q": make_real(code), "s": decode_real(scale, fmt.scalar)}
    if fmt.offset is Offset.BIAS:
        bound["b"] = decode_real(offset, fmt.scalar)
    else:
        bound["z"] = make_real(offset)
    value = evaluate(contract.value, bound, EXACT)
    return value if contract.dtype is None else round_real(value, FLOATS[contract.dtype])
