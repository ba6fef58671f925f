"""Calling a target's functions with NumPy arrays, and checking what comes back."""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.acceptance import flag_nan_codes
from mxspec.environment import describe_changes
from mxspec.formats import get_block
from mxspec.layouts import get_layout
from mxspec_conformance.targets.arrays import arrange_array, from_target_array
from mxspec_conformance.targets.capabilities import FAKE, Capabilities
from mxspec_conformance.targets.checks import is_dense
from mxspec_conformance.targets.declared import parameters_of, takes_prepared
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.errors import BadReturn, TargetError
from mxspec_conformance.targets.fake import ScaleRule, find_rule, read_values, shows_codes
from mxspec_conformance.targets.forms import MOST, TargetArray, find_stray_scales, read_bytes, read_scale_numbers, split_answer
from mxspec_conformance.targets.interface import OPERATIONS, Call, Form, Operation, Shape
from mxspec_conformance.targets.laying_out import hand_over_data
from mxspec_conformance.targets.operand_words import UNPACKED
from mxspec_conformance.targets.surroundings import list_loaded

#: Times as long as on an idle machine that something may take on a busy one.
_BUSY = 8
#: Seconds after which threads begin no further round, and the rounds that they make at least.
_THREAD_SECONDS, _LEAST_ROUNDS = 0.5, 2
#: Prepared operands that are kept: calls by turns have a few.
_MOST_PREPARED = 8
#: What an output buffer holds before the target writes into it.
_DIRT = 0xA5


class _Clock:
    """Time since it was made, of which the machine's other work is no part: the process's own, and what it waited for.

    A wait may be for a device or for a turn on the processor: it counts for a part.
    """

    def __init__(self) -> None:
        self._wall, self._own = time.monotonic(), time.process_time()

    @property
    def seconds(self) -> float:
        """At most the time on the wall."""
        wall = time.monotonic() - self._wall
        return min(wall, max(time.process_time() - self._own, wall / _BUSY))


