"""The scale files: every block maximum at which some profile's scale changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.arrays import ARRAYS
from mxspec.blocks import quantize_rows
from mxspec.expressions import evaluate
from mxspec.formats import UE4M3, BlockFormat, get_block, power_of_two
from mxspec.profiles import get_profile
from mxspec.profiles.schema import Profile
from mxspec.scales import log2f_thresholds
from mxspec.stepfunctions import rule_steps
from mxspec.tensorscale import bind_arrays, derive_tensor_scale
from mxspec_vectors.entries import (
    cut_chunks,
    group_answers,
    has_level,
    hex_words,
    make_header,
    native_tensor_scale,
    tensor_scale_entry,
)
from mxspec_vectors.files import Document, case_id
from mxspec_vectors.points import (
    FLT_MAX,
    ORDINARY_AMAXES,
    TENSOR_AMAXES,
    bits_value,
    float_bits,
    neighbours,
    walking_ones,
)


def _bind(profile: Profile, entry: dict[str, str] | None) -> dict[str, Any]:
    return {} if entry is None else dict(bind_arrays(profile, native_tensor_scale(profile, entry)))


def _boundaries(fmt: BlockFormat, profile: Profile, entry: dict[str, str] | None, limit: int) -> set[int]:
    """Maxima at which the profile's scale rule changes, with both neighbours; none where its bytes wrap.

    Of a profile that tries two scales it is the first one's rule. Of a rule whose byte falls at the end of the range
    (compressed-tensors: 7F for what lies beyond it) v1 holds only the boundaries up to that last byte.
    """
    forms = [form for form in (profile.one_level, profile.two_level) if form is not None]
    if not has_level(profile, two_level=entry is not None) or not all(form.scale.is_monotone for form in forms):
        return set()
    form = profile.steps(with_tensor_scale=entry is not None)
    steps = rule_steps(form.scale, fmt, _bind(profile, entry)).below(limit + 1)
    changes = steps.rises[steps.at(steps.rises) <= steps.values[-1]]
    return {b for change in changes.tolist() for b in neighbours(change) if 0 < b <= limit}


def _scale_function(
    fmt: BlockFormat, profile: Profile, entry: dict[str, str] | None
) -> Callable[[npt.NDArray[np.uint32]], npt.NDArray[np.uint8]] | None:
    """Maxima -> the scale bytes of blocks whose other lanes are zero; None where the profile has no such form."""
    if not has_level(profile, two_level=entry is not None):
        return None
    form, bindings = profile.steps(with_tensor_scale=entry is not None), _bind(profile, entry)

    def scale_bytes(bits: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
        rows = np.zeros((len(bits), fmt.k), np.uint32)
        rows[:, 0] = bits
        with np.errstate(all="ignore"):
            scales, _ = quantize_rows(rows.view(np.float32), fmt, profile, form, bindings)
        return scales[:, 0]

    return scale_bytes


def build_scale(fmt_name: str) -> Document:
    """The scale file: every block maximum at which some profile's scale changes, with both neighbours.

    The answers are those of a block whose other lanes are zero: where a profile tries two scales, they decide too.
    A case holds boundaries of one profile only, so that a profile that is added later changes no case but its own.
    """
    fmt = get_block(fmt_name)
    profiles = mxspec.list_profiles(fmt)
    document = make_header(
        "scale", fmt_name, [p.id for p in profiles], ("scale-rule", "float-log2", "scale-rounding", "order")
    )
    rows: dict[str, dict[str, Any]] = {}
    amaxes: list[int | None] = [None]
    if fmt.has_tensor_scale:
        amaxes += [TENSOR_AMAXES[n] for n in (*ORDINARY_AMAXES, "tiny", "overflow")]
    for tensor in amaxes:
        entry = None if tensor is None else tensor_scale_entry(tensor)
        answering = {i: f for i, p in enumerate(profiles) if (f := _scale_function(fmt, p, entry)) is not None}
        limit = FLT_MAX if tensor is None else min(tensor, FLT_MAX)
        for profile in profiles:
            for chunk in cut_chunks(sorted(_boundaries(fmt, profile, entry, limit)), 96):
                key, row = _make_case(fmt, tensor, entry, chunk, answering)
                rows.setdefault(key, row)
        for chunk in cut_chunks(sorted(_scale_details(fmt, tensor)), 96):
            key, row = _make_case(fmt, tensor, entry, chunk, answering)
            rows.setdefault(key, row)
    document["cases"] = list(rows.values())
    return document


def _make_case(
    fmt: BlockFormat,
    tensor: int | None,
    entry: dict[str, str] | None,
    amaxes: Sequence[int],
    answering: dict[int, Callable[[npt.NDArray[np.uint32]], npt.NDArray[np.uint8]]],
) -> tuple[str, dict[str, Any]]:
    """A case's id and the case: maxima under one tensor scale with the answers of all profiles."""
    question: dict[str, Any] = {} if entry is None else {"tensor_scale": entry}
    question["amax"] = hex_words(amaxes, 8)
    name = "one-level" if tensor is None else f"t{tensor:08x}"
    identity = {"operation": "scale", "format": fmt.name, **question}
    key = case_id(f"scale-{name}-{amaxes[0]:08x}", identity)
    answers = [(n, hex_words(f(np.array(amaxes, np.uint32)), 2)) for n, f in answering.items()]
    return key, {
        "id": key,
        "topic": "scale-tie" if fmt.has_tensor_scale else "scale-boundary",
        "flags": ["scale-rounding", "order"] if fmt.has_tensor_scale else ["scale-rule", "float-log2"],
        **question,
        "expect": group_answers(answers, "scale"),
    }


