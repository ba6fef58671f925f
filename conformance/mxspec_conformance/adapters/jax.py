"""JAX on the CPU: the block quantizer of `jax.nn.scaled_dot_general`, called eagerly and under `jax.jit`.

The public function quantizes and multiplies in one call; the quantizer inside it is called here, with the configuration that
`jax.nn.get_scaled_dot_general_config` gives. The tensor scale of NVFP4 is that configuration's `global_scale` (the decode
kind); without one it is 1. Blocks are given in calls of 64. JAX has no dequantizer, and its products need an accelerator.
"""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np

from mxspec.formats import get_block
from mxspec_conformance.adapters.registry import Adapter, Library

#: Blocks of one call. From 4096 elements on XLA's CPU backend computes maxima by another kernel, whose answer for a block
#: with a NaN depends on where the NaN lies.
_BLOCKS = 64
_MODES = {"mxfp8_e4m3": "mxfp8", "nvfp4": "nvfp4"}


class _Jax:
    TENSOR_SCALE = "decode"

    def __init__(self, *, jit: bool, dtypes: tuple[str, ...], formats: tuple[str, ...]) -> None:
        import jax
        from jax._src.cudnn import scaled_matmul_stablehlo

        self.VERSION = version("jax")
        self.DTYPES = dtypes
        self.FORMATS = formats
        self._jax: Any = jax
        self._config: Any = jax.nn.get_scaled_dot_general_config
        self._quantize: Any = scaled_matmul_stablehlo.quantize
        self._jit = jit

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/block]."""
        if tensor_scale is not None and fmt != "nvfp4":
            raise NotImplementedError("JAX has a tensor scale for nvfp4 only")
        scale = None if tensor_scale is None else self._jax.numpy.full((1,), tensor_scale, dtype=np.float32)

        def call(values: Any, given: Any) -> Any:
            return self._quantize(values, self._config(_MODES[fmt], given))

        run = self._jax.jit(call) if self._jit else call
        k = get_block(fmt).k
        blocks = x.reshape(-1, k)
        # One shape for all calls, since jit compiles for shapes.
        padded = np.concatenate([blocks, np.zeros((-len(blocks) % _BLOCKS, k), x.dtype)]).reshape(-1, _BLOCKS, k)
        parts = [run(self._jax.numpy.asarray(part)[None], scale) for part in padded]
        codes, scales = (np.concatenate([np.asarray(part[i])[0] for part in parts])[: len(blocks)].view(np.uint8) for i in (0, 1))
        return codes.reshape(x.shape), scales.reshape(len(x), -1)


_LIBRARY = Library(name="jax", requires="jax", imports="jax", packages=("jax==0.10.2",))


def _adapter(path: str, *dtypes: str) -> Adapter:
    """A way of calling it. MXFP8 computes in the dtype of its input: a target of its own for each 16-bit one."""
    main = "float32" in dtypes
    suffix = "" if main else f"/{dtypes[0]}"
    return _LIBRARY.target(
        "jax" + ("" if path == "eager" else "-jit") + suffix.replace("/", "-"),
        f"JAX's block quantizer in {dtypes[0]}, {'called eagerly' if path == 'eager' else 'under jax.jit'}",
        partial(_Jax, jit=path == "jit", dtypes=dtypes, formats=tuple(_MODES) if main else ("mxfp8_e4m3",)),
        {"mxfp8_e4m3": f"jax-0.10/mxfp8_e4m3/{path}{suffix}", **({"nvfp4": "jax-0.10/nvfp4"} if main else {})},
        profiles_one_level={"nvfp4": "jax-0.10/nvfp4"} if main else {},
    )


ADAPTERS = tuple(
    _adapter(path, *dtypes) for path in ("eager", "jit") for dtypes in (("float32", "float16", "bfloat16"), ("bfloat16",), ("float16",))
)
