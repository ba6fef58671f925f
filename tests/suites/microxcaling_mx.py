"""microxcaling's mx/tests/test_quantize_mx.py: `--replace mx.mx_ops._quantize_mx=tests/suites/microxcaling_mx.py::quantize_mx`.

The test compares two code paths. The Python one stays; the implementation takes the place of the extension, whose blocks of 8 and 9 are filled up
with zeros, which no scale depends on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from mx import mx_ops

_QUANTIZE = mx_ops._quantize_mx
_NAMES = {"mxfp4": "fp4_e2m1", "mxfp6_e2m3": "fp6_e2m3", "mxfp6_e3m2": "fp6_e3m2", "mxfp8_e4m3": "fp8_e4m3", "mxfp8_e5m2": "fp8_e5m2"}


def quantize_mx(impl: Any) -> Callable[..., Any]:
    """There and back, of E8M0 scales and elements with ties to even; what else is asked goes to the Python path."""

    def call(x: Any, scale_bits: int, elem_format: str, *, block_size: int, custom_cuda: bool = False, **options: Any) -> Any:
        asked = custom_cuda and elem_format == _NAMES.get(impl.fmt) and block_size <= 32
        if not asked or scale_bits != 8 or options["round"] != "even" or options["flush_fp32_subnorms"]:
            return _QUANTIZE(x, scale_bits, elem_format, block_size=block_size, custom_cuda=False, **options)
        numbers = torch.nn.functional.pad(x.reshape(-1), (0, -x.numel() % block_size)).reshape(-1, block_size)
        values = impl.dequantize(*impl.quantize(torch.nn.functional.pad(numbers, (0, 32 - block_size))))
        return values[:, :block_size].reshape(-1)[: x.numel()].reshape(x.shape)

    return call