def _overwrite(kept: Any, array: Any) -> Any:
    """An array that was given before, with other numbers in it; one that a target must not write is overwritten here."""
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
    #: Of `fake_quantize`: what no code explains in the last answer, and the rules of the scale by format and tensor scale.
    _unexplained: Any = None
    _rules: dict[tuple[str, bool], ScaleRule] = field(default_factory=dict)
    #: Arrays that the next call's inputs are written into.
    _kept: list[Any] = field(default_factory=list)
    #: What `prepare` returned for an operand b, by its shapes and bytes: it serves every later call with this b, whatever was prepared since.
    _prepared: dict[Any, Any] = field(default_factory=dict)

    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """One call. Raises BadReturn for malformed answers, and whatever the target raises."""
        handler = getattr(self, f"_call_{function}", None)
        if function not in OPERATIONS and handler is None:
            raise TargetError(f"the judge cannot call {function}")
        self._given, self._handed = [], 0
        with np.errstate(all="ignore"):
            return handler(*args, **kwargs) if handler else self._perform(OPERATIONS[function], args, kwargs)

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

    def _call_probe(self, function: str, first: tuple[Any, ...], second: tuple[Any, ...], **kwargs: Any) -> tuple[bool, bool, Any]:
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
    ) -> tuple[int, int, int]:
        """Two calls by turns, up to so many, or seconds as on an idle machine, while all answers and inputs are held: the number
        of the first whose answer or input a later one changed, and of the first answered otherwise than before, or -1; and how
        many were made."""
        clock, differs = _Clock(), -1
        held: list[tuple[Any, list[bytes], list[tuple[Any, list[bytes]]]]] = []
        settled: dict[int, list[bytes]] = {}
        while len(held) < times and clock.seconds <= seconds:
            # In an order without a period, so that no memory that comes round gets what it held.
            turn = len(held).bit_count() % 2
            answer = _settled_bytes(function, (first, second)[turn], self.call(function, *(first, second)[turn], **kwargs))
            if settled.setdefault(turn, answer) != answer and differs < 0:
                differs = len(held)
            held.append((self._returned, _copied_bytes(self._returned), self._given))
        for number, (returned, before, given) in enumerate(held):
            if _copied_bytes(returned) != before or any(_copied_bytes(array) != then for array, then in given):
                return number, differs, len(held)
        return -1, differs, len(held)

    def _call_reused(self, function: str, first: tuple[Any, ...], second: tuple[Any, ...], **kwargs: Any) -> Any:
        """The answer to a second call whose inputs lie where those of the first lay."""
        self.call(function, *first, **kwargs)
        self._kept = [array for array, _ in self._given]
        try:
            return self.call(function, *second, **kwargs)
        finally:
            self._kept = []

    def _call_strays(self, function: str, x: npt.NDArray[Any], fmt: str, **kwargs: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """What an answer of `quantize` holds that its format has not: values [rows, k] and scales [rows, blocks]; zero and NaN
        where there is nothing of the kind."""
        codes, scales = self.call(function, x, fmt, **kwargs)
        values = self._unexplained if self.capabilities.fake else np.zeros(codes.shape, np.float32)
        if self.capabilities.scales != "float32":
            return values, np.full(scales.shape, np.nan, np.float32)
        return values, find_stray_scales(from_target_array(self._returned[1], "scales"), fmt)

    def _read_fake(self, call: Call, returned: Any) -> tuple[Any, Any]:
        """Codes and scales of what `fake_quantize` returned: values, and scales if the target declares them."""
        x, fmt, tensor = call["x"], call["format"], call.get("tensor_scale")
        values, scales = returned if self.capabilities.scales and isinstance(returned, tuple) and len(returned) == 2 else (returned, None)
        if isinstance(values, tuple):
            raise BadReturn("fake_quantize returned a tuple; return values alone, or declare SCALES and return (values, scales)")
        if self.capabilities.scales and scales is None:
            raise BadReturn(f"fake_quantize returned {type(returned).__name__}; by SCALES return (values, scales)")
        key = fmt, tensor is not None
        if key not in self._rules:
            self._rules[key] = find_rule(partial(self._ask_values, fmt, tensor, x.shape), fmt, self.capabilities.dtypes[0], tensor and 1.0)
        # Read as those of `quantize` are; the returned ones are what comes back.
        known = None if scales is None else TargetArray(OPERATIONS["quantize"], "scales", call, self.capabilities).take(
            scales, OPERATIONS["quantize"].expect(call)[1]
        )  # fmt: skip
        found = read_values(from_target_array(values, "values"), x, fmt, self._rules[key], scales=known, tensor_scale=tensor)
        self._unexplained = found.unexplained
        return found.codes, found.scales if scales is None else scales

    def _ask_values(self, fmt: str, tensor: float | None, shape: Shape, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The values of other numbers [blocks, k], without a trace in what is held of the call; under a tensor scale under that of one.

        shape: what the target has just answered. Where it takes some matrices only, the blocks are laid into such.
        """

        def ask(part: npt.NDArray[Any]) -> npt.NDArray[Any]:
            array = arrange_array(part, self.capabilities.arrays, "contiguous", self.capabilities.device)
            returned = self.module.fake_quantize(array, fmt, **({} if tensor is None else {"tensor_scale": 1.0}))
            return from_target_array(returned[0] if isinstance(returned, tuple) else returned, "values")

        k, blocks = x.shape[1], math.prod(shape) // x.shape[1]
        is_laid = len(shape) == 2 and blocks > 0 and shape[1] % k == 0
        if self.capabilities.limits.are_none or not is_laid:
            try:
                return ask(x)
            except Exception:  # whatever a target raises
                if not is_laid:
                    raise
        parts = np.resize(x, (-(-len(x) // blocks), *shape))
        return np.concatenate([ask(part).reshape(-1, k) for part in parts])[: len(x)]

    def _call_trimmed(self, x: npt.NDArray[Any], fmt: str, **kwargs: Any) -> npt.NDArray[np.uint8] | None:
        """The codes that `quantize` returns where they have the shape of x; else None."""
        if self.capabilities.fake:
            return None
        with contextlib.suppress(BadReturn):
            self.call("quantize", x, fmt, **kwargs)
        codes = self._returned[0] if isinstance(self._returned, (tuple, list)) and self._returned else None
        if getattr(codes, "shape", None) != x.shape:
            return None
        return read_bytes(from_target_array(codes, "codes"), "codes")

    def _call_covered(self, x: npt.NDArray[Any], fmt: str, axis: int = -1, **kwargs: Any) -> int:
        """How many elements of a line the codes stand for that `quantize` returns, whatever their shape should be; -1 where
        no matrix of codes comes back."""
        if self.capabilities.fake:
            return -1
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

    def _call_loaded_files(self) -> str:
        """Files of this process's modules and native libraries, a line each."""
        return list_loaded()

    def _call_wrote(self, function: str, *args: Any, **kwargs: Any) -> bool:
        """Whether a call wrote into its input."""
        self.call(function, *args, **kwargs)
        return any(_copied_bytes(array) != before for array, before in self._given)

    def _call_timed(self, function: str, *args: Any, **kwargs: Any) -> float:
        """The seconds that a call takes, as on an idle machine."""
        clock = _Clock()
        self.call(function, *args, **kwargs)
        return clock.seconds

    def _call_repeated(self, times: int, seconds: float, function: str, *args: Any, **kwargs: Any) -> tuple[int, int]:
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
        than alone, of how many. Fewer rounds than requested where they take long."""
        alone = [_outcome(self, function, args, kwargs) for function, args, kwargs in calls]
        start = threading.Barrier(len(calls))
        wrong, made = [0] * len(calls), [0] * len(calls)
        refused: list[list[Exception]] = [[] for _ in calls]

        def work(number: int) -> None:
            mine = Marshaller(self.module, self.capabilities, _rules=self._rules)
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

    def _perform(self, operation: Operation, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """A call of one of the target's own functions, as the table has it."""
        call = operation.name_call(args, options)
        buffer = self._buffer(operation, call)
        # The operands of a product come last: inputs have numbers by which one alone is arranged.
        order = call if "a" not in call else sorted(call, key=("a", "b", "groups").__contains__)
        given = {name: self._hand(operation, name, call) for name in order}
        fake = self.capabilities.fake and operation.name == "quantize"
        name = FAKE if fake else operation.name
        returned = self._ask(name, *[given[n] for n in operation.arguments], **{n: given[n] for n in options}, **buffer)
        if fake and not shows_codes(call.get("tensor_scale", 1.0)):
            raise NotImplementedError("values under such a tensor scale do not show their codes")
        if fake:
            returned = self._read_fake(call, returned)
        wanted = operation.expect(call)
        parts = split_answer(operation, buffer.get("out") if returned is None else returned, len(wanted))
        return operation.join(
            [TargetArray(operation, w.name, call, self.capabilities).take(part, w) for part, w in zip(parts, wanted, strict=True)]
        )

    def _hand(self, operation: Operation, name: str, call: Call) -> Any:
        """An argument as the target takes it."""
        value = call[name]
        if isinstance(value, np.ndarray):
            is_plain = name not in operation.forms
            return self._array(value if is_plain else TargetArray(operation, name, call, self.capabilities).give(value))
        only_sides = getattr(self.module, "MXSPEC_TAKES_SIDES", False)
        if name == "groups" and not only_sides:
            return self._array(np.array(value, np.int32))
        if name == "b" and takes_prepared(self.module):
            return self._prepare(value)
        if name in ("a", "b"):
            return hand_over_data(value, convert=self._array, only_sides=only_sides)
        return tuple(value) if name == "shape" else value

    def _prepare(self, data: Any) -> Any:
        """What the target made of an operand. Prepared again is what lies in memory in another way, or is overwritten afterwards."""
        plain = self._arrangement == "contiguous" and not self._kept
        key = tuple((np.shape(part), np.asarray(part).tobytes()) for part in data)  # the bytes of 8 x 64 may be those of 16 x 32
        if not plain:
            self._prepared.clear()
        if key not in self._prepared:
            handle = self.module.prepare(hand_over_data(data, convert=self._array))
            if not plain:
                return handle
            if len(self._prepared) == _MOST_PREPARED:
                self._prepared.pop(next(iter(self._prepared)))
            self._prepared[key] = handle
        return self._prepared[key]

    def _buffer(self, operation: Operation, call: Call) -> dict[str, Any]:
        """The keyword `out` with a dirty buffer, for a packing function that takes one."""
        if operation.forms.get("data") is not Form.DATA or "out" not in parameters_of(getattr(self.module, operation.name)):
            return {}
        size = get_layout(call["layout"]).size(operation.measure(call))
        return {"out": self._array(np.full(size, _DIRT, np.uint8), written=True)}

    def _call_raw_quantize(self, x: npt.NDArray[Any], fmt: str, **kwargs: Any) -> tuple[bytes, bytes]:
        """The bytes of what `quantize` returns, whatever their layout."""
        if self.capabilities.fake:
            raise NotImplementedError("fake_quantize returns values, in no layout")
        result = self._ask("quantize", self._array(x), fmt, **kwargs)
        arrays = [from_target_array(a, "quantize's result") for a in split_answer(OPERATIONS["quantize"], result, 2)]
        if max(a.nbytes for a in arrays) > 8 * MOST * max(x.size, 1024):
            raise BadReturn(f"quantize returned {max(a.nbytes for a in arrays)} bytes for x of shape {x.shape}")
        if self.capabilities.scales == "float32" and arrays[1].dtype.kind == "f" and get_block(fmt).scale.bits <= 8:
            arrays[1] = read_scale_numbers(arrays[1], fmt)
        codes, scales = (np.ascontiguousarray(a).tobytes() for a in arrays)
        return codes, scales

    def _call_output_dtype(self, function: str, /, *args: Any, **kwargs: Any) -> str:
        """The dtype of the values that a function returns; `float32` where it is none that the interface has."""
        self.call(function, *args, **kwargs)
        name = str(getattr(self._returned, "dtype", "float32")).rpartition(".")[2]
        return name if name in DTYPES else "float32"


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
        lost = flag_nan_codes(scales, get_block(args[1]).scale)
        if lost.any() and codes.ndim == scales.ndim:
            edges = [-(-whole // part) for whole, part in zip(codes.shape, scales.shape, strict=True)]
            for axis, edge in enumerate(edges):
                lost = np.repeat(lost, edge, axis=axis)
            answer = np.where(lost[tuple(map(slice, codes.shape))], np.uint8(0), codes), scales
    return _copied_bytes(answer)


def _copied_bytes(arrays: Any) -> list[bytes]:
    members = arrays if isinstance(arrays, (tuple, list)) else [arrays]
    # A number, such as a tensor scale, has no memory; its value counts all the same.
    return [np.asarray(a).tobytes() if isinstance(a, (int, float)) else from_target_array(a, "an array").tobytes() for a in members]