def _scale_details(fmt: BlockFormat, tensor: int | None) -> set[int]:
    """Maxima that one bit of the significand puts beyond a boundary, each bit in turn; for MX also those at which a float
    log2 rounds to another integer, down to subnormal numbers, where no bisection finds them if the scale byte wraps."""
    if fmt.has_tensor_scale:
        return _nvfp4_scale_details(tensor)
    element = fmt.element
    significand = float_bits(element.max_value / power_of_two(element.emax))
    points = {start + (1 << j) for start in (float_bits(1), significand) for j in range(23)}
    first, last = log2f_thresholds()
    for exponent in (-141, -130, -129, -128, -127, -126, -3, 5, 64, 126):
        for threshold in (first[exponent + 149], last[exponent + 149]):
            points.update(neighbours(float_bits(Fraction(float(threshold)))))
    return {b for b in points if 0 < b <= FLT_MAX}


def _nvfp4_scale_details(tensor: int | None) -> set[int]:
    if tensor not in (None, TENSOR_AMAXES["odd"]):
        return set()
    points: set[int] = set()
    for name in ("nvfp4-te", "nvfp4-paper"):
        value = _scale_value(get_profile(name, "nvfp4"), tensor)
        unit = Fraction(1) if tensor is None else bits_value(tensor) / 2688
        for bits in walking_ones(UE4M3):
            near = float_bits(6 * bits_value(bits) * unit) + np.arange(-6, 7)
            reached = value(near.astype(np.uint32)) == bits
            points.update(int(b) for b in near[reached][:1])
        for largest in (240, 464) if tensor is None else ():  # one step beyond what e4m3 variants and casts overflow at
            near = float_bits(6 * largest) + np.arange(-6, 7)
            reached = value(near.astype(np.uint32)) == float_bits(largest) + 1
            points.update(int(b) for b in near[reached][:1])
    if tensor is None:  # around what e4m3 rounds to its largest value, and beyond
        for largest in (240, 448, 456, 464, 480, 512):
            points.update(neighbours(float_bits(6 * largest)))
    return points


def _scale_value(profile: Profile, tensor: int | None) -> Callable[[npt.NDArray[np.uint32]], npt.NDArray[np.uint32]]:
    """Bits of the number that becomes the scale byte, as a function of the maximum's bits."""
    form = profile.steps(with_tensor_scale=tensor is not None)
    bindings: dict[str, Any] = (
        {} if tensor is None else dict(bind_arrays(profile, derive_tensor_scale(tensor, profile)))
    )

    def value(bits: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        values: npt.NDArray[np.float32] = evaluate(
            form.scale.value, {**bindings, "amax": bits.view(np.float32)}, ARRAYS
        )
        return values.view(np.uint32)

    return value
