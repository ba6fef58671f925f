"""Brevitas' tests/brevitas/core/test_quant_mx.py: `--replace brevitas.nn.quant_activation.QuantIdentity=tests/suites/brevitas_mx.py::identity`.

Its inputs are Hypothesis's: the same for every implementation, and what fails is not made smaller, which takes a minute each.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import Phase, settings

# The file's own profile, which it registers later, inherits this.
settings.register_profile("as they come", phases=[Phase.generate], database=None, derandomize=True)
settings.load_profile("as they come")

#: Bits of the exponent and of the fraction.
_BITS = {"mxfp4": (2, 1), "mxfp6_e2m3": (2, 3), "mxfp6_e3m2": (3, 2), "mxfp8_e4m3": (4, 3), "mxfp8_e5m2": (5, 2)}


def identity(impl: Any) -> type:
    """The layer that returns its input, there and back, in one format."""

    class Identity:
        def __init__(self, _: Any, *, exponent_bit_width: int, mantissa_bit_width: int, **options: Any) -> None:
            if (exponent_bit_width, mantissa_bit_width) != _BITS.get(impl.fmt):
                raise NotImplementedError(f"{impl.fmt} is scored: name the test of its bits")

        def eval(self) -> None:
            """As a layer has it."""

        def __call__(self, x: Any) -> Any:
            return SimpleNamespace(value=impl.dequantize(*impl.quantize(x)))

    return Identity
