"""Calls that nobody can answer: a refusal passes, so does an answer as if zeros followed; whatever else comes back does not."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec_conformance.judge.check import check

from tests.bugs.building import Answer, Array, make, right_values


def answer(x: Array, axis: int) -> Answer:
    block = mxspec.quantize(x, "mxfp4", profile="mx-floor", axis=axis, pad=True)
    return block.codes, block.scales


def refuse_ragged(x: Array, axis: int) -> None:
    if x.shape[axis] % 32:
        raise ValueError(f"{x.shape[axis]} is no multiple of 32")


def right(x: Array, fmt: str, axis: int = -1) -> Answer:
    refuse_ragged(x, axis)
    return answer(x, axis)


def padded(x: Array, axis: int, mode: Any) -> Answer:
    lines = np.swapaxes(x, axis, -1)
    codes, scales = answer(np.pad(lines, ((0, 0), (0, -lines.shape[1] % 32)), mode=mode), -1)
    return np.swapaxes(codes, axis, -1), np.swapaxes(scales, axis, -1)


def padding(x: Array, fmt: str, axis: int = -1) -> Answer:
    return padded(x, axis, "constant")


def cutting(x: Array, fmt: str, axis: int = -1) -> Answer:
    whole = x.shape[axis] // 32 * 32
    return answer(np.take(x, range(whole), axis=axis), axis)


def taking_any_axis(x: Array, fmt: str, axis: int = -1) -> Answer:
    return right(x, fmt, axis % 2 - 2)


def repeating_the_last(x: Array, fmt: str, axis: int = -1) -> Answer:
    return padded(x, axis, "edge")


def read(codes: Array, scales: Array, fmt: str) -> Array:
    if scales.shape != (len(codes), codes.shape[1] // 32) or codes.shape[1] % 32:
        raise ValueError(f"scales {scales.shape} are not those of codes {codes.shape}")
    return read_any(codes, scales, fmt)


def read_any(codes: Array, scales: Array, fmt: str) -> Array:
    """As many scales as are needed, whatever was given."""
    blocks = -(-codes.shape[1] // 32)
    rows, columns = np.arange(len(codes)) % len(scales), np.arange(blocks) % scales.shape[1]
    whole = np.pad(codes, ((0, 0), (0, blocks * 32 - codes.shape[1])))
    return right_values(whole, scales[rows][:, columns], fmt)[:, : codes.shape[1]]


def read_with_one_scale_less(codes: Array, scales: Array, fmt: str) -> Array:
    blocks = codes.shape[1] // 32
    if len(scales) != len(codes) or scales.shape[1] not in (blocks, blocks - 1):
        raise ValueError("scales are not those of the codes")
    return read_any(codes, scales, fmt)


RIGHT: dict[str, dict[str, Callable[..., Any]]] = {
    "refuses": {"quantize": right, "dequantize": read},
    "pads": {"quantize": padding, "dequantize": read},
}
WRONG: dict[str, tuple[dict[str, Callable[..., Any]], str]] = {
    "cuts rows short": ({"quantize": cutting}, "quantize"),
    "takes any axis": ({"quantize": taking_any_axis}, "quantize"),
    "repeats the last number": ({"quantize": repeating_the_last}, "quantize"),
    "uses scales again": ({"dequantize": read_any}, "dequantize"),
    "has one scale less": ({"dequantize": read_with_one_scale_less}, "dequantize"),
}


def refusals(functions: dict[str, Any]) -> dict[str, tuple[str, int]]:
    target: SimpleNamespace = make(["mxfp4"], **functions)
    report = check(target, profile="mx-floor", only="*/mxfp4/refusal")
    return {r.operation: (r.verdict.value, r.cases) for r in report.requirements if r.topic == "refusal"}


@pytest.mark.parametrize("name", RIGHT)
def test_a_refusal_passes(name: str) -> None:
    found = refusals(RIGHT[name])
    assert {operation: verdict for operation, (verdict, _) in found.items()} == dict.fromkeys(RIGHT[name], "pass")
    assert min(cases for _, cases in found.values()) >= 5


@pytest.mark.parametrize("name", WRONG)
def test_an_answer_to_what_was_not_asked_fails(name: str) -> None:
    functions, operation = WRONG[name]
    assert refusals(functions)[operation][0] == "fail"


def reading_as_float32(x: Array, fmt: str) -> Answer:
    """The first bytes of whatever comes, as if they were float32."""
    given = np.frombuffer(np.resize(x, 2 * x.size).tobytes()[: 4 * x.size], np.float32).reshape(x.shape)
    return answer(given, -1) if not x.shape[1] % 32 else refuse_ragged(x, -1)  # type: ignore[return-value]


def converting(x: Array, fmt: str) -> Answer:
    refuse_ragged(x, -1)
    return answer(x.astype(np.float32), -1)


def float32_alone(x: Array, fmt: str) -> Answer:
    if x.dtype != np.float32:
        raise TypeError(f"{x.dtype}; float32 is taken")
    return converting(x, fmt)


def test_other_dtypes_are_refused_or_converted() -> None:
    assert refusals({"quantize": reading_as_float32})["quantize"][0] == "fail"
    assert refusals({"quantize": converting})["quantize"][0] == "pass"
    assert refusals({"quantize": float32_alone})["quantize"][0] == "pass"
