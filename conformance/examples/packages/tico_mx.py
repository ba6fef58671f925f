"""TICO: MX formats as values, in its rounding "even"."""

from importlib.metadata import version

from tico.utils.mx.mx_ops import quantize_mx

NAME, VERSION, ARRAYS = "tico-mx", version("tico"), "torch"
NAMES = {
    "mxfp4": "fp4", "mxfp6_e2m3": "fp6_e2m3", "mxfp6_e3m2": "fp6_e3m2", "mxfp8_e4m3": "fp8_e4m3", "mxfp8_e5m2": "fp8_e5m2", "mxint8": "int8",
}  # fmt: skip
FORMATS = list(NAMES)


def fake_quantize(x, fmt):
    return quantize_mx(x, elem_format=NAMES[fmt], axis=-1, round="even")
