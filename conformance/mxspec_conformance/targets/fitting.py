"""Targets that take matrices of some shapes only: blocks are laid into such matrices, and their answers taken out again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import get_block
from mxspec_conformance.targets.capabilities import Capabilities, ShapeLimits
from mxspec_conformance.targets.sessions import TargetSession

#: Calls that hold a call -> the place of the function's name among the arguments.
_NESTED = {"arranged": 1, "held": 2, "repeated": 2, "output_dtype": 0, "probe": 0, "reused": 0, "strays": 0, "timed": 0}

#: Answer in the shape that was made -> answer in the shape that was requested.
Unlay = Callable[[Any], Any]


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
        place = _NESTED.get(function)
        name = function if place is None else args[place]
        if name not in self.limits or _is_bound(kwargs):
            return self.inner.call(function, *args, **kwargs)
        if place is None:
            given, unlay = self._lay(name, args)
            return unlay(self.inner.call(function, *given, **self._lay_words(name, args, kwargs)))
        head, tail = args[: place + 1], args[place + 1 :]
        kwargs = self._lay_words(name, tail[0] if function in ("probe", "reused", "held") else tail, kwargs)
        if function in ("probe", "reused"):
            (first, _), (second, unlay) = (self._lay(name, given) for given in tail)
            answer = self.inner.call(function, *head, first, second, **kwargs)
            return unlay(answer) if function == "reused" else (*answer[:-1], _unlay_last(unlay, first, second, answer[-1]))
        if function == "held":
            return self.inner.call(function, *head, *(self._lay(name, given)[0] for given in tail), **kwargs)
        given, unlay = self._lay(name, tail)
        answer = self.inner.call(function, *head, *given, **kwargs)
        return unlay(answer) if function in ("arranged", "strays") else answer

    def _lay_call(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        if name not in self.limits or _is_bound(options):
            return name, args, options
        return name, self._lay(name, args)[0], self._lay_words(name, args, options)

    def _lay_words(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
        """Options in which each random word stays with its number, and each given scale with its block; words that are not one
        for each number stay as they are."""
        laid = dict(options)
        if options.get("random_bits") is not None and options["random_bits"].shape == args[0].shape:
            laid["random_bits"] = self._lay(name, (options["random_bits"], *args[1:]))[0][0]
        if options.get("scales") is not None:
            # Behind one another as the blocks of x are, and again from the first.
            laid["scales"] = lay_dequantize((args[0], options["scales"], args[1]), self.limits[name])[0][1]
        return laid

    def _lay(self, name: str, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], Unlay]:
        lay = lay_quantize if name == "quantize" else lay_dequantize
        return lay(args, self.limits[name])


def _is_bound(options: Mapping[str, Any]) -> bool:
    """Whether a call's shape means more than its blocks."""
    return options.get("axis", -1) != -1 or bool(options.get("pad")) or options.get("block") is not None


def _unlay_last(unlay: Unlay, first: tuple[Any, ...], second: tuple[Any, ...], answer: Any) -> Any:
    """The last answer of a probe is to the first call, which is as large as the second."""
    return unlay(answer) if first[0].shape == second[0].shape else answer


def lay_quantize(args: tuple[Any, ...], limits: ShapeLimits) -> tuple[tuple[Any, ...], Unlay]:
    """The arguments of `quantize` in a shape within limits; rows that are no whole number of blocks stay as they are."""
    x, fmt, *rest = args
    k = get_block(fmt).k
    if x.ndim != 2 or limits.allow(x.shape) or x.size == 0 or x.shape[1] % k:
        return args, lambda answer: answer
    shape, count = limits.fit(x.size // k, k), x.size // k

    def unlay(answer: Any) -> Any:
        codes, scales = answer
        return codes.reshape(-1, k)[:count].reshape(x.shape), scales.reshape(-1)[:count].reshape(len(x), -1)

    return (_fill(x.reshape(-1, k), shape), fmt, *rest), unlay


def lay_dequantize(args: tuple[Any, ...], limits: ShapeLimits) -> tuple[tuple[Any, ...], Unlay]:
    """The arguments of `dequantize` in a shape within limits; codes and scales that do not fit together stay as they are."""
    codes, scales, fmt, *rest = args
    k = get_block(fmt).k
    fitting = codes.ndim == 2 and scales.shape == (codes.shape[0], codes.shape[1] // k) and codes.shape[1] % k == 0
    if not fitting or limits.allow(codes.shape) or codes.size == 0:
        return args, lambda answer: answer
    shape, count = limits.fit(scales.size, k), scales.size
    given = _fill(codes.reshape(-1, k), shape), _fill(scales.reshape(-1, 1), (shape[0], shape[1] // k))
    return (*given, fmt, *rest), lambda values: values.reshape(-1, k)[:count].reshape(codes.shape)


def _fill(rows: npt.NDArray[Any], shape: tuple[int, int]) -> npt.NDArray[Any]:
    """Rows one behind the other in a matrix, again from the first where it is larger."""
    count = math.prod(shape) // rows.shape[1]
    return np.ascontiguousarray(rows[np.arange(count) % len(rows)]).reshape(shape)
