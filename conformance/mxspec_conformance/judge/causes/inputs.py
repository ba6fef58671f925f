"""What happens to inputs before anything is computed, or in one of their dtypes alone."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.acceptance import fold_zeros
from mxspec.profiles.schema import TensorScaleKind
from mxspec.tensorscale import TensorScale, convert_tensor_scale
from mxspec_conformance.judge.causes.known import Found, KnownCause
from mxspec_conformance.judge.causes.narrowing import NARROW_DTYPES, WAYS
from mxspec_conformance.judge.causes.rows import Rows
from mxspec_conformance.judge.causes.seen import Seen
from mxspec_conformance.judge.invariance.answered import ORDINARY
from mxspec_vectors.cases import Codes
from mxspec_vectors.tensor_scales import native_scale

#: The smallest normal float32.
_NORMAL = np.float32(2.0**-126)


def flushed_subnormals(seen: Seen) -> Found | None:
    """Whether float32 subnormals count as zeros."""
    if not any(_flag_subnormal(r.x).any() for r in seen.rows):
        return None
    if not seen.explains([_answer(seen, r, r.x) for r in flush_inputs(seen).rows]):
        return None
    return Found(KnownCause.SUBNORMALS_FLUSHED, "float32 subnormals of the input count as zeros (flush to zero)")


def narrow_inputs(seen: Seen) -> Found | None:
    """Whether numbers are rounded or cut to 16 bits before all else; all are named that explain it. What becomes of those beyond is another question."""
    ways = list(product(NARROW_DTYPES.items(), WAYS.items()))
    for other in seen.by_others():
        with np.errstate(all="ignore"):
            names = [
                name + how
                for (name, dtype), (how, narrow) in ways
                if other.explains([_answer(other, r, narrow(r.x, dtype)) for r in other.rows])
            ]
        if names:
            by = "" if other is seen else f", and scales were {other.profile.id}'s"
            return Found(KnownCause.NARROW_INPUT, f"as if inputs were held in {' or in '.join(names)}{by}")
    return None


def _answer(seen: Seen, rows: Rows, x: npt.NDArray[np.float32]) -> tuple[Codes, Codes]:
    """Scales [n] and codes [n, k] that the profile gives these numbers in place of a row's; those returned, where they are not finite."""
    with np.errstate(all="ignore"):
        t = mxspec.quantize(x, seen.fmt, profile=seen.profile, tensor_scale=native_scale(seen.profile, rows.tensor))
    lost = np.asarray(~np.isfinite(x).all(axis=1, keepdims=True))
    return np.where(lost[:, 0], rows.scales, t.scales.reshape(-1)), np.where(lost, rows.codes, t.codes)


def flush_inputs(seen: Seen) -> Seen:
    """The same with blocks in which float32 subnormals are zeros."""
    return replace(seen, rows=[replace(r, x=np.where(_flag_subnormal(r.x), np.copysign(np.float32(0), r.x), r.x)) for r in seen.rows])


def misread_tensor_scale(seen: Seen) -> Found | None:
    """Whether blocks under a tensor scale are those of one that is read otherwise, and all others are right."""
    names = []
    for name, dtype in NARROW_DTYPES.items():
        answers = []
        for r in seen.rows:
            if r.tensor is None:
                answers.append((r.want_scales, r.want_codes))
                continue
            with np.errstate(all="ignore"):
                held = np.asarray(r.tensor.value(seen.kind), dtype).view(np.uint16)
                given = TensorScale(TensorScaleKind(seen.kind), int(held))
                t = mxspec.quantize(r.x, seen.fmt, profile=seen.profile, tensor_scale=convert_tensor_scale(given, seen.profile))
            answers.append((t.scales.reshape(-1), t.codes))
        if seen.explains(answers):
            names.append(name)
    text = (
        f"the tensor scale counts as next to zero, as if two bytes of {' or '.join(names)} were read as four of float32, zeros behind them"
    )
    return Found(KnownCause.TENSOR_SCALE_MISREAD, text) if names else None


def _flag_subnormal(x: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    flags: npt.NDArray[np.bool_] = (np.abs(x) < _NORMAL) & (x != 0)
    return flags


def wrong_dtypes(seen: Seen) -> Found | None:
    """Whether blocks that are right in float32 are wrong in another dtype, and all that is wrong is so in these dtypes."""
    dtypes, fold = seen.dtypes, fold_zeros(seen.fmt.element)
    wrong: dict[str, set[str]] = {d: set() for d in dtypes}
    asked: dict[str, set[str]] = {d: set() for d in dtypes}
    for item in seen.answered:
        answers = item.case.answers.get(seen.profile.id)
        if answers is None or item.case.topic not in ORDINARY:
            continue
        asked[item.dtype].add(item.case.id)
        same = (fold[item.codes.reshape(-1)] == fold[answers[0].codes.reshape(-1)]).all()
        if not same or (item.scales.reshape(-1) != answers[0].scale.reshape(-1)).any():
            wrong[item.dtype].add(item.case.id)
    alone = [d for d in dtypes if d != "float32" and wrong[d] - wrong["float32"] and not wrong["float32"] & asked[d]]
    if not alone or any(wrong[d] for d in dtypes if d not in alone):
        return None
    counts = ", ".join(f"{d}: {len(wrong[d])} of {len(asked[d])} blocks that are right in float32" for d in alone)
    return Found(KnownCause.ONE_DTYPE, f"only inputs in {' and '.join(alone)} go wrong ({counts})")
