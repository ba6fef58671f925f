"""mmaemu: the bits of torch's FP8 products on an H100 PCIe and an RTX 4060, as its authors recorded them there, computed on the CPU."""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from typing import Any

from mxspec_conformance.adapters._convert import from_torch, to_torch
from mxspec_conformance.adapters.registry import Kept, Library

#: Name -> mmaemu's profile of a chip, use_fast_accum, in how many parts k is split and how their sums are added, the class that is declared.
WAYS: dict[str, tuple[str, bool, Any, str]] = {
    "hopper": ("hopper", False, 1, "fused-f13-32-promoted-128"),
    "hopper-fast": ("hopper", True, 1, "fused-f13-32"),
    "hopper-fast-split": ("hopper", True, (3, "contiguous"), "fused-f13-32"),
    "ada-fast": ("ada", True, 1, "fused-f13-16"),
}


class _Products:
    def __init__(self, way: str) -> None:
        import mmaemu
        import torch

        self._torch, self._library = torch, mmaemu
        self._profile, self._fast, self._split, self.ACCUMULATOR = WAYS[way]
        self.VERSION = version("mmaemu")
        pairs = (("float8_e4m3fn", "float8_e4m3fn"), ("float8_e5m2", "float8_e4m3fn"), ("float8_e4m3fn", "float8_e5m2"))
        self.OPERANDS = [{"a": a, "b": b} for a, b in pairs]
        self.OUT_DTYPES = ("float32", "bfloat16", "float16")
        self.PRODUCT_SHAPES = {"n": 16, "k": 16}

    def matmul(self, a: Any, b: Any, out_dtype: str, alpha: float = 1.0) -> Any:
        """[m, n] in the output's dtype; alpha is the scale of a."""
        scales = (self._torch.tensor(x, dtype=self._torch.float32) for x in (alpha, 1.0))
        return from_torch(
            self._library.scaled_mm(
                to_torch(a), to_torch(b).T, *scales, out_dtype=getattr(self._torch, out_dtype), use_fast_accum=self._fast,
                profile=self._profile, splitk=self._split,
            )
        )  # fmt: skip


_LIBRARY = Library(name="mmaemu", requires="mmaemu", imports="mmaemu")

ADAPTERS = tuple(
    _LIBRARY.target(
        f"mmaemu-{way}",
        f"mmaemu: torch's _scaled_mm on {chip}, use_fast_accum={fast}{'' if split == 1 else f', k split in {split[0]}'}",
        partial(_Products, way),
        kept=Kept.PRODUCTS,
    )
    for way, (chip, fast, split, _) in WAYS.items()
)
