"""A profile's whole answer as a table of thresholds, computed from the profile alone.

A profile whose lanes depend only on themselves and on the block's maximum is two families of step functions of float32 bit
patterns: maximum -> scale byte, and, under each scale byte, element -> code. Both rise with the magnitude, so the few
hundred places where they change, found by bisection, are the function.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.blocks import quantize_rows
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile, QuantizationSteps
from mxspec.stepfunctions import INF_BITS, SIGN, NotMonotoneError, StepFunction, element_steps, scale_steps
from mxspec.tensorscale import TensorScale, bind_arrays
from mxspec_vectors.tensor_scales import TensorScales

Bits = npt.NDArray[np.int64]
#: float32 bits of blocks [n, k] -> scale bytes [n] and codes [n, k].
Ask = Callable[[npt.NDArray[np.uint32]], tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]]
#: Blocks of numbers that are no step function's business: zeros, infinities, NaN, alone and among ordinary numbers.
SPECIAL_BLOCKS = (
    (0,), (SIGN,), (0x7F800000,), (SIGN | 0x7F800000,), (0x7FC00000,), (SIGN | 0x7FC00000,), (0x3F800000, 0x7F800000),
    (0x3F800000, 0x7FC00000), (0x7F800000, 0x7FC00000), (0x3F800000, SIGN), (0x7F7FFFFF, 0x7F800000),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FunctionTable:
    """What a profile does in one form, with or without a tensor scale."""

    #: Maximum -> scale byte, up to the largest finite float32.
    scale: StepFunction
    #: For each step of the scale and sign (0, 1): magnitude -> code in blocks whose maximum is the step's last.
    elements: dict[tuple[int, int], StepFunction]
    #: The same in blocks whose maximum is the step's first, where elements see more of the maximum than its scale byte.
    at_start: dict[tuple[int, int], StepFunction]
    #: Scale byte and codes of each special block; empty where the profile refuses it.
    special: tuple[bytes, ...]

    def digest(self, step: int = 1) -> str:
        """SHA-256 of the function on the patterns that are multiples of `step` (65536: bfloat16)."""
        found = hashlib.sha256()
        first, last = self.scale.starts + (-self.scale.starts % step), self.scale.ends // step * step
        for i in np.flatnonzero(first <= last).tolist():
            found.update(np.array([first[i], self.scale.values[i]], np.int64).tobytes())
            for sign in (0, 1):
                for tables, limit in ((self.elements, last[i]), (self.at_start, first[i])):
                    if (i, sign) in tables:
                        found.update(_digest_multiples(tables[i, sign], step, int(limit)))
        for block in self.special:
            found.update(block + b"|")
        return found.hexdigest()


def _digest_multiples(steps: StepFunction, step: int, limit: int) -> bytes:
    """A digest of a step function on the multiples of `step` up to a limit."""
    up = steps.starts + (-steps.starts % step)
    # Of several changes within one step of the coarse grid the last one shows.
    shown = np.append(up[1:] != up[:-1], True) & (up <= limit)
    up, values = up[shown], steps.values[shown]
    changed = np.insert(values[1:] != values[:-1], 0, True)
    return StepFunction(up[changed], values[changed], limit + 1).digest.encode("ascii")


def why_no_table(steps: QuantizationSteps, fmt: BlockFormat) -> str | None:
    """Why a profile's form is no pair of step functions of few steps, or None."""
    if fmt.scale.bits > 8:
        return "has a scale that changes with every maximum"
    if steps.normalize is not None:
        return "normalizes each element before it looks for the maximum"
    if steps.is_lane_local:
        return None
    if steps.element.is_lane_local:
        return "tries two scales and compares the errors of all lanes"
    return "lets bits of one lane fall into the next"


@lru_cache(maxsize=1024)
def tabulate_scale(profile_id: str, fmt_name: str, tensor_amax: int | None) -> StepFunction | None:
    """Maximum -> scale byte of finite maxima; None where the profile has no such form or no table."""
    fmt = mxspec.get_block(fmt_name)
    profile = mxspec.get_profile(profile_id, fmt)
    if not _has_table(profile, fmt, tensor_amax):
        return None
    return scale_steps(profile, fmt, _native_scale(profile, tensor_amax)).below(INF_BITS)


