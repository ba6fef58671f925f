"""torch's products on an NVIDIA GPU: 16-bit and float32 numbers, TF32, FP8 by `_scaled_mm` with and without fast accumulation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from mxspec_conformance.adapters._convert import from_torch, to_torch
from mxspec_conformance.adapters.registry import Kept, Library

_FP8 = ("float8_e4m3fn", "float8_e5m2")


@dataclass(frozen=True, slots=True)
class _Way:
    """One of torch's ways to multiply."""

    name: str
    about: str
    #: Dtypes of a and b.
    pairs: tuple[tuple[str, str], ...]
    out_dtypes: tuple[str, ...]
    #: Multiples of m, n and k.
    multiples: tuple[int, int, int] = (1, 1, 1)
    #: float32 numbers lose their lower bits.
    tf32: bool = False
    #: Sums of FP8 products stay in the tensor core's registers.
    fast: bool = False
    #: float32 scales of 128 numbers.
    blockwise: bool = False
    #: The class that is declared.
    accumulator: str = ""

    @property
    def is_scaled(self) -> bool:
        """Whether FP8 numbers are multiplied."""
        return self.multiples != (1, 1, 1)


#: `_scaled_mm` takes one e5m2 side at most.
_FP8_PAIRS = (("float8_e4m3fn", "float8_e4m3fn"), ("float8_e5m2", "float8_e4m3fn"), ("float8_e4m3fn", "float8_e5m2"))

#: The first two are numbers that TF32 holds: they show how it adds; the third, what becomes of others.
_TF32_PAIRS = (("bfloat16", "bfloat16"), ("float16", "float16"), ("float32", "float32"))

_WAYS = (
    _Way("bfloat16", "matmul of bfloat16", (("bfloat16", "bfloat16"),), ("bfloat16",)),
    _Way("bfloat16-float32", "matmul of bfloat16, float32 out", (("bfloat16", "bfloat16"),), ("float32",)),
    _Way("float16", "matmul of float16", (("float16", "float16"),), ("float16",)),
    _Way("float16-float32", "matmul of float16, float32 out", (("float16", "float16"),), ("float32",)),
    _Way("float32", "matmul of float32", (("float32", "float32"),), ("float32",)),
    _Way("tf32", "matmul of float32 with TF32 allowed", _TF32_PAIRS, ("float32",), tf32=True),
    _Way(
        "fp8",
        "_scaled_mm, use_fast_accum=False",
        _FP8_PAIRS,
        ("float32", "bfloat16", "float16"),
        (16, 16, 16),
        accumulator="fused-f13-32-promoted-128",
    ),
    _Way(
        "fp8-fast",
        "_scaled_mm, use_fast_accum=True",
        _FP8_PAIRS,
        ("float32", "bfloat16", "float16"),
        (16, 16, 16),
        fast=True,
        accumulator="fused-f13-32",
    ),
    _Way(
        "fp8-blockwise",
        "_scaled_mm, a float32 scale for 128 numbers of either operand",
        (("fp8_e4m3-128-f32", "fp8_e4m3-128-f32"),),
        ("bfloat16",),
        (16, 16, 128),
        blockwise=True,
        accumulator="fused-f13-32-promoted-128",
    ),
    _Way(
        "fp8-tiles",
        "_scaled_mm, float32 scales for 128 numbers of a and for 128 x 128 of b",
        (("fp8_e4m3-128-f32", "fp8_e4m3-128-f32/128x128"),),
        ("bfloat16",),
        (16, 128, 128),
        blockwise=True,
        accumulator="fused-f13-32-promoted-128",
    ),
)


class _Products:
    def __init__(self, way: _Way) -> None:
        import torch

        if not torch.cuda.is_available():
            raise ImportError("torch finds no CUDA device")
        self.VERSION = f"{torch.__version__}, {torch.cuda.get_device_name()}"
        self._torch, self._way = torch, way
        self.OPERANDS = [{"a": a, "b": b} for a, b in way.pairs]
        self.OUT_DTYPES, self.ACCUMULATOR = way.out_dtypes, way.accumulator
        self.PRODUCT_SHAPES = dict(zip("mnk", way.multiples, strict=True))
        if way.tf32:
            self.CONTRACT = "tf32"
        # What torch allows by default is narrower than what this project tests.
        torch.backends.cuda.matmul.allow_tf32 = way.tf32
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False

    def matmul(self, a: Any, b: Any, out_dtype: str) -> Any:
        """[m, n] in the output's dtype."""
        left, right = to_torch(a).cuda(), to_torch(b).cuda()
        wanted = getattr(self._torch, out_dtype)
        if self._way.tf32:
            left, right = left.float(), right.float()
        if wanted == left.dtype:
            return from_torch((left @ right.T).cpu())
        return from_torch(self._torch.mm(left, right.T, out_dtype=wanted).cpu())


class _Scaled(_Products):
    def matmul(self, a: Any, b: Any, out_dtype: str, alpha: float = 1.0) -> Any:
        """[m, n] in the output's dtype; alpha is the scale of a."""
        left, right = to_torch(a).cuda(), to_torch(b).cuda()
        return from_torch(
            self._torch._scaled_mm(
                left, right.T, scale_a=self._ones(1) * alpha, scale_b=self._ones(1), out_dtype=getattr(self._torch, out_dtype),
                use_fast_accum=self._way.fast,
            ).cpu()
        )  # fmt: skip

    def _ones(self, *shape: int) -> Any:
        return self._torch.ones(shape, device="cuda")


class _Blockwise(_Scaled):
    def matmul(self, a: Any, b: Any, out_dtype: str) -> Any:  # type: ignore[override]  # these kernels take no alpha
        """[m, n] in the output's dtype."""
        left, right = (to_torch(side.codes).cuda().view(self._torch.float8_e4m3fn) for side in (a, b))
        rows, columns = (to_torch(side.scales).cuda() for side in (a, b))
        # cuBLAS has scales of single rows in columns.
        scales = rows.T.contiguous().T, columns.T if len(columns) < len(right) else columns.T.contiguous()
        return from_torch(self._torch._scaled_mm(left, right.T, *scales, out_dtype=getattr(self._torch, out_dtype)).cpu())


def _make(way: _Way) -> _Products:
    return (_Blockwise if way.blockwise else _Scaled if way.is_scaled else _Products)(way)


_LIBRARY = Library(name="torch-cuda", requires="torch and an NVIDIA GPU", imports="torch")

ADAPTERS = tuple(
    _LIBRARY.target(f"torch-products-cuda-{way.name}", f"torch on an NVIDIA GPU: {way.about}", partial(_make, way), kept=Kept.PRODUCTS)
    for way in _WAYS
)
