"""custom-float-quant: the elements of its MX presets, as codes."""

from importlib.metadata import version

import numpy as np
from custom_float_quant import CustomFloat

NAME, VERSION = "custom-float-quant-elements", version("custom-float-quant")
PRESETS = {name.partition("_")[2]: name for name in ("mxfp4_e2m1", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3")}
ELEMENTS = list(PRESETS)


def encode(x, element):
    preset = CustomFloat.from_preset(PRESETS[element])
    numbers = map(preset.encode_custom, x.tolist())
    sign, step = preset.exponent_bits + preset.mantissa_bits, preset.mantissa_bits
    return np.array([n.sign << sign | n.exponent << step | n.mantissa for n in numbers], np.uint8)
