"""Containers: GGUF and safetensors checkpoints as `BlockTensor`s, and from one library's convention to another's.

>>> from mxspec import containers
>>> checkpoint = containers.open_checkpoint("model.safetensors")        # doctest: +SKIP
>>> checkpoint.read("model.layers.0.mlp.up_proj").dequantize()          # doctest: +SKIP
>>> containers.convert("model.safetensors", "model.gguf", "gguf")       # doctest: +SKIP
>>> containers.quantize_checkpoint("plain.safetensors", "out.safetensors", "nvfp4", "modelopt")  # doctest: +SKIP

Headers are parsed here, within bounds, so that a damaged or hostile file gives `ContainerError` and nothing else; data are
read in pieces. No package beyond NumPy is needed.
"""

from __future__ import annotations

from mxspec.containers.checkpoint import Checkpoint, open_checkpoint, read_header
from mxspec.containers.conventions import CONVENTIONS, Form, find_form, list_forms
from mxspec.containers.converting import Conversion, TensorChange, convert
from mxspec.containers.dequantizing import Dequantization, dequantize_checkpoint
from mxspec.containers.footprint import Footprint, Share, measure_footprint
from mxspec.containers.groups import Doubt, Group
from mxspec.containers.header import Header, Tensor
from mxspec.containers.problems import ContainerError, Fault, Problem
from mxspec.containers.quantizing import Quantization, QuantizedTensor, quantize_checkpoint
from mxspec.containers.writing import write

__all__ = [
    "CONVENTIONS", "Checkpoint", "ContainerError", "Conversion", "Dequantization", "Doubt", "Fault", "Footprint", "Form", "Group", "Header",
    "Problem", "Quantization", "QuantizedTensor", "Share", "Tensor", "TensorChange", "convert", "dequantize_checkpoint", "find_form",
    "list_forms", "measure_footprint", "open_checkpoint", "quantize_checkpoint", "read_header", "write",
]  # fmt: skip
