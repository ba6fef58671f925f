"""GPU implementations of the model's profiles: CuPy kernels that give the model's bits at the speed of memory.

    import mxspec_gpu
    q = mxspec_gpu.quantize(x, "mxfp4", scale_layout="128x4")     # x: a torch tensor or CuPy array on the GPU
    q.codes, q.scales                                             # of the same library, packed and in tiles
    y = q.dequantize("bfloat16")

Importing needs neither CuPy nor a GPU; calling without them says what is missing and how to get it.
"""

from mxspec_gpu.affine import affine_dequantize, affine_gemv
from mxspec_gpu.api import (
    Quantized,
    check_gpu,
    decode,
    dequantize,
    encode,
    pack,
    quantize,
    quantize_both,
    scale_shape,
    tensor_scale,
    unpack,
)
from mxspec_gpu.build import GpuMissingError
from mxspec_gpu.exact import ExactProduct, Operand, exact_product
from mxspec_gpu.experts import QuantizedExperts, quantize_experts
from mxspec_gpu.fp8 import fp8_gemm
from mxspec_gpu.fused import quantize_rms_norm, quantize_silu_mul
from mxspec_gpu.lookup import embedding, gemv
from mxspec_gpu.records import GgufTensor, dequantize_records, pack_records, quantize_records, read_gguf, unpack_records
from mxspec_gpu.rules import UnsupportedProfileError
from mxspec_gpu.sparse import sparse_dequantize
from mxspec_gpu.sparse_gemv import sparse_gemv
from mxspec_gpu.tiles import gemm, grouped_gemm

__all__ = [
    "ExactProduct",
    "GgufTensor",
    "GpuMissingError",
    "Operand",
    "Quantized",
    "QuantizedExperts",
    "UnsupportedProfileError",
    "affine_dequantize",
    "affine_gemv",
    "check_gpu",
    "decode",
    "dequantize",
    "dequantize_records",
    "embedding",
    "encode",
    "exact_product",
    "fp8_gemm",
    "gemm",
    "gemv",
    "grouped_gemm",
    "pack",
    "pack_records",
    "quantize",
    "quantize_both",
    "quantize_experts",
    "quantize_records",
    "quantize_rms_norm",
    "quantize_silu_mul",
    "read_gguf",
    "scale_shape",
    "sparse_dequantize",
    "sparse_gemv",
    "tensor_scale",
    "unpack",
    "unpack_records",
]