@lru_cache(maxsize=1024)
def tabulate_elements(
    profile_id: str, fmt_name: str, tensor_amax: int | None, maxima: tuple[int, ...], sign: int
) -> tuple[StepFunction, ...] | None:
    """Magnitude -> code in blocks with each of these maxima; None where codes go up and down in one of them.

    Raises ValueError for a form that has no table.
    """
    fmt = mxspec.get_block(fmt_name)
    profile = mxspec.get_profile(profile_id, fmt)
    if not _has_table(profile, fmt, tensor_amax):
        raise ValueError(f"{profile_id} has no table of this form of {fmt_name}")
    try:
        return tuple(element_steps(profile, fmt, _native_scale(profile, tensor_amax), maxima, sign))
    except NotMonotoneError:
        return None


@lru_cache(maxsize=512)
def tabulate(profile_id: str, fmt_name: str, tensor_amax: int | None) -> FunctionTable | None:
    """The table of a profile's form: one-level (None), or two-level for a tensor with this maximum (float32 bits).

    None where the profile has no such form, or the form is no pair of step functions: by its rules (`why_no_table`), or
    because codes under some scale go up and down.
    """
    fmt = mxspec.get_block(fmt_name)
    profile = mxspec.get_profile(profile_id, fmt)
    ask, scale = ask_profile(profile, fmt, tensor_amax), tabulate_scale(profile_id, fmt_name, tensor_amax)
    if ask is None or scale is None:
        return None
    table = FunctionTable(scale, {}, {}, tuple(_ask_special(ask, fmt)))
    steps = profile.steps(with_tensor_scale=tensor_amax is not None)
    tables = [(table.elements, scale.ends)]
    if steps.needs_maximum:
        tables.append((table.at_start, scale.starts))
    for functions, maxima in tables:
        for sign in (0, 1):
            found = tabulate_elements(profile_id, fmt_name, tensor_amax, tuple(maxima.tolist()), sign)
            if found is None:
                return None
            functions.update(((i, sign), t) for i, t in enumerate(found))
    return table


def _has_table(profile: Profile, fmt: BlockFormat, tensor_amax: int | None) -> bool:
    """Whether the profile has this form, and it is a pair of step functions."""
    if ask_profile(profile, fmt, tensor_amax) is None:
        return False
    return why_no_table(profile.steps(with_tensor_scale=tensor_amax is not None), fmt) is None


def _native_scale(profile: Profile, tensor_amax: int | None) -> TensorScale | None:
    """The tensor scale of a tensor with this maximum (float32 bits), as the profile takes it."""
    return None if tensor_amax is None else TensorScales.from_amax(tensor_amax).native(profile)


def ask_profile(profile: Profile, fmt: BlockFormat, tensor_amax: int | None) -> Ask | None:
    """float32 bits of blocks [n, k] -> scale bytes [n] and codes [n, k]; None where the profile has no such form."""
    try:
        steps = profile.steps(with_tensor_scale=tensor_amax is not None)
        scale = _native_scale(profile, tensor_amax)
    except ValueError:
        return None
    bindings: dict[str, Any] = {} if scale is None else dict(bind_arrays(profile, scale))

    def ask(blocks: npt.NDArray[np.uint32]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
        with np.errstate(all="ignore"):
            scales, codes = quantize_rows(blocks.view(np.float32), fmt, profile, steps, bindings)
        return scales.reshape(-1), codes

    return ask


def _ask_special(ask: Ask, fmt: BlockFormat) -> list[bytes]:
    found = []
    for numbers in SPECIAL_BLOCKS:
        block = np.zeros((1, fmt.k), np.uint32)
        block[0, : len(numbers)] = numbers
        try:
            scales, codes = ask(block)
        except ValueError:
            found.append(b"")
            continue
        found.append(scales.tobytes() + codes.tobytes())
    return found
