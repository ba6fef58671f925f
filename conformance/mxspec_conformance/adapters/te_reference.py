"""Transformer Engine's Python reference of NVFP4 (`NVFP4QuantizerRef`), plain and with Four-over-Six; on a CPU.

The environment variable MXSPEC_TE_SOURCE names the root of a Transformer Engine source tree, from 2.10 on, for
Four-over-Six from 2.17 on. Only the reference's own file and its two pure Python neighbours are imported; the
rest of the package needs CUDA and is absent. The tensor scale is the tensor's largest magnitude. The reference
has no form without one and no dequantizer.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

from mxspec_conformance.adapters._convert import decode_in_pairs, encode_in_pairs, to_torch, unpack_nibbles
from mxspec_conformance.adapters.registry import TORCH, Adapter, Library, Source

_SOURCE = Source("MXSPEC_TE_SOURCE", "a checkout of NVIDIA/TransformerEngine, 2.17 or later")
#: The reference's module by release: 2.19 and later, 2.16 to 2.18, 2.10 to 2.15.
_MODULES = ("reference_nvfp4", "quantization_ref_nvfp4", "quantization_nvfp4")


class _Nvfp4:
    """NVFP4 under some of the quantizer's options."""

    FORMATS: tuple[str, ...] = ("nvfp4",)
    DTYPES = ("float32", "float16", "bfloat16")
    TENSOR_SCALE = "amax"

    def __init__(self, **options: Any) -> None:
        import torch

        self._torch = torch
        self._reference, self.VERSION = _import_reference()
        self._options = options

    def _run(self, x: Any, amax: float, tile: tuple[int, int], **options: Any) -> tuple[Any, Any]:
        """Codes and scales in tiles of some rows by some columns."""
        packed, scales = self._reference.NVFP4QuantizerRef._quantize_blockwise_reference(
            to_torch(x), self._torch.tensor([amax], dtype=self._torch.float32), tile[1], tile[0], eps=0.0, **options
        )
        return unpack_nibbles(packed.numpy()), scales.contiguous()

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None, block: tuple[int, int] | None = None) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/16], or of tiles of 16 x 16."""
        if tensor_scale is None:
            raise NotImplementedError("the reference has no form without a tensor scale")
        codes, scales = self._run(x, tensor_scale, block or (1, 16), pow_2_scales=False, **self._options)
        return codes, scales.view(self._torch.uint8).numpy()

    def tensor_scale(self, x: Any, fmt: str) -> float:
        """The tensor's largest magnitude, as the quantizer takes it."""
        if fmt != "nvfp4":
            raise NotImplementedError("only nvfp4 has a tensor scale")
        quantizer = self._reference.NVFP4QuantizerRef(dtype=None, rowwise=True, columnwise=False)
        return float(quantizer.quantize(to_torch(x)).global_amax_row.item())


class _Reference(_Nvfp4):
    """NVFP4 by default, MXFP4 by the option `pow_2_scales`, and the casts of elements."""

    FORMATS = ("mxfp4", "nvfp4")

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None, block: tuple[int, int] | None = None) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/block]."""
        if fmt == "nvfp4":
            return super().quantize(x, fmt, tensor_scale, block)
        if tensor_scale is not None or block not in (None, (1, 32)):
            raise NotImplementedError("mxfp4 has neither a tensor scale nor other blocks than 1 x 32")
        codes, scales = self._run(x, 0.0, (1, 32), pow_2_scales=True)
        return codes, scales.to(self._torch.float8_e8m0fnu).view(self._torch.uint8).numpy()

    def encode(self, x: Any, element: str) -> Any:
        """Code of each value."""
        if element != "e2m1":
            raise NotImplementedError(f"the reference has no encoder for {element}")
        return encode_in_pairs(self._reference.cast_to_fp4x2, x)

    def decode(self, codes: Any, element: str) -> Any:
        """float32 value of each code."""
        if element != "e2m1":
            raise NotImplementedError(f"the reference has no decoder for {element}")
        return decode_in_pairs(lambda packed: self._reference.cast_from_fp4x2(packed, self._torch.float32), codes)


def _import_reference() -> tuple[Any, str]:
    """The reference's module, with stand-ins for the packages around it that need CUDA, and its version."""
    root = _SOURCE.find()
    package = root / "transformer_engine"
    recipes = package / "pytorch" / "custom_recipes"
    name = next((m for m in _MODULES if (recipes / f"{m}.py").is_file()), None)
    if name is None:
        raise ImportError(f"{_SOURCE.variable} is {root}, where {recipes} holds none of {', '.join(_MODULES)}")
    if "transformer_engine" not in sys.modules:
        _stub("transformer_engine", package)
        _stub("transformer_engine.pytorch", package / "pytorch")
        _stub("transformer_engine.pytorch.custom_recipes", recipes)
        _stub("transformer_engine.pytorch.tensor")
        _stub("transformer_engine.pytorch.tensor.utils", is_custom=lambda _: True)
        storage = type("QuantizedTensorStorage", (), {})
        _stub("transformer_engine.pytorch.quantized_tensor", QuantizedTensorStorage=storage, Quantizer=_QuantizerBase)
    module = import_module(f"transformer_engine.pytorch.custom_recipes.{name}")
    return module, (root / "build_tools" / "VERSION.txt").read_text().strip()


def _stub(name: str, path: Path | None = None, **attributes: Any) -> None:
    module = ModuleType(name)
    if path is not None:
        module.__path__ = [str(path)]
    module.__dict__.update(attributes)
    sys.modules[name] = module


class _QuantizerBase:
    """What the reference's base class stores; the real one imports CUDA extensions."""

    def __init__(self, *, rowwise: bool, columnwise: bool) -> None:
        self.rowwise_usage, self.columnwise_usage = rowwise, columnwise


def _profiles(target: Any) -> Mapping[str, str]:
    """The order of the block scale's operations changed in 2.14."""
    release = tuple(int(part) for part in target.VERSION.split(".")[:2])
    nvfp4 = "te-2.14/nvfp4/reference" if release >= (2, 14) else "te-2.8/nvfp4/reference"
    return {"nvfp4": nvfp4, "mxfp4": "te-2.8/mxfp4/reference-pow2"}


_LIBRARY = Library(name="te-reference", requires="transformer_engine sources", source=_SOURCE, packages=(TORCH,))


def _four_over_six(norm: str, *, fp16_error: bool, largest: int) -> Adapter:
    """An error norm, the error's domain and the largest scale; the defaults are MAE, float32 and 448."""
    setting = norm.lower() + "-fp16-error" * fp16_error + "-256" * (largest == 256)
    options = {
        "nvfp4_use_4over6": True,
        "nvfp4_e4m3_max": largest,
        "nvfp4_4over6_err_mode": norm,
        "nvfp4_4over6_err_use_fast_math": fp16_error,
    }
    return _LIBRARY.target(
        "te-reference-4over6" + (f"-{setting}" if setting != "mae" else ""),
        f"Transformer Engine's Python reference, 4over6 {setting}",
        partial(_Nvfp4, **options),
        {"nvfp4": f"te-2.17/nvfp4/4over6-reference/{setting}"},
    )


ADAPTERS = (
    _LIBRARY.target("te-reference", "Transformer Engine's Python reference", _Reference, _profiles),
    *(
        _four_over_six(norm, fp16_error=fp16_error, largest=largest)
        for norm, fp16_error, largest in product(("MAE", "MSE"), (False, True), (448, 256))
    ),
)
