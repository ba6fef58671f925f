"""Dequantizing: every code under every scale byte in every lane; 4-bit codes also next to every other code."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxspec.elements import code_dtype
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile
from mxspec_conformance.campaign.values import Codes, expect_values, find_wrong_values
from mxspec_vectors.entries import has_level
from mxspec_vectors.tensor_scales import TensorScales, native_scale


def code_rows(fmt: BlockFormat) -> Codes:
    """Blocks [n, k] in which every code stands in every lane, and every pair of 4-bit codes in lanes 2i, 2i + 1 and around."""
    k, count = fmt.k, fmt.element.code_count
    codes = np.arange(max(count, k), dtype=np.int64) % count
    rows = [np.roll(codes, shift).reshape(-1, k) for shift in range(k)]
    if fmt.element.bits == 4:
        pairs = np.stack(np.meshgrid(np.arange(16), np.arange(16), indexing="ij"), axis=-1).reshape(-1)
        rows += [pairs.reshape(-1, k), np.roll(pairs, 1).reshape(-1, k)]
    return np.concatenate(rows).astype(np.uint8)


def value_blocks(fmt: BlockFormat, byte: int) -> tuple[Codes, Codes]:
    """Codes [n, k] and scales [n, 1] of one scale byte."""
    rows = code_rows(fmt)
    return rows, np.full((len(rows), 1), byte, code_dtype(fmt.scale))


def compare_values(
    fmt: BlockFormat, profile: Profile, tensor: TensorScales | None, codes: Codes, scales: Codes, got: Any
) -> dict[str, Any]:
    """Counts of values that differ from the profile's, and the first."""
    if not has_level(profile, two_level=tensor is not None):
        return {}
    expected = expect_values(fmt, profile, native_scale(profile, tensor), codes, scales)
    found: dict[str, Any] = {}
    for kind, wrong in zip(("value", "zero-sign"), find_wrong_values(fmt, profile, codes, expected, got), strict=True):
        if wrong.any():
            row, lane = (int(i) for i in np.argwhere(wrong)[0])
            found[kind] = {
                "count": int(wrong.sum()),
                "first": {
                    "code": int(codes[row, lane]), "scale": int(scales[row, 0]), "lane": lane,
                    "row": "".join(f"{int(c):02x}" for c in codes[row]),
                    "expected": f"{int(expected[row, lane].view(np.uint32)):08x}",
                    "returned": f"{int(got[row, lane].view(np.uint32)):08x}",
                },
            }  # fmt: skip
    return found
