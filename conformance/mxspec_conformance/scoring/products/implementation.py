"""A kernel as a test sees it: plain codes and scales, NumPy arrays or torch tensors."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec.formats import get_block
from mxspec_conformance.targets.laying_out import hand_over
from mxspec_conformance.targets.operands import Numbers, parse_operand


class ProductImplementation:
    """A product of one pair of formats, `a @ b`. It does not say which one it is, nor whether it is right.

    matmul(a_codes, a_scales, b_codes, b_scales, out_dtype="float32", *, a_tensor_scale, b_tensor_scale, alpha, beta, c, bias) -> [m, n]:
    alpha a b^T + beta c + bias, with a [m, k] and b [n, k]. Codes are one to a byte, or two FP4 codes, the first in the low half; scales are
    [rows, k / block] by row; bytes, or dtypes of their width. Tensor scales multiply. Where torch tensors come in, a torch tensor goes out.
    """

    functions = ("matmul",)

    def __init__(self, kernel: Any, pair: str) -> None:
        self.__kernel = kernel
        #: The pair of formats, `a@b`.
        self.fmt = pair
        #: How often each function was called.
        self.calls: Counter[str] = Counter()

    def matmul(
        self, a_codes: Any, a_scales: Any, b_codes: Any, b_scales: Any, out_dtype: Any = "float32", *, a_tensor_scale: Any = None,
        b_tensor_scale: Any = None, alpha: Any = None, beta: Any = None, c: Any = None, bias: Any = None,
    ) -> Any:  # fmt: skip
        """The product in out_dtype: float32, float16 or bfloat16, by name or as a dtype."""
        self.calls["matmul"] += 1
        sides = [
            hand_over(_as_numbers(text, codes, scales, tensor))
            for text, codes, scales, tensor in zip(
                self.__kernel.product, (a_codes, b_codes), (a_scales, b_scales), (a_tensor_scale, b_tensor_scale), strict=True
            )
        ]  # fmt: skip
        name = str(out_dtype).rpartition(".")[2] if not isinstance(out_dtype, type) else np.dtype(out_dtype).name
        numbers = [None if x is None else float(x) for x in (alpha, beta)]
        arrays = [None if x is None else _floats(x) for x in (c, bias)]
        with np.errstate(all="ignore"):
            y = np.asarray(self.__kernel.matmul(*sides, name, *numbers, *arrays))
        return _to_torch(y) if type(a_codes).__module__.startswith("torch") else y


def _as_numbers(text: str, codes: Any, scales: Any, tensor: Any) -> Numbers:
    spec = parse_operand(text)
    block = get_block(spec.format)
    c, s = _bytes(codes), _bytes(scales)
    if block.element.bits == 4 and c.shape[1] * 2 == s.shape[1] * block.k:
        c = np.stack([c & 15, c >> 4], axis=-1).reshape(len(c), -1)
    if c.ndim != 2 or s.shape != (len(c), c.shape[1] // block.k) or c.shape[1] % block.k:
        raise ValueError(f"{spec.format}: codes {c.shape} and scales {s.shape}; needed are [rows, k] and [rows, k / {block.k}]")
    scale = (1.0 if tensor is None else float(tensor)) if block.has_tensor_scale else None
    return Numbers(spec=spec, codes=c, scales=s, tensor_scale=scale)


def _bytes(x: Any) -> npt.NDArray[np.uint8]:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        x = x.detach().cpu().contiguous().view(torch.uint8).numpy()
    array = np.ascontiguousarray(x)
    if array.dtype.itemsize != 1:
        raise TypeError(f"codes and scales are bytes; given {array.dtype}")
    return array.view(np.uint8)


def _floats(x: Any) -> npt.NDArray[Any]:
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(x, torch.Tensor):
        return np.asarray(x)
    x = x.detach().cpu().contiguous()
    array: npt.NDArray[Any] = x.view(torch.int16).numpy().view(ml_dtypes.bfloat16) if x.dtype == torch.bfloat16 else x.numpy()
    return array


def _to_torch(y: npt.NDArray[Any]) -> Any:
    import torch

    if y.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(y.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(np.array(y))
