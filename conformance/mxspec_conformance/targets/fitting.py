"""Targets that take matrices of some shapes only: blocks are laid into such matrices, and their answers taken out again.

So are the blocks of formats that have one scale for a whole row, one to a row, and for a whole tensor, one to a call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import BlockFormat, Extent, get_block
from mxspec_conformance.targets.capabilities import Capabilities, ShapeLimits
from mxspec_conformance.targets.sessions import TargetSession

#: Calls that hold a call -> the place of the function's name among the arguments.
_NESTED = {"arranged": 1, "held": 2, "repeated": 2, "output_dtype": 0, "probe": 0, "reused": 0, "strays": 0, "timed": 0}
#: Those of them that hold two calls, and those that count, of which one tensor is enough.
_PAIRS, _COUNTS = ("held", "probe", "reused"), ("held", "repeated", "output_dtype")
_NO_LIMITS = ShapeLimits()

#: Answer in the shape that was made -> answer in the shape that was requested.
Unlay = Callable[[Any], Any]


class _Upright:
    """A session whose calls are turned: blocks that lie along the last axis here lie along the first one there."""

    def __init__(self, inner: TargetSession, axis: int) -> None:
        self.inner, self.axis = inner, axis
        self.capabilities: Capabilities = inner.capabilities
        self.transport = inner.transport

    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """One call; raises CallError."""
        return _turn(self.inner.call(function, *_turn(args), **{n: _turn(v) for n, v in kwargs.items()}, axis=self.axis))

    def close(self) -> None:
        """Nothing: it is the inner one's."""


def _turn(value: Any) -> Any:
    """A matrix transposed, also within a tuple; anything else as it is."""
    if isinstance(value, tuple):
        return tuple(map(_turn, value))
    return np.ascontiguousarray(value.T) if isinstance(value, np.ndarray) and value.ndim == 2 else value


def _is_upright(args: tuple[Any, ...], options: Mapping[str, Any]) -> bool:
    """Whether a call holds whole blocks along the first axis, in a format in which what lies along an axis has one scale."""
    if options.get("axis") not in (0, -2) or options.get("pad") or options.get("block") is not None:
        return False
    block, shape = get_block(args[1]), args[0].shape
    return block.extent is not Extent.BLOCK and len(shape) == 2 and shape[0] % block.k == 0


