"""The scale files: every block maximum at which some profile's scale changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.arrays import ARRAYS
from mxspec.blocks import quantize_rows
from mxspec.exact import choose_level
from mxspec.expressions import evaluate
from mxspec.formats import BlockFormat, get_block
from mxspec.profiles.schema import Profile
from mxspec.scales import encode_scale
from mxspec.tensorscale import bind_arrays
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
from mxspec_vectors.inputs import FLT_MAX, ORDINARY_AMAXES, TENSOR_AMAXES, bisect_steps, neighbours


def _scale_function(
    fmt: BlockFormat, profile: Profile, entry: dict[str, str] | None
) -> Callable[[npt.NDArray[np.uint32]], npt.NDArray[np.uint8]] | None:
    if not has_level(profile, two_level=entry is not None):
        return None
    level = choose_level(profile, with_tensor_scale=entry is not None)
    scale = None if entry is None else native_tensor_scale(profile, entry)
    bindings: dict[str, Any] = {} if scale is None else dict(bind_arrays(profile, scale))
    bindings["M"] = np.asarray(np.float32(float(fmt.element.max_value)))

    def scale_bytes(bits: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
        amax = bits.view(np.float32)
        value = np.broadcast_to(evaluate(level.scale.value, {**bindings, "amax": amax}, ARRAYS), amax.shape)
        return encode_scale(value, level.scale, fmt.scale, fmt.element)

    return scale_bytes


def _block_scale_function(
    fmt: BlockFormat, profile: Profile, entry: dict[str, str] | None
) -> Callable[[npt.NDArray[np.uint32]], npt.NDArray[np.uint8]] | None:
    """Maxima -> the scale bytes of blocks whose other lanes are zero."""
    level = profile.one_level if entry is None else profile.two_level
    if level is None or (level.alternative is None and level.normalize is None and not profile.flush_inputs):
        return _scale_function(fmt, profile, entry)
    bindings = {} if entry is None else dict(bind_arrays(profile, native_tensor_scale(profile, entry)))

    def scale_bytes(bits: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
        rows = np.zeros((len(bits), fmt.k), np.uint32)
        rows[:, 0] = bits
        with np.errstate(all="ignore"):
            scales, _ = quantize_rows(rows.view(np.float32), fmt, profile, level, bindings)
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
        functions = {i: f for i, p in enumerate(profiles) if (f := _scale_function(fmt, p, entry)) is not None}
        answering = {i: f for i, p in enumerate(profiles) if (f := _block_scale_function(fmt, p, entry)) is not None}
        limit = FLT_MAX if tensor is None else min(tensor, FLT_MAX)
        for i, function in functions.items():
            if not _is_monotone(profiles[i]):
                continue
            points = {b for step in bisect_steps(function, limit) for b in neighbours(step) if 0 < b <= limit}
            for chunk in cut_chunks(sorted(points), 96):
                question: dict[str, Any] = {} if entry is None else {"tensor_scale": entry}
                question["amax"] = hex_words(chunk, 8)
                name = "one-level" if tensor is None else f"t{tensor:08x}"
                identity = {"operation": "scale", "format": fmt_name, **question}
                key = case_id(f"scale-{name}-{chunk[0]:08x}", identity)
                if key in rows:
                    continue
                answers = [(n, hex_words(f(np.array(chunk, np.uint32)), 2)) for n, f in answering.items()]
                rows[key] = {
                    "id": key,
                    "topic": "scale-tie" if fmt.has_tensor_scale else "scale-boundary",
                    "flags": ["scale-rounding", "order"] if fmt.has_tensor_scale else ["scale-rule", "float-log2"],
                    **question,
                    "expect": group_answers(answers, "scale"),
                }
    document["cases"] = list(rows.values())
    return document


def _is_monotone(profile: Profile) -> bool:
    """Whether no scale byte of the profile falls as the maximum grows (a wrapping low end does)."""
    from mxspec.profiles.schema import LowEnd

    return all(
        level is None or (level.scale.low is LowEnd.CLAMP and level.scale.on_zero in (None, 0))
        for level in (profile.one_level, profile.two_level)
    )
