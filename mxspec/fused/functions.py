"""What is computed before a fused quantizer quantizes: the functions by name, and how their inputs lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.enums import StrEnum
from mxspec.formats import BlockFormat, get_block, refuse_whole
from mxspec.suggestions import refuse_name

Array = npt.NDArray[Any]


class Kind(StrEnum):
    """What a function is."""

    #: x times a factor that a sigmoid, erf or tanh gives.
    SILU = "silu"
    GELU = "gelu"
    GELU_TANH = "gelu_tanh"
    #: Gate and up clamped, gate * sigmoid(1.702 gate) * (up + 1), as in gpt-oss.
    SWIGLU_OAI = "swiglu_oai"
    #: x / sqrt(mean(x^2) + eps) * weight.
    RMSNORM = "rmsnorm"
    HADAMARD = "hadamard"


class Inputs(StrEnum):
    """Where gate and up lie: there is no up; the halves of a row; even and odd columns; an array each."""

    WHOLE = "whole"
    HALVES = "halves"
    INTERLEAVED = "interleaved"
    SPLIT = "split"


#: The clamp and the factor of `SWIGLU_OAI`; the eps of a norm where a target takes none.
LIMIT, ALPHA, EPS = 7.0, float(np.float32(1.702)), float(np.float32(1e-6))


@dataclass(frozen=True, slots=True)
class FusedFunction:
    """One function."""

    name: str
    kind: Kind
    inputs: Inputs = Inputs.WHOLE
    #: A norm takes the sum of x and a residual; it multiplies by weight + 1.
    adds: bool = False
    plus_one: bool = False
    #: Neighbouring numbers that a Hadamard matrix mixes, and whether it is divided by sqrt(size).
    size: int = 1
    scaled: bool = False
    #: Where gate and up of `SWIGLU_OAI` are clamped.
    limit: float = LIMIT
    #: Whether a sigmoid is (1 + tanh(x / 2)) / 2, by the fast instruction: no declared function is such, a wrong one may be.
    by_tanh: bool = False
    #: The factor of x^3 in `GELU_TANH`.
    cubic: float = 0.044715
    #: What a norm adds in float32 in place of the squares of a row, along the last axis; as `by_tanh`.
    add: Callable[[Array], Array] | None = None

    @property
    def multiplies(self) -> bool:
        """Whether there is an up."""
        return self.inputs is not Inputs.WHOLE

    @property
    def needs(self) -> tuple[str, ...]:
        """Options without which it cannot be called."""
        return ("up",) * (self.inputs is Inputs.SPLIT) + ("residual",) * self.adds

    def count_columns(self, columns: int) -> int:
        """The columns of what is quantized, for so many of x."""
        return columns // 2 if self.inputs in (Inputs.HALVES, Inputs.INTERLEAVED) else columns

    def lay(self, given: Mapping[str, Array]) -> tuple[Array, dict[str, Array]]:
        """x, and the other arrays of a call, from arrays by name: x, up, residual [rows, columns], weight [columns]."""
        x, rest = given["x"], {name: array for name, array in given.items() if name != "x"}
        if self.inputs is Inputs.HALVES:
            x = np.concatenate([x, rest.pop("up")], axis=1)
        elif self.inputs is Inputs.INTERLEAVED:
            x = np.stack([x, rest.pop("up")], axis=2).reshape(len(x), -1)
        return x, rest

    def take(self, x: Array, options: Mapping[str, Any]) -> dict[str, Array]:
        """The arrays by name that a call holds."""
        named = {name: np.asarray(array) for name, array in options.items() if array is not None}
        if self.inputs is Inputs.HALVES:
            return dict(zip(("x", "up"), np.split(x, 2, axis=1), strict=True)) | named
        return ({"x": x[:, ::2], "up": x[:, 1::2]} if self.inputs is Inputs.INTERLEAVED else {"x": x}) | named


def _list_functions() -> list[FusedFunction]:
    found = [FusedFunction(kind, kind) for kind in (Kind.SILU, Kind.GELU, Kind.GELU_TANH)]
    for kind in (Kind.SILU, Kind.GELU, Kind.GELU_TANH, Kind.SWIGLU_OAI):
        base = kind.value if kind is Kind.SWIGLU_OAI else f"{kind}_mul"
        found += [FusedFunction(base + (i is not Inputs.HALVES) * f"-{i}", kind, i) for i in list(Inputs)[1:]]
    flags = [(adds, plus) for adds in (False, True) for plus in (False, True)]
    found += [FusedFunction(f"{'add_' * a}rmsnorm{'-plus1' * p}", Kind.RMSNORM, adds=a, plus_one=p) for a, p in flags]
    matrices = [(n, scaled) for n in (16, 32, 64, 128) for scaled in (True, False)]
    return found + [FusedFunction(f"hadamard-{n}{'' if s else '-unscaled'}", Kind.HADAMARD, size=n, scaled=s) for n, s in matrices]


#: Name -> function.
FUNCTIONS = {f.name: f for f in _list_functions()}


def read_fused(name: str) -> tuple[FusedFunction, BlockFormat]:
    """The function and the format of a declared name, such as `silu_mul-mxfp8_e4m3`. Raises ValueError for another name."""
    parts = name.split("-")
    for at in range(len(parts) - 1, 0, -1):
        if (function := FUNCTIONS.get("-".join(parts[:at]))) is not None:
            fmt = get_block("-".join(parts[at:]))
            refuse_whole(fmt, "fused quantizers")
            return function, fmt
    text = f"{name!r} is no fused quantizer; write FUNCTION-FORMAT, such as silu_mul-mxfp8_e4m3; functions are {', '.join(FUNCTIONS)}"
    raise refuse_name(name, text)
