"""tenminator: NVFP4 as values, with the scales that it stores."""

from importlib.metadata import version

import numpy as np
from tenminator.quantization.formats import dequantize as decode_tensor, quantize_nvfp4

NAME, VERSION, FORMATS, SCALES = "tenminator-nvfp4", version("tenminator"), ["nvfp4"], "float32"


def fake_quantize(x, fmt):
    tensor = quantize_nvfp4(x)
    return decode_tensor(tensor).astype(np.float32).reshape(x.shape), tensor.scales.astype(np.float32).reshape(len(x), -1)
