"""Elements that are divided by something else than the stored scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.blocks import encode_elements
from mxspec.elements import decode_codes
from mxspec.profiles.schema import Kind
from mxspec.rounding import Overflow
from mxspec_conformance.judge.causes.comparing import Compared, is_cause
from mxspec_conformance.judge.causes.dividing import Divided, divide
from mxspec_conformance.judge.causes.known import Found, KnownCause
from mxspec_conformance.judge.causes.narrowing import NARROW_DTYPES, to_nearest
from mxspec_conformance.judge.causes.rows import put
from mxspec_conformance.judge.causes.seen import Seen
from mxspec_conformance.judge.misreadings import as_float32, list_misreadings
from mxspec_vectors.cases import Codes
from mxspec_vectors.tensor_scales import bind_profile

#: Blocks -> names and values that are other ones in the profile's expressions.
_Change = Callable[[Divided], Mapping[str, Any]]


def misread_scale(seen: Seen) -> Found | None:
    """Whether elements are those of the stored scale read otherwise; all misreadings are named that explain it."""
    names = []
    for mistake, table in list_misreadings(seen.fmt.scale):
        if _explains(seen, partial(_read_by, as_float32(table))):
            names.append(mistake.value)
    return Found(KnownCause.SCALE_MISREAD, f"elements are divided as if {', or '.join(names)}") if names else None


def _read_by(values: npt.NDArray[np.float32], divided: Divided) -> Mapping[str, Any]:
    """Values of scale bytes by a table [256 or fewer]."""
    return {"sf": values[divided.rows.scales][:, None]}


def missing_tensor_scale(seen: Seen) -> Found | None:
    """Whether elements are divided by the block scale alone."""
    if not _explains(seen, lambda d: dict.fromkeys(d.bound, np.float32(1))):
        return None
    return Found(
        KnownCause.TENSOR_SCALE_LEFT_OUT,
        "elements are divided by the block scale alone: the tensor scale is in the block scales, and left out of the elements",
    )


def _explains(seen: Seen, change: _Change) -> bool:
    """Whether codes are those of the returned scale bytes with other values in the expressions, and not with the profile's own."""
    if not all((r.scales < seen.fmt.scale.code_count).all() for r in seen.rows):
        return False
    return seen.explains_codes(d.with_values(change(d)).encode() for d in seen.divided)


def narrow_tensor_scale(seen: Seen) -> Found | None:
    """Whether elements are those of the tensor scale in 16 bits, by any normative profile's division; all are named that explain it."""
    names = []
    for (name, dtype), profile in product(NARROW_DTYPES.items(), mxspec.list_profiles(seen.fmt, kind=Kind.NORMATIVE)):
        divided = divide(seen.rows, seen.fmt, profile) if name not in names else ()
        with np.errstate(all="ignore"):
            if divided and seen.explains_codes(
                d.with_values({n: to_nearest(np.asarray(v, np.float32), dtype) for n, v in d.bound.items()}).encode() for d in divided
            ):
                names.append(name)
    return Found(KnownCause.TENSOR_SCALE_NARROW, f"as if the tensor scale were held in {' or in '.join(names)}") if names else None


def narrow_reciprocal(seen: Seen) -> Found | None:
    """Whether elements are multiplied by a reciprocal of the scale in 16 bits, by any normative profile's division; all are named that explain it."""
    ways: list[dict[str, Any]] = [{}] if seen.fmt.element.nan_code is None else [{}, {"overflow": Overflow.OWN}]
    names = []
    for (name, dtype), profile, changed in product(NARROW_DTYPES.items(), mxspec.list_profiles(seen.fmt, kind=Kind.NORMATIVE), ways):
        divided = divide(seen.rows, seen.fmt, profile) if name not in names else ()
        if divided and seen.explains_codes(_multiply_narrowly(d, dtype, changed) for d in divided):
            names.append(name)
    if not names:
        return None
    beyond = ", which holds no number beyond 65504 and makes elements infinite" if names == ["float16"] else ""
    return Found(KnownCause.NARROW_RECIPROCAL, f"as if the reciprocal of the scale were held in {' or in '.join(names)}{beyond}")