class FittedSession:
    """A session whose calls of `quantize` and `dequantize` are laid into shapes that the target takes.

    limits: for each of the two functions that takes not all matrices, those that it takes.
    """

    def __init__(self, inner: TargetSession, limits: Mapping[str, ShapeLimits]) -> None:
        self.inner, self.limits = inner, limits
        self.capabilities: Capabilities = inner.capabilities
        self.transport = inner.transport
        self.environment: dict[str, Any] = getattr(inner, "environment", {})

    def describe_limits(self) -> str:
        """The matrices that are taken, in words; by function where they differ."""
        offered = [function for function in ("quantize", "dequantize") if self.capabilities.has(function)]
        texts = {function: self.limits[function].text for function in offered if function in self.limits}
        same = len(texts) == len(offered) and len(set(texts.values())) == 1
        return next(iter(texts.values())) if same else "; ".join(f"{function}: {text}" for function, text in texts.items())

    def close(self) -> None:
        """Close the session."""
        self.inner.close()

    def call(self, function: str, /, *args: Any, **kwargs: Any) -> Any:
        """One call; raises CallError."""
        if function == "threads":
            rounds, calls = args
            return self.inner.call(function, rounds, [self._lay_call(*call) for call in calls])
        words, verb, at = (function, *args), None, 0
        while isinstance(words[at], str) and words[at] in _NESTED:  # a verb may hold a verb
            verb, at = words[at], at + _NESTED[words[at]] + 1
        name, head, given = words[at], words[: at + 1], words[at + 1 :]
        calls = given if verb in _PAIRS else (given,)
        if name == "quantize" and _is_upright(calls[0], kwargs):
            turned = {n: _turn(v) for n, v in kwargs.items() if n != "axis"}
            return _turn(FittedSession(_Upright(self.inner, kwargs["axis"]), {}).call(*_turn(words), **turned))
        if name not in ("quantize", "dequantize") or _is_bound(name, calls[0], kwargs):
            return self.inner.call(function, *args, **kwargs)
        if any(len(_split_tensors(name, each)) > 1 for each in calls):
            return self._call_each(head, verb, calls, kwargs)
        kwargs = self._lay_words(name, calls[0], kwargs)
        laid = [self._lay(name, each) for each in calls]
        answer = self.inner.call(*head, *([each for each, _ in laid] if verb in _PAIRS else laid[0][0]), **kwargs)
        if verb in (None, "arranged", "reused", "strays"):
            return laid[-1][1](answer)
        if verb == "probe":
            return (*answer[:-1], _unlay_last(laid[-1][1], laid[0][0], laid[1][0], answer[-1]))
        return answer

    def _call_each(self, head: tuple[Any, ...], verb: str | None, calls: tuple[tuple[Any, ...], ...], options: dict[str, Any]) -> Any:
        """The answer to a call, or to a pair of them, of several tensors: each is called alone."""
        name = head[-1]
        parts = [_split_tensors(name, each) for each in calls]
        answers = []
        for i in range(1 if verb in _COUNTS else max(map(len, parts))):
            one = [part[i % len(part)] for part in parts]
            words = {n: _take_block(v, i, len(parts[0])) if n in ("random_bits", "scales") else v for n, v in options.items()}
            answers.append(self.call(*head, *(one if len(one) > 1 else one[0]), **words))
        if verb in _COUNTS:
            return answers[0]
        if verb == "timed":
            return sum(answers)
        asked = calls[-1] if verb == "reused" else calls[0]
        count = len(parts[-1] if verb == "reused" else parts[0])
        if verb != "probe":
            return _join_tensors(name, asked, answers[:count])
        wrote, changed, found = zip(*answers, strict=True)
        return any(wrote), any(changed), _join_tensors(name, asked, found[:count])

    def _lay_call(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        if name not in ("quantize", "dequantize") or _is_bound(name, args, options):
            return name, args, options
        if len(tensors := _split_tensors(name, args)) > 1:  # threads, where no answer comes back
            options = {n: _take_block(v, 0, len(tensors)) if n in ("random_bits", "scales") else v for n, v in options.items()}
            args = tensors[0]
        return name, self._lay(name, args)[0], self._lay_words(name, args, options)

    def _lay_words(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
        """Options in which each random word stays with its number, and each given scale with its block; words that are not one
        for each number stay as they are."""
        laid = dict(options)
        if options.get("random_bits") is not None and options["random_bits"].shape == args[0].shape:
            laid["random_bits"] = self._lay(name, (options["random_bits"], *args[1:]))[0][0]
        if options.get("scales") is not None:
            # Behind one another as the blocks of x are, and again from the first.
            laid["scales"] = lay_dequantize((args[0], options["scales"], args[1]), self._limits_of(name))[0][1]
        return laid

    def _lay(self, name: str, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], Unlay]:
        lay = lay_quantize if name == "quantize" else lay_dequantize
        return lay(args, self._limits_of(name))

    def _limits_of(self, name: str) -> ShapeLimits:
        return self.limits.get(name, _NO_LIMITS)


def _is_bound(name: str, args: tuple[Any, ...], options: Mapping[str, Any]) -> bool:
    """Whether a call's shape means more than its blocks."""
    whole = get_block(args[1 if name == "quantize" else 2]).extent is not Extent.BLOCK
    return options.get("axis", -1) not in ((-1, 1) if whole else (-1,)) or bool(options.get("pad")) or options.get("block") is not None


def _unlay_last(unlay: Unlay, first: tuple[Any, ...], second: tuple[Any, ...], answer: Any) -> Any:
    """The last answer of a probe is to the first call, which is as large as the second."""
    return unlay(answer) if first[0].shape == second[0].shape else answer


def _split_tensors(name: str, args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """The calls of one tensor each that a call holds, where a tensor has one scale; else the call."""
    arrays, (fmt, *rest) = args[: 1 if name == "quantize" else 2], args[1 if name == "quantize" else 2 :]
    block = get_block(fmt)
    count = arrays[0].size // block.k
    if block.extent is not Extent.TENSOR or arrays[0].ndim != 2 or arrays[0].shape[1] % block.k or count <= 1:
        return [args]
    if any(a.size % count for a in arrays):
        return [args]
    return [(*(_take_block(a, i, count) for a in arrays), fmt, *rest) for i in range(count)]


def _take_block(array: npt.NDArray[Any], number: int, count: int) -> npt.NDArray[Any]:
    """One of so many blocks, as a row."""
    return array.reshape(count, -1)[number : number + 1]


def _join_tensors(name: str, args: tuple[Any, ...], answers: Sequence[Any]) -> Any:
    """The answers of tensors as one."""
    if name == "dequantize":
        return np.concatenate(answers).reshape(args[0].shape)
    codes, scales = (np.concatenate(part) for part in zip(*answers, strict=True))
    return codes.reshape(args[0].shape), scales.reshape(len(args[0]), -1)


def lay_quantize(args: tuple[Any, ...], limits: ShapeLimits) -> tuple[tuple[Any, ...], Unlay]:
    """The arguments of `quantize` in a shape within limits; rows that are no whole number of blocks stay as they are."""
    x, fmt, *rest = args
    block = get_block(fmt)
    k, count = block.k, x.size // block.k
    if x.ndim != 2 or x.size == 0 or x.shape[1] % k or (limits.allow(x.shape) and _lies_right(block, x.shape)):
        return args, lambda answer: answer
    shape, width = _find_shape(limits, block, count)

    def unlay(answer: Any) -> Any:
        codes, scales = answer
        return codes.reshape(-1, width)[:count, :k].reshape(x.shape), scales.reshape(-1)[:count].reshape(len(x), -1)

    return (_fill(x.reshape(-1, k), shape, width, block), fmt, *rest), unlay


def lay_dequantize(args: tuple[Any, ...], limits: ShapeLimits) -> tuple[tuple[Any, ...], Unlay]:
    """The arguments of `dequantize` in a shape within limits; codes and scales that do not fit together stay as they are."""
    codes, scales, fmt, *rest = args
    block = get_block(fmt)
    k = block.k
    fitting = codes.ndim == 2 and scales.shape == (codes.shape[0], codes.shape[1] // k) and codes.shape[1] % k == 0
    if not fitting or codes.size == 0 or (limits.allow(codes.shape) and _lies_right(block, codes.shape)):
        return args, lambda answer: answer
    count = scales.size
    shape, width = _find_shape(limits, block, count)
    given = _fill(codes.reshape(-1, k), shape, width, block), _fill(scales.reshape(-1, 1), (shape[0], shape[1] // width), 1, block)
    return (*given, fmt, *rest), lambda values: values.reshape(-1, width)[:count, :k].reshape(codes.shape)


def _lies_right(block: BlockFormat, shape: tuple[int, ...]) -> bool:
    """Whether each block is a row of its own, where rows have one scale."""
    return block.extent is Extent.BLOCK or shape[1] == block.k


def _find_shape(limits: ShapeLimits, block: BlockFormat, count: int) -> tuple[tuple[int, int], int]:
    """The shape of a matrix that is taken and holds so many blocks, and how long each is in it; zeros follow those that become longer."""
    shape = limits.fit(count, block.k)
    if block.extent is Extent.BLOCK:
        return shape, block.k
    return limits.fit(count, shape[1]), shape[1]


def _fill(rows: npt.NDArray[Any], shape: tuple[int, int], width: int, block: BlockFormat) -> npt.NDArray[Any]:
    """Rows one behind the other in a matrix, again from the first where it is larger; a tensor has zeros there."""
    rows, count = np.pad(rows, ((0, 0), (0, width - rows.shape[1]))), math.prod(shape) // width
    places = np.arange(count) % len(rows) if block.extent is not Extent.TENSOR else np.arange(len(rows))
    laid = np.pad(rows[places], ((0, count - len(places)), (0, 0)))
    return np.ascontiguousarray(laid).reshape(shape)
