"""Affine integers: groups of unsigned codes that share a float scale and a bias or zero point (INT4, GPTQ, AWQ, MLX).

>>> import numpy as np
>>> from mxspec import affine
>>> t = affine.quantize(np.linspace(-1, 1, 64, dtype=np.float32), bits=4, group=64)
>>> t.codes[:3].tolist(), t.scales.tolist(), t.biases.tolist()
([0, 0, 0], [0.13333334028720856], [-1.0])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mxspec.affine.contracts import CONTRACTS, AffineContract, get_contract, list_contracts
from mxspec.affine.formats import BITS, GROUPS, AffineFormat, Offset, get_affine
from mxspec.affine.products import quantized_matmul, quantized_matmul_exact
from mxspec.affine.profiles import default_affine_profile, get_affine_profile, list_affine_profiles
from mxspec.affine.schema import AffineProfile, Step
from mxspec.affine.tensor import AffineTensor, dequantize, quantize
from mxspec.affine.weights import QuantizedWeights, quantized_linear
from mxspec.affine.words import pack_words, unpack_words

if TYPE_CHECKING:
    from mxspec.affine.reading import list_mlx_weights, read_mlx_weights

__all__ = [
    "BITS",
    "CONTRACTS",
    "GROUPS",
    "AffineContract",
    "AffineFormat",
    "AffineProfile",
    "AffineTensor",
    "Offset",
    "QuantizedWeights",
    "Step",
    "default_affine_profile",
    "dequantize",
    "get_affine",
    "get_affine_profile",
    "get_contract",
    "list_affine_profiles",
    "list_contracts",
    "list_mlx_weights",
    "pack_words",
    "quantize",
    "quantized_linear",
    "quantized_matmul",
    "quantized_matmul_exact",
    "read_mlx_weights",
    "unpack_words",
]


def __getattr__(name: str) -> Any:
    """The readers of files: loaded on first use, since containers take longer to import than all of the arithmetic."""
    if name in ("list_mlx_weights", "read_mlx_weights"):
        from mxspec.affine import reading

        return getattr(reading, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
