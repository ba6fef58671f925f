"""Inputs that show a target's scale of every float32 maximum: on both sides of each change, or everywhere."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mxspec.stepfunctions import StepFunction

#: Maxima of a chunk, where all 2**31 are tested.
CHUNK_BITS = 24


def threshold_maxima(steps: StepFunction, largest: int, seed: int, draws: int = 1 << 14) -> npt.NDArray[np.uint32]:
    """Magnitudes with both ends of every step, their neighbours, both ends of every binade, and draws between."""
    ends = np.concatenate([steps.starts, steps.ends])
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
