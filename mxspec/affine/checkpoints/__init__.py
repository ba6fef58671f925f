"""Checkpoints of affine integers: GPTQ, AWQ, compressed-tensors' pack-quantized, MLX's affine mode.

>>> from mxspec.affine import checkpoints
>>> found = checkpoints.open_affine("model.safetensors")                         # doctest: +SKIP
>>> found.read("model.layers.0.mlp.up_proj").dequantize("float16")               # doctest: +SKIP
>>> checkpoints.convert_affine("gptq.safetensors", "awq.safetensors", "awq")     # doctest: +SKIP

Headers and files are those of `mxspec.containers`: every problem with a file is a `ContainerError`, and data are read and written
in bands of rows, so that memory does not depend on the size of tensors.
"""

from __future__ import annotations

from mxspec.affine.checkpoints.contracts import digest_affine
from mxspec.affine.checkpoints.forms import CONVENTIONS, AffineForm, find_form
from mxspec.affine.checkpoints.groups import AffineCheckpoint, AffineDoubt, AffineGroup, find_affine, open_affine
from mxspec.affine.checkpoints.jobs import AffineConversion, convert_affine, dequantize_affine, is_symmetric, quantize_affine
from mxspec.affine.checkpoints.measuring import AffineShare, measure_affine

__all__ = [
    "CONVENTIONS", "AffineCheckpoint", "AffineConversion", "AffineDoubt", "AffineForm", "AffineGroup", "AffineShare",
    "convert_affine", "dequantize_affine", "digest_affine", "find_affine", "find_form", "is_symmetric", "measure_affine", "open_affine",
    "quantize_affine",
]  # fmt: skip
