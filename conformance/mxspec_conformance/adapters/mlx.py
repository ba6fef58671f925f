"""MLX on its default device: `mx.quantize`, `mx.dequantize`, `mx.to_fp8`, `mx.from_fp8`.

MLX packs codes in little-endian uint32 words, the first element in the low bits. Its NVFP4 `global_scale` is
the largest magnitude of the tensor. `mx.quantize` and `mx.dequantize` raise for an odd number of NVFP4
blocks: one row of zeros is added here, and taken away again. In bfloat16 and float16 MLX computes every step
in that dtype: other answers than for the same float32 values, so these are targets of their own.
"""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from typing import Any

import ml_dtypes
import numpy as np

from mxspec.affine.formats import get_affine
from mxspec_conformance.adapters._convert import pack_nibbles, unpack_nibbles
from mxspec_conformance.adapters.registry import Kept, Library

#: The release from which on `quantize` takes a tensor scale.
_GLOBAL_SCALE_SINCE = (0, 31)
_MODES = {"mxfp4": "mxfp4", "mxfp8_e4m3": "mxfp8", "nvfp4": "nvfp4"}


def _to_mlx(mx: Any, x: Any) -> Any:
    """An array as MLX's, of the same bits."""
    return mx.array(x.view(np.uint16)).view(mx.bfloat16) if x.dtype == "bfloat16" else mx.array(x)


class _Quantizer:
    FORMATS = tuple(_MODES)
    TENSOR_SCALE = "amax"

    def __init__(self, *dtypes: str) -> None:
        import mlx.core

        self.VERSION = version("mlx")
        self.DTYPES = dtypes
        self._mx: Any = mlx.core

    def _global_scale(self, tensor_scale: float | None) -> dict[str, Any]:
        """The option that hands a tensor scale over."""
        if tensor_scale is None:
            return {}
        if tuple(int(part) for part in self.VERSION.split(".")[:2]) < _GLOBAL_SCALE_SINCE:
            raise NotImplementedError(f"MLX {self.VERSION} has no global_scale; 0.31 and later have")
        return {"global_scale": self._mx.array(tensor_scale, dtype=self._mx.float32)}

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/block]."""
        rows = x.shape[0]
        data = _pad_odd(x, x.size // 16) if fmt == "nvfp4" else x
        words, scales = self._mx.quantize(_to_mlx(self._mx, data), mode=_MODES[fmt], **self._global_scale(tensor_scale))[:2]
        codes = np.array(words)[:rows].view(np.uint8)
        return codes if fmt == "mxfp8_e4m3" else unpack_nibbles(codes), np.array(scales)[:rows]


class _Mlx(_Quantizer):
    def dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
        """Float32 values [rows, k]."""
        rows = codes.shape[0]
        data, stored = codes if fmt == "mxfp8_e4m3" else pack_nibbles(codes), scales
        if fmt == "nvfp4":
            data, stored = _pad_odd(data, scales.size), _pad_odd(scales, scales.size)
        values = self._mx.dequantize(
            self._mx.array(np.ascontiguousarray(data).view(np.uint32)),
            self._mx.array(stored),
            mode=_MODES[fmt],
            dtype=self._mx.float32,
            **self._global_scale(tensor_scale),
        )
        return np.array(values)[:rows]

    def encode(self, x: Any, element: str) -> Any:
        """Code of each value; MLX has one scalar encoder, for e4m3."""
        if element != "e4m3" or not hasattr(self._mx, "to_fp8"):
            raise NotImplementedError(f"MLX {self.VERSION} has no encoder for {element}")
        return np.array(self._mx.to_fp8(_to_mlx(self._mx, x)))

    def decode(self, codes: Any, element: str) -> Any:
        """Float32 value of each code; MLX has one scalar decoder, for e4m3."""
        if element != "e4m3" or not hasattr(self._mx, "from_fp8"):
            raise NotImplementedError(f"MLX {self.VERSION} has no decoder for {element}")
        return np.array(self._mx.from_fp8(self._mx.array(codes), dtype=self._mx.float32))


class _Affine:
    """The affine mode, in all its formats; `dequantize` computes in the dtype of the scales."""

    AFFINE = tuple(
        f"int{bits}-g{group}-bias-{dtype}/words"
        for dtype in ("float16", "bfloat16", "float32") for bits in (2, 3, 4, 5, 6, 8) for group in (32, 64, 128)
    )  # fmt: skip

    def __init__(self) -> None:
        import mlx.core

        self.VERSION = version("mlx")
        self._mx: Any = mlx.core

    def _from_mlx(self, a: Any, dtype: Any) -> Any:
        return np.array(a.view(self._mx.uint16)).view(dtype) if a.dtype == self._mx.bfloat16 else np.array(a)

    def quantize_affine(self, x: Any, fmt: str) -> tuple[Any, Any, Any]:
        """Words [rows, k * bits / 32], scales and biases [rows, k / group]."""
        found = get_affine(fmt.removesuffix("/words"))
        words, scales, biases = self._mx.quantize(_to_mlx(self._mx, x), group_size=found.group, bits=found.bits)
        return np.array(words), self._from_mlx(scales, x.dtype), self._from_mlx(biases, x.dtype)

    def dequantize_affine(self, codes: Any, scales: Any, biases: Any, fmt: str) -> Any:
        """Values [rows, k] in the dtype of the scales."""
        found = get_affine(fmt.removesuffix("/words"))
        stored = (self._mx.array(codes), _to_mlx(self._mx, scales), _to_mlx(self._mx, biases))
        return self._from_mlx(self._mx.dequantize(*stored, group_size=found.group, bits=found.bits), scales.dtype)


class _Products:
    """`mx.quantized_matmul` of floats and weights in MX formats, two codes to a byte, or affine, in words of 32 bits and with
    scales in the floats' dtype; the result has the floats' dtype, too."""

    def __init__(self, dtype: str) -> None:
        import mlx.core

        self.VERSION = version("mlx")
        self._mx: Any = mlx.core
        self._dtype = dtype
        self.OPERANDS = [
            {"a": dtype, "b": "mxfp4/nibble-low"},
            {"a": dtype, "b": "mxfp8_e4m3"},
            {"a": dtype, "b": "nvfp4/nibble-low"},
            *({"a": dtype, "b": f"int{bits}-g{group}-bias-{dtype}/words"} for bits, group in ((4, 64), (8, 32), (3, 128))),
        ]
        self.OUT_DTYPES = (dtype,)
        self.PRODUCT_SHAPES = {"n": 8}

    def matmul(self, a: Any, b: Any, out_dtype: str) -> Any:
        """[m, n]; MLX's kernels take no tensor scale here."""
        if b.tensor_scale is not None:
            raise NotImplementedError("mx.quantized_matmul takes no tensor scale")
        words = self._mx.array(np.ascontiguousarray(b.codes).view(np.uint32))
        if b.format in _MODES:
            y = self._mx.quantized_matmul(_to_mlx(self._mx, a), words, self._mx.array(b.scales), transpose=True, mode=_MODES[b.format])
        else:
            fmt = get_affine(b.format)
            shared = _to_mlx(self._mx, b.scales), _to_mlx(self._mx, b.biases)
            y = self._mx.quantized_matmul(_to_mlx(self._mx, a), words, *shared, transpose=True, group_size=fmt.group, bits=fmt.bits)
        return np.array(y.view(self._mx.uint16)).view(ml_dtypes.bfloat16) if self._dtype == "bfloat16" else np.array(y)


