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


def by_rows_in_float64(x: Array, fmt: str) -> Answer:
    """Each number as it is: float64 takes no detour over float32."""
    refuse_ragged(x, -1)
    codes, scales = answer(x.astype(np.float32), -1)
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    ties = (values[1:] + values[:-1]) / 2
    scaled = np.abs(x).reshape(len(x), -1, 32) / np.exp2(scales.astype(np.float64) - 127)[:, :, None]
    magnitudes = (scaled[..., None] > ties).sum(axis=-1) + ((scaled[..., None] == ties) & (np.arange(7) % 2 == 1)).sum(axis=-1)
    own: Array = (magnitudes | np.where(np.signbit(x).reshape(scaled.shape), 8, 0)).astype(np.uint8).reshape(x.shape)
    return (own if x.dtype == np.float64 else codes), scales


def cutting_bits(x: Array, fmt: str) -> Answer:
    """float64 toward zero."""
    refuse_ragged(x, -1)
    if x.dtype == np.float64:
        x = (np.ascontiguousarray(x).view(np.uint64) >> np.uint64(29) << np.uint64(29)).view(np.float64)
    return answer(x.astype(np.float32), -1)


def test_float64_is_read_as_it_is_or_as_the_nearest_float32() -> None:
    assert refusals({"quantize": by_rows_in_float64})["quantize"][0] == "pass"
    assert refusals({"quantize": cutting_bits})["quantize"][0] == "fail"


class OwnError(Exception):
    """What a library of somebody else raises."""


EMPTY = (IndexError, KeyError, ZeroDivisionError, AttributeError, UnboundLocalError)
REFUSED = (ValueError, TypeError, RuntimeError, NotImplementedError, AssertionError, OwnError, np.exceptions.AxisError)


def raising_on_nothing(error: type[Exception]) -> dict[str, Callable[..., Any]]:
    def check_size(x: Array) -> None:
        if not x.size:
            raise error("nothing")

    def quantize(x: Array, fmt: str) -> Answer:
        check_size(x)
        return converting(x, fmt)

    def dequantize(codes: Array, scales: Array, fmt: str) -> Array:
        check_size(codes)
        return read(codes, scales, fmt)

    return {"quantize": quantize, "dequantize": dequantize}


@pytest.mark.parametrize("error", EMPTY)
def test_code_that_fails_on_nothing_refuses_nothing(error: type[Exception]) -> None:
    found = refusals(raising_on_nothing(error))
    assert {verdict for verdict, _ in found.values()} == {"fail"}


@pytest.mark.parametrize("error", REFUSED)
def test_nothing_may_be_refused(error: type[Exception]) -> None:
    found = refusals(raising_on_nothing(error))
    assert {verdict for verdict, _ in found.values()} == {"pass"}


def reading_bytes(codes: Array, scales: Array, fmt: str) -> Array:
    """As many bytes as there are codes, from the first one's address on."""
    first = np.frombuffer(codes.tobytes(), np.uint8)[: codes.size].reshape(codes.shape)
    return read(first, scales.astype(np.uint8), fmt)


def test_codes_in_wider_integers_are_refused_or_read_by_their_value() -> None:
    assert refusals({"dequantize": reading_bytes})["dequantize"][0] == "fail"
    assert refusals({"dequantize": lambda c, s, fmt: read(c.astype(np.uint8), s.astype(np.uint8), fmt)})["dequantize"][0] == "pass"


def tiles(x: Array, fmt: str, block: tuple[int, int] | None = None, pad: bool = False) -> Answer:
    t = mxspec.quantize(x, fmt, block=block, pad=pad)
    return t.codes, t.scales


def tiles_of_the_last_row(x: Array, fmt: str, block: tuple[int, int] | None = None, pad: bool = False) -> Answer:
    """Where a tile is cut short its last row is repeated, times two."""
    rows = -len(x) % 16
    if block is None or not pad or not rows:
        return tiles(x, fmt, block, pad)
    codes, scales = tiles(np.concatenate([x, np.repeat(x[-1:] * 2, rows, axis=0)]), fmt, block, pad)
    return codes, scales


def tiles_that_refuse_ragged_rows(x: Array, fmt: str, block: tuple[int, int] | None = None, pad: bool = False) -> Answer:
    if block is not None and len(x) % 16:
        raise ValueError("rows are no whole number of tiles")
    return tiles(x, fmt, block, pad)


@pytest.mark.parametrize(
    ("quantize", "verdict"), [(tiles, "pass"), (tiles_of_the_last_row, "fail"), (tiles_that_refuse_ragged_rows, "pass")]
)
def test_tiles_that_are_cut_short_are_padded_with_zeros(quantize: Callable[..., Answer], verdict: str) -> None:
    report = check(make(["nvfp4"], quantize=quantize), only="quantize/nvfp4/tail")
    assert [r.verdict for r in report.requirements] == [verdict]


@pytest.mark.parametrize("kind", ["broadcast", "cut"])
def test_scales_of_blocks_half_as_long_are_refused(kind: str) -> None:
    """What arrays broadcast is left open."""

    def dequantize(codes: Array, scales: Array, fmt: str) -> Array:
        wanted = len(codes), codes.shape[1] // 32
        if (kind == "broadcast" and scales.shape[0] not in (1, len(codes))) or (scales.shape[1] < wanted[1] and scales.shape[1] > 1):
            raise ValueError(f"scales of shape {scales.shape} for codes of shape {codes.shape}")
        given = np.broadcast_to(scales, wanted) if kind == "broadcast" else scales[: wanted[0], : wanted[1]]
        return read(codes, np.ascontiguousarray(given), fmt)

    found = check(make(["mxfp4"], dequantize=dequantize), in_process=True, only="dequantize/mxfp4/refusal")
    (refusal,) = found.requirements
    assert set(refusal.failing_cases) == (set() if kind == "broadcast" else {"5 x 4 blocks with 5 x 8 scales"})


@pytest.mark.parametrize("kind", ["broadcast", "cut"])
def test_one_random_word_and_more_words_than_numbers_are_left_open(kind: str) -> None:
    def encode_stochastic(x: Array, element: str, random_bits: Array) -> Array:
        words = np.broadcast_to(random_bits, x.shape) if kind == "broadcast" else random_bits[: len(x)]
        return mxspec.encode(x, element, rounding="sr", random_bits=np.ascontiguousarray(words))

    report = check(make([], ELEMENTS=["e4m3"], encode_stochastic=encode_stochastic), in_process=True, only="stochastic/e4m3/refusal")
    assert [r.verdict for r in report.requirements] == ["pass"]
