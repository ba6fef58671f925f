"""Calling a target's functions with NumPy arrays, and checking what comes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import get_block
from mxspec.layouts import get_layout
from mxspec_conformance.targets.arrays import (
    arrange_array,
    from_target_array,
    pack_nibbles,
    quantized_shapes,
    swizzle_128x4,
    unpack_nibbles,
    unswizzle_128x4,
)
from mxspec_conformance.targets.capabilities import DTYPES, Capabilities, parameters_of
from mxspec_conformance.targets.errors import BadReturn, TargetError
from mxspec_conformance.targets.layout_hints import suggest_code_layout, suggest_scale_layout

#: What an output buffer holds before the target writes into it.
_DIRT = 0xA5


@dataclass(slots=True)
class Marshaller:
    """Calls a target's functions with NumPy arrays and gives back checked NumPy arrays."""

    module: Any
    capabilities: Capabilities
    _arrangement: str = "contiguous"
    #: Arrays given to the last call with their bytes at that time, and what the target returned.
    _given: list[tuple[Any, list[bytes]]] = field(default_factory=list)
    _returned: Any = None
    #: Arrays that the next call's inputs are written into.
    _kept: list[Any] = field(default_factory=list)

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
        if self._kept:
            kept = self._kept.pop(0)
            kept[...] = array
            array = kept
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

    def _call_reused(self, function: str, first: tuple[Any, ...], second: tuple[Any, ...], **kwargs: Any) -> Any:
        """The answer to a second call whose inputs lie where those of the first lay."""
        self.call(function, *first, **kwargs)
        self._kept = [array for array, _ in self._given]
        try:
            return self.call(function, *second, **kwargs)
        finally:
            self._kept = []

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
            codes = unpack_nibbles(codes, shape)
        if codes.shape != shape:
            hint = suggest_code_layout(codes.shape, shape, block)
            raise BadReturn(f"codes have shape {codes.shape}; {shape} was expected for x of shape {x.shape}{hint}")
        scales = _bytes(scales, "scales")
        if self.capabilities.scale_layout == "128x4":
            scales = unswizzle_128x4(scales, scale_shape)
        if scales.shape != scale_shape:
            hint = suggest_scale_layout(scales.size, scales.shape, scale_shape)
            raise BadReturn(f"scales have shape {scales.shape}; {scale_shape} was expected for x of shape {x.shape}{hint}")
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
        if "out" not in parameters_of(getattr(self.module, function)):
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
    if a.dtype not in (np.float32, np.float16, DTYPES["bfloat16"]):
        raise BadReturn(f"{what} returned dtype {a.dtype}; return float32")
    if a.shape != shape:
        raise BadReturn(f"{what} returned shape {a.shape}; {shape} was expected")
    return a.astype(np.float32)
