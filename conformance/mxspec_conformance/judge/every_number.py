"""Judging `encode` on every number of the 16-bit floating-point formats: where a table stands for arithmetic, its wrong entry
is anywhere.

Ties, zeros, NaN and what lies beyond the largest value are topics of their own, with vectors.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.acceptance import fold_zeros
from mxspec.formats import ScalarFormat, get_scalar
from mxspec.rounding import Overflow, Rounding
from mxspec_conformance.counterexample.evidence import show_conversion
from mxspec_conformance.judge.scalars import keep_encoded
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once, unsupported
from mxspec_conformance.observations.selection import makes_call
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.topics import Level, topic_level

TOPIC = "mixture"
DTYPES: dict[str, Any] = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16}


@lru_cache(maxsize=32)
def list_numbers(fmt: ScalarFormat, dtype: str) -> npt.NDArray[np.float32]:
    """The numbers of a 16-bit dtype within the range of a format, without ties and zeros, as float32."""
    with np.errstate(invalid="ignore"):  # signalling NaN
        x = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(DTYPES[dtype]).astype(np.float32)
    x = x[np.isfinite(x) & (x != 0) & (np.signbit(x) <= fmt.signed)]
    midway = [float((fmt.magnitude(m) + fmt.magnitude(m + 1)) / 2) for m in range(fmt.max_code)]
    kept: npt.NDArray[np.float32] = x[(np.abs(x) <= float(fmt.max_value)) & ~np.isin(np.abs(x).astype(np.float64), midway)]
    return kept


def judge_every_number(session: TargetSession, element: str, scorecard: Scorecard) -> dict[str, Failure]:
    """Enter all numbers of each 16-bit dtype, handed over as float32; returns the first wrong one, by requirement."""
    first: dict[str, Failure] = {}
    fmt, offers = get_scalar(element), partial(session.capabilities.has, "encode")
    if session.transport == "results-file" or topic_level("tie-even", "encode", element) is Level.OPEN:
        return first
    how = {"rounding": Rounding.RNE.value} if offers("rounding") else {}
    how |= {"overflow": Overflow.SATURATE.value} if offers("overflow") else {}
    for dtype in DTYPES:
        label = f"every {dtype} number in range"
        if not makes_call(quick=False):
            continue
        x = list_numbers(fmt, dtype)
        answer = run_once(partial(session.call, "encode", x, element, **how))
        if isinstance(answer, NoAnswer):
            # A call of so many numbers may be refused.
            scorecard.count_no_answer(TOPIC, label, unsupported(answer.message) if answer.is_refusal else answer)
            continue
        returned, expected = np.asarray(answer), mxspec.encode(x, element)
        # Which zero, and which of int8's two lowest codes, is judged elsewhere.
        zero = fold_zeros(fmt)[np.arange(256) & (fmt.code_count - 1)] == 0
        both_zero = zero[returned] & zero[expected]
        lowest = fmt.twos_complement & (returned == fmt.sign_bit) & (expected == fmt.sign_bit + 1)
        wrong = (returned != expected) & ~both_zero & ~lowest
        scorecard.count(TOPIC, label, ok=not wrong.any())
        if wrong.any():
            at = int(np.argmax(wrong))
            drawn = show_conversion(
                label, x[at], int(expected[at]), int(returned[at]), fmt,
                how={"element": element, "rounding": Rounding.RNE.value, "wrong": f"{int(wrong.sum())} of {len(x)} numbers"},
                snippet="",
            )  # fmt: skip
            kept = keep_encoded(drawn, x, at, fmt, int(expected[at]), int(returned[at]), how)
            first.setdefault(scorecard.tally(TOPIC).id, kept)
    return first
