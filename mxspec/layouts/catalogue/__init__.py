"""All layouts, one module for each family."""

from __future__ import annotations

from mxspec.layouts.catalogue import amd, fp6, ggml, hopper, nibbles, nvidia_scales, sparse, words

ALL = (
    *nibbles.LAYOUTS, *fp6.LAYOUTS, *nvidia_scales.LAYOUTS, *ggml.LAYOUTS, *words.LAYOUTS, *hopper.LAYOUTS, *amd.LAYOUTS,
    *sparse.LAYOUTS,
)  # fmt: skip
