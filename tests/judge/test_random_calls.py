"""Calls with random words, with seeds, and for a tensor's scale: large ones, ones after others, at once, in every dtype and along each axis."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mxspec
from mxspec_conformance.judge.check import check
from mxspec_conformance.judge.invariance import calls, items, pace
from mxspec_conformance.judge.invariance.pace import Speed
from mxspec_conformance.results.report import Report

from tests.bugs.building import Answer, Array
from tests.few_calls import ask_few_calls
from tests.judge.reading import failing, passed, requirement
from tests.judge.shown import assert_shown
from tests.judge.test_random_bits import target

DTYPES = ["float32", "float16", "bfloat16"]


@pytest.fixture(autouse=True)
def few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    ask_few_calls(monkeypatch.setattr)


def right(x: Array, fmt: str, random_bits: Array | None = None, **options: Any) -> Answer:
    if random_bits is not None:
        options["random_bits"] = random_bits
    t = mxspec.quantize(x, fmt, **options)
    return np.array(t.codes), np.array(t.scales)


def kept_by(key: Callable[[Array, Array | None], Any]) -> Callable[..., Answer]:
    kept: dict[Any, Answer] = {}

    def quantize(x: Array, fmt: str, random_bits: Array | None = None) -> Answer:
        name = key(x, random_bits)
        if name not in kept:
            kept[name] = right(x, fmt, random_bits)
        codes, scales = kept[name]
        return codes.copy(), scales.copy()

    return quantize


def read(a: Array | None) -> Any:
    return None if a is None else (np.ascontiguousarray(a).tobytes(), a.shape)


def writing_words(x: Array, fmt: str, random_bits: Array | None = None) -> Answer:
    answer = right(x, fmt, random_bits)
    if random_bits is not None and random_bits.flags.writeable:
        random_bits ^= np.uint32(0x9E3779B9)
    return answer


def words_again_in_large_calls(x: Array, fmt: str, random_bits: Array | None = None) -> Answer:
    if random_bits is not None:
        words = np.ascontiguousarray(random_bits).reshape(-1)
        random_bits = words[np.arange(words.size) % (1 << 14)].reshape(x.shape)
    return right(x, fmt, random_bits)


def words_of_another_thread() -> Callable[..., Answer]:
    home: dict[Any, Array] = {}

    def quantize(x: Array, fmt: str, random_bits: Array | None = None) -> Answer:
        if random_bits is None:
            return right(x, fmt)
        words = home.setdefault(x.shape, np.zeros(x.shape, np.uint32))
        words[...] = random_bits
        if threading.active_count() > 1:
            time.sleep(0.001)
        return right(x, fmt, words)

    return quantize


def ragged_columns_turned(x: Array, fmt: str, axis: int = -1, pad: bool = False, random_bits: Array | None = None) -> Answer:
    if random_bits is not None and pad and axis == 0 and x.shape[0] % 32:
        random_bits = np.roll(random_bits, 1, axis=0)
    return right(x, fmt, random_bits, axis=axis, pad=pad)


def square_blocks_turned(x: Array, fmt: str, block: Any = None, random_bits: Array | None = None) -> Answer:
    if random_bits is not None and block is not None:
        random_bits = np.roll(random_bits, 16, axis=0)
    return right(x, fmt, random_bits, block=block)


def upper_bits_of_bfloat16(x: Array, fmt: str, random_bits: Array | None = None) -> Answer:
    if random_bits is not None and x.dtype.name == "bfloat16":
        random_bits = random_bits & np.uint32(0xFFFF0000)
    return right(x, fmt, random_bits)


def rows_again(x: Array, fmt: str, random_bits: Array | None = None) -> Answer:
    if random_bits is not None and len(x) > 1024:
        random_bits = random_bits[np.arange(len(x)) % 1024]
    return right(x, fmt, random_bits)


def second_half_again(x: Array, fmt: str, random_bits: Array | None = None) -> Answer:
    if random_bits is not None and x.size > 1 << 17:
        random_bits = np.resize(random_bits.reshape(-1)[: x.size // 2], x.size).reshape(x.shape)
    return right(x, fmt, random_bits)


def plan_of_the_second_call() -> Callable[..., Answer]:
    calls: Counter[Any] = Counter()

    def quantize(x: Array, fmt: str, random_bits: Array | None = None) -> Answer:
        codes, scales = right(x, fmt, random_bits)
        calls[x.shape] += random_bits is not None
        if x.size >= 1 << 14 and random_bits is not None and calls[x.shape] == 2:
            codes[-1, -1] ^= 1
        return codes, scales

    return quantize


WRONG: dict[str, tuple[Callable[..., Answer], str]] = {
    "rows again": (rows_again, "9000 x 160"),
    "second half again": (second_half_again, " x "),
    "the second call": (plan_of_the_second_call(), ", again"),
    "kept without words": (kept_by(lambda x, words: (read(x), words is None)), "of random_bits"),
    "kept without whether there are words": (kept_by(lambda x, words: read(x)), "except for the words"),
    "kept by words": (kept_by(lambda x, words: read(x) if words is None else read(words)), "that is the same except for"),
    "writing words": (writing_words, "input afterwards"),
    "words again": (words_again_in_large_calls, " x "),
    "words of another thread": (words_of_another_thread(), "4 threads"),
    "ragged columns": (ragged_columns_turned, "a ragged end along the first axis"),
    "square blocks": (square_blocks_turned, "square blocks"),
    "upper bits": (upper_bits_of_bfloat16, "a number for each bit, the first word above it, in bfloat16"),
}  # fmt: skip


def judge(quantize: Callable[..., Answer], fmt: str = "mxfp4", **members: Any) -> Report:
    return check(target([fmt], quantize, **members), in_process=True, only="stochastic/*")


def ask_every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of every size, and as many as of a fast target, however busy the machine."""
    monkeypatch.setattr(items, "list_sizes", calls.list_sizes)
    monkeypatch.setattr(pace, "measure_speed", lambda _: Speed.FAST)