def _multiply_narrowly(divided: Divided, dtype: Any, changed: Mapping[str, Any]) -> Codes:
    """Zeros times infinity are NaN, of which each conversion makes what it likes."""
    x, ones = divided.rows.x, np.ones((1, 1), np.float32)
    with np.errstate(all="ignore"):
        factor = to_nearest(np.asarray(divided.with_values({"x": ones}).scaled, np.float32), dtype)
        scaled = np.clip(x * factor, -np.finfo(np.float32).max, np.finfo(np.float32).max)
    lost = np.isnan(scaled)
    return np.where(lost, divided.rows.codes, divided.encode(np.where(lost, np.float32(0), scaled), **changed))


def uncaught_zero(seen: Seen) -> Found | None:
    """Whether all that is wrong are the elements of blocks whose scale is zero, and these are one magnitude."""
    element = seen.fmt.element
    if decode_codes(0, seen.fmt.scale) != 0:
        return None
    magnitudes: set[int] = set()
    answers = []
    for r in seen.rows:
        empty = r.scales == 0
        magnitudes.update(np.unique(r.codes[empty] & (element.sign_bit - 1)).tolist())
        answers.append((r.want_scales, put(r.want_codes, empty, r.codes[empty])))
    if len(magnitudes) != 1 or 0 in magnitudes or not seen.explains(answers):
        return None
    (code,) = magnitudes
    return Found(
        KnownCause.ZERO_SCALE,
        f"in blocks whose scale byte is 00 every element becomes code {code:02x}: division by a scale of zero is not caught",
    )


def unclamped_scale(seen: Seen) -> Found | None:
    """Whether elements are multiplied by the reciprocal of the scale before it was clamped, which float32 does not hold for the smallest maxima."""
    ways: list[tuple[str, dict[str, Any]]] = [("become the largest code", {})]
    if seen.fmt.element.nan_code is not None:
        ways.append(("become the format's own infinity or NaN", {"overflow": Overflow.OWN}))
    least = 2.0 ** (seen.fmt.element.emax - 127)
    # A logarithm in float32, whose step there is 2^-17, takes what lies just below a power of two for the power itself.
    for bound, (beyond, changed) in product((least, least * (1 - math.log(2) * 2.0**-18)), ways):
        if seen.explains_codes(_multiply_by_infinity(d, bound, changed) for d in seen.divided):
            text = f"the scale is not clamped to 2^-127 before elements are multiplied by its reciprocal, which float32 does not hold: elements of blocks whose scale byte is 00 {beyond}"
            return Found(KnownCause.UNCLAMPED_SCALE, text)
    return None


def _multiply_by_infinity(divided: Divided, least: float, changed: Mapping[str, Any]) -> Codes:
    """Zeros times infinity are NaN, of which each conversion makes what it likes."""
    x, amax = divided.rows.x, np.abs(divided.rows.x).max(axis=1, keepdims=True).astype(np.float64)
    small = (amax > 0) & (amax < least)
    codes = divided.encode(
        np.where(small & (x != 0), np.copysign(np.finfo(np.float32).max, x), divided.scaled).astype(divided.scaled.dtype), **changed
    )
    return np.where(small & (x == 0), divided.rows.codes, codes)


def unrounded_scale(seen: Seen) -> Found | None:
    """Whether elements are divided by amax / M itself, of which the stored scale is a rounding; a tensor scale is in both, and cancels."""
    if not any(is_cause(_divide_by_ratio(seen, wide)) for wide in (np.float32, np.float64)):
        return None
    rounded = "a power of two" if seen.fmt.is_mx else seen.fmt.scale.name
    return Found(KnownCause.UNROUNDED_SCALE, f"elements are divided by amax / M, the scale before it was rounded to {rounded}")


def _divide_by_ratio(seen: Seen, wide: type[np.floating[Any]]) -> Iterator[Compared]:
    largest = np.float32(seen.fmt.element.max_value)
    for r in seen.rows:
        steps, _ = bind_profile(seen.profile, r.tensor)
        amax = np.abs(r.x).max(axis=1)
        # Below, amax / M has no bits left, and what becomes of that is another question.
        usable = amax > 2.0**-100
        if not usable.any():
            continue
        with np.errstate(all="ignore"):
            scaled = r.x[usable].astype(wide) / (amax[usable] / largest).astype(wide)[:, None]
            codes = encode_elements(scaled, r.x[usable], np.zeros((len(scaled), 1), np.bool_), steps.element, seen.fmt.element)
        explained = r.agree(r.scales, put(r.codes, usable, codes), seen.fmt).all()
        yield Compared(bool(explained), not r.agree(r.want_scales, r.want_codes, seen.fmt)[usable].all())
