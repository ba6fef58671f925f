"""breccia: MXFP8 and NVFP4 by its reference kernels in NumPy."""

from importlib.metadata import version

from breccia._core import ScaledTensor
from breccia.kernels.reference.cast import cast, dequantize as decode_tensor
from breccia.layouts import PerBlockMN
from breccia.recipes import MXFP8BlockScaling, NVFP4BlockScaling

NAME, VERSION = "breccia-blocks", version("breccia")
FORMATS = ["mxfp8_e4m3", "mxfp8_e5m2", "nvfp4"]
RECIPES = {
    "mxfp8_e4m3": MXFP8BlockScaling(fp8_format="E4M3"),
    "mxfp8_e5m2": MXFP8BlockScaling(fp8_format="E5M2"),
    "nvfp4": NVFP4BlockScaling(),
}


def quantize(x, fmt):
    tensor = cast(x, RECIPES[fmt])
    return tensor.data, tensor.scale


def dequantize(codes, scales, fmt):
    layout = PerBlockMN(block_m=1, block_n=RECIPES[fmt].block_size)
    return decode_tensor(ScaledTensor(data=codes, scale=scales, recipe=RECIPES[fmt], layout=layout))