@pytest.mark.parametrize("name", WRONG)
def test_words_that_are_not_those_of_the_numbers_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quantize, told = WRONG[name]
    ask_every_size(monkeypatch)
    members = {"DTYPES": DTYPES} if name == "upper bits" else {}
    fmt = "nvfp4" if name == "square blocks" else "mxfp4"
    report = judge(quantize, fmt, **members)
    found = requirement(report, f"stochastic/{fmt}/random-bits")
    assert found.verdict == "fail"
    assert any(told in case for case in found.failing_cases)
    assert_shown(report.requirements)


def test_words_kept_without_the_tensor_scale_are_found() -> None:
    kept: dict[Any, Answer] = {}

    def quantize(x: Array, fmt: str, tensor_scale: float | None = None, random_bits: Array | None = None) -> Answer:
        name = (read(x), read(random_bits), tensor_scale is None, random_bits is None and tensor_scale)
        scale = None if tensor_scale is None else mxspec.TensorScale.from_float("amax", tensor_scale)
        return kept.setdefault(name, right(x, fmt, random_bits, tensor_scale=scale))

    found = requirement(judge(quantize, "nvfp4", TENSOR_SCALE="amax"), "stochastic/nvfp4/random-bits")
    assert found.verdict == "fail"
    assert any("except for the tensor scale" in case for case in found.failing_cases)


@pytest.mark.parametrize("bits", [2, 8])
def test_every_bit_of_a_small_seed_counts(bits: int) -> None:
    def quantize(x: Array, fmt: str, seed: int) -> Answer:
        return right(x, fmt, np.random.default_rng(seed % (1 << bits)).integers(1 << 32, size=x.shape, dtype=np.uint32))

    report = judge(quantize)
    assert set(failing(report)) == {"stochastic/mxfp4/seed"}


def test_what_is_kept_by_all_is_right() -> None:
    report = judge(kept_by(lambda x, words: (read(x), read(words))))
    assert passed(report) == {"stochastic/mxfp4/random-bits"}


@pytest.mark.parametrize("fmt", ["mxint8", "mxfp8_e5m2", "nvfp4"])
@pytest.mark.parametrize(("bits", "rule"), [(32, "carry"), (16, "below"), (8, "carry")])
def test_every_call_of_a_right_one_passes(fmt: str, bits: int, rule: str) -> None:
    def quantize(x: Array, fmt: str, random_bits: Array, axis: int = -1, pad: bool = False, block: Any = None) -> Answer:
        words = ~random_bits & np.uint32((1 << bits) - 1) if rule == "below" else random_bits
        return right(x, fmt, words << np.uint32(32 - bits), axis=axis, pad=pad, block=block)

    report = judge(quantize, fmt, DTYPES=DTYPES, SR_BITS=bits, SR_RULE=rule)
    assert passed(report) == {f"stochastic/{fmt}/random-bits"}


def test_words_lie_beside_their_numbers_in_matrices_that_are_made() -> None:
    def quantize(x: Array, fmt: str, random_bits: Array | None = None) -> Answer:
        if x.shape[1] % 256 or len(x) % 16:
            raise ValueError(f"{x.shape}")
        return right(x, fmt, random_bits)

    report = judge(quantize, SHAPES={"k": 256, "rows": 16})
    assert passed(report) == {"stochastic/mxfp4/random-bits"}


def seeded(change: Callable[[Array, Array, dict[str, Any]], Array]) -> Callable[..., Answer]:
    def quantize(
        x: Array, fmt: str, seed: int, axis: int = -1, pad: bool = False, block: Any = None, tensor_scale: float | None = None
    ) -> Answer:  # fmt: skip
        words = np.random.default_rng(seed).integers(1 << 32, size=x.shape, dtype=np.uint32)
        options = {"axis": axis, "pad": pad, "block": block, "tensor_scale": tensor_scale}
        scale = None if tensor_scale is None else mxspec.TensorScale.from_float("amax", tensor_scale)
        return right(x, fmt, change(words, x, options), axis=axis, pad=pad, block=block, tensor_scale=scale)

    return quantize