def _pad_odd(data: Any, blocks: int) -> Any:
    if blocks % 2 == 0:
        return data
    return np.concatenate([data, np.zeros((1, data.shape[1]), data.dtype)])


_LIBRARY = Library(name="mlx", requires="mlx", imports="mlx", packages=("mlx[cpu]==0.32.4",), light=True, earlier=("mlx[cpu]==0.29.4",))

ADAPTERS = (
    _LIBRARY.target(
        "mlx",
        "Apple's array framework",
        partial(_Mlx, "float32", "float16", "bfloat16"),
        {fmt: f"mlx-0.32/{fmt}/cpu" for fmt in _MODES},
        profiles_one_level={"nvfp4": "mlx-0.32/nvfp4/cpu"},
    ),
    _LIBRARY.target("mlx-affine", "Apple's array framework, affine integers", _Affine),
    *(
        _LIBRARY.target(
            f"mlx-products-{dtype}",
            f"Apple's array framework, products of {dtype} and quantized weights",
            partial(_Products, dtype),
            kept=Kept.PRODUCTS,
        )
        for dtype in ("float32", "bfloat16", "float16")
    ),
    *(
        _LIBRARY.target(
            f"mlx-{dtype}",
            f"Apple's array framework, in {dtype}",
            partial(_Quantizer, dtype),
            {fmt: f"mlx-0.32/{fmt}/cpu/{dtype}" for fmt in _MODES},
            profiles_one_level={"nvfp4": f"mlx-0.32/nvfp4/cpu/{dtype}"},
        )
        for dtype in ("bfloat16", "float16")
    ),
)
