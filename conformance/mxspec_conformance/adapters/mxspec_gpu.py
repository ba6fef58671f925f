"""This project's GPU kernels; they need CuPy and an NVIDIA GPU.

`mxspec_gpu-tiles` returns what the fast paths return: packed nibbles, scales in 128x4 tiles; `mxspec_gpu-experts` takes a tensor's
rows for those of experts. `mxspec_gpu-products-...` multiplies by weights as checkpoints hold them, `mxspec_gpu-affine` dequantizes
affine ones, `mxspec_gpu-records` packs ggml's records. `mxspec_gpu-steps-...` are the documents' thread models,
`mxspec_gpu-sparse` multiplies by 2:4 sparse weights.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import mxspec
from mxspec.fused.functions import EPS
from mxspec_conformance.adapters.registry import Kept, Library


class _Target:
    VERSION = mxspec.__version__
    DTYPES: tuple[str, ...] = ("float32", "float16", "bfloat16")
    ARRAYS = "cupy"
    TENSOR_SCALE = "amax"

    def __init__(self) -> None:
        import mxspec_gpu

        try:
            mxspec_gpu.check_gpu()
        except mxspec_gpu.GpuMissingError as error:
            raise ImportError(str(error)) from error
        import cupy

        self._cupy: Any = cupy
        self._gpu = mxspec_gpu


class _Kernels(_Target):
    FORMATS = tuple(mxspec.BLOCKS)
    ELEMENTS = (*mxspec.ELEMENTS, *mxspec.SCALES)

    def quantize(
        self, x: Any, fmt: str, tensor_scale: float | None = None, axis: int = -1, pad: bool = False, block: Any = None
    ) -> tuple[Any, Any]:
        """Codes, one a byte, and scales by the format's default profile, in x's axis order."""
        q = self._gpu.quantize(x, fmt, tensor_scale=_scale(tensor_scale), axis=axis, pad=pad, block=block)
        return self._cupy.moveaxis(q.unpack(), -1, axis), self._cupy.moveaxis(q.scales, -1, axis)

    def dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
        """float32 values by the format's default profile."""
        packed = self._gpu.pack(codes, fmt)
        return self._gpu.dequantize(packed, scales, fmt, tensor_scale=_scale(tensor_scale), dtype="float32")

    def encode(self, x: Any, element: str, rounding: str = "rne", overflow: str = "saturate") -> Any:
        """Codes of single numbers."""
        return self._gpu.encode(x, element, rounding=rounding, overflow=overflow)

    def decode(self, codes: Any, element: str) -> Any:
        """Values of single codes."""
        return self._gpu.decode(codes, element)

    def encode_stochastic(self, x: Any, element: str, random_bits: Any) -> Any:
        """Codes by the integer rule with 32 random bits."""
        return self._gpu.encode(x, element, rounding="sr", random_bits=random_bits)

    def tensor_scale(self, x: Any, fmt: str) -> float:
        """The tensor's largest magnitude."""
        return float(self._gpu.tensor_scale(x, fmt)[0])


class _Tiles(_Target):
    FORMATS = ("mxfp4", "nvfp4")
    LAYOUT = ("nibble-low", "128x4")

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Packed codes and the flat bytes of the scales' tiles."""
        q = self._gpu.quantize(x, fmt, tensor_scale=_scale(tensor_scale), scale_layout="128x4")
        return q.codes, q.scales

    def dequantize(self, codes: Any, scales: Any, fmt: str, tensor_scale: float | None = None) -> Any:
        """float32 values."""
        return self._gpu.dequantize(codes, scales, fmt, tensor_scale=_scale(tensor_scale), scale_layout="128x4", dtype="float32")


