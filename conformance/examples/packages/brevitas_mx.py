"""Brevitas: MX weights as values, with the scales that its quantizers return."""

from importlib.metadata import version

import brevitas.nn
import torch
from brevitas.quant.mx_quant_ocp import MXFloat8e4m3Weight, MXInt8Weight

NAME, VERSION, ARRAYS, SCALES = "brevitas-mx", version("brevitas"), "torch", "float32"
FORMATS = ["mxfp8_e4m3", "mxint8"]
QUANTIZERS = {"mxfp8_e4m3": MXFloat8e4m3Weight, "mxint8": MXInt8Weight}


def fake_quantize(x, fmt):
    layer = brevitas.nn.QuantLinear(x.shape[1], x.shape[0], bias=False, weight_quant=QUANTIZERS[fmt])
    layer.weight = torch.nn.Parameter(x, requires_grad=False)
    weight = layer.quant_weight()
    # Integers are multiples of its scale; elements of MXINT8, which has two whole bits, are multiples of 1/64.
    return weight.value, weight.scale_.reshape(len(x), -1) * (64 if fmt == "mxint8" else 1)
