"""The bit-exact model of microscaling numbers: formats, rounding, scale rules, block quantization.

>>> import numpy as np, mxspec
>>> t = mxspec.quantize(np.linspace(-1, 1, 32, dtype=np.float32), "mxfp4")
>>> t.codes.dtype, t.codes.shape, t.scales.shape
(dtype('uint8'), (32,), (1,))
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from mxspec import environment  # first: it checks what constants of other modules are computed in
from mxspec._version import __version__

if TYPE_CHECKING:
    from mxspec.adjacent import ADJACENT, register_adjacent
    from mxspec.blocks import BlockTensor, dequantize, quantize
    from mxspec.calibration import RunningAmax
    from mxspec.elements import decode, encode
    from mxspec.finding import find_codes
    from mxspec.formats import (
        BLOCKS,
        ELEMENTS,
        SCALES,
        BlockFormat,
        ElementFormat,
        ScalarFormat,
        ScaleFormat,
        get_block,
        get_scalar,
        register_block,
        register_scalar,
    )
    from mxspec.profiles import Profile, default_profile, get_profile, list_profiles, register_profile
    from mxspec.rounding import NanPolicy, Overflow, Rounding
    from mxspec.tensorscale import TensorScale, tensor_scale

#: Public name -> the module that holds it, imported when the name is first used: NumPy is not needed to print a version.
_HOMES = {
    name: module
    for module, names in {
        "adjacent": ("ADJACENT", "register_adjacent"),
        "blocks": ("BlockTensor", "dequantize", "quantize"),
        "calibration": ("RunningAmax",),
        "elements": ("decode", "encode"),
        "finding": ("find_codes",),
        "formats": (
            "BLOCKS",
            "BlockFormat",
            "ELEMENTS",
            "ElementFormat",
            "SCALES",
            "ScalarFormat",
            "ScaleFormat",
            "get_block",
            "get_scalar",
            "register_block",
            "register_scalar",
        ),
        "profiles": ("Profile", "default_profile", "get_profile", "list_profiles", "register_profile"),
        "rounding": ("NanPolicy", "Overflow", "Rounding"),
        "tensorscale": ("TensorScale", "tensor_scale"),
    }.items()
    for name in names
}

FloatEnvironmentError = environment.FloatEnvironmentError

__all__ = [
    "ADJACENT",
    "BLOCKS",
    "ELEMENTS",
    "SCALES",
    "BlockFormat",
    "BlockTensor",
    "ElementFormat",
    "FloatEnvironmentError",
    "NanPolicy",
    "Overflow",
    "Profile",
    "Rounding",
    "RunningAmax",
    "ScalarFormat",
    "ScaleFormat",
    "TensorScale",
    "__version__",
    "decode",
    "default_profile",
    "dequantize",
    "encode",
    "find_codes",
    "get_block",
    "get_profile",
    "get_scalar",
    "list_profiles",
    "quantize",
    "register_adjacent",
    "register_block",
    "register_profile",
    "register_scalar",
    "tensor_scale",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES and (name.startswith("_") or find_spec(f"{__name__}.{name}") is None):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    environment.check_environment()
    if name not in _HOMES:
        return import_module(f"{__name__}.{name}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
