"""The numeric contract of affine integers: the SHA-256 of what a profile gives for the recipe of `mxspec.containers.contract`."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np

from mxspec.affine.formats import get_affine
from mxspec.affine.profiles import get_affine_profile
from mxspec.affine.tensor import quantize
from mxspec.containers.contract import make_rows


@lru_cache(maxsize=64)
def digest_affine(format_name: str, profile: str) -> str:
    """SHA-256, in hex, of the codes, scales and offsets that a profile gives for the recipe, in groups of the format.

    NaN and infinity are zeros: profiles leave open what they become.

    Raises ValueError for an unknown format or profile, or one that does not cover the format.
    """
    fmt = get_affine(format_name)
    chosen = get_affine_profile(profile, fmt)
    x = make_rows(64).reshape(-1)
    x = np.where(np.isfinite(x), x, np.float32(0))
    # Whole groups, within what float16 holds, so that no scale overflows.
    x = np.clip(x[: x.size // fmt.group * fmt.group].reshape(-1, fmt.group), -1024, 1024).astype(fmt.numpy_dtype)
    found = quantize(x, bits=fmt.bits, group=fmt.group, profile=chosen, offset=fmt.offset, scale_dtype=fmt.dtype)
    digest = hashlib.sha256(f"{format_name}\n{chosen.id}\n".encode())
    for part in (found.codes, found.scales, found.offsets):
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()