class _Experts(_Target):
    """The rows of a tensor as those of experts, whose tiles of scales are taken apart again."""

    FORMATS = ("mxfp4", "nvfp4", "mxfp8_e4m3", "mxfp6_e2m3")
    #: Rows of the first experts; the last has the rest.
    _SIZES = (1, 0, 3, 128, 0, 130, 31)

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes, one a byte, and scales."""
        block, rows = mxspec.BLOCKS[fmt], x.reshape(-1, x.shape[-1])
        columns = x.shape[-1] // block.k
        counts, left = [], len(rows)
        for size in self._SIZES:
            counts.append(min(size, left))
            left -= counts[-1]
        counts.append(left)
        wide = self._cupy.zeros((len(rows), -(-x.shape[-1] // 64) * 64), x.dtype)
        wide[:, : x.shape[-1]] = rows
        # Not an array that CuPy fills: it would make subnormal numbers zero.
        scale = _scale(tensor_scale)
        scales = None if scale is None else [scale] * len(counts)
        q = self._gpu.quantize_experts(wide, counts, fmt, tensor_scales=scales)
        found = mxspec.layouts.unpack_groups(self._cupy.asnumpy(q.scales), "128x4", counts, wide.shape[1] // block.k)
        codes = self._gpu.unpack(q.codes, fmt)[:, : x.shape[-1]].reshape(x.shape)
        return codes, self._cupy.asarray(found)[:, :columns].reshape(*x.shape[:-1], columns)


class _Products(_Target):
    """`gemm`: x and stored weights, few rows where they lie, more by cuBLAS."""

    def __init__(self, dtype: str) -> None:
        super().__init__()
        self.OUT_DTYPES = (dtype, "float32")
        # An affine weight is rounded once to the dtype of the scales; that of a block format is exact in bfloat16.
        if dtype == "bfloat16":
            pairs = ["mxfp4/nibble-low", "nvfp4/nibble-low", "mxfp4/nibble-low+128x4", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8"]
            self.OPERANDS = [{"a": dtype, "b": b} for b in pairs]
            self.GROUPED = [{"a": dtype, "b": b, "form": "offsets"} for b in pairs[:2]]
        else:
            self.CONTRACT = "float16-fma"
            self.OPERANDS = [{"a": dtype, "b": f"int4-g{group}-bias-float16/nibble-low"} for group in (32, 64, 128)]

    def matmul(self, a: Any, b: Any, out_dtype: str, alpha: float = 1.0, bias: Any = None) -> Any:
        """[m, n]; NVFP4's tensor scale is part of alpha."""
        factor = float(np.float32(alpha) * np.float32(1 if getattr(b, "tensor_scale", None) is None else b.tensor_scale))
        if bias is not None:
            bias = self._cupy.asarray(bias).astype(out_dtype)
        fmt = str(getattr(b.format, "name", b.format))
        if fmt.startswith("int"):
            return self._gpu.gemm(a, b.codes, b.scales, fmt, offsets=b.biases, alpha=factor, bias=bias, dtype=out_dtype)
        rows = b.shape[0]
        tiled = b.scales.ndim == 1 and rows * b.shape[1] > 0
        return self._gpu.gemm(
            a, b.codes.reshape(rows, -1), b.scales, fmt, alpha=factor, bias=bias, dtype=out_dtype,
            scale_layout="128x4" if tiled else "row-major",
        )  # fmt: skip

    def grouped_matmul(self, a: Any, b: Any, groups: Any, form: str, out_dtype: str, alpha: Any = None, bias: Any = None) -> Any:
        """[rows, n]; NVFP4's tensor scales are part of alpha; K is padded to 64 with zeros."""
        cupy, (experts, rows, k) = self._cupy, b.shape
        fmt = str(getattr(b.format, "name", b.format))
        factors = cupy.ones(experts, "float32") if alpha is None else cupy.asarray(alpha)
        if getattr(b, "tensor_scale", None) is not None:
            factors = factors * cupy.asarray(b.tensor_scale)
        wide, block = -(-k // 64) * 64, mxspec.BLOCKS[fmt].k
        x, codes = cupy.zeros((len(a), wide), a.dtype), cupy.zeros((experts, rows, wide // 2), "uint8")
        scales = cupy.full((experts, rows, wide // block), 56, "uint8")
        x[:, :k], codes[:, :, : k // 2], scales[:, :, : k // block] = a, b.codes.reshape(experts, rows, -1), b.scales
        added = None if bias is None else cupy.asarray(bias).astype(out_dtype)
        return self._gpu.grouped_gemm(x, codes, scales, fmt, groups, alpha=factors, bias=added, dtype=out_dtype)


class _Fused(_Target):
    """SiLU(gate) * up, quantized in one pass."""

    FUSED = tuple(f"silu_mul-{fmt}" for fmt in ("mxfp4", "mxfp6_e2m3", "mxfp8_e4m3", "mxint8", "nvfp4"))

    def __init__(self, dtype: str) -> None:
        super().__init__()
        self.DTYPES, self.FUSED_CONTRACT = (dtype,), f"any-fast+inner-{dtype}+product-{dtype}"

    def quantize_fused(self, x: Any, function: str, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes, one a byte, and scales."""
        q = self._gpu.quantize_silu_mul(x, fmt, tensor_scale=_scale(tensor_scale))
        return self._gpu.unpack(q.codes, fmt), q.scales


class _Norm(_Target):
    """RMSNorm, quantized in one pass."""

    FUSED = tuple(f"rmsnorm-{fmt}" for fmt in ("mxfp4", "mxfp8_e4m3", "mxint8", "nvfp4"))

    def __init__(self, dtype: str) -> None:
        super().__init__()
        self.DTYPES, self.FUSED_CONTRACT = (dtype,), f"any-2ulp+inner-{dtype}+product-{dtype}"

    def quantize_fused(
        self, x: Any, function: str, fmt: str, tensor_scale: float | None = None, weight: Any = None, eps: float = EPS
    ) -> tuple[Any, Any]:
        """Codes, one a byte, and scales."""
        q = self._gpu.quantize_rms_norm(x, weight, fmt, eps=eps, tensor_scale=_scale(tensor_scale))
        return self._gpu.unpack(q.codes, fmt), q.scales


class _Fp8(_Target):
    """`fp8_gemm`."""

    OUT_DTYPES = ("bfloat16", "float32")
    ACCUMULATOR = "fused-f13-32-promoted-128"
    OPERANDS = ({"a": "fp8_e4m3-128-f32", "b": "fp8_e4m3-128-f32/128x128"}, {"a": "fp8_e4m3-128", "b": "fp8_e4m3-128/128x128"})

    def matmul(self, a: Any, b: Any, out_dtype: str) -> Any:
        """[m, n]."""
        return self._gpu.fp8_gemm(a.codes, a.scales, b.codes, b.scales, dtype=out_dtype)


class _Affine(_Target):
    """Values in the dtype of the scales, rounded once."""

    AFFINE = tuple(
        f"int4-g{group}-{offset}-{dtype}{words}"
        for group in (32, 64, 128)
        for offset, dtype, words in (("bias", "float16", ""), ("bias", "bfloat16", "/words"), ("zero", "float16", ""))
    )
    AFFINE_CONTRACT = "exact"

    def dequantize_affine(self, codes: Any, scales: Any, offsets: Any, fmt: str) -> Any:
        """[rows, k]."""
        name = fmt.removesuffix("/words")
        packed = codes if name != fmt else self._gpu.pack(codes, "mxfp4")
        return self._gpu.affine_dequantize(packed, scales, offsets, name, dtype=str(scales.dtype))


class _Records(_Target):
    LAYOUTS = ("ggml-mxfp4", "ggml-nvfp4")

    def pack_blocks(self, codes: Any, scales: Any, layout: str) -> Any:
        """The records' bytes."""
        fmt = layout.removeprefix("ggml-")
        return self._gpu.pack_records(self._gpu.pack(codes, fmt), scales, fmt)

    def unpack_blocks(self, data: Any, layout: str, shape: tuple[int, ...]) -> tuple[Any, Any]:
        """Codes of this shape, one a byte, and scales."""
        fmt = layout.removeprefix("ggml-")
        codes, scales = self._gpu.unpack_records(self._cupy.asarray(data).reshape(*shape[:-1], -1), fmt)
        return self._gpu.unpack(codes, fmt), scales


class _Steps(_Target):
    """Grid-stride quantization, eight elements a thread; a thread an output of affine products, in float32, column after column."""

    FORMATS = ("mxfp4", "nvfp4")
    CONTRACT = "float32"
    ACCUMULATOR = "float32-nearest"

    def __init__(self, dtype: str) -> None:
        super().__init__()
        from mxspec_gpu import steps

        self._steps = steps
        self.DTYPES = self.OUT_DTYPES = (dtype,)
        self.OPERANDS = [
            {"a": dtype, "b": f"int4-g{group}-{offset}-{dtype}/nibble-low"} for group in (64, 128) for offset in ("bias", "zero")
        ]

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes, one a byte, and scales by the format's default profile."""
        rows = x.reshape(-1, x.shape[-1])
        codes, scales = self._steps.quantize_grid_stride(rows, fmt, tensor_scale=_scale(tensor_scale))
        return self._gpu.unpack(codes, fmt).reshape(x.shape), scales.reshape(*x.shape[:-1], -1)

    def matmul(self, a: Any, b: Any, out_dtype: str) -> Any:
        """[m, n] in the activations' dtype, the only one that is declared."""
        fmt = str(getattr(b.format, "name", b.format))
        offsets = b.biases if b.biases is not None else b.zeros
        return self._steps.affine_matmul_naive(a, b.codes.reshape(b.shape[0], -1), b.scales, offsets, fmt)


class _Sparse(_Target):
    """`sparse_gemv`, 16 rows of x at a time; K is padded to 64 with zeros and the nibble 4."""

    OUT_DTYPES = ("bfloat16", "float32")
    OPERANDS = tuple({"a": "bfloat16", "b": f"{fmt}-2to4"} for fmt in ("mxfp4", "nvfp4"))

    def matmul(self, a: Any, b: Any, out_dtype: str, alpha: float = 1.0) -> Any:
        """[m, n]; NVFP4's tensor scale is part of alpha."""
        cupy = self._cupy
        factor = float(np.float32(alpha) * np.float32(1 if getattr(b, "tensor_scale", None) is None else b.tensor_scale))
        fmt = str(getattr(b.format, "name", b.format)).removesuffix("-2to4")
        (rows, k), block = b.shape, mxspec.BLOCKS[fmt].k
        if not rows or not k or not len(a):
            raise NotImplementedError("empty products are the caller's business")
        wide = -(-k // 64) * 64
        kept, nibbles = cupy.zeros((rows, wide // 2), "uint8"), cupy.full((rows, wide // 4), 4, "uint8")
        scales, x = cupy.full((rows, wide // block), 56, "uint8"), cupy.zeros((len(a), wide), a.dtype)
        kept[:, : k // 2], nibbles[:, : k // 4], scales[:, : k // block], x[:, :k] = b.codes, b.metadata, b.scales, a
        parts = self._gpu.pack(kept, "mxfp4"), self._gpu.pack(nibbles, "mxfp4"), scales
        step = 16
        found = [self._gpu.sparse_gemv(x[i : i + step], *parts, fmt, alpha=factor, dtype=out_dtype) for i in range(0, len(x), step)]
        return cupy.concatenate(found)


def _scale(value: float | None) -> mxspec.TensorScale | None:
    return None if value is None else mxspec.TensorScale.from_float("amax", value)


_LIBRARY = Library(name="mxspec_gpu", requires="CuPy and an NVIDIA GPU", imports="cupy")

ADAPTERS = (
    _LIBRARY.target("mxspec_gpu", "this project's GPU kernels", _Kernels, kept=Kept.GPU),
    _LIBRARY.target("mxspec_gpu-tiles", "this project's GPU kernels, packed, scales in tiles", _Tiles, kept=Kept.GPU),
    _LIBRARY.target("mxspec_gpu-experts", "this project's GPU kernels, rows of experts in one launch", _Experts, kept=Kept.GPU),
    *(
        _LIBRARY.target(
            f"mxspec_gpu-products-{dtype}",
            f"this project's GPU products of {dtype} numbers and stored weights",
            partial(_Products, dtype),
            kept=Kept.GPU,
        )
        for dtype in ("bfloat16", "float16")
    ),
    _LIBRARY.target("mxspec_gpu-fp8", "this project's products of FP8 in groups of 128", _Fp8, kept=Kept.GPU),
    _LIBRARY.target("mxspec_gpu-affine", "this project's affine dequantization on the GPU", _Affine, kept=Kept.GPU),
    *(
        _LIBRARY.target(
            f"mxspec_gpu-{name}-{dtype}", f"this project's {what} in {dtype}, quantized on the GPU", partial(make, dtype), kept=Kept.GPU
        )
        for name, what, make in (("fused", "SiLU(gate) * up", _Fused), ("norm", "RMSNorm", _Norm))
        for dtype in ("bfloat16", "float16")
    ),
    _LIBRARY.target("mxspec_gpu-records", "ggml's records on the GPU", _Records, kept=Kept.GPU),
    *(
        _LIBRARY.target(
            f"mxspec_gpu-steps-{dtype}", f"the documents' thread models on the GPU, in {dtype}", partial(_Steps, dtype), kept=Kept.GPU
        )
        for dtype in ("float16", "bfloat16")
    ),
    _LIBRARY.target("mxspec_gpu-sparse", "products with 2:4 sparse weights on the GPU", _Sparse, kept=Kept.GPU),
)