UNFAIR: dict[str, Callable[[Array, Array, dict[str, Any]], Array]] = {
    "along the first axis": lambda words, x, o: words | np.uint32(1 << 31) if o["axis"] == 0 else words,
    "before a ragged end": lambda words, x, o: words & np.uint32(1) if o["pad"] else words,
    "with a tensor scale": lambda words, x, o: words & np.uint32(1) if o["tensor_scale"] is not None else words,
    "in square blocks": lambda words, x, o: words & np.uint32(1) if o["block"] is not None else words,
    "in bfloat16": lambda words, x, o: np.repeat(words[:, ::2], 2, axis=1) if x.dtype.name == "bfloat16" else words,
}  # fmt: skip


@pytest.mark.parametrize(("always", "verdict"), [(True, "pass"), (False, "error")])
def test_a_large_call_with_words_may_be_refused_but_not_the_second_time(
    always: bool, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_every_size(monkeypatch)
    refused: list[Any] = []

    def quantize(x: Array, fmt: str, random_bits: Array | None = None) -> Answer:
        if x.size > 1 << 14 and (always or x.shape in refused):
            raise RuntimeError("too large")
        refused.append(x.shape)
        return right(x, fmt, random_bits)

    assert requirement(judge(quantize), "stochastic/mxfp4/random-bits").verdict == verdict


def test_draws_that_move_with_the_seed_are_found() -> None:
    def quantize(x: Array, fmt: str, seed: int) -> Answer:
        words = np.random.default_rng(0).integers(1 << 32, size=x.size + 100_000, dtype=np.uint32)
        start = 16 * (1 + seed * 97)
        return right(x, fmt, words[start : start + x.size].reshape(x.shape))

    report = judge(quantize)
    assert set(failing(report)) == {"stochastic/mxfp4/seed"}
    assert any("at any distance" in case for case in requirement(report, "stochastic/mxfp4/seed").failing_cases)


@pytest.mark.parametrize("way", UNFAIR)
def test_a_generator_is_asked_in_every_way(way: str) -> None:
    report = judge(seeded(UNFAIR[way]), "nvfp4", DTYPES=DTYPES, TENSOR_SCALE="amax")
    cases = [case for r in report.requirements if r.verdict == "fail" for case in r.failing_cases]
    assert cases
    assert all(f"halves {way}" in case for case in cases if way in ("with a tensor scale", "in bfloat16", "in square blocks"))


def test_a_fair_generator_passes_in_every_way() -> None:
    report = judge(seeded(lambda words, x, o: words), "nvfp4", DTYPES=DTYPES, TENSOR_SCALE="amax")
    assert failing(report) == {}
    assert report.exit_code == 0


@pytest.mark.parametrize("key", ["both ends", "bytes without the dtype", "numbers in bfloat16"])
def test_a_tensor_scale_that_is_kept_by_too_little_is_found(key: str) -> None:
    kept: dict[Any, Any] = {}

    def tensor_scale(x: Array, fmt: str) -> Any:
        flat = np.ascontiguousarray(x).reshape(-1)
        name: Any = (flat[:16].tobytes(), flat[-16:].tobytes(), x.dtype.name)
        if key != "both ends":
            name = flat.tobytes() if key.startswith("bytes") else (flat.astype(np.float32).view(np.uint32) >> 16).tobytes()
        return kept.setdefault((x.shape, name), mxspec.tensor_scale(x, fmt).value)

    one = SimpleNamespace(NAME="kept", VERSION="1", FORMATS=["nvfp4"], TENSOR_SCALE="amax", DTYPES=DTYPES, tensor_scale=tensor_scale)
    report = check(one, in_process=True, only="tensor_scale/*/*")
    found = requirement(report, "tensor_scale/nvfp4/state")
    assert found.verdict == "fail"
    assert any("that is the same except for" in case for case in found.failing_cases)


@pytest.mark.parametrize(("dtype", "kind"), [("float16", "clipped"), ("bfloat16", "flushed"), ("float16", "positive ones alone")])
def test_a_tensor_scale_is_asked_at_the_ends_of_every_dtype(dtype: str, kind: str) -> None:
    def tensor_scale(x: Array, fmt: str) -> Any:
        y = x.astype(np.float32)
        if x.dtype.name == dtype:
            if kind == "clipped":
                y = np.clip(y, -60000, 60000)
            elif kind == "flushed":
                y[np.abs(y) < 2.0**-126] = 0
            else:
                y[y < -1000] = -1000
        return mxspec.tensor_scale(y, fmt).value

    one = SimpleNamespace(NAME="ends", VERSION="1", FORMATS=["nvfp4"], TENSOR_SCALE="amax", DTYPES=DTYPES, tensor_scale=tensor_scale)
    report = check(one, in_process=True, only="tensor_scale/*/*")
    found = requirement(report, "tensor_scale/nvfp4/tensor-scale")
    assert found.verdict == "fail"
    assert all(case.startswith(f"{dtype}, the ") for case in found.failing_cases)
