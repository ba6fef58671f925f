"""Affine functions that are wrong in some shapes, memory or states alone are found; the plain one is not accused."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from mxspec_lab.mutants.affine_mutants import Affine

from tests.judge.failing import list_failing

FORMATS = ("int4-g64-zero-float16", "int4-g32-bias-bfloat16/words")
#: A target's function and its arguments -> its answer.
Wrap = Callable[["Target", str, tuple[Any, ...]], Any]


class Target:
    """The plain implementation behind something that may be wrong."""

    VERSION = "1"

    def __init__(self, name: str, fmt: str, wrap: Wrap) -> None:
        self.NAME, self.AFFINE = name, (fmt,)
        self.plain, self.wrap, self.kept = Affine("plain", (fmt,)), wrap, dict[Any, Any]()

    def right(self, function: str, arguments: tuple[Any, ...]) -> Any:
        return getattr(self.plain, function)(*arguments)

    def quantize_affine(self, x: Any, name: str) -> Any:
        return self.wrap(self, "quantize_affine", (x, name))

    def dequantize_affine(self, codes: Any, scales: Any, offsets: Any, name: str) -> Any:
        return self.wrap(self, "dequantize_affine", (codes, scales, offsets, name))


def spoil(answer: Any) -> Any:
    """The answer with nothing in the last row."""
    first = np.array(answer[0] if isinstance(answer, tuple) else answer)
    first[-1] = 0
    return (first, *answer[1:]) if isinstance(answer, tuple) else first


def in_shapes(function: str, is_wrong: Callable[[int, int], bool], target: Target, called: str, arguments: tuple[Any, ...]) -> Any:
    answer = target.right(called, arguments)
    given = arguments[0] if called == "quantize_affine" else answer
    return spoil(answer) if called == function and is_wrong(*given.shape) else answer


def once_for_a_shape(part: int, target: Target, called: str, arguments: tuple[Any, ...]) -> Any:
    if called == "dequantize_affine":
        kept = target.kept.setdefault(arguments[part].shape, arguments[part].copy())
        arguments = (*arguments[:part], kept, *arguments[part + 1 :])
    return target.right(called, arguments)


def once_for_codes(target: Target, called: str, arguments: tuple[Any, ...]) -> Any:
    if called == "quantize_affine":
        return target.right(called, arguments)
    key = arguments[0].tobytes()
    if key not in target.kept:
        target.kept[key] = target.right(called, arguments)
    return target.kept[key].copy()


def after_the_other(target: Target, called: str, arguments: tuple[Any, ...]) -> Any:
    answer, last = target.right(called, arguments), target.kept.get("last")
    target.kept["last"] = called
    return spoil(answer) if called == "quantize_affine" and last == "dequantize_affine" else answer


def every_500th(target: Target, called: str, arguments: tuple[Any, ...]) -> Any:
    number = target.kept[called] = target.kept.get(called, 0) + 1
    answer = target.right(called, arguments)
    return spoil(answer) if number % 500 == 0 else answer


def nan_along_rows(target: Target, called: str, arguments: tuple[Any, ...]) -> Any:
    answer = target.right(called, arguments)
    if called == "quantize_affine" and answer[1].shape[1] > 4:
        scales = np.array(answer[1])
        scales[np.isnan(scales.astype(np.float32)).any(axis=1)] = np.nan
        answer = (answer[0], scales, answer[2])
    return answer


def nan_everywhere(target: Target, called: str, arguments: tuple[Any, ...]) -> Any:
    answer = target.right(called, arguments)
    if called == "dequantize_affine" and len(answer) > 8 and np.isnan(np.asarray(answer, np.float32)).any():
        answer = np.full_like(answer, np.nan)
    return answer


SHAPES: dict[str, Callable[[int, int], bool]] = {
    "17 rows": lambda rows, k: rows == 17,
    "129 rows": lambda rows, k: rows == 129,
    "more than 1000 rows": lambda rows, k: rows > 1000,
    "k of 384": lambda rows, k: k == 384,
    "k above 4096": lambda rows, k: k > 4096,
    "several tiles of rows and groups": lambda rows, k: rows > 64 and k >= 512,
    "one long row": lambda rows, k: rows == 1 and k > 512,
    "as many rows as values": lambda rows, k: rows == k,
    "a million values": lambda rows, k: rows * k > 1 << 20,
    "four million values": lambda rows, k: rows * k > 1 << 22,
}
STATES: dict[str, Wrap] = {
    "scales kept for a shape": partial(once_for_a_shape, 1),
    "offsets kept for a shape": partial(once_for_a_shape, 2),
    "values kept for codes": once_for_codes,
    "codes after values": after_the_other,
    "every 500th call": every_500th,
    "NaN of one group in all": nan_everywhere,
    "NaN of one group in its row": nan_along_rows,
}
WRONG: dict[str, Wrap] = {
    **{f"{name}, {function}": partial(in_shapes, function, is_wrong) for name, is_wrong in SHAPES.items() for function in
       ("quantize_affine", "dequantize_affine")},
    **STATES,
}  # fmt: skip


@pytest.mark.all_calls
@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_in_one_way_alone_is_found(name: str, fmt: str) -> None:
    assert list_failing(Target("target", fmt, WRONG[name])) & {"call-size", "state"}


@pytest.mark.all_calls
@pytest.mark.parametrize("fmt", FORMATS)
def test_the_plain_one_is_not_accused(fmt: str) -> None:
    assert list_failing(Target("target", fmt, Target.right)) == set()


def in_one_buffer(target: Target, called: str, arguments: tuple[Any, ...]) -> Any:
    answer = target.right(called, arguments)
    if called == "quantize_affine" or answer.size < 8192:
        return answer
    buffer = target.kept.setdefault(answer.shape, np.empty_like(answer))
    buffer[...] = answer
    return buffer


def into_the_input(target: Target, called: str, arguments: tuple[Any, ...]) -> Any:
    answer = target.right(called, arguments)
    if len(arguments[0]) > 64 and arguments[0].flags.writeable:
        arguments[0][:, -1] = 0
    return answer


def without_a_pitch(target: Target, called: str, arguments: tuple[Any, ...]) -> Any:
    first, *others = arguments
    moved = len(first) > 64 and not first.flags.c_contiguous
    return target.right(called, (np.roll(first, 1, axis=1) if moved else first, *others))


def through_one_place(target: Target, called: str, arguments: tuple[Any, ...]) -> Any:
    if called == "quantize_affine" or arguments[1].shape[1] < 8:
        return target.right(called, arguments)
    target.kept["scales"] = np.array(arguments[1])
    time.sleep(0.002)
    held = target.kept["scales"]
    return target.right(called, (arguments[0], held if held.shape == arguments[1].shape else arguments[1], *arguments[2:]))


LARGE: dict[str, tuple[Wrap, str]] = {
    "answers share a buffer": (in_one_buffer, "memory"),
    "the input is written": (into_the_input, "memory"),
    "a pitch is ignored": (without_a_pitch, "memory"),
    "threads share a place": (through_one_place, "state"),
}


@pytest.mark.all_calls
@pytest.mark.parametrize("name", LARGE)
def test_memory_and_threads_of_larger_calls_are_looked_at(name: str) -> None:
    wrap, topic = LARGE[name]
    assert topic in list_failing(Target("target", FORMATS[0], wrap))


def stumbling(special: str, target: Target, called: str, arguments: tuple[Any, ...]) -> Any:
    if special == "rows" and len(arguments[0]) > 512:
        raise IndexError("list index out of range")
    if special == "pitch" and not arguments[0].flags.c_contiguous:
        raise KeyError("pitch")
    if special == "threads" and threading.current_thread() is not threading.main_thread():
        raise AttributeError("no handle")
    return target.right(called, arguments)


@pytest.mark.all_calls
@pytest.mark.parametrize(("special", "topic"), [("rows", "call-size"), ("pitch", "memory"), ("threads", "state")])
def test_code_that_fails_refuses_nothing(special: str, topic: str) -> None:
    assert list_failing(Target("target", FORMATS[0], partial(stumbling, special))) == {topic}
