"""The operators of LightX2V's lightx2v_kernel under their own names, on NumPy arrays: quantizers, products, a linear layer.

>>> import ml_dtypes, numpy as np
>>> from mxspec.lightx2v import cutlass_scaled_mxfp8_mm, scaled_mxfp8_quant
>>> x = np.random.default_rng(0).standard_normal((2, 64)).astype(ml_dtypes.bfloat16)
>>> w = np.random.default_rng(1).standard_normal((128, 64)).astype(ml_dtypes.bfloat16)
>>> (a, scale_a), (b, scale_b) = scaled_mxfp8_quant(x), scaled_mxfp8_quant(w)
>>> cutlass_scaled_mxfp8_mm(a, b, scale_a, scale_b, alpha=1.0).shape
(2, 128)

The library itself needs a card of the sm_120 family; `mxspec_gpu.lightx2v` has the same names on any NVIDIA GPU.
"""

from __future__ import annotations

from mxspec.lightx2v.operators import (
    cutlass_scaled_mxfp4_mm,
    cutlass_scaled_mxfp6_mxfp8_mm,
    cutlass_scaled_mxfp8_mm,
    cutlass_scaled_nvfp4_mm,
    scaled_mxfp4_quant,
    scaled_mxfp6_quant,
    scaled_mxfp8_quant,
    scaled_nvfp4_quant,
)
from mxspec.lightx2v.weights import MMWeightNvfp4

__all__ = [
    "MMWeightNvfp4",
    "cutlass_scaled_mxfp4_mm",
    "cutlass_scaled_mxfp6_mxfp8_mm",
    "cutlass_scaled_mxfp8_mm",
    "cutlass_scaled_nvfp4_mm",
    "scaled_mxfp4_quant",
    "scaled_mxfp6_quant",
    "scaled_mxfp8_quant",
    "scaled_nvfp4_quant",
]
