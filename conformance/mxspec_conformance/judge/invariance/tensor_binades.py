"""A tensor scale in every binade: what is right under the scales of the vectors may take another way under a power of two.

The numbers are such that no rounding decides: every quotient, of scales and of elements, lies far from a midpoint, and every value
is the tensor scale times a power of two. So a target that follows its profile anywhere follows it everywhere, whatever the order of
its products; what differs in a few drawn scales already is judged elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.elements import decode_codes, decode_table
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile
from mxspec_conformance.judge.invariance.answered import call_failure
from mxspec_conformance.judge.invariance.reach import REFUSALS
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.observations.quantize import tensor_argument
from mxspec_conformance.observations.selection import makes_call, selects
from mxspec_conformance.observations.tables import same_values
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.dtypes import DTYPES, cast_input, preferred_dtype
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.points import float_bits
from mxspec_vectors.tensor_scales import TensorScales, native_scale

LABEL = "a tensor scale in every binade"
#: Exponents of the largest magnitudes; of float16 those whose numbers it holds to all of its bits.
EXPONENTS, EXPONENTS_OF_FLOAT16 = (-100, 127), (-3, 15)
#: Drawn maxima: those by which it is known that the target follows its profile, and mantissas that are asked every so many binades.
KNOWN, MANTISSAS, EVERY, EVERY_QUICK = (0x3FB504F3, 0x4107EB53, 0x3E1A5D2F), (0x2F1BBD, 0x5E2D59), 8, 16
#: Rows and blocks of a call.
ROWS, BLOCKS = 4, 4


@dataclass(frozen=True, slots=True)
class Asked:
    """One function under a tensor scale."""

    #: A tensor scale -> the answer of a target that follows its profile, and the call.
    refer: Callable[[TensorScales], Any]
    call: Callable[[TensorScales], Any]
    #: (answer, reference) -> whether they are one.
    agrees: Callable[[Any, Any], bool]
    #: Whether the answer is the same under every tensor scale: then the profile need not be asked of each.
    is_unscaled: bool


def judge_quantize_binades(session: TargetSession, fmt: BlockFormat, profile: Profile, scorecard: Scorecard) -> dict[str, Failure]:
    """Enter the call of `quantize`: one matrix, scaled with its tensor scale."""
    dtype = preferred_dtype(session.capabilities.dtypes)
    shares = _list_shares(fmt)

    def give(scales: TensorScales) -> npt.NDArray[Any]:
        return cast_input((shares * scales.value("amax")).astype(np.float32), dtype)

    def refer(scales: TensorScales) -> Any:
        t = mxspec.quantize(give(scales).astype(np.float32), fmt, profile=profile, tensor_scale=native_scale(profile, scales))
        return t.codes, t.scales

    def call(scales: TensorScales) -> Any:
        return session.call("quantize", give(scales), fmt.name, **tensor_argument(scales, session.capabilities))

    agrees = lambda got, want: all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))  # noqa: E731
    return _judge(
        session, "quantize", profile, Asked(refer, call, agrees, True), scorecard, EXPONENTS_OF_FLOAT16 if dtype == "float16" else EXPONENTS
    )


def judge_dequantize_binades(session: TargetSession, fmt: BlockFormat, profile: Profile, scorecard: Scorecard) -> dict[str, Failure]:
    """Enter the call of `dequantize`: powers of two, whose values are the tensor scale's with another exponent."""
    codes, scales = _list_powers(fmt)
    arguments = codes, scales, fmt.name
    found = run_once(
        partial(
            session.call,
            "output_dtype",
            "dequantize",
            *arguments,
            **tensor_argument(TensorScales.from_amax(KNOWN[0]), session.capabilities),
        )
    )
    dtype = DTYPES[found if isinstance(found, str) else "float32"]

    def refer(tensor: TensorScales) -> Any:
        values = mxspec.dequantize(codes, scales, fmt, profile=profile, tensor_scale=native_scale(profile, tensor))
        with np.errstate(over="ignore"):
            return values.astype(dtype).astype(np.float32)

    def call(tensor: TensorScales) -> Any:
        return session.call("dequantize", *arguments, **tensor_argument(tensor, session.capabilities))

    agrees = lambda got, want: bool(same_values(np.asarray(got, np.float32), want).all())  # noqa: E731
    narrow = np.dtype(dtype) == np.float16
    return _judge(
        session, "dequantize", profile, Asked(refer, call, agrees, False), scorecard, EXPONENTS_OF_FLOAT16 if narrow else EXPONENTS
    )


