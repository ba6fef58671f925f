"""What a float32 scale is computed by, where no profile that is known here has it: a division and what becomes of the quotient."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from mxspec.arrays import ceil_pow2
from mxspec.formats import BlockFormat
from mxspec_conformance.judge.causes.narrowing import NARROW_DTYPES, to_nearest
from mxspec_conformance.observations.bisection import NoAnswer
from mxspec_conformance.observations.scale import ObservedScales

Floats = npt.NDArray[np.float32]

#: Maxima between these (2^0 and 2^96) lie above every floor, and their scales and inverses are normal; bits of float32.
_ORDINARY = (0x3F800000, 0x6F800000)
_ONE = np.float32(1)


def _divide(by: np.float32, amax: Floats) -> Floats:
    return amax / by


def _list_divisions(fmt: BlockFormat) -> Mapping[str, Callable[[Floats], Floats]]:
    """Ways to divide a maximum, the usual ones first; other divisors are those of other formats and of integers."""
    largest = float(fmt.element.max_value)
    m, f = f"{largest:g}", np.float32(largest)
    others = [d for d in (57344, 448, 256, 240, 224, 128, 127, 127.5) if d != largest]
    return {
        f"amax / {m}": lambda a: a / f,
        f"amax * (1 / {m})": lambda a: a * (_ONE / f),
        f"1 / ({m} / amax)": lambda a: _ONE / (f / a),
        **{f"amax / {d:g}": partial(_divide, np.float32(d)) for d in others},
        "amax": lambda a: a,
    }  # fmt: skip


def _down(s: Floats) -> Floats:
    up = ceil_pow2(s.astype(np.float64))
    return np.where(up == s, up, up / 2).astype(np.float32)


#: What becomes of the quotient, with `{}` for it.
_WAYS: Mapping[str, Callable[[Floats], Floats]] = {
    "{}": lambda s: s,
    "the inverse of {}": lambda s: _ONE / s,
    "{} up to a power of two": lambda s: ceil_pow2(s.astype(np.float64)).astype(np.float32),
    "{} down to a power of two": _down,
    **{f"{{}} held in {name}": partial(to_nearest, dtype=dtype) for name, dtype in NARROW_DTYPES.items()},
}  # fmt: skip


def name_scale_form(results: Sequence[ObservedScales], fmt: BlockFormat) -> str | None:
    """The form that gives the scale of every maximum above 1, in words; None where none of those that are tried does."""
    pairs = [(r.case.amax, r.returned) for r in results if not isinstance(r.returned, NoAnswer)]
    if not pairs:
        return None
    amax, returned = (np.concatenate(part).astype(np.uint32) for part in zip(*pairs, strict=True))
    chosen = (amax > _ORDINARY[0]) & (amax < _ORDINARY[1])
    maxima, scales = amax[chosen].view(np.float32), returned[chosen]
    with np.errstate(all="ignore"):
        for way, change in _WAYS.items():
            for words, divide in _list_divisions(fmt).items():
                found = np.asarray(change(divide(maxima)), np.float32)
                if len(scales) and (found.view(np.uint32) == scales).all():
                    return way.format(words)
    return None
