"""Calling a target's functions with NumPy arrays, and checking what comes back."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.acceptance import flag_nan_bytes
from mxspec.affine.formats import Offset
from mxspec.environment import describe_changes
from mxspec.formats import get_block
from mxspec.layouts import get_layout
from mxspec.sparsity import get_sparse
from mxspec_conformance.targets.affine import read_floats, read_offsets, read_operand
from mxspec_conformance.targets.arrays import (
    NIBBLES,
    arrange_array,
    from_target_array,
    lay_codes,
    lay_scales,
    quantized_shapes,
    take_laid,
    unpack_nibbles,
)
from mxspec_conformance.targets.capabilities import Capabilities, is_dense, parameters_of
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.errors import BadReturn, TargetError
from mxspec_conformance.targets.laying_out import hand_over
from mxspec_conformance.targets.layout_hints import suggest_code_layout, suggest_scale_layout
from mxspec_conformance.targets.operand_words import ROW_MAJOR, UNPACKED
from mxspec_conformance.targets.operands import Numbers, read_numbers

#: Times as long as on an idle machine that something may take on a busy one.
_BUSY = 8
#: Seconds after which threads begin no further round, and the rounds that they make at least.
_THREAD_SECONDS, _LEAST_ROUNDS = 0.5, 2
#: What an output buffer holds before the target writes into it.
_DIRT = 0xA5
#: How many times as many items as an input has an answer may have before it is looked at: padding to tiles is less.
_MOST = 1024


class _Clock:
    """Time since it was made, of which the machine's other work is no part: the process's own, and what it waited for.

    Of a wait nobody knows whether it was for a device or for a turn: it counts for a part.
    """

    def __init__(self) -> None:
        self._wall, self._own = time.monotonic(), time.process_time()

    @property
    def seconds(self) -> float:
        """At most the time on the wall."""
        wall = time.monotonic() - self._wall
        return min(wall, max(time.process_time() - self._own, wall / _BUSY))


def _overwrite(kept: Any, array: Any) -> Any:
    """An array that was given before, with other numbers in it; one that a target must not write is written by its owner."""
    locked = isinstance(kept, np.ndarray) and not kept.flags.writeable
    if locked:
        kept.flags.writeable = True
    kept[...] = array
    if locked:
        kept.flags.writeable = False
    return kept


@dataclass(slots=True)
class Marshaller:
    """Calls a target's functions with NumPy arrays and gives back checked NumPy arrays."""

    module: Any
    capabilities: Capabilities
    _arrangement: str = "contiguous"
    #: The only array of a call that lies so, by its number; None: all of them.
    _arranged_alone: int | None = None
    #: Arrays handed over in the call so far.
    _handed: int = 0
    #: Factor of the values that lie between those of an input.
    _between: float = 1
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
        self._given, self._handed = [], 0
        with np.errstate(all="ignore"):
            return handler(*args, **kwargs)

    def _array(self, x: npt.NDArray[Any], *, written: bool = False) -> Any:
        """x as the target takes it; written: it is to be written into, so that no two of its items share memory."""
        shares = self._arrangement in ("broadcast", "one-column", "read-only", "windows")
        elsewhere = self._arranged_alone not in (None, self._handed)
        self._handed += 1
        arrangement = "contiguous" if elsewhere or (written and shares) else self._arrangement
        array = arrange_array(x, self.capabilities.arrays, arrangement, self.capabilities.device, between=self._between)
        if self._kept:
            array = _overwrite(self._kept.pop(0), array)
        self._given.append((array, _copied_bytes(array)))
        # What lies between the numbers of a view is not the target's to write.
        if isinstance(array, np.ndarray) and isinstance(array.base, np.ndarray) and array.base.size <= 4 * array.size:
            self._given.append((array.base, _copied_bytes(array.base)))
        return array

    def _scales(self, scales: npt.NDArray[np.uint8]) -> Any:
        """Block scales as the target takes them."""
        return self._array(lay_scales(scales, self.capabilities.scale_layout))

    def _ask(self, function: str, *args: Any, **kwargs: Any) -> Any:
        self._returned = getattr(self.module, function)(*args, **kwargs)
        return self._returned

    def _call_arranged(self, arrangement: str, function: str, *args: Any, **kwargs: Any) -> Any:
        """The answer to a call whose inputs lie in memory in one of `ARRANGEMENTS`; with `@n` behind it the n-th input alone."""
        self._arrangement, _, alone = arrangement.partition("@")
        self._arranged_alone = int(alone) if alone else None
        # What a maximum must not see is larger than all that it sees.
        self._between = 2 if function == "tensor_scale" else 1
        try:
            return self.call(function, *args, **kwargs)
        finally:
            self._arrangement, self._arranged_alone, self._between = "contiguous", None, 1

    def _call_probe(
        self, function: str, first: tuple[Any, ...], second: tuple[Any, ...], **kwargs: Any
    ) -> tuple[bool, bool, Any]:
        """Two calls, then the first again: whether the first wrote into its input, then or in the second call, whether the
        second changed what the first had returned, and the last answer."""
        self.call(function, *first, **kwargs)
        given, returned = self._given, self._returned
        before = _copied_bytes(returned)
        wrote = any(_copied_bytes(array) != before_call for array, before_call in given)
        self.call(function, *second, **kwargs)
        changed = _copied_bytes(returned) != before
        wrote |= any(_copied_bytes(array) != before_call for array, before_call in given)
        return wrote, changed, self.call(function, *first, **kwargs)

    def _call_held(
        self, times: int, seconds: float, function: str, first: tuple[Any, ...], second: tuple[Any, ...], **kwargs: Any
    ) -> tuple[int, int]:
        """Two calls by turns, up to so many, or seconds as on an idle machine, while all answers and inputs are held: the number
        of the first whose answer or input a later one changed, or -1; and how many were made."""
        clock = _Clock()
        held: list[tuple[Any, list[bytes], list[tuple[Any, list[bytes]]]]] = []
        while len(held) < times and clock.seconds <= seconds:
            # In an order without a period, so that no memory that comes round gets what it held.
            self.call(function, *(first, second)[len(held).bit_count() % 2], **kwargs)
            held.append((self._returned, _copied_bytes(self._returned), self._given))
        for number, (returned, before, given) in enumerate(held):
            if _copied_bytes(returned) != before or any(_copied_bytes(array) != then for array, then in given):
                return number, len(held)
        return -1, len(held)

    def _call_reused(self, function: str, first: tuple[Any, ...], second: tuple[Any, ...], **kwargs: Any) -> Any:
        """The answer to a second call whose inputs lie where those of the first lay."""
        self.call(function, *first, **kwargs)
        self._kept = [array for array, _ in self._given]
        try:
            return self.call(function, *second, **kwargs)
        finally:
            self._kept = []

    def _call_trimmed(self, x: npt.NDArray[Any], fmt: str, **kwargs: Any) -> npt.NDArray[np.uint8] | None:
        """The codes that `quantize` returns where they have the shape of x; else None."""
        with contextlib.suppress(BadReturn):
            self.call("quantize", x, fmt, **kwargs)
        codes = self._returned[0] if isinstance(self._returned, (tuple, list)) and self._returned else None
        if getattr(codes, "shape", None) != x.shape:
            return None
        return _bytes(from_target_array(codes, "codes"), "codes")

    def _call_covered(self, x: npt.NDArray[Any], fmt: str, axis: int = -1, **kwargs: Any) -> int:
        """How many elements of a line the codes stand for that `quantize` returns, whatever their shape should be; -1 where
        no matrix of codes comes back."""
        options = kwargs if axis == -1 else {**kwargs, "axis": axis}
        with contextlib.suppress(BadReturn):
            self.call("quantize", x, fmt, **options)
        codes = self._returned[0] if isinstance(self._returned, (tuple, list)) and self._returned else None
        shape = getattr(codes, "shape", ())
        layout = self.capabilities.layout_of(fmt)
        if len(shape) != x.ndim or not is_dense(get_layout(layout)):
            return -1
        return int(shape[axis]) * (1 if layout == UNPACKED else 8 // get_block(fmt).element.bits)

    def _call_float_environment(self) -> str:
        """What of this process's floating-point environment is not the default, which the target has changed."""
        return describe_changes()

    def _call_wrote(self, function: str, *args: Any, **kwargs: Any) -> bool:
        """Whether a call wrote into its input."""
        self.call(function, *args, **kwargs)
        return any(_copied_bytes(array) != before for array, before in self._given)

    def _call_timed(self, function: str, *args: Any, **kwargs: Any) -> float:
        """The seconds that a call takes, as on an idle machine."""
        clock = _Clock()
        self.call(function, *args, **kwargs)
        return clock.seconds

    def _call_repeated(
        self, times: int, seconds: float, function: str, *args: Any, **kwargs: Any
    ) -> tuple[int, int]:
        """The same call up to so many times, or seconds as on an idle machine: the number of the first that returned other
        bits, or -1; and how many were made. Answers as they are read: padding may hold anything."""
        clock = _Clock()
        first = _settled_bytes(function, args, self.call(function, *args, **kwargs))
        for number in range(1, times):
            if _settled_bytes(function, args, self.call(function, *args, **kwargs)) != first:
                return number, number + 1
            if clock.seconds > seconds:
                return -1, number + 1
        return -1, times

    def _call_threads(self, rounds: int, calls: Sequence[tuple[str, tuple[Any, ...], dict[str, Any]]]) -> tuple[int, int]:
        """Each of the calls (function, arguments, options) in a thread of its own, again and again: how many returned other bits
        than alone, of how many. Fewer rounds than asked for where they take long."""
        alone = [_outcome(self, function, args, kwargs) for function, args, kwargs in calls]
        start = threading.Barrier(len(calls))
        wrong, made = [0] * len(calls), [0] * len(calls)
        refused: list[list[Exception]] = [[] for _ in calls]

        def work(number: int) -> None:
            mine = Marshaller(self.module, self.capabilities)
            start.wait()
            end = time.monotonic() + _THREAD_SECONDS
            while made[number] < rounds and (made[number] < _LEAST_ROUNDS or time.monotonic() < end):
                wrong[number] += _outcome(mine, *calls[number], raised=refused[number]) != alone[number]
                made[number] += 1

        threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(len(calls))]
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(interval)
        # Handles that belong to a thread are refused in every other one, and always; what races raises now and then. One function
        # may have such a handle, and another none.
        counted = [n for n, (function, *_) in enumerate(calls) if not _is_bound_to_a_thread(function, calls, refused, made, wrong)]
        if not counted:
            raise next(errors[0] for errors in refused if errors)
        return sum(wrong[n] for n in counted), sum(made[n] for n in counted)

    def _call_quantize(
        self, x: npt.NDArray[Any], fmt: str, **kwargs: Any
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
        block = get_block(fmt)
        given = self._array(x)
        if "random_bits" in kwargs:
            kwargs["random_bits"] = self._array(kwargs["random_bits"])
        if "scales" in kwargs:
            kwargs["scales"] = self._scales(kwargs["scales"])
        result = self._ask("quantize", given, fmt, **kwargs)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise BadReturn(f"quantize returned {_name_kind(result)}; return (codes, scales)")
        codes, scales = (from_target_array(a, n) for a, n in zip(result, ("codes", "scales"), strict=True))
        axis = kwargs.get("axis", -1)
        if not -x.ndim <= axis < x.ndim:
            raise BadReturn(f"quantize returned codes along axis {axis} of x of shape {x.shape}")
        shape, scale_shape = quantized_shapes(x.shape, block, axis=axis, square=kwargs.get("block") is not None)
        layout, scale_layout = self.capabilities.layout_of(fmt), self.capabilities.scale_layout
        swizzled = scale_layout != ROW_MAJOR
        # Shapes first: a broadcast array of terabytes has few bytes until it is copied.
        if layout == UNPACKED and codes.shape != shape:
            hint = suggest_code_layout(codes.shape, shape, block)
            raise BadReturn(f"codes have shape {codes.shape}; {shape} was expected for x of shape {x.shape}{hint}")
        if not swizzled and scales.shape != scale_shape:
            hint = suggest_scale_layout(scales.size, scales.shape, scale_shape)
            raise BadReturn(
                f"scales have shape {scales.shape}; {scale_shape} was expected for x of shape {x.shape}{hint}"
            )
        for array, what in ((codes, "codes"), (scales, "scales")):
            if array.size > _MOST * max(x.size, 1024):
                raise BadReturn(f"{what} have shape {array.shape} for x of shape {x.shape}")
        if layout in NIBBLES:
            codes = unpack_nibbles(_bytes(codes, "codes"), shape, axis, layout)
        elif layout == UNPACKED:
            codes = _bytes(codes, "codes")
        else:
            codes = take_laid(_flat_bytes(codes, "quantize"), shape, layout, "codes")
        scales = _bytes(scales, "scales")
        return codes, take_laid(scales, scale_shape, scale_layout, "scales") if swizzled else scales

    def _call_raw_quantize(self, x: npt.NDArray[Any], fmt: str, **kwargs: Any) -> tuple[bytes, bytes]:
        """The bytes of what `quantize` returns, whatever their layout."""
        result = self._ask("quantize", self._array(x), fmt, **kwargs)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise BadReturn(f"quantize returned {_name_kind(result)}; return (codes, scales)")
        arrays = [from_target_array(a, "quantize's result") for a in result]
        if max(a.nbytes for a in arrays) > 8 * _MOST * max(x.size, 1024):
            raise BadReturn(f"quantize returned {max(a.nbytes for a in arrays)} bytes for x of shape {x.shape}")
        codes, scales = (np.ascontiguousarray(a).tobytes() for a in arrays)
        return codes, scales

    def _call_dequantize(
        self, codes: npt.NDArray[np.uint8], scales: npt.NDArray[np.uint8], fmt: str, **kwargs: Any
    ) -> npt.NDArray[Any]:
        given = self._array(lay_codes(codes, self.capabilities.layout_of(fmt))), self._scales(scales)
        values = from_target_array(self._ask("dequantize", *given, fmt, **kwargs), "dequantize's result")
        return _floats(values, codes.shape, "dequantize")

    def _call_quantize_affine(self, x: npt.NDArray[Any], affine: str) -> tuple[npt.NDArray[Any], ...]:
        operand = read_operand(affine)
        result = self._ask("quantize_affine", self._array(x), affine)
        if not isinstance(result, (tuple, list)) or len(result) != 3:
            raise BadReturn(f"quantize_affine returned {_name_kind(result)}; return (codes, scales, biases or zero points)")
        names = ("codes", "scales", "biases" if operand.format.offset is Offset.BIAS else "zero points")
        arrays = [from_target_array(a, n) for a, n in zip(result, names, strict=True)]
        codes_shape, shared_shape = operand.shapes(x.shape)
        for array, what, wanted in zip(arrays, names, (codes_shape, shared_shape, shared_shape), strict=True):
            if array.shape != wanted:
                raise BadReturn(f"{what} have shape {array.shape}; {wanted} was expected for x of shape {x.shape} in {affine}")
        codes, scales, offsets = arrays
        return operand.take(codes), read_floats(scales, operand.format, "scales"), read_offsets(offsets, operand.format)

    def _call_dequantize_affine(
        self, codes: npt.NDArray[np.uint8], scales: npt.NDArray[Any], offsets: npt.NDArray[Any], affine: str
    ) -> npt.NDArray[Any]:
        given = [self._array(a) for a in (read_operand(affine).give(codes), scales, offsets)]
        values = from_target_array(self._ask("dequantize_affine", *given, affine), "dequantize_affine's result")
        return _floats(values, codes.shape, "dequantize_affine")

    def _call_output_dtype(self, function: str, /, *args: Any, **kwargs: Any) -> str:
        """The dtype of the values that a function returns; `float32` where it is none that the interface has."""
        self.call(function, *args, **kwargs)
        name = str(getattr(self._returned, "dtype", "float32")).rpartition(".")[2]
        return name if name in DTYPES else "float32"

    def _call_matmul(self, a: Any, b: Any, out_dtype: str, **options: Any) -> npt.NDArray[Any]:
        sides = [read_numbers(data) for data in (a, b)]
        for name in ("c", "bias"):
            if options.get(name) is not None:
                options[name] = self._array(options[name])
        values = from_target_array(
            self._ask("matmul", *map(self._side, sides), out_dtype, **options), "matmul's result"
        )
        shape = (sides[0].shape[0], sides[1].shape[0])
        if values.shape != shape:
            raise BadReturn(f"matmul returned shape {values.shape}; {shape} was expected: [m, n]")
        name = values.dtype.name
        if name not in DTYPES:
            raise BadReturn(f"matmul returned dtype {name}; return {out_dtype}")
        if name == out_dtype:
            return np.array(values)
        # torch's bfloat16 comes as float32.
        cast = values.astype(DTYPES[out_dtype])
        same = (cast.astype(np.float64) == values.astype(np.float64)) | (np.isnan(cast) & np.isnan(values))
        if not same.all():
            raise BadReturn(f"matmul returned numbers of {name} that {out_dtype} does not have; return {out_dtype}")
        return cast

    def _side(self, numbers: Numbers) -> Any:
        """One side of a product as the target takes it."""
        return hand_over(numbers, convert=self._array, only_sides=getattr(self.module, "MXSPEC_TAKES_SIDES", False))

    def _call_encode(self, x: npt.NDArray[Any], element: str, **kwargs: Any) -> npt.NDArray[np.uint8]:
        result = from_target_array(self._ask("encode", self._array(x), element, **kwargs), "codes")
        if result.shape != x.shape:
            raise BadReturn(f"encode returned shape {result.shape} for x of shape {x.shape}")
        return _bytes(result, "codes")

    def _call_decode(self, codes: npt.NDArray[np.uint8], element: str) -> npt.NDArray[Any]:
        values = from_target_array(self._ask("decode", self._array(codes), element), "decode's result")
        return _floats(values, codes.shape, "decode")

    def _call_encode_stochastic(
        self, x: npt.NDArray[Any], element: str, words: npt.NDArray[np.uint32]
    ) -> npt.NDArray[np.uint8]:
        result = self._ask("encode_stochastic", self._array(x), element, self._array(words))
        codes = from_target_array(result, "codes")
        if codes.shape != x.shape:
            raise BadReturn(f"encode_stochastic returned shape {codes.shape} for x of shape {x.shape}")
        return _bytes(codes, "codes")

    def _call_prune(self, codes: npt.NDArray[np.uint8], fmt: str) -> npt.NDArray[np.uint8]:
        pruned = from_target_array(self._ask("prune", self._array(codes), fmt), "codes")
        if pruned.shape != codes.shape:
            raise BadReturn(f"prune returned shape {pruned.shape} for codes of shape {codes.shape}")
        return _bytes(pruned, "codes")

    def _call_compress(
        self, codes: npt.NDArray[np.uint8], fmt: str
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
        result = self._ask("compress", self._array(codes), fmt)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise BadReturn(f"compress returned {_name_kind(result)}; return (kept, metadata)")
        rows, k = codes.shape
        shapes = {"kept": (rows, k // 2), "metadata": (rows, k // get_sparse(fmt).group)}
        layouts = self.capabilities.sparse_layout or ("unpacked", "unpacked")
        kept, metadata = (
            _from_layout(array, name, shape, layout)
            for array, (name, shape), layout in zip(result, shapes.items(), layouts, strict=True)
        )
        return kept, metadata

    def _call_decompress(
        self, kept: npt.NDArray[np.uint8], metadata: npt.NDArray[np.uint8], fmt: str, shape: tuple[int, ...]
    ) -> npt.NDArray[np.uint8]:
        layouts = self.capabilities.sparse_layout or ("unpacked", "unpacked")
        given = [_to_layout(a, layout) for a, layout in zip((kept, metadata), layouts, strict=True)]
        codes = from_target_array(self._ask("decompress", *map(self._array, given), fmt, tuple(shape)), "codes")
        if codes.shape != tuple(shape):
            raise BadReturn(f"decompress returned shape {codes.shape}; {tuple(shape)} was expected")
        return _bytes(codes, "codes")

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
        out = self._array(np.full(get_layout(layout).size(parts[0].shape), _DIRT, np.uint8), written=True)
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
            found = from_target_array(array, part.part.value)
            wanted = (*shape[:-1], shape[-1] // part.covers)
            if found.shape != wanted:
                raise BadReturn(f"{function} returned {part.part.value} of shape {found.shape}; {wanted} was expected")
            items.append(_bytes(found, part.part.value))
        return tuple(reversed(items))

    def _call_tensor_scale(self, x: npt.NDArray[Any], fmt: str) -> float:
        value = self._ask("tensor_scale", self._array(x), fmt)
        if not isinstance(value, (int, float, np.generic)) and (hasattr(value, "detach") or hasattr(value, "shape")):
            array = from_target_array(value, "tensor_scale's result")
            if array.size != 1:
                raise BadReturn(f"tensor_scale returned {array.size} numbers; return one")
            value = array.reshape(-1)[0]
        try:
            return float(value)
        except TypeError:
            raise BadReturn(f"tensor_scale returned {_name_kind(value)}; return one number") from None


def _name_kind(returned: object) -> str:
    """What came instead of the outputs."""
    kind = f"a {type(returned).__name__}"
    return f"{kind} of {len(returned)}" if isinstance(returned, (tuple, list)) else kind


def _outcome(
    marshaller: Marshaller, function: str, args: tuple[Any, ...], kwargs: dict[str, Any], *, raised: list[Exception] | None = None
) -> Any:
    """The bytes that a call returns, or the type of what it raises; raised: what it raises, entered."""
    try:
        answer = marshaller.call(function, *args, **kwargs)
        return np.float64(answer).tobytes() if isinstance(answer, float) else _settled_bytes(function, args, answer)
    except Exception as error:  # the target's own
        if raised is not None:
            raised.append(error)
        return type(error).__name__


def _is_bound_to_a_thread(
    function: str, calls: Sequence[tuple[str, Any, Any]], refused: Sequence[list[Exception]], made: Sequence[int], wrong: Sequence[int]
) -> bool:
    """Whether every call of a function was refused in threads, and none alone."""
    mine = [n for n, call in enumerate(calls) if call[0] == function]
    return sum(len(refused[n]) for n in mine) == sum(made[n] for n in mine) == sum(wrong[n] for n in mine) > 0


def _settled_bytes(function: str, args: Sequence[Any], answer: Any) -> list[bytes]:
    """The bytes of an answer, without the codes that mean nothing: those under a scale that is NaN may be what lay in memory."""
    if function == "quantize":
        codes, scales = answer
        lost = flag_nan_bytes(get_block(args[1]).scale)[scales]
        if lost.any() and codes.ndim == scales.ndim:
            edges = [-(-whole // part) for whole, part in zip(codes.shape, scales.shape, strict=True)]
            for axis, edge in enumerate(edges):
                lost = np.repeat(lost, edge, axis=axis)
            answer = np.where(lost[tuple(map(slice, codes.shape))], np.uint8(0), codes), scales
    return _copied_bytes(answer)


def _copied_bytes(arrays: Any) -> list[bytes]:
    members = arrays if isinstance(arrays, (tuple, list)) else [arrays]
    # A number, such as a tensor scale, is nobody's memory; what it is counts all the same.
    return [np.asarray(a).tobytes() if isinstance(a, (int, float)) else from_target_array(a, "an array").tobytes() for a in members]


def _bytes(a: npt.NDArray[Any], what: str) -> npt.NDArray[np.uint8]:
    if a.dtype.itemsize == 1 and a.dtype.kind != "b":
        return np.ascontiguousarray(a).view(np.uint8)
    hint = f", as in {what}.astype(np.uint8)" if a.dtype.kind in "iu" else ""
    raise BadReturn(f"{what} have dtype {a.dtype}; return uint8{hint}")


def _flat_bytes(returned: Any, function: str) -> npt.NDArray[np.uint8]:
    """Packed bytes, returned as bytes or as an array of any integers or 8-bit floats."""
    if isinstance(returned, (bytes, bytearray, memoryview)):
        return np.frombuffer(returned, np.uint8)
    array = from_target_array(returned, f"{function}'s result")
    if array.dtype.kind not in "iuV" and array.dtype.itemsize != 1:
        raise BadReturn(f"{function} returned dtype {array.dtype}; return bytes, or an array of integers")
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)


def _to_layout(items: npt.NDArray[np.uint8], layout: str) -> npt.NDArray[np.uint8]:
    """Items as a target takes them: its bytes, or one to a byte."""
    return items if layout == "unpacked" else get_layout(layout).pack(items)


def _from_layout(returned: Any, what: str, shape: tuple[int, ...], layout: str) -> npt.NDArray[np.uint8]:
    """The items of a shape that a target returned, in a layout or one to a byte."""
    if layout == "unpacked":
        items = from_target_array(returned, what)
        if items.shape != shape:
            raise BadReturn(f"{what} have shape {items.shape}; {shape} was expected, one to a byte (or declare SPARSE_LAYOUT)")
        return _bytes(items, what)
    try:
        size = get_layout(layout).size(shape)
    except ValueError as error:
        raise BadReturn(f"{what} of shape {shape} cannot lie in {layout}: {error}") from None
    given = getattr(returned, "nbytes", size)
    data = _flat_bytes(returned, what) if given == size else None
    if data is None or data.size != size:
        raise BadReturn(f"{what} have {given} bytes; {layout} takes {size} for {shape}")
    return get_layout(layout).unpack(data, shape)[0]


def _floats(a: npt.NDArray[Any], shape: tuple[int, ...], what: str) -> npt.NDArray[Any]:
    if a.dtype not in (np.float32, np.float16, DTYPES["bfloat16"]):
        raise BadReturn(f"{what} returned dtype {a.dtype}; return float32")
    if a.shape != shape:
        raise BadReturn(f"{what} returned shape {a.shape}; {shape} was expected")
    return a.astype(np.float32)
