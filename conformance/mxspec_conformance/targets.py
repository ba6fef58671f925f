"""Targets: implementations under test, and what they say that they can do.

A target is a Python file, a module, the name of a known library, or any object with the functions of the interface. A
function's presence is the capability; a keyword in its signature (`axis`, `pad`, `rounding`, `block`) is a further one.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec.formats import BLOCKS, ELEMENTS, SCALES, BlockFormat, get_block
from mxspec.layouts import get_layout, list_layouts
from mxspec.profiles.schema import TensorScaleKind
from mxspec_conformance.interface import OPERATIONS

FUNCTIONS = tuple(OPERATIONS)

#: How the names of shared libraries end.
LIBRARY_SUFFIXES = (".so", ".dylib", ".dll")

CODE_LAYOUTS = ("unpacked", "nibble-low")
SCALE_LAYOUTS = ("row-major", "128x4")

#: What an output buffer holds before the target writes into it.
_DIRT = 0xA5

_DTYPES: dict[str, Any] = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


class TargetError(Exception):
    """A target cannot be loaded, or what it says of itself is wrong. The message says what to do."""


class BadReturn(Exception):
    """A target returned something else than the interface asks for."""


class RemoteError(Exception):
    """A target that is no Python object says that it failed."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A library that the judge has a target for."""

    name: str
    module: str
    #: Distribution to install.
    requires: str
    about: str


