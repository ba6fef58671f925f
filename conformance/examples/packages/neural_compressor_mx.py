"""Intel Neural Compressor: MX formats as values, in its rounding "even"."""

from importlib.metadata import version

from neural_compressor.torch.algorithms.mx_quant.utils import quantize_mx_op

NAME, VERSION, ARRAYS = "neural-compressor-mx", version("neural-compressor-pt"), "torch"
NAMES = {
    "mxfp4": "fp4", "mxfp6_e2m3": "fp6_e2m3", "mxfp6_e3m2": "fp6_e3m2", "mxfp8_e4m3": "fp8_e4m3", "mxfp8_e5m2": "fp8_e5m2", "mxint8": "int8",
}  # fmt: skip
FORMATS = list(NAMES)


def fake_quantize(x, fmt):
    return quantize_mx_op(x, NAMES[fmt], "even", 32, axes=-1)
