"""Transformer Engine's Python reference of NVFP4 with Four-over-Six, in its default settings, as a target.

MXSPEC_TE_SOURCE as for `te_reference`; the option exists from 2.17 on. `quantizer` makes the other settings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mxspec_conformance.adapters import te_reference

NAME, VERSION = "te-reference-4over6", te_reference.VERSION
FORMATS = ["nvfp4"]
DTYPES = ["float32", "float16", "bfloat16"]
TENSOR_SCALE = "amax"
PROFILES = {"nvfp4": "te-2.17/nvfp4/4over6-reference/mae"}

tensor_scale = te_reference.tensor_scale


def quantizer(*, norm: str = "MAE", fp16_error: bool = False, largest: int = 448) -> Callable[..., tuple[Any, Any]]:
    """`quantize` with an error norm (MAE or MSE), the error's domain, and the largest scale (448 or 256)."""

    def quantize(
        x: Any, fmt: str, tensor_scale: float | None = None, block: tuple[int, int] | None = None
    ) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/16]."""
        if tensor_scale is None:
            raise NotImplementedError("the reference has no form without a tensor scale")
        return te_reference.run(
            x,
            tensor_scale,
            block or (1, 16),
            nvfp4_use_4over6=True,
            nvfp4_e4m3_max=largest,
            nvfp4_4over6_err_mode=norm,
            nvfp4_4over6_err_use_fast_math=fp16_error,
        )

    return quantize


quantize = quantizer()