def _judge(
    session: TargetSession, function: str, profile: Profile, asked: Asked, scorecard: Scorecard, exponents: tuple[int, int]
) -> dict[str, Failure]:
    if session.transport == "results-file" or not session.capabilities.has(function, "tensor_scale"):  # every call of which is stored
        return {}
    if profile.tensor is None or profile.two_level is None or not makes_call(quick=True):
        return {}
    for bits in KNOWN:
        scales = TensorScales.from_amax(bits)
        answer = run_once(partial(asked.call, scales))
        if isinstance(answer, NoAnswer) or not asked.agrees(answer, asked.refer(scales)):  # judged elsewhere
            return {}
    wrong: list[TensorScales] = []
    made, known = 0, asked.refer(TensorScales.from_amax(KNOWN[0]))
    for scales in _list_maxima(session.capabilities.tensor_scale, *exponents):
        answer = run_once(partial(asked.call, scales))
        if isinstance(answer, NoAnswer):
            if answer.kind in REFUSALS:
                continue
            scorecard.count_no_answer("call-size", LABEL, answer)
            return {}
        made += 1
        if not (asked.is_unscaled and asked.agrees(answer, known)) and not asked.agrees(answer, asked.refer(scales)):
            wrong.append(scales)
    scorecard.count("call-size", LABEL, ok=not wrong)
    if not wrong:
        return {}
    kind, first = session.capabilities.tensor_scale, wrong[0]
    text = f"wrong under {len(wrong)} of {made} tensor scales; the first is {first.value(kind):.9g} ({kind}), of the largest magnitude {first.value('amax'):.9g}"
    return {scorecard.tally("call-size").id: call_failure(LABEL, text, f"as by {profile.id}")}


def _list_maxima(kind: str, low: int, high: int) -> Iterator[TensorScales]:
    """One in every binade whose scale, in the kind that the target takes, is a power of two; and some that are drawn."""
    step = EVERY_QUICK if selects() else 1
    for exponent in range(low, high + 1, step):
        # g and S are powers of two where the largest magnitude is one times 6 * 448.
        power = float_bits(1) if kind == "amax" else float_bits(2688) - (11 << 23)
        yield TensorScales.from_amax(power + (exponent << 23))
    for number, exponent in enumerate(range(low, high + 1, max(EVERY, step))):
        yield TensorScales.from_amax((127 + exponent << 23) + MANTISSAS[number % len(MANTISSAS)])


def _list_shares(fmt: BlockFormat) -> npt.NDArray[np.float64]:
    """Numbers as shares of the largest magnitude, each a 64th off the value of its code under a block scale a 64th off its
    own."""
    levels = decode_table(fmt.scale).astype(np.float64)
    top = np.flatnonzero(np.isfinite(levels)).max()
    elements = decode_table(fmt.element).astype(np.float64)
    chosen = elements[(elements != 0) & np.isfinite(elements)]
    count, largest = ROWS * BLOCKS, float(fmt.element.max_value)
    blocks = chosen[np.arange(count * fmt.k) * 5 % len(chosen)].reshape(count, fmt.k) / largest * 63 / 64
    blocks[np.arange(count), np.arange(count) * 3 % fmt.k] = 1
    # Three codes apart: some of each exponent, down to a 64th of the largest.
    scales = levels[top - 3 * np.arange(count)] / levels[top] * np.where(np.arange(count) > 0, 63 / 64, 1)
    return np.asarray((blocks * scales[:, None]).reshape(ROWS, -1))


def _list_powers(fmt: BlockFormat) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Codes of powers of two of either sign under scales that are powers of two, of a 64th of the largest and more."""
    (codes, scales) = (
        np.flatnonzero(np.isfinite(values) & (np.frexp(np.abs(np.nan_to_num(values)))[0] == 0.5)).astype(np.uint8)
        for values in (decode_table(fmt.element).astype(np.float64), decode_table(fmt.scale).astype(np.float64))
    )
    positive = scales[decode_codes(scales, fmt.scale) > 0][-6:]
    count = ROWS * BLOCKS
    chosen = codes[np.arange(count * fmt.k) * 3 % len(codes)].reshape(ROWS, -1)
    return chosen, positive[np.arange(count) % len(positive)].reshape(ROWS, -1)
