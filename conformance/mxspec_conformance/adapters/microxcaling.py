"""microsoft/microxcaling, imported as `mx`: put the checkout on the path, or name it in MXSPEC_MICROXCALING_SOURCE.

The library returns dequantized values only. The shared exponent and the element values it computed on the
way are read from the running `_quantize_mx` itself and written as bytes by exact look-up; nothing is computed
here. A block that the library turns into NaN (its shared exponent is NaN) is scale FF with codes 00. An
element value without a code raises. In bfloat16 it computes every step in bfloat16, so that these are targets
of their own; of float16 tensors no profile speaks.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from importlib import import_module
from typing import Any
from unittest import mock

import numpy as np

from mxspec.formats import get_block
from mxspec_conformance.adapters._convert import find_codes, from_torch, to_torch
from mxspec_conformance.adapters._cuda import on_gpu
from mxspec_conformance.adapters._watching import WATCHING
from mxspec_conformance.adapters.registry import TORCH, Adapter, Library, Source

_ELEMENTS = {
    "mxfp4": "fp4_e2m1",
    "mxfp6_e2m3": "fp6_e2m3",
    "mxfp6_e3m2": "fp6_e3m2",
    "mxfp8_e4m3": "fp8_e4m3",
    "mxfp8_e5m2": "fp8_e5m2",
    "mxint8": "int8",
}
_BLOCK, _SCALE_BITS = 32, 8


class _Microxcaling:
    VERSION = "7bc4195"
    FORMATS = tuple(_ELEMENTS)

    def __init__(self, rounding: str, *dtypes: str, device: str = "cpu") -> None:
        self.DTYPES = dtypes
        self._rounding, self._device = rounding, device
        self._torch, self._ops = _import_library()

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/32]."""
        found, exponents = self._run(x, fmt)
        rows, k = found.shape[0], found.shape[1] * found.shape[2]
        values = from_torch(found.to(self._torch.float32))
        exponent = from_torch(exponents.to(self._torch.float32))
        lost = np.isnan(exponent)
        codes = find_codes(np.where(lost, np.float32(0), values), get_block(fmt).element.name)
        scales = (np.where(lost, np.float32(128), exponent) + 127).astype(np.uint8)
        return codes.reshape(rows, k), scales.reshape(rows, k // _BLOCK)

    def _run(self, x: Any, fmt: str) -> tuple[Any, Any]:
        """The element values and the shared exponents of one call of the library."""
        seen: list[tuple[Any, Any]] = []
        with WATCHING:
            quantize_elements = self._ops._quantize_elemwise_core

            def watched(*args: Any, **kwargs: Any) -> Any:
                elements = quantize_elements(*args, **kwargs)
                seen.append((elements, sys._getframe(1).f_locals["shared_exp"]))
                return elements

            with mock.patch.object(self._ops, "_quantize_elemwise_core", watched):
                self._ops._quantize_mx(
                    to_torch(x, self._device), _SCALE_BITS, _ELEMENTS[fmt], axes=[-1], block_size=_BLOCK, round=self._rounding
                )
        return seen[0]


_SOURCE = Source("MXSPEC_MICROXCALING_SOURCE", "a checkout of microsoft/microxcaling")
_LIBRARY = Library(name="microxcaling", requires=_SOURCE.what, imports="mx", source=_SOURCE, packages=(TORCH, "packaging"))


def _import_library() -> tuple[Any, Any]:
    """torch and `mx.mx_ops`."""
    before = sys.path[:]
    sys.path[:0] = filter(None, [os.environ.get(_SOURCE.variable)])
    try:
        return import_module("torch"), import_module("mx.mx_ops")
    finally:
        sys.path[:] = before


def _adapter(name: str, rounding: str, dtypes: tuple[str, ...], suffix: str = "") -> Adapter:
    return _LIBRARY.target(
        name,
        f"Microsoft's emulation, round={rounding}" + (", in bfloat16" if suffix else ""),
        partial(_Microxcaling, rounding, *dtypes),
        {fmt: f"microxcaling-7bc4195/{'mxint8' if fmt == 'mxint8' else 'mxfp'}/{rounding}{suffix}" for fmt in _ELEMENTS},
    )


_ON_CPU = (
    _adapter("microxcaling", "nearest", ("float32", "bfloat16")),
    _adapter("microxcaling-even", "even", ("float32", "bfloat16")),
    _adapter("microxcaling-floor", "floor", ("float32", "bfloat16")),
    _adapter("microxcaling-bfloat16", "nearest", ("bfloat16",), "/bfloat16"),
    _adapter("microxcaling-even-bfloat16", "even", ("bfloat16",), "/bfloat16"),
)

ADAPTERS = (*_ON_CPU, *map(on_gpu, _ON_CPU))
