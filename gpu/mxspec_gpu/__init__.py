"""GPU implementations of the model's profiles: CuPy kernels that give the model's bits at the speed of memory.

    import mxspec_gpu
    q = mxspec_gpu.quantize(x, "mxfp4", scale_layout="128x4")     # x: a torch tensor or CuPy array on the GPU
    q.codes, q.scales                                             # of the same library, packed and in tiles
    y = q.dequantize("bfloat16")

Importing needs neither CuPy nor a GPU; calling without them says what is missing and how to get it.
"""

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
from mxspec_gpu.lookup import embedding, gemv
from mxspec_gpu.rules import UnsupportedProfileError

__all__ = [
    "GpuMissingError",
    "Quantized",
    "UnsupportedProfileError",
    "check_gpu",
    "decode",
    "dequantize",
    "embedding",
    "encode",
    "gemv",
    "pack",
    "quantize",
    "quantize_both",
    "scale_shape",
    "tensor_scale",
    "unpack",
]
