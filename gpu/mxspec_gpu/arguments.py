"""What calls may be given. Each check returns the argument in its plain form, or raises TypeError (a wrong type) or
ValueError (a wrong value) that says what was given, what is allowed and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mxspec.formats import BLOCKS, F32, BlockFormat, ElementFormat, Extent, ScaleFormat, get_block, get_scalar
from mxspec.profiles import Profile
from mxspec.rounding import Overflow
from mxspec_gpu.kernels import SCALARS, SQUARE_TUNING, WIDEST
from mxspec_gpu.rules import UnsupportedProfileError

SCALE_LAYOUTS = ("row-major", "128x4")
#: Of float32 scales.
FLOAT_SCALE_LAYOUTS = ("row-major", "column-major")
#: How the kernels number them.
_TILED = {"row-major": 0, "128x4": 1, "column-major": 4}
FLOATS = ("float32", "float16", "bfloat16")


def _name_type(value: object) -> str:
    return type(value).__name__


def check_integer(value: Any, name: str, allowed: str) -> int:
    """A plain integer."""
    # Not operator.index: for a tensor on the GPU it would wait for the GPU.
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} = {value!r} is of type {_name_type(value)}; pass {allowed}")
    return int(value)


def check_axis(axis: Any, dimensions: int, name: str = "x") -> int:
    """The axis of blocks, counted from 0."""
    if not dimensions:
        raise ValueError(f"{name} has no axis to cut into blocks; pass at least one dimension, say {name}.reshape(1, -1)")
    allowed = f"{-dimensions} to {dimensions - 1}"
    number = check_integer(axis, "axis", f"an integer from {allowed}")
    if not -dimensions <= number < dimensions:
        raise ValueError(f"axis = {number} is out of range for {dimensions} dimensions; allowed are {allowed}")
    return number % dimensions


def check_block(block: Any, fmt: BlockFormat, axis: int, dimensions: int) -> bool:
    """Whether blocks are square."""
    shape = tuple(block) if isinstance(block, (tuple, list)) else block
    if shape not in fmt.shapes:
        allowed = ", ".join(map(str, fmt.shapes))
        raise ValueError(f"block = {shape} is not a block shape of {fmt.name}; allowed are {allowed}")
    if shape[0] not in (1, SQUARE_TUNING.values):
        raise UnsupportedProfileError(f"the kernels have no blocks of {shape[0]} x {shape[1]}; use mxspec.quantize (NumPy)")
    if shape[0] > 1 and (dimensions < 2 or (dimensions > 2 and axis != dimensions - 1)):
        raise ValueError(f"block = {shape} along axis {axis} of {dimensions}; pass a matrix, or blocks along the last axis of two or more")
    return bool(shape[0] > 1)


def check_seed(seed: Any) -> int:
    """The key of the random bytes."""
    allowed = "an integer from 0 to 2**64 - 1 (a Python or NumPy one, not a tensor: its value goes into the launch)"
    number = check_integer(seed, "seed", allowed)
    if not 0 <= number < 1 << 64:
        raise ValueError(f"seed = {number} is out of range; pass {allowed}")
    return number


def check_sr_bits(sr_bits: Any) -> int:
    """How many bits of a random word count."""
    if sr_bits not in (8, 32):
        raise ValueError(f"sr_bits = {sr_bits!r}; allowed are 32 and 8")
    return int(sr_bits)


def check_layout(scale_layout: Any) -> bool:
    """Whether scales of a byte lie in 128x4 tiles."""
    return find_layout(scale_layout) == 1


def find_layout(scale_layout: Any, fmt: BlockFormat | None = None) -> int:
    """How scales lie, as kernels number it: 0 row by row, 1 in 128x4 tiles, 4 column by column; without a format, scales of a byte."""
    floats = fmt is not None and fmt.scale == F32
    allowed = FLOAT_SCALE_LAYOUTS if floats else SCALE_LAYOUTS
    if scale_layout not in allowed:
        raise ValueError(f"scale_layout = {scale_layout!r}; allowed {'for float32 scales ' * floats}are {', '.join(allowed)}")
    return _TILED[scale_layout]


def find_scale_dtype(fmt: BlockFormat) -> str:
    """Of the array that holds a format's scales."""
    return "float32" if fmt.scale == F32 else "uint8"


