"""An implementation as a test sees it: one format, NumPy arrays or torch tensors."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np

#: Functions that a test may take by name.
FUNCTIONS = ("quantize", "dequantize", "tensor_scale")
#: dtypes of torch that NumPy lacks -> how the same bits are read.
_BY_BITS = {"torch.bfloat16": ("int16", ml_dtypes.bfloat16)}


class Implementation:
    """An implementation of one block format. It does not say which one it is.

    quantize(x, fmt, *, tensor_scale, axis, pad, block) -> codes uint8 (one to a byte), scales uint8;
    dequantize(codes, scales, fmt, *, tensor_scale) -> float32; tensor_scale(x, fmt) -> float.
    Where torch tensors come in, torch tensors go out.
    """

    def __init__(self, target: Any, fmt: str) -> None:
        self.__target = target
        self.fmt = fmt
        #: What `tensor_scale` is: the largest magnitude of the tensor, or the encode scale.
        self.TENSOR_SCALE: str = getattr(target, "TENSOR_SCALE", "")
        #: How often each function was called.
        self.calls: Counter[str] = Counter()

    def quantize(self, x: Any, fmt: str | None = None, **options: Any) -> Any:
        """Codes and scales."""
        self.calls["quantize"] += 1
        array, back = _from_torch(x)
        codes, scales = self.__target.quantize(array, fmt or self.fmt, **options)
        return back(codes), back(scales)

    def dequantize(self, codes: Any, scales: Any, fmt: str | None = None, **options: Any) -> Any:
        """float32 values."""
        self.calls["dequantize"] += 1
        (c, back), (s, _) = _from_torch(codes), _from_torch(scales)
        return back(self.__target.dequantize(c, s, fmt or self.fmt, **options))

    def tensor_scale(self, x: Any, fmt: str | None = None) -> float:
        """The tensor scale of a tensor, in the kind that quantize and dequantize take."""
        self.calls["tensor_scale"] += 1
        return float(self.__target.tensor_scale(_from_torch(x)[0], fmt or self.fmt))


def _from_torch(x: Any) -> tuple[Any, Any]:
    """An array with the tensor's own strides, and the way back."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(x, torch.Tensor):
        return x, lambda answer: answer
    bits, dtype = _BY_BITS.get(str(x.dtype), (None, None))
    view = x.detach().cpu().view(getattr(torch, bits)) if bits else x.detach().cpu()
    # A tensor of its own storage is the base of what NumPy is given: strides stay what they are.
    whole = view.as_strided((view.untyped_storage().nbytes() // view.element_size(),), (1,), 0).numpy()
    array = np.ndarray(
        tuple(view.shape), whole.dtype, whole, view.storage_offset() * view.element_size(),
        tuple(n * view.element_size() for n in view.stride()),
    )  # fmt: skip
    return (array.view(dtype) if dtype else array), lambda answer: torch.from_numpy(np.array(answer))