KNOWN: dict[str, Known] = {
    k.name: k
    for k in (
        Known(name="mxspec", module="mxspec_py", requires="mxspec", about="this model itself"),
        Known(name="gguf", module="gguf_py", requires="gguf", about="llama.cpp's Python package"),
        Known(name="gfloat", module="gfloat_py", requires="gfloat", about="Graphcore's format library"),
        Known(name="mlx", module="mlx_py", requires="mlx", about="Apple's array framework"),
        Known(name="ml_dtypes", module="ml_dtypes_py", requires="ml_dtypes", about="NumPy scalar types (elements only)"),
        Known(name="torchao", module="torchao_floor", requires="torchao", about="torchao, scale mode FLOOR, eager"),
        Known(name="torchao-rceil", module="torchao_rceil", requires="torchao", about="torchao, scale mode RCEIL, eager"),
        Known(name="torchao-even", module="torchao_even", requires="torchao", about="torchao, scale mode EVEN, eager"),
        Known(name="torchao-ceil", module="torchao_ceil", requires="torchao", about="torchao, scale mode CEIL, eager"),
        Known(name="microxcaling", module="microxcaling_py", requires="mx", about="Microsoft's emulation"),
        Known(name="compressed-tensors", module="compressed_tensors_py", requires="compressed_tensors", about="vLLM's checkpoint library"),
        Known(name="modelopt", module="modelopt_py", requires="nvidia-modelopt", about="NVIDIA ModelOpt, dynamic"),
        Known(name="modelopt-static", module="modelopt_static_py", requires="nvidia-modelopt", about="NVIDIA ModelOpt, calibrated"),
        Known(name="auto-round", module="auto_round_py", requires="auto-round", about="Intel AutoRound, fake quantization"),
        Known(name="auto-round-export", module="auto_round_export", requires="auto-round", about="Intel AutoRound, exported codes"),
        Known(name="quark", module="quark_py", requires="amd-quark", about="AMD Quark downcast, ROUND_UP"),
        Known(name="quark-down", module="quark_down", requires="amd-quark", about="AMD Quark downcast, ROUND_DOWN"),
        Known(name="quark-even", module="quark_even", requires="amd-quark", about="AMD Quark downcast, EVEN"),
        Known(name="quark-fake", module="quark_fake", requires="amd-quark", about="AMD Quark fake quantization"),
        Known(name="fouroversix", module="fouroversix_py", requires="fouroversix", about="Four Over Six reference"),
        Known(name="te-reference", module="te_reference", requires="transformer_engine sources", about="Transformer Engine's Python reference"),
        Known(name="vllm-emulation", module="vllm_emulation", requires="vllm sources", about="vLLM's Python emulation"),
        Known(name="mxspec_gpu", module="mxspec_gpu_kernels", requires="CuPy and an NVIDIA GPU", about="this project's GPU kernels"),
        Known(name="mxspec_gpu-tiles", module="mxspec_gpu_tiles", requires="CuPy and an NVIDIA GPU", about="the same, packed, scales in tiles"),
        Known(name="ggml-c", module="ggml_c", requires="a ggml library", about="llama.cpp's C reference"),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a target says of itself; one shape for every road."""

    name: str
    version: str
    formats: tuple[str, ...]
    functions: tuple[str, ...]
    #: function -> the interface's options that it takes, by keyword.
    keywords: dict[str, tuple[str, ...]]
    elements: tuple[str, ...]
    dtypes: tuple[str, ...] = ("float32",)
    arrays: str = "numpy"
    code_layout: str = "unpacked"
    scale_layout: str = "row-major"
    tensor_scale: str = "decode"
    #: Random bits that `encode_stochastic` uses.
    sr_bits: int = 32
    claimed_profile: str | None = None
    #: Whether quantize and dequantize can be called without a tensor scale.
    one_level: bool = True
    #: Storage layouts that pack, unpack, swizzle and unswizzle know.
    layouts: tuple[str, ...] = ()
    #: Where the arrays lie, such as `cuda:0`; None: the array library's default.
    device: str | None = None

    def has(self, function: str, keyword: str | None = None) -> bool:
        """Whether the target has the function, and takes the keyword."""
        return function in self.functions and (keyword is None or keyword in self.keywords[function])

    def as_dict(self) -> dict[str, Any]:
        """For the JSON result."""
        return {
            "formats": list(self.formats),
            "functions": {f: list(self.keywords[f]) for f in self.functions},
            "elements": list(self.elements),
            "dtypes": list(self.dtypes),
            "arrays": self.arrays,
            "layout": [self.code_layout, self.scale_layout],
            "layouts": list(self.layouts),
            "tensor_scale": self.tensor_scale,
            "one_level": self.one_level,
            "sr_bits": self.sr_bits,
            "profile": self.claimed_profile,
        }


def load_target(spec: str) -> Any:
    """The module that a target spec names: a known library, a `.py` file, a shared library, or an importable module.

    Raises TargetError, saying what to do, when it cannot be found or does not import.
    """
    if spec in KNOWN:
        return _load_known(KNOWN[spec])
    path = Path(spec)
    if path.suffix in LIBRARY_SUFFIXES:
        from mxspec_conformance.roads.library import load_library

        return load_library(path)
    if spec.endswith(".py") or path.exists():
        return _load_file(path)
    try:
        return importlib.import_module(spec)
    except ModuleNotFoundError as error:
        if error.name is not None and (spec == error.name or spec.startswith(error.name + ".")):
            close = ", ".join(KNOWN)
            raise TargetError(
                f"{spec!r} is neither a file, an importable module nor a known library; known are {close}"
            ) from None
        raise TargetError(f"module {spec} does not import: {error}") from error
    except Exception as error:
        raise TargetError(f"module {spec} does not import: {type(error).__name__}: {error}") from error


def _load_known(known: Known) -> Any:
    try:
        return importlib.import_module(f"mxspec_conformance.known.{known.module}")
    except ImportError as error:
        raise TargetError(
            f"{known.name} needs {known.requires}, which does not import here ({error}); install it and try again"
        ) from error


def _load_file(path: Path) -> Any:
    if not path.is_file():
        raise TargetError(f"{path} does not exist; pass a Python file, a module or a known library")
    if path.suffix != ".py":
        raise TargetError(
            f"{path} is none of the files that can be judged: .py (Python), {', '.join(LIBRARY_SUFFIXES)} (shared library), "
            ".json or .jsonl (results); a program is judged as 'cmd:PROGRAM ARGUMENTS'"
        )
    name = f"mxspec_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise TargetError(f"{path}, line {error.lineno}: {error.msg}; the file is not valid Python") from error
    except (Exception, SystemExit) as error:
        raise TargetError(f"{path} does not import: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    return module


def describe_target(module: Any, spec: str) -> Capabilities:
    """What a target offers, read from its names and signatures.

    Raises TargetError where a declaration is not one that the interface has.
    """
    described = getattr(module, "MXSPEC_CAPABILITIES", None)
    if isinstance(described, Capabilities):  # a road that is not Python's has read them from a description
        return described
    functions = tuple(f for f in FUNCTIONS if callable(getattr(module, f, None)))
    if not functions:
        raise TargetError(f"{spec} defines none of the functions {', '.join(FUNCTIONS)}; define at least one")
    name = str(getattr(module, "NAME", Path(spec).stem))
    formats = _listed(module, spec, "FORMATS")
    if not formats and {"quantize", "dequantize"} & set(functions):
        raise TargetError(f"{spec} has no FORMATS; list the block formats it supports: {', '.join(BLOCKS)}")
    check_names(spec, "FORMATS", formats, BLOCKS)
    elements = _listed(module, spec, "ELEMENTS") or tuple(dict.fromkeys(get_block(f).element.name for f in formats))
    check_names(spec, "ELEMENTS", elements, {**ELEMENTS, **SCALES})
    layouts = _listed(module, spec, "LAYOUT") or ("unpacked",)
    check_names(spec, "LAYOUT", layouts, dict.fromkeys((*CODE_LAYOUTS, *SCALE_LAYOUTS)))
    dtypes = _listed(module, spec, "DTYPES") or ("float32",)
    check_names(spec, "DTYPES", dtypes, _DTYPES)
    arrays = getattr(module, "ARRAYS", "numpy")
    check_names(spec, "ARRAYS", (arrays,), dict.fromkeys(("numpy", "torch", "cupy")))
    kind = getattr(module, "TENSOR_SCALE", "decode")
    check_names(spec, "TENSOR_SCALE", (kind,), dict.fromkeys(k.value for k in TensorScaleKind))
    sr_bits = getattr(module, "SR_BITS", 32)
    if sr_bits not in (8, 32):
        raise TargetError(f"{spec}: SR_BITS = {sr_bits!r}; allowed are 32 and 8")
    known_layouts = _listed(module, spec, "LAYOUTS")
    check_names(spec, "LAYOUTS", known_layouts, [n for x in list_layouts() for n in (x.name, *x.aliases)])
    signatures = {f: _parameters(getattr(module, f)) for f in functions}
    tensor = [p["tensor_scale"] for f in ("quantize", "dequantize") if "tensor_scale" in (p := signatures.get(f, {}))]
    return Capabilities(
        name=name,
        version=str(getattr(module, "VERSION", "unknown")),
        formats=formats,
        functions=functions,
        keywords={f: tuple(o for o in OPERATIONS[f].options if o in p) for f, p in signatures.items()},
        elements=elements,
        dtypes=dtypes,
        arrays=arrays,
        code_layout=next((x for x in layouts if x in CODE_LAYOUTS), "unpacked"),
        scale_layout=next((x for x in layouts if x in SCALE_LAYOUTS), "row-major"),
        tensor_scale=kind,
        sr_bits=sr_bits,
        claimed_profile=getattr(module, "PROFILE", None),
        one_level=all(p.default is not inspect.Parameter.empty for p in tensor),
        layouts=known_layouts,
        device=getattr(module, "DEVICE", None),
    )


def _listed(module: Any, spec: str, what: str) -> tuple[Any, ...]:
    """A declaration that holds one name or several."""
    given = getattr(module, what, ())
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, Iterable):
        raise TargetError(f"{spec}: {what} is a {type(given).__name__}; write a name or a list of names")
    return tuple(given)


def _parameters(function: Any) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return {}


def check_names(spec: str, what: str, given: Iterable[str], allowed: Iterable[str]) -> None:
    known = list(allowed)
    for name in given:
        if name not in known:
            raise TargetError(f"{spec}: {what} names {name!r}; allowed are {', '.join(known)}")


def to_target_array(x: npt.NDArray[Any], arrays: str, device: str | None = None) -> Any:
    """x as the arrays that the target takes; a fresh copy, so that a target that writes into it harms nobody.

    device: for torch what `Tensor.to` takes; for cupy `cuda:N`. cupy arrays lie on the current GPU without it.
    """
    x = np.array(x, order="C", copy=True)
    if arrays == "numpy":
        return x
    if arrays == "cupy":
        import cupy

        with cupy.cuda.Device(int((device or "").rpartition(":")[2] or cupy.cuda.runtime.getDevice())):
            return cupy.asarray(x)
    import torch

    if x.dtype == _DTYPES["bfloat16"]:
        tensor = torch.from_numpy(x.view(np.uint16)).view(torch.bfloat16)
    else:
        tensor = torch.from_numpy(x)
    return tensor if device is None else tensor.to(device)


def quantized_shapes(
    shape: tuple[int, ...], block: BlockFormat, *, axis: int = -1, square: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of codes (one to an element) and of scales that `quantize` gives for x; square: 16 x 16 blocks."""
    axis %= len(shape)
    padded = tuple(-(-n // block.k) * block.k if a == axis else n for a, n in enumerate(shape))
    if square:
        padded = tuple(-(-n // 16) * 16 for n in padded)
    return padded, tuple(n // block.k if a == axis else n for a, n in enumerate(padded))


#: How an input lies in memory: as a whole, in every second row or column of a larger array, or one element into one.
ARRANGEMENTS = ("contiguous", "rows", "columns", "offset")


def arrange_array(x: npt.NDArray[Any], arrays: str, arrangement: str, device: str | None = None) -> Any:
    """x as a fresh array that the target takes, in one of `ARRANGEMENTS`; other values of x lie between its own."""
    if arrangement == "rows":
        wide = np.stack([x, x[::-1]], axis=1).reshape(-1, *x.shape[1:])
        return to_target_array(wide, arrays, device)[::2]
    if arrangement == "columns":
        wide = np.stack([x, np.flip(x)], axis=-1).reshape(*x.shape[:-1], -1)
        return to_target_array(wide, arrays, device)[..., ::2]
    if arrangement == "offset":
        longer = np.concatenate([x.reshape(-1)[-1:], x.reshape(-1)])
        return to_target_array(longer, arrays, device)[1:].reshape(x.shape)
    return to_target_array(x, arrays, device)


def from_target_array(a: Any, what: str) -> npt.NDArray[Any]:
    """A returned array as a NumPy one (torch, cupy, DLPack or anything NumPy converts).

    Raises BadReturn for something that is no array.
    """
    if hasattr(a, "detach"):
        import torch

        a = a.detach().cpu()
        if a.dtype == torch.bfloat16:
            a = a.to(torch.float32)
        a = a.numpy()
    elif hasattr(a, "get") and type(a).__module__.startswith("cupy"):
        a = a.get()
    elif not isinstance(a, np.ndarray) and hasattr(a, "__cuda_array_interface__"):
        import cupy

        a = cupy.asnumpy(cupy.asarray(a))
    elif not isinstance(a, np.ndarray) and hasattr(a, "__dlpack__"):
        a = _from_dlpack(a)
    elif not isinstance(a, np.ndarray) and hasattr(a, "__array_interface__"):
        a = np.asarray(a)
    if not isinstance(a, np.ndarray):
        raise BadReturn(f"{what} is a {type(a).__name__}, not an array")
    return a


def _from_dlpack(a: Any) -> Any:
    """NumPy reads what lies in the host's memory; what lies on a GPU goes through CuPy."""
    kind = a.__dlpack_device__()[0] if hasattr(a, "__dlpack_device__") else 1
    if kind == 1:
        return np.from_dlpack(a)
    import cupy

    return cupy.asnumpy(cupy.from_dlpack(a))


@dataclass(slots=True)
class Caller:
    """Calls a target's functions with NumPy arrays and gives back checked NumPy arrays."""

    module: Any
    capabilities: Capabilities
    _arrangement: str = "contiguous"
    #: Arrays given to the last call with their bytes at that time, and what the target returned.
    _given: list[tuple[Any, list[bytes]]] = field(default_factory=list)
    _returned: Any = None

    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """One call. Raises BadReturn for malformed answers, and whatever the target raises."""
        handler = getattr(self, f"_call_{function}", None)
        if handler is None:
            raise TargetError(f"the judge cannot call {function}")
        self._given = []
        with np.errstate(all="ignore"):
            return handler(*args, **kwargs)

    def _array(self, x: npt.NDArray[Any]) -> Any:
        array = arrange_array(x, self.capabilities.arrays, self._arrangement, self.capabilities.device)
        self._given.append((array, _copied_bytes(array)))
        return array

    def _ask(self, function: str, *args: Any, **kwargs: Any) -> Any:
        self._returned = getattr(self.module, function)(*args, **kwargs)
        return self._returned

    def _call_arranged(self, arrangement: str, function: str, *args: Any, **kwargs: Any) -> Any:
        """The answer to a call whose inputs lie in memory in one of `ARRANGEMENTS`."""
        self._arrangement = arrangement
        try:
            return self.call(function, *args, **kwargs)
        finally:
            self._arrangement = "contiguous"

    def _call_probe(
        self, function: str, first: tuple[Any, ...], second: tuple[Any, ...], **kwargs: Any
    ) -> tuple[bool, bool, Any]:
        """Two calls, then the first again: whether the first wrote into its input, whether the second changed what the
        first had returned, and the last answer."""
        self.call(function, *first, **kwargs)
        given, returned = self._given, self._returned
        before = _copied_bytes(returned)
        wrote = any(_copied_bytes(array) != before_call for array, before_call in given)
        self.call(function, *second, **kwargs)
        changed = _copied_bytes(returned) != before
        return wrote, changed, self.call(function, *first, **kwargs)

    def _call_quantize(
        self, x: npt.NDArray[Any], fmt: str, **kwargs: Any
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
        block = get_block(fmt)
        result = self._ask("quantize", self._array(x), fmt, **kwargs)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise BadReturn(f"quantize returned a {type(result).__name__}; return (codes, scales)")
        codes, scales = (from_target_array(a, n) for a, n in zip(result, ("codes", "scales"), strict=True))
        shape, scale_shape = quantized_shapes(
            x.shape, block, axis=kwargs.get("axis", -1), square=kwargs.get("block") is not None
        )
        codes = _bytes(codes, "codes")
        if self.capabilities.code_layout == "nibble-low" and block.element.bits == 4:
            codes = _unpack_nibbles(codes, shape)
        if codes.shape != shape:
            raise BadReturn(f"codes have shape {codes.shape}; {shape} was expected for x of shape {x.shape}")
        scales = _bytes(scales, "scales")
        if self.capabilities.scale_layout == "128x4":
            scales = _unswizzle_128x4(scales, scale_shape)
        if scales.shape != scale_shape:
            raise BadReturn(f"scales have shape {scales.shape}; {scale_shape} was expected for x of shape {x.shape}")
        return codes, scales

    def _call_raw_quantize(self, x: npt.NDArray[Any], fmt: str, **kwargs: Any) -> tuple[bytes, bytes]:
        """The bytes of what `quantize` returns, whatever their layout."""
        result = self._ask("quantize", self._array(x), fmt, **kwargs)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise BadReturn(f"quantize returned a {type(result).__name__}; return (codes, scales)")
        codes, scales = (np.ascontiguousarray(from_target_array(a, "quantize's result")).tobytes() for a in result)
        return codes, scales

    def _call_dequantize(
        self, codes: npt.NDArray[np.uint8], scales: npt.NDArray[np.uint8], fmt: str, **kwargs: Any
    ) -> npt.NDArray[Any]:
        given = codes
        if self.capabilities.code_layout == "nibble-low" and get_block(fmt).element.bits == 4:
            given = pack_nibbles(codes)
        rows = scales
        if self.capabilities.scale_layout == "128x4":
            rows = swizzle_128x4(scales)
        values = from_target_array(
            self._ask("dequantize", self._array(given), self._array(rows), fmt, **kwargs), "dequantize's result"
        )
        return _floats(values, codes.shape, "dequantize")

    def _call_encode(self, x: npt.NDArray[Any], element: str, **kwargs: Any) -> npt.NDArray[np.uint8]:
        codes = _bytes(from_target_array(self._ask("encode", self._array(x), element, **kwargs), "codes"), "codes")
        if codes.shape != x.shape:
            raise BadReturn(f"encode returned shape {codes.shape} for x of shape {x.shape}")
        return codes

    def _call_decode(self, codes: npt.NDArray[np.uint8], element: str) -> npt.NDArray[Any]:
        values = from_target_array(self._ask("decode", self._array(codes), element), "decode's result")
        return _floats(values, codes.shape, "decode")

    def _call_encode_stochastic(
        self, x: npt.NDArray[Any], element: str, words: npt.NDArray[np.uint32]
    ) -> npt.NDArray[np.uint8]:
        result = self._ask("encode_stochastic", self._array(x), element, self._array(words))
        codes = _bytes(from_target_array(result, "codes"), "codes")
        if codes.shape != x.shape:
            raise BadReturn(f"encode_stochastic returned shape {codes.shape} for x of shape {x.shape}")
        return codes

    def _call_pack(self, items: npt.NDArray[np.uint8], layout: str) -> npt.NDArray[np.uint8]:
        return self._ask_packed("pack", (items,), layout)

    def _call_swizzle(self, items: npt.NDArray[np.uint8], layout: str) -> npt.NDArray[np.uint8]:
        return self._ask_packed("swizzle", (items,), layout)

    def _call_pack_blocks(
        self, codes: npt.NDArray[np.uint8], scales: npt.NDArray[np.uint8], layout: str
    ) -> npt.NDArray[np.uint8]:
        return self._ask_packed("pack_blocks", (codes, scales), layout)

    def _call_unpack(self, data: npt.NDArray[np.uint8], layout: str, shape: tuple[int, ...]) -> Any:
        return self._ask_items("unpack", data, layout, shape)

    def _call_unswizzle(self, data: npt.NDArray[np.uint8], layout: str, shape: tuple[int, ...]) -> Any:
        return self._ask_items("unswizzle", data, layout, shape)

    def _call_unpack_blocks(self, data: npt.NDArray[np.uint8], layout: str, shape: tuple[int, ...]) -> Any:
        return self._ask_items("unpack_blocks", data, layout, shape)

    def _ask_packed(
        self, function: str, parts: tuple[npt.NDArray[np.uint8], ...], layout: str
    ) -> npt.NDArray[np.uint8]:
        """The bytes that a packing function returns; one that takes `out` is handed a dirty buffer."""
        if "out" not in _parameters(getattr(self.module, function)):
            return _flat_bytes(self._ask(function, *map(self._array, parts), layout), function)
        out = self._array(np.full(get_layout(layout).size(parts[0].shape), _DIRT, np.uint8))
        returned = self._ask(function, *map(self._array, parts), layout, out=out)
        return _flat_bytes(out if returned is None else returned, function)

    def _ask_items(self, function: str, data: npt.NDArray[np.uint8], layout: str, shape: tuple[int, ...]) -> Any:
        """The items that an unpacking function returns, codes before scales, in the layout's own order of parts."""
        chosen = get_layout(layout)
        returned = self._ask(function, self._array(data), layout, tuple(shape))
        given = returned if isinstance(returned, (tuple, list)) else (returned,)
        if len(given) != len(chosen.fields):
            raise BadReturn(f"{function} returned {len(given)} arrays; {len(chosen.fields)} were expected")
        items = []
        for array, part in zip(given, reversed(chosen.fields), strict=True):
            found = _bytes(from_target_array(array, part.part.value), part.part.value)
            wanted = (*shape[:-1], shape[-1] // part.covers)
            if found.shape != wanted:
                raise BadReturn(f"{function} returned {part.part.value} of shape {found.shape}; {wanted} was expected")
            items.append(found)
        return tuple(reversed(items))

    def _call_tensor_scale(self, x: npt.NDArray[Any], fmt: str) -> float:
        value = self.module.tensor_scale(self._array(x), fmt)
        if not isinstance(value, (int, float, np.generic)) and (hasattr(value, "detach") or hasattr(value, "shape")):
            array = from_target_array(value, "tensor_scale's result")
            if array.size != 1:
                raise BadReturn(f"tensor_scale returned {array.size} numbers; return one")
            value = array.reshape(-1)[0]
        return float(value)


def _copied_bytes(arrays: Any) -> list[bytes]:
    members = arrays if isinstance(arrays, (tuple, list)) else [arrays]
    return [from_target_array(a, "an array").tobytes() for a in members]


def _bytes(a: npt.NDArray[Any], what: str) -> npt.NDArray[np.uint8]:
    if a.dtype.itemsize == 1 and a.dtype.kind != "b":
        return np.ascontiguousarray(a).view(np.uint8)
    raise BadReturn(f"{what} have dtype {a.dtype}; return uint8")


def _flat_bytes(returned: Any, function: str) -> npt.NDArray[np.uint8]:
    """Packed bytes, returned as bytes or as an array of any integers or 8-bit floats."""
    if isinstance(returned, (bytes, bytearray, memoryview)):
        return np.frombuffer(returned, np.uint8)
    array = from_target_array(returned, f"{function}'s result")
    if array.dtype.kind not in "iuV" and array.dtype.itemsize != 1:
        raise BadReturn(f"{function} returned dtype {array.dtype}; return bytes, or an array of integers")
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)


def _floats(a: npt.NDArray[Any], shape: tuple[int, ...], what: str) -> npt.NDArray[Any]:
    if a.dtype not in (np.float32, np.float16, _DTYPES["bfloat16"]):
        raise BadReturn(f"{what} returned dtype {a.dtype}; return float32")
    if a.shape != shape:
        raise BadReturn(f"{what} returned shape {a.shape}; {shape} was expected")
    return a.astype(np.float32)


def pack_nibbles(codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Two codes to a byte along the last axis, the even element in the low nibble."""
    packed: npt.NDArray[np.uint8] = (codes[..., ::2] | codes[..., 1::2] << 4).astype(np.uint8)
    return packed


def _unpack_nibbles(packed: npt.NDArray[np.uint8], shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    if packed.shape != (*shape[:-1], shape[-1] // 2):
        raise BadReturn(f"packed codes have shape {packed.shape}; {(*shape[:-1], shape[-1] // 2)} was expected")
    out = np.empty(shape, np.uint8)
    out[..., ::2], out[..., 1::2] = packed & 0xF, packed >> 4
    return out


def tile_offsets(shape: tuple[int, ...]) -> tuple[npt.NDArray[np.intp], int]:
    """Byte offset of each (row, column) in NVIDIA's 128 x 4 tiles, and the padded size."""
    rows, columns = shape
    r, c = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    tiles = -(-columns // 4)
    offset = ((r // 128) * tiles + c // 4) * 512 + (r % 32) * 16 + (r % 128) // 32 * 4 + c % 4
    return offset, -(-rows // 128) * tiles * 512


def _unswizzle_128x4(data: npt.NDArray[np.uint8], shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    offset, size = tile_offsets(shape)
    if data.size != size:
        raise BadReturn(f"swizzled scales hold {data.size} bytes; {size} were expected (128 x 4 tiles of {shape})")
    return data.reshape(-1)[offset]


def swizzle_128x4(scales: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    offset, size = tile_offsets(scales.shape)
    out = np.zeros(size, np.uint8)
    out[offset] = scales
    return out
