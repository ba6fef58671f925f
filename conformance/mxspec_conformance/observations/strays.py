"""Blocks of which a target returns numbers that their format does not have: a verdict of their own, whatever else they would break."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.formats import BlockFormat, get_block
from mxspec_conformance.observations.bisection import NoAnswer
from mxspec_conformance.targets.errors import FailureKind
from mxspec_conformance.targets.sessions import TargetSession

#: The topic of such blocks.
REPRESENTABLE = "representable"


def find_strays(session: TargetSession, x: npt.NDArray[Any], fmt: str, **options: Any) -> dict[int, NoAnswer]:
    """The rows of x [rows, k] that are answered by a number which the format does not have, and why they have no answer.

    What becomes of infinities and NaN is open, whatever comes back; so is a scale of zero for a block of zeros.
    """
    if not session.capabilities.may_stray(fmt):
        return {}
    values, scales = session.call("strays", "quantize", x, fmt, **options)
    odd = (values != 0).any(axis=tuple(range(1, values.ndim))) | ~np.isnan(scales).all(axis=tuple(range(1, scales.ndim)))
    found = {}
    for row in np.flatnonzero(odd).tolist():
        given = x[row].astype(np.float32)
        text = _describe(values[row], scales[row], get_block(fmt))
        if not np.isfinite(given).all():
            found[row] = NoAnswer(FailureKind.ERROR, text)
        elif given.any() or values[row].any() or (scales[row] != 0).any():
            found[row] = NoAnswer(FailureKind.BAD_RETURN, text, topic=REPRESENTABLE)
    return found


def _describe(values: npt.NDArray[np.float32], scales: npt.NDArray[np.float32], fmt: BlockFormat) -> str:
    """The first number that the format does not have."""
    scale = next((float(s) for s in scales.flat if not np.isnan(s)), None)
    if scale is not None:
        return f"scale {scale!r} is no {fmt.scale.name.upper()} number"
    lane = int(np.flatnonzero(values.reshape(-1) != 0)[0])
    value = float(values.reshape(-1)[lane])
    return f"value {value!r} of element {lane} is no {fmt.element.name.upper()} number times a scale that explains the other elements"
