"""Inputs of the vectors: chosen from the thresholds of the rules, not drawn at random.

A case is a tensor of float32 bits. Everything here is a pure function of the format: the same on any platform.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from mxspec.formats import BlockFormat, Extent, get_block
from mxspec_vectors.input_case import Input
from mxspec_vectors.inputs_common import (
    POSITIONS,
    binade_blocks,
    binades_of,
    extreme_blocks,
    high_blocks,
    ladder_blocks,
    mixture_blocks,
    narrow_blocks,
    narrow_end_blocks,
    overflow_blocks,
    position_blocks,
    rounding_blocks,
    scale_blocks,
    shape_cases,
    special_blocks,
    subnormal_blocks,
    walking_blocks,
)
from mxspec_vectors.inputs_nvfp4 import (
    nvfp4_byte_blocks,
    nvfp4_element_blocks,
    nvfp4_end_blocks,
    nvfp4_error_blocks,
    nvfp4_narrow_blocks,
    nvfp4_narrow_end_blocks,
    nvfp4_reciprocal_blocks,
    nvfp4_scale_blocks,
    nvfp4_stale_blocks,
    nvfp4_tensor_blocks,
    nvfp4_tile_cases,
    nvfp4_tiny_tensor_blocks,
)

_EXPONENTS = [0, -3, 7, -20, 60, -100, 100, -116]


@lru_cache(maxsize=16)
def quantize_inputs(fmt_name: str) -> tuple[Input, ...]:
    """The quantize cases of a format, in order."""
    fmt = get_block(fmt_name)
    wide = fmt.element.bits == 8
    exponents = _EXPONENTS
    cases: list[Input] = []
    if fmt == get_block("nvfp4"):
        cases += nvfp4_scale_blocks()
        cases += nvfp4_byte_blocks()
        cases += nvfp4_element_blocks()
        cases += nvfp4_tensor_blocks()
        cases += nvfp4_end_blocks()
        cases += nvfp4_stale_blocks()
        cases += nvfp4_reciprocal_blocks()
        cases += nvfp4_narrow_end_blocks()
        cases += nvfp4_narrow_blocks()
        cases += nvfp4_tiny_tensor_blocks()
        cases += nvfp4_error_blocks()
        cases += nvfp4_tile_cases()
    if fmt.has_tensor_scale:
        exponents = [0, -3, 5]
    cases += rounding_blocks(fmt, exponents, thin=4 if wide else 1)
    if not fmt.has_tensor_scale:
        cases += scale_blocks(fmt, [-126, 0])
        cases += binade_blocks(fmt)
    cases += walking_blocks(fmt)
    cases += extreme_blocks(fmt)
    cases += overflow_blocks(fmt)
    cases += subnormal_blocks(fmt)
    cases += high_blocks(fmt)
    cases += special_blocks(fmt)
    cases += ladder_blocks(fmt)
    cases += narrow_blocks(fmt)
    if not fmt.has_tensor_scale:
        cases += narrow_end_blocks(fmt)
    cases += position_blocks(fmt)
    cases += mixture_blocks(fmt, 24)
    if fmt.extent is Extent.BLOCK:  # which has ragged rows, and several blocks in one
        cases += shape_cases(fmt)
    unique: dict[tuple[object, ...], Input] = {}
    for case in cases:
        unique.setdefault((case.bits, case.tensor_amax, case.axis, case.pad, case.block), case)
    return tuple(unique.values())


def quantize_recipes(fmt: BlockFormat) -> dict[str, Any]:
    """The recipes that quantize cases of a format name, with what they are given."""
    used = {c.recipe[0] for c in quantize_inputs(fmt.name) if c.recipe is not None}
    recipes = {"positions": POSITIONS.as_dict(), "binades": binades_of(fmt).as_dict()}
    return {name: recipe for name, recipe in recipes.items() if name in used}
