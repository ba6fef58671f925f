"""Sparse functions that are wrong in some shapes or states alone are found; the plain one is not accused."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from mxspec import sparsity
from mxspec_lab.sparse.plain import Plain

from tests.judge.failing import list_failing

FORMATS = ("e2m1-2to4", "int4-4to8")
FUNCTIONS = ("prune", "compress", "decompress")
Wrap = Callable[["Target", str, tuple[Any, ...]], Any]


class Target:
    """The plain implementation behind something that may be wrong."""

    VERSION = "1"

    def __init__(self, fmt: str, wrap: Wrap) -> None:
        self.plain, self.wrap, self.kept = Plain(name="plain", formats=(fmt,)), wrap, dict[Any, Any]()
        for name in (n for n in dir(self.plain) if n.isupper()):
            setattr(self, name, getattr(self.plain, name))

    def right(self, function: str, arguments: tuple[Any, ...]) -> Any:
        return getattr(self.plain, function)(*arguments)

    def prune(self, *arguments: Any) -> Any:
        return self.wrap(self, "prune", arguments)

    def compress(self, *arguments: Any) -> Any:
        return self.wrap(self, "compress", arguments)

    def decompress(self, *arguments: Any) -> Any:
        return self.wrap(self, "decompress", arguments)


def spoil(answer: Any) -> Any:
    """The answer with another last row."""
    first = np.array(answer[0] if isinstance(answer, tuple) else answer)
    first[-1] = 0 if first[-1].any() else 1
    return (first, *answer[1:]) if isinstance(answer, tuple) else first


def in_shapes(function: str, is_wrong: Callable[[int, int], bool], target: Target, called: str, arguments: tuple[Any, ...]) -> Any:
    answer = target.right(called, arguments)
    rows, k = arguments[0].shape
    return spoil(answer) if called == function and is_wrong(rows, 2 * k if called == "decompress" else k) else answer


def once_for_kept(target: Target, called: str, arguments: tuple[Any, ...]) -> Any:
    if called != "decompress":
        return target.right(called, arguments)
    key = arguments[0].tobytes(), arguments[2:]
    if key not in target.kept:
        target.kept[key] = target.right(called, arguments)
    return target.kept[key].copy()


def metadata_for_a_shape(target: Target, called: str, arguments: tuple[Any, ...]) -> Any:
    if called == "decompress":
        metadata = target.kept.setdefault(arguments[1].shape, arguments[1].copy())
        arguments = (arguments[0], metadata, *arguments[2:])
    return target.right(called, arguments)


def after_another(function: str, target: Target, called: str, arguments: tuple[Any, ...]) -> Any:
    answer, last = target.right(called, arguments), target.kept.get("last")
    target.kept["last"] = called
    return spoil(answer) if called == function and last not in (None, called) else answer


def every_500th(target: Target, called: str, arguments: tuple[Any, ...]) -> Any:
    number = target.kept[called] = target.kept.get(called, 0) + 1
    return spoil(target.right(called, arguments)) if number % 500 == 0 else target.right(called, arguments)


def crossed_in_a_tail(target: Target, called: str, arguments: tuple[Any, ...]) -> Any:
    """The same numbers, under nibbles that name the higher position first."""
    answer = target.right(called, arguments)
    if called != "compress" or not arguments[0].shape[0] % 32:
        return answer
    kept, metadata = answer
    units = kept.reshape(*metadata.shape, 2, -1)[:, :, ::-1]
    return np.ascontiguousarray(units).reshape(kept.shape), np.asarray((metadata & 3) << 2 | metadata >> 2, np.uint8)


SHAPES: dict[str, Callable[[int, int], bool]] = {
    "17 rows": lambda rows, k: rows == 17,
    "129 rows": lambda rows, k: rows == 129,
    "k of 384": lambda rows, k: k == 384,
    "k above 4096": lambda rows, k: k > 4096,
    "as many rows as codes": lambda rows, k: rows == k,
    "a million codes": lambda rows, k: rows * k > 1 << 20,
    "four million codes": lambda rows, k: rows * k > 1 << 22,
}
WRONG: dict[str, Wrap] = {
    **{f"{name}, {f}": partial(in_shapes, f, is_wrong) for name, is_wrong in SHAPES.items() for f in FUNCTIONS},
    **{f"{f} after another": partial(after_another, f) for f in ("prune", "compress")},
    "kept codes decompressed once": once_for_kept,
    "metadata kept for a shape": metadata_for_a_shape,
    "every 500th call": every_500th,
    "illegal nibbles in a tail of rows": crossed_in_a_tail,
}


@pytest.mark.all_calls
@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_in_one_way_alone_is_found(name: str, fmt: str) -> None:
    assert list_failing(Target(fmt, WRONG[name])) & {"call-size", "state"}


@pytest.mark.all_calls
@pytest.mark.parametrize("fmt", FORMATS)
def test_the_plain_one_is_not_accused(fmt: str) -> None:
    assert list_failing(Target(fmt, Target.right)) == set()


def higher_in_one_row(target: Target, called: str, arguments: tuple[Any, ...]) -> Any:
    if called == "prune" and len(arguments[0]) == 1:
        return sparsity.prune(np.asarray(arguments[0]), rule="higher")
    return target.right(called, arguments)


@pytest.mark.all_calls
def test_a_claimed_rule_holds_in_every_call() -> None:
    target = Target(FORMATS[0], higher_in_one_row)
    assert list_failing(target) == set(), "without a rule each call may choose anew"
    target.PRUNE_RULE = "lower"
    assert list_failing(target) == {"call-size"}


def in_one_buffer(target: Target, called: str, arguments: tuple[Any, ...]) -> Any:
    answer = target.right(called, arguments)
    if called != "decompress" or answer.size <= 16384:
        return answer
    buffer = target.kept.setdefault(answer.shape, np.empty_like(answer))
    buffer[...] = answer
    return buffer


def into_the_input(target: Target, called: str, arguments: tuple[Any, ...]) -> Any:
    answer = target.right(called, arguments)
    if called == "prune" and answer.size > 16384 and arguments[0].flags.writeable:
        arguments[0][...] = answer
    return answer


def without_a_pitch(target: Target, called: str, arguments: tuple[Any, ...]) -> Any:
    first, *others = arguments
    moved = called == "prune" and len(first) > 64 and not first.flags.c_contiguous
    return target.right(called, (np.roll(first, 1, axis=1) if moved else first, *others))


def through_one_place(target: Target, called: str, arguments: tuple[Any, ...]) -> Any:
    answer = target.right(called, arguments)
    if called != "prune" or answer.shape[1] <= 512:
        return answer
    target.kept["answer"] = answer
    time.sleep(0.002)
    held = target.kept["answer"]
    return held if held.shape == answer.shape else answer


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
    found = list_failing(Target(FORMATS[0], wrap))
    assert topic in found
    assert found <= {topic, "state"}, "what shares memory may be wrong in threads, too"


def stumbling(special: str, target: Target, called: str, arguments: tuple[Any, ...]) -> Any:
    if called == "prune" and special == "rows" and len(arguments[0]) > 512:
        raise IndexError("list index out of range")
    if called == "prune" and special == "pitch" and not arguments[0].flags.c_contiguous:
        raise KeyError("pitch")
    if special == "threads" and threading.current_thread() is not threading.main_thread():
        raise AttributeError("no handle")
    return target.right(called, arguments)


@pytest.mark.all_calls
@pytest.mark.parametrize(("special", "topic"), [("rows", "call-size"), ("pitch", "memory"), ("threads", "state")])
def test_code_that_fails_refuses_nothing(special: str, topic: str) -> None:
    assert list_failing(Target(FORMATS[0], partial(stumbling, special))) == {topic}
