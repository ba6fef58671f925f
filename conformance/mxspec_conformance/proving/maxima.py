"""The scale of every float32 maximum: where it changes, by the exact model; then the target at those places, or everywhere."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec import exact, reals
from mxspec.exact import choose_level
from mxspec.expressions import Const, evaluate, walk
from mxspec.formats import FLOAT32, BlockFormat
from mxspec.profiles.schema import TENSOR_LEAF, AmaxNan, Profile
from mxspec_lab.sweeps.functions import GRID, LAST_FINITE, SIGN, Runs, find_runs
from mxspec_vectors.tensor_scales import TensorScales

#: Maxima of a chunk, where all 2**31 are asked.
CHUNK_BITS = 24


@lru_cache(maxsize=16)
def scale_runs(fmt: BlockFormat, profile: Profile, tensor: TensorScales | None) -> Runs:
    """The exact scale byte of every float32 magnitude, as the places where it changes.

    Raises ValueError where the profile's scale is not a function of the maximum alone.
    """
    level = choose_level(profile, with_tensor_scale=tensor is not None)
    known: dict[str, Any] = {"M": reals.make_real(fmt.element.max_value)}
    if tensor is not None:
        native = tensor.native(profile)
        assert profile.tensor is not None
        known[TENSOR_LEAF[native.kind]] = native.real
        for leaf, expr in profile.tensor.derived:
            known[leaf.name] = evaluate(expr, known, exact.EXACT)
    if level.normalize is not None:
        raise ValueError(f"{profile.id} normalizes each element first; its scales are proven through the pairs")

    def answer(bits: int) -> int:
        x = reals.decode_real(bits, FLOAT32)
        if profile.flush_inputs and not x.nan and bits < 0x00800000:
            x = reals.decode_real(0, FLOAT32)
        if x.nan and profile.amax_nan is not AmaxNan.PROPAGATE:
            x = reals.decode_real(0, FLOAT32)
        value = evaluate(level.scale.value, {**known, "amax": x}, exact.EXACT)
        return int(exact.encode_scale(value, level.scale, fmt.scale, fmt.element))

    constants = {e.bits & (SIGN - 1) for e in walk(level.scale.value) if isinstance(e, Const)}
    extra = {c + d for c in constants for d in (-1, 0, 1) if 0 <= c + d <= LAST_FINITE}
    return find_runs(answer, SIGN, tuple(sorted({*GRID, *extra})))


def threshold_maxima(runs: Runs, largest: int, seed: int, draws: int = 1 << 14) -> npt.NDArray[np.uint32]:
    """Magnitudes with both ends of every run, their neighbours, both ends of every binade, and draws between."""
    ends = np.concatenate([runs.starts, runs.ends])
    binades = np.arange(0, 256, dtype=np.int64) << 23
    points = np.concatenate([b + d for b in (ends, binades) for d in (-2, -1, 0, 1, 2)])
    drawn = np.random.default_rng(seed).integers(1, largest + 1, draws)
    chosen = np.unique(np.concatenate([points, drawn]))
    return chosen[(chosen > 0) & (chosen <= largest)].astype(np.uint32)


def maxima_blocks(bits: npt.NDArray[np.uint32], k: int) -> npt.NDArray[np.float32]:
    """One block for each maximum: it stands at a moving position with changing sign, the other lanes are zero."""
    blocks = np.zeros((len(bits), k), np.uint32)
    index = np.arange(len(bits))
    sign = ((bits ^ (bits >> np.uint32(5))) & np.uint32(1)) << np.uint32(31)
    blocks[index, index % k] = bits | sign
    return blocks.view(np.float32)
