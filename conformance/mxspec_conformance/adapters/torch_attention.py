"""torch's attention on a CPU and on an NVIDIA GPU, and its grouped product: sequences are taken out of their pages, one by one."""

from __future__ import annotations

from functools import partial
from typing import Any

from mxspec_conformance.adapters._convert import from_torch, to_torch
from mxspec_conformance.adapters.registry import Kept, Library

_DTYPES = ("bfloat16", "float16")


class _Attention:
    """`scaled_dot_product_attention`, causal by its own flag where both ends begin together, or else by a mask."""

    ATTENTION = tuple(f"{dtype} @ {dtype}{word}" for dtype in _DTYPES for word in ("", "/top-left"))
    OUT_DTYPES = _DTYPES
    ARRAYS = "torch"

    def __init__(self, device: str) -> None:
        import torch

        if device == "cuda" and not torch.cuda.is_available():
            raise ImportError("torch finds no NVIDIA GPU")
        self.VERSION, self.NAME = torch.__version__, f"torch-attention{'-cuda' * (device == 'cuda')}"
        self._torch, self._device = torch, device

    def attention(
        self, q: Any, k: Any, v: Any, starts: Any, lengths: Any, attention: str, out_dtype: str,
        page_table: Any, causal: bool = False, window: int = 0, scale: float | None = None,
    ) -> Any:  # fmt: skip
        """The outputs of all queries."""
        torch = self._torch
        out = torch.zeros(q.shape, dtype=getattr(torch, out_dtype))
        of_torch = causal and not window and "top-left" in attention
        for n, length in enumerate(lengths.tolist()):
            mine = slice(int(starts[n]), int(starts[n + 1]))
            sizes = mine.stop - mine.start, length
            if not min(sizes):
                continue
            keys, values = (pages[page_table[n]].reshape(-1, *pages.shape[2:])[:length] for pages in (k, v))
            sides = (array.transpose(0, 1)[None].to(self._device) for array in (q[mine], keys, values))
            mask = None
            if (causal or window) and not of_torch:
                last = torch.arange(sizes[0])[:, None] + (0 if "top-left" in attention else length - sizes[0])
                place = torch.arange(length)
                mask = ((place <= last) | (not causal)) & ((place > last - window) | (not window))
                mask = mask.to(self._device)
            found = torch.nn.functional.scaled_dot_product_attention(
                *sides, attn_mask=mask, is_causal=of_torch, scale=scale, enable_gqa=q.shape[1] != k.shape[2]
            )
            out[mine] = found[0].transpose(0, 1).to(out.dtype).cpu()
        return out


class _Grouped:
    """`_grouped_mm` of bfloat16, which takes where the rows of each expert end."""

    GROUPED = ("bfloat16 @ bfloat16 : offsets",)
    OUT_DTYPES = ("bfloat16",)
    PRODUCT_SHAPES = {"n": 8, "k": 8}  # noqa: RUF012 - rows of 16 bytes
    NAME = "torch-grouped-cuda"

    def __init__(self) -> None:
        import torch

        if not torch.cuda.is_available():
            raise ImportError("torch finds no NVIDIA GPU")
        self.VERSION, self._torch = torch.__version__, torch

    def grouped_matmul(self, a: Any, b: Any, groups: Any, form: str, out_dtype: str) -> Any:
        """[rows, n]."""
        ends, rows, matrices = to_torch(groups[1:], "cuda"), to_torch(a, "cuda"), to_torch(b, "cuda")
        return from_torch(self._torch._grouped_mm(rows, matrices.transpose(-2, -1), offs=ends))


_CPU, _CUDA = (
    Library(name=f"torch-attention{device}", requires=f"torch{words}", imports="torch")
    for device, words in (("", ""), ("-cuda", " and an NVIDIA GPU"))
)
ADAPTERS = (
    _CPU.target("torch-attention", "torch on a CPU: attention of 16-bit numbers", partial(_Attention, "cpu"), kept=Kept.PRODUCTS),
    _CUDA.target("torch-attention-cuda", "torch on an NVIDIA GPU: attention of 16-bit numbers", partial(_Attention, "cuda"), kept=Kept.PRODUCTS),
    _CUDA.target("torch-grouped-cuda", "torch on an NVIDIA GPU: _grouped_mm of bfloat16", _Grouped, kept=Kept.PRODUCTS),
)  # fmt: skip
