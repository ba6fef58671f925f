"""gfloat: `compute_scale_amax` per block, then its array rounding and encoding; scales times elements by its array decoding.

The steps are those of gfloat's `quantize_block` and `decode_block`, with its array functions in place of its scalar ones. Of 0.5.2 both
decode all codes under all scale bytes to the same float64 bits.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np

from mxspec_conformance.adapters._convert import refuse_tensor_scale
from mxspec_conformance.adapters.registry import Kept, Library

_BLOCKS = {
    "mxfp4": "format_info_mxfp4_e2m1",
    "mxfp6_e2m3": "format_info_mxfp6_e2m3",
    "mxfp6_e3m2": "format_info_mxfp6_e3m2",
    "mxfp8_e4m3": "format_info_mxfp8_e4m3",
    "mxfp8_e5m2": "format_info_mxfp8_e5m2",
    "mxint8": "format_info_mxint8",
}
_ELEMENTS = ("e2m1", "e2m3", "e3m2", "e4m3", "e5m2", "int8", "e8m0")
_MODES = {"rne": "TiesToEven", "rna": "TiesToAway", "rtz": "TowardZero", "rtn": "TowardNegative", "rtp": "TowardPositive"}


class _Gfloat:
    FORMATS = tuple(_BLOCKS)
    DTYPES = ("float32",)
    SR_BITS = 32

    def __init__(self) -> None:
        import gfloat
        from gfloat import formats

        self.VERSION = version("gfloat")
        self._library: Any = gfloat
        self._blocks = {fmt: getattr(formats, name) for fmt, name in _BLOCKS.items()}
        self._elements = {name: getattr(formats, f"format_info_ocp_{name}") for name in _ELEMENTS}

    def _format(self, element: str) -> Any:
        if element not in self._elements:
            raise NotImplementedError(f"gfloat has no format for {element}")
        return self._elements[element]

    def _encode(self, info: Any, x: Any, mode: str, **options: Any) -> Any:
        rounded = self._library.round_ndarray(info, x, self._library.RoundMode[mode], sat=True, **options)
        return self._library.encode_ndarray(info, rounded).astype(np.uint8)

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/32]."""
        refuse_tensor_scale(tensor_scale, "gfloat has")
        info = self._blocks[fmt]
        blocks = x.reshape(-1, info.k)
        emax = info.etype.emax
        scales = np.array([self._library.compute_scale_amax(emax, block) for block in blocks], dtype=x.dtype)
        codes = self._encode(info.etype, blocks / scales[:, None], "TiesToEven")
        scale_codes = self._encode(info.stype, scales, "TiesToEven")
        return codes.reshape(x.shape), scale_codes.reshape(x.shape[0], -1)

    def dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
        """Float32 values [rows, k]; gfloat multiplies in double precision, exactly."""
        refuse_tensor_scale(tensor_scale, "gfloat has")
        info = self._blocks[fmt]
        with np.errstate(invalid="ignore"):  # a NaN scale over elements that are Inf or zero
            scale = self._library.decode_ndarray(info.stype, scales.reshape(-1, 1))
            values = scale * self._library.decode_ndarray(info.etype, codes.reshape(-1, info.k))
        with np.errstate(over="ignore"):
            return values.astype(np.float32).reshape(codes.shape)

    def encode(self, x: Any, element: str, rounding: str = "rne") -> Any:
        """Code of each value; out-of-range values saturate."""
        info = self._format(element)
        if rounding not in _MODES:
            raise NotImplementedError(f"gfloat has no rounding {rounding}")
        return self._encode(info, x, _MODES[rounding])

    def decode(self, codes: Any, element: str) -> Any:
        """Float32 value of each code."""
        return self._library.decode_ndarray(self._format(element), codes).astype(np.float32)

    def encode_stochastic(self, x: Any, element: str, random_bits: Any) -> Any:
        """Code of each value, rounded by gfloat's `Stochastic` mode with one 32-bit word per element."""
        bits = random_bits.astype(np.int64)
        return self._encode(self._format(element), x, "Stochastic", srbits=bits, srnumbits=self.SR_BITS)


class _Products:
    """NumPy's product of numbers that gfloat decodes: its arrays are float64, and so is the sum."""

    def __init__(self) -> None:
        import gfloat
        from gfloat import formats

        self.VERSION = version("gfloat")
        self._library: Any = gfloat
        self._blocks = {fmt: getattr(formats, name) for fmt, name in _BLOCKS.items()}
        self.OPERANDS = [{"a": a, "b": b} for a, b in (*((fmt, fmt) for fmt in _BLOCKS), ("mxfp8_e4m3", "mxfp4"))]

    def _decode(self, side: Any) -> Any:
        info = self._blocks[side.format]
        scales = self._library.decode_ndarray(info.stype, side.scales)
        return self._library.decode_ndarray(info.etype, side.codes) * np.repeat(scales, info.k, axis=1)

    def matmul(self, a: Any, b: Any, out_dtype: str) -> Any:
        """[m, n] float32."""
        with np.errstate(all="ignore"):
            return (self._decode(a) @ self._decode(b).T).astype(np.float32)


_LIBRARY = Library(name="gfloat", requires="gfloat", imports="gfloat", packages=("gfloat==0.5.2",), light=True, earlier=("gfloat==0.5.1",))

ADAPTERS = (
    _LIBRARY.target(
        "gfloat",
        "Graphcore's format library",
        _Gfloat,
        {fmt: "gfloat-0.5/mxfp8" if fmt.startswith("mxfp8") else "gfloat-0.5/mx" for fmt in _BLOCKS},
    ),
    _LIBRARY.target("gfloat-products", "NumPy's matmul of numbers that gfloat decodes", _Products, kept=Kept.PRODUCTS),
)
