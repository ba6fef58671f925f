"""A `matmul` with an epilogue, of which one part is changed: what the tests of products plant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from mxspec_lab.products.kernels import OUTPUTS, Kernel, finish_float32

E4M3, E5M2, FP4, INT8, NVFP4 = "mxfp8_e4m3", "mxfp8_e5m2", "mxfp4", "mxint8", "nvfp4"
ZERO, BIAS = "int4-g64-zero-float16", "int4-g64-bias-float16"
ALL = ("float32", "bfloat16", "float16")
BFLOAT16 = ml_dtypes.bfloat16
_PLAIN = Kernel(name="plain")


def read(side: Any) -> Any:
    """The numbers of a side in float64; None: it is sparse."""
    if isinstance(side, np.ndarray):
        return side.astype(np.float64)
    if side.format.startswith("int"):
        q, s = np.asarray(side.codes).astype(np.float64), np.repeat(np.asarray(side.scales).astype(np.float64), 64, axis=1)
        offsets = np.repeat(np.asarray(side.offsets).astype(np.float64), 64, axis=1)
        return (q - offsets) * s if side.biases is None else q * s + offsets
    return None if side.values is not None else _PLAIN.decode(side, "")


def multiply(x: Any, w: Any) -> Any:
    """Their sums, by NumPy in float32."""
    return (x.astype(np.float32) @ w.astype(np.float32).T).astype(np.float64)


@dataclass
class Call:
    """One call: its sides a and b, their numbers x and w, what is added, and what the target remembers."""

    a: Any
    b: Any
    x: Any
    w: Any
    scale: float
    alpha: float | None
    beta: float | None
    c: Any
    bias: Any
    out: str
    kept: dict[Any, Any]
    sum: Any = None

    def finish(self) -> Any:
        """The outputs."""
        total = multiply(self.x, self.w) if self.sum is None else self.sum
        return finish_float32(total, self.scale, self.alpha, self.beta, self.c, self.bias, self.out)


#: What is wrong: parts of the call by their names, or the outputs; None: nothing.
Change = Callable[[Call], Any]


@dataclass
class Target:
    """A right product but for a change."""

    change: Change = lambda call: None
    a: str = E4M3
    b: str = ""
    OUT_DTYPES: tuple[str, ...] = ("float32",)
    NAME: str = "changed"
    VERSION: str = "1"
    kept: dict[Any, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.OPERANDS = {"a": self.a, "b": self.b or self.a}
        self.CONTRACT = "exact" if self.b in (ZERO, BIAS) else ""

    def matmul(
        self, a: Any, b: Any, out_dtype: str, alpha: float | None = None, beta: float | None = None, c: Any = None, bias: Any = None
    ) -> Any:
        with np.errstate(all="ignore"):
            scale = float(np.prod([np.float32(getattr(x, "tensor_scale", None) or 1) for x in (a, b)], dtype=np.float64))
            call = Call(a, b, read(a), read(b), scale, alpha, beta, c, bias, out_dtype, self.kept)
            changed = self.change(call)
            if isinstance(changed, np.ndarray):
                return changed
            for name, value in (changed or {}).items():
                setattr(call, name, value)
            return call.finish()


def in_shape(holds: Callable[[int, int, int], bool], change: Change) -> Change:
    """The change in some shapes (m, n, k) alone."""
    return lambda call: change(call) if holds(len(call.x), len(call.w), call.x.shape[1]) else None


def given(change: Callable[[Any], Any], value: Any) -> Any:
    """The changed value, where there is one."""
    return None if value is None else change(value)


def half(x: Any) -> Any:
    """Rounded to float16."""
    return x.astype(np.float16).astype(np.float64)


def drop(call: Call, where: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """Sums of some rows and columns are zero."""
    total = multiply(call.x, call.w)
    return {"sum": np.where(where(*np.indices(total.shape)), 0, total)}


__all__ = ["ALL", "BFLOAT16", "BIAS", "E4M3", "E5M2", "FP4", "INT8", "NVFP4", "OUTPUTS", "ZERO", "Call", "Change", "Target", "drop", "given", "half",
           "in_shape", "multiply", "read"]  # fmt: skip
