"""oneDNN on the CPU: destination scales that it computes itself, `dynamic_mx` (E8M0) and `dynamic_fp` (E4M3).

oneDNN quantizes what a matmul returns. Here each block is the weights [1, k] of a matmul whose source is the number 1: the sums
have one term, so that what is quantized is the block itself, but that a zero loses its sign (0 + -0). The C library of the wheel
is called through ctypes; its CPU engine needs Intel's OpenCL runtime, which the wheel installs.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files, version
from pathlib import Path
from typing import Any

import numpy as np

from mxspec.formats import get_block
from mxspec_conformance.adapters._convert import unpack_nibbles
from mxspec_conformance.adapters.registry import Library

#: Values of `dnnl_data_type_t` and others, from the headers of the wheel `onednn-devel` 2026.1.0.
_DTYPES = {"bfloat16": 2, "float32": 3}
_E5M2, _E4M3, _E8M0, _E2M1 = 9, 10, 13, 14
_DYNAMIC_MX, _DYNAMIC_FP = 2, 3
_CPU, _IN_ORDER, _TAG_ABC = 1, 1, 4
_SRC, _DST, _WEIGHTS, _SCALES = 1, 17, 33, 4096
#: What libdnnl.so needs and does not find by itself, in the order of loading.
_NEEDED = (
    "libtbb.so.12", "libintlc.so.5", "libimf.so", "libirng.so", "libsvml.so", "libumf.so.1", "libur_loader.so.0", "libsycl.so.9"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Destination:
    """A destination: its element and scale types, and the rule of its scales."""

    element: int
    scale: int
    mode: int


_FORMATS = {
    "mxfp4": _Destination(_E2M1, _E8M0, _DYNAMIC_MX),
    "mxfp8_e4m3": _Destination(_E4M3, _E8M0, _DYNAMIC_MX),
    "mxfp8_e5m2": _Destination(_E5M2, _E8M0, _DYNAMIC_MX),
    "nvfp4": _Destination(_E2M1, _E4M3, _DYNAMIC_FP),
}


class _Argument(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_int), ("memory", ctypes.c_void_p)]


class _OneDnn:
    FORMATS = tuple(_FORMATS)
    DTYPES = tuple(_DTYPES)

    def __init__(self) -> None:
        self.VERSION = version("onednn")
        self._library = _load_library()
        self._engine, self._stream = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("dnnl_engine_create", ctypes.byref(self._engine), _CPU, ctypes.c_size_t(0))
        self._call("dnnl_stream_create", ctypes.byref(self._stream), self._engine, ctypes.c_uint(_IN_ORDER))

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._library, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} returned status {status}")

    def _make(self, stack: ExitStack, kind: str, create: str, *arguments: Any) -> ctypes.c_void_p:
        """A handle, destroyed when the stack is closed."""
        handle = ctypes.c_void_p()
        self._call(create, ctypes.byref(handle), *arguments)
        stack.callback(getattr(self._library, f"dnnl_{kind}_destroy"), handle)
        return handle

    def _describe(self, stack: ExitStack, shape: tuple[int, ...], dtype: int) -> ctypes.c_void_p:
        dims = (ctypes.c_int64 * 12)(*shape)
        return self._make(stack, "memory_desc", "dnnl_memory_desc_create_with_tag", len(shape), dims, dtype, _TAG_ABC)

    def quantize(self, x: Any, fmt: str, tensor_scale: float | None = None) -> tuple[Any, Any]:
        """Codes [rows, k], one per byte, and scale bytes [rows, k/block]."""
        if tensor_scale is not None:
            raise NotImplementedError("oneDNN's destination scales have one level")
        k, to, source = get_block(fmt).k, _FORMATS[fmt], _DTYPES[str(x.dtype)]
        weights = np.ascontiguousarray(x).reshape(-1, 1, k)
        n = len(weights)
        ones = np.ones((n, 1, 1), np.float32).astype(x.dtype)
        codes = np.zeros((n, k // 2 if to.element == _E2M1 else k), np.uint8)
        scales = np.zeros((n, 1), np.uint8)
        with ExitStack() as stack:
            shapes = ((_SRC, (n, 1, 1), source, ones), (_WEIGHTS, (n, 1, k), source, weights), (_DST, (n, 1, k), to.element, codes))
            described = {arg: self._describe(stack, shape, dtype) for arg, shape, dtype, _ in shapes}
            described[_SCALES | _DST] = self._describe(stack, (n, 1, 1), to.scale)
            attributes = self._make(stack, "primitive_attr", "dnnl_primitive_attr_create")
            group = (ctypes.c_int64 * 12)(1, k)
            self._call("dnnl_primitive_attr_set_scales_v3", attributes, _DST, 7, 2, group, to.scale, 0, to.mode)
            planned = self._make(
                stack, "primitive_desc", "dnnl_matmul_primitive_desc_create",
                self._engine, described[_SRC], described[_WEIGHTS], None, described[_DST], attributes,
            )  # fmt: skip
            primitive = self._make(stack, "primitive", "dnnl_primitive_create", planned)
            arrays = {arg: array for arg, _, _, array in shapes} | {_SCALES | _DST: scales}
            held = [
                _Argument(
                    arg,
                    self._make(stack, "memory", "dnnl_memory_create", described[arg], self._engine, array.ctypes.data_as(ctypes.c_void_p)),
                )
                for arg, array in arrays.items()
            ]
            self._call("dnnl_primitive_execute", primitive, self._stream, len(held), (_Argument * len(held))(*held))
            self._call("dnnl_stream_wait", self._stream)
        if to.element == _E2M1:
            codes = unpack_nibbles(codes)
        return codes.reshape(x.shape), scales.reshape(len(x), -1)


def _load_library() -> ctypes.CDLL:
    """libdnnl.so of the installed wheel, with what it needs."""
    try:
        listed = files("onednn") or []
    except PackageNotFoundError:
        raise ImportError("onednn is not installed") from None
    found = next((Path(str(f.locate())).resolve() for f in listed if f.name == "libdnnl.so.3"), None)
    if found is None:
        raise ImportError("the installed onednn has no libdnnl.so.3")
    os.environ.setdefault("OCL_ICD_FILENAMES", str(found.parent / "libintelocl.so"))
    for name in _NEEDED:
        ctypes.CDLL(str(found.parent / name), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(found))


ADAPTERS = (
    Library(name="onednn", requires="onednn", distribution="onednn", packages=("onednn==2026.1.0",)).target(
        "onednn",
        "oneDNN's dynamic destination scales",
        _OneDnn,
        {fmt: f"onednn-3.13/{fmt}" for fmt in _FORMATS if fmt != "nvfp4"},
        profiles_one_level={"nvfp4": "onednn-3.13/nvfp4"},
    ),
)