def _is_known(fmt: BlockFormat) -> bool:
    lengths = (16, 32, 64, 128) if fmt.element.bits == 8 else (16, 32)
    names = fmt.element.name in SCALARS and fmt.scale.name in (*SCALARS, "f32")
    return names and fmt.extent is Extent.BLOCK and fmt.k in lengths


def check_format(fmt: Any, *, wide: bool = False) -> BlockFormat:
    """The block format; wide: also one of long blocks, or of float32 scales."""
    if not isinstance(fmt, (str, BlockFormat)):
        raise TypeError(f"fmt = {fmt!r} is of type {_name_type(fmt)}; pass a name ({', '.join(BLOCKS)}) or a BlockFormat")
    block = get_block(fmt)
    if BLOCKS.get(block.name) != block or not _is_known(block):
        known = ", ".join(b.name for b in BLOCKS.values() if _is_known(b))
        raise UnsupportedProfileError(f"the kernels do not have this format {block.name!r}; they have {known}. Use mxspec.quantize (NumPy)")
    if not wide and (block.k > WIDEST or block.scale == F32):
        raise UnsupportedProfileError(f"of {block.name} the kernels have quantize and dequantize alone, with blocks of 1 x {block.k}")
    return block


def check_scalar(element: Any) -> ElementFormat | ScaleFormat:
    """The element or scale format."""
    if not isinstance(element, (str, ElementFormat, ScaleFormat)):
        raise TypeError(f"element = {element!r} is of type {_name_type(element)}; pass a name ({', '.join(SCALARS)}) or a format")
    fmt = get_scalar(element)
    if fmt.name not in SCALARS or get_scalar(fmt.name) != fmt:
        raise UnsupportedProfileError(
            f"the kernels do not have this format {fmt.name!r}; they have {', '.join(SCALARS)}. Use mxspec.encode (NumPy)"
        )
    return fmt


def check_profile(profile: Any) -> str | Profile | None:
    """The profile, by name or as it is."""
    if profile is None or isinstance(profile, (str, Profile)):
        return profile
    raise TypeError(f"profile = {profile!r} is of type {_name_type(profile)}; pass a name, a Profile or None")


def check_float_name(dtype: Any) -> str:
    """The name of a dtype that values can have."""
    # An str, not what compares equal to one as NumPy's dtypes do.
    if not isinstance(dtype, str) or dtype not in FLOATS:
        raise TypeError(f"dtype = {dtype!r}; allowed are the names {', '.join(FLOATS)}")
    return dtype


def check_float_array(dtype: str, name: str) -> None:
    """The dtype of an array to quantize."""
    if dtype not in FLOATS:
        raise TypeError(f"{name} has dtype {dtype}; allowed are {', '.join(FLOATS)}; convert it first")


def check_overflow(overflow: Any, fmt: ElementFormat | ScaleFormat, *, stochastic: bool) -> Overflow:
    """What an encoder writes beyond the largest value."""
    policy = Overflow(overflow)
    if policy is not Overflow.SATURATE and fmt.nan_code is None:
        raise ValueError(f"{fmt.name} has neither Inf nor NaN, so overflow={policy.value!r} cannot be honoured; use overflow='saturate'")
    if policy is not Overflow.SATURATE and stochastic:
        raise ValueError(
            f"overflow={policy.value!r}: with rounding='sr' the kernels only saturate; use overflow='saturate', or mxspec.encode (NumPy)"
        )
    return policy


def check_outputs(out: Any, names: Sequence[str]) -> tuple[Any, ...]:
    """The arrays of `out`, one for each name."""
    wanted = f"a tuple of {len(names)} arrays ({', '.join(names)}) or None"
    if not isinstance(out, (tuple, list)):
        raise TypeError(f"out is of type {_name_type(out)}; pass {wanted}")
    if len(out) != len(names):
        raise ValueError(f"out has {len(out)} arrays; pass {wanted}")
    return tuple(out)


def check_apart(ranges: Sequence[tuple[str, int, int]], sources: Sequence[tuple[str, int, int]]) -> None:
    """Outputs, as (name, first address, address after the last), that overlap neither each other nor a source."""
    for i, (name, low, high) in enumerate(ranges):
        for other, other_low, other_high in (*ranges[i + 1 :], *sources):
            if low < other_high and other_low < high:
                raise ValueError(f"out: {name} shares memory with {other}; pass arrays that do not overlap")
