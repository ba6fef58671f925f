"""Judging `dequantize` under a tensor scale that is no number: a NaN stays one, an infinity keeps the sign of the code.

No profile is needed: whatever the order of the products, a factor that is NaN makes them NaN. What codes and scales of zero
become is not asked, nor is which number stands for infinity. A target may refuse such a scale.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from mxspec.elements import decode_codes, decode_table
from mxspec.formats import BlockFormat
from mxspec_conformance.counterexample.evidence import show_code, show_value
from mxspec_conformance.judge.invariance.reach import LOCAL, REFUSALS
from mxspec_conformance.judge.tally import Scorecard
from mxspec_conformance.observations.bisection import NoAnswer, run_once
from mxspec_conformance.observations.selection import makes_call
from mxspec_conformance.observations.tables import Values, rotated_table
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.dtypes import DTYPES
from mxspec_conformance.targets.sessions import TargetSession

TOPIC = "refusal"


@dataclass(frozen=True, slots=True)
class Special:
    """A tensor scale that is no number."""

    name: str
    value: float
    #: Kinds of tensor scale by which it multiplies; by another kind it divides.
    kinds: tuple[str, ...]
    text: str
    #: (returned, expected sign, largest finite value of the dtype) -> where what came back is wrong.
    flag: Callable[[Values, npt.NDArray[np.bool_], float], npt.NDArray[np.bool_]]


def _flag_number(returned: Values, negative: npt.NDArray[np.bool_], largest: float) -> npt.NDArray[np.bool_]:
    wrong: npt.NDArray[np.bool_] = ~np.isnan(returned)
    return wrong


def _flag_small(returned: Values, negative: npt.NDArray[np.bool_], largest: float) -> npt.NDArray[np.bool_]:
    wrong: npt.NDArray[np.bool_] = (np.abs(returned) < largest) | (np.signbit(returned) != negative)
    return wrong & ~np.isnan(returned)


SPECIALS = (
    Special("nan", float("nan"), ("amax", "decode", "encode"), "a tensor scale of NaN makes every value NaN", _flag_number),
    Special("inf", float("inf"), ("amax", "decode"), "a tensor scale of infinity makes values infinite, of the code's sign", _flag_small),
)


def judge_special_tensor_scales(session: TargetSession, fmt: BlockFormat, scorecard: Scorecard) -> dict[str, Failure]:
    """Enter every nonzero code under every ordinary scale byte; returns the first wrong value, by requirement."""
    first: dict[str, Failure] = {}
    kind = session.capabilities.tensor_scale
    if session.transport not in LOCAL or not session.capabilities.has("dequantize", "tensor_scale"):
        return first
    codes, scales = rotated_table(fmt)
    factors, values = decode_codes(scales, fmt.scale), decode_table(fmt.element)[codes]
    ordinary = (values != 0) & np.isfinite(values) & (np.isfinite(factors) & (factors != 0))[:, None]
    for special in SPECIALS:
        label = f"every code under a tensor scale of {special.name}"
        if kind not in special.kinds or not makes_call(quick=True):
            continue
        call = partial(session.call, "dequantize", codes, scales[:, None], fmt.name, tensor_scale=special.value)
        ask_dtype = partial(session.call, "output_dtype", *call.args, **call.keywords)
        answer: Any = run_once(call)
        if isinstance(answer, NoAnswer):
            if answer.kind in REFUSALS:
                scorecard.count(TOPIC, label, ok=True)
            else:
                scorecard.count_no_answer(TOPIC, label, answer)
            continue
        returned = np.asarray(answer, np.float32)
        largest = _largest(run_once(ask_dtype))
        wrong = ordinary & special.flag(returned, np.signbit(values), largest)
        scorecard.count(TOPIC, label, ok=not wrong.any())
        if wrong.any():
            row, lane = (int(i) for i in np.argwhere(wrong)[0])
            given = {
                "code": show_code(int(codes[row, lane]), fmt.element), "scale": show_code(int(scales[row]), fmt.scale),
                f"tensor scale, {kind}": str(special.value),
            }  # fmt: skip
            expected = float("nan") if special.name == "nan" else float(np.copysign(np.inf, values[row, lane]))
            steps = [special.text, f"{int(wrong.sum())} of {int(ordinary.sum())} values do not follow"]
            drawn = show_value(label, given, expected, float(returned[row, lane]), steps=steps)
            first.setdefault(scorecard.tally(TOPIC).id, drawn)
    return first


def _largest(dtype: Any) -> float:
    """The largest finite number of a dtype; a kernel may put it in the place of infinity."""
    return float(ml_dtypes.finfo(DTYPES[dtype if isinstance(dtype, str) else "float32"]).max)
