"""Judging `tensor_scale`: tensors with chosen maxima, and what has to come back."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.tensorscale import find_tensor_amax
from mxspec_conformance.counterexample.failure import describe_bits
from mxspec_conformance.judge.explanation import Cause, ConversionMistake, Explanation, by_profile
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.points import QUIET_NAN, SIGN, TENSOR_AMAXES, Stream
from mxspec_vectors.tensor_scales import TensorScales


def judge_tensor_scale(session: TargetSession, fmt: str, profile: mxspec.Profile, scorecard: Scorecard) -> None:
    """Enter the tensor scale of tensors with chosen maxima, in the kind that the target names.

    Where the profile stores another kind, the answer is the one that the vectors hand to `quantize`. These are few and small, so
    that the quick level has all of them.
    """
    kind = session.capabilities.tensor_scale
    profiles = [p for p in mxspec.list_profiles(fmt) if p.tensor is not None and p.tensor.native.value == kind]
    for name, x in _list_tensors():
        amax = find_tensor_amax(x)
        topic = _tensor_topic(x)
        value = run_once(partial(session.call, "tensor_scale", x, fmt))
        if isinstance(value, NoAnswer):
            scorecard.count_no_answer(topic, name, value, given=partial(_describe_tensor, x, amax))
            continue
        with np.errstate(over="ignore"):
            got = int(np.float32(value).view(np.uint32))
        wanted = {p.id: mxspec.tensor_scale(x, fmt, p).bits for p in profiles}
        expected = wanted.get(profile.id, TensorScales.from_amax(amax).bits(kind))
        equals = [by_profile(p) for p, bits in wanted.items() if _same_bits(got, bits)]
        equals += [
            Explanation(Cause.CONVERSION_MISTAKE, mistake=m) for m, bits in _list_mistakes(x, fmt, kind, profile) if _same_bits(got, bits)
        ]
        show = partial(_show_tensor_scale, name, x, amax, expected, got, kind)
        scorecard.count(topic, name, ok=_same_bits(got, expected), equals=equals, show=show)


def _list_mistakes(x: npt.NDArray[np.float32], fmt: str, kind: str, profile: mxspec.Profile) -> Iterator[tuple[ConversionMistake, int]]:
    """float32 bits of the tensor scale as each known mistake would have it."""
    if np.isnan(x).any():
        return
    top = x.max()
    positive = np.full((1, 16), max(top, 0), np.float32)
    yield ConversionMistake.SIGNED_MAXIMUM, (
        mxspec.tensor_scale(positive, fmt, profile).bits if profile.tensor is not None and profile.tensor.native.value == kind
        else TensorScales.from_amax(int(positive[0, 0].view(np.uint32))).bits(kind)
    )  # fmt: skip
    amax = np.abs(x).max()
    with np.errstate(all="ignore"):
        plain = np.float32(2688) / amax
        inverse = {"encode": np.float32(2688) * (np.float32(1) / amax), "decode": amax * (np.float32(1) / np.float32(2688))}
    if kind in inverse:
        yield ConversionMistake.RECIPROCAL, int(inverse[kind].view(np.uint32))
    if kind == "encode":
        yield ConversionMistake.UNGUARDED, int(plain.view(np.uint32))


def _describe_tensor(x: npt.NDArray[np.float32], amax: int) -> dict[str, Any]:
    return {"shape": "x".join(map(str, x.shape)), "largest magnitude": _bits_text(amax)}


def _show_tensor_scale(name: str, x: npt.NDArray[np.float32], amax: int, expected: int, got: int, kind: str) -> Failure:
    scales = TensorScales.from_amax(amax)
    others = [k for k in ("amax", "decode", "encode") if k != kind and _same_bits(scales.bits(k), got)]
    steps = [f"{_bits_text(got)} is the {k} scale of this tensor; TENSOR_SCALE says {kind}" for k in others]
    return Failure(
        case=name, given={**_describe_tensor(x, amax), "kind": kind},
        expected={"scale": _bits_text(expected)}, returned={"scale": _bits_text(got)}, steps=steps,
    )  # fmt: skip


def _bits_text(bits: int) -> str:
    return describe_bits(float(np.uint32(bits).view(np.float32)))


def ordinary_tensor_scales(session: TargetSession, fmt: str) -> Iterator[tuple[int, int]]:
    """(float32 bits returned, largest magnitude) of tensors of ordinary numbers, where there is an answer."""
    for _, x in _list_tensors():
        amax = find_tensor_amax(x)
        if _tensor_topic(x) != "tensor-scale" or not 0x20000000 < amax < 0x60000000:
            continue
        value = run_once(partial(session.call, "tensor_scale", x, fmt))
        if not isinstance(value, NoAnswer):
            with np.errstate(over="ignore"):
                yield int(np.float32(value).view(np.uint32)), amax


def _tensor_topic(x: npt.NDArray[np.float32]) -> str:
    """Of tensors of zeros, with NaN or with infinities no text says what their scale is."""
    if np.isnan(x).any():
        return "nan"
    if np.isinf(x).any():
        return "inf"
    return "tensor-scale" if x.any() else "zero-block"


@lru_cache(maxsize=1)
def _list_tensors() -> tuple[tuple[str, npt.NDArray[np.float32]], ...]:
    return tuple(_make_tensors())


def _make_tensors() -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
    """Tensors with chosen maxima; then tensors whose maximum moves from corner to corner, of either sign, among other
    numbers just below it, and with NaN among numbers."""
    for name, amax in TENSOR_AMAXES.items():
        x = np.zeros((2, 16), np.uint32)
        x[1, 5] = amax | SIGN
        yield f"amax-{name}", x.view(np.float32)
    # Numbers of elements that no power of two divides, the largest last; more than 65,536; an infinity among numbers.
    for rows, columns in ((1, 16), (3, 16), (1, 1040), (1, 65_552)):
        x = np.full((rows, columns), 0x3E000000, np.uint32) + (np.arange(columns, dtype=np.uint32) % 97 << 12)
        x[-1, -1] = 0x40490FDB
        yield f"last-of-{rows}x{columns}", x.view(np.float32)
    x = np.full((3, 32), 0x3F123456, np.uint32)
    x[1, 9] = 0x7F800000
    yield "infinity-among-numbers", x.view(np.float32)
    stream = Stream(16)
    for number in range(24):
        rows = (1, 3, 130)[number % 3]
        amax = 0x30000000 + stream.below(0x20000000)
        x = np.array([stream.below(amax - 0x800000) | stream.below(2) << 31 for _ in range(32 * rows)], np.uint32)
        place = (0, len(x) - 1, 31, len(x) - 32, stream.below(len(x)))[number % 5]
        x[place] = amax | (SIGN if number % 2 else 0)
        x[(place + len(x) - 3) % len(x)] = (amax - 1) | (0 if number % 2 else SIGN)
        if number % 6 == 5:
            x[(place + 7) % len(x)] = (QUIET_NAN, QUIET_NAN | SIGN, 0x7F800001, 0xFFFFFFFF)[number // 6]
        yield f"tensor-{number}", x.view(np.float32).reshape(rows, 32)


def _same_bits(a: int, b: int) -> bool:
    return a == b or min(a & 0x7FFFFFFF, b & 0x7FFFFFFF) > 0x7F800000
