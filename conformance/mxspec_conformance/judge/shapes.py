"""Finding the matrices that a target takes, where it refuses ordinary ones and declares no SHAPES."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from mxspec.elements import code_dtype
from mxspec.formats import Extent, get_block
from mxspec_conformance.targets.capabilities import ShapeLimits
from mxspec_conformance.targets.errors import REFUSALS, CallError
from mxspec_conformance.targets.fitting import FittedSession
from mxspec_conformance.targets.interface import quantized_shapes
from mxspec_conformance.targets.sessions import TargetSession

#: Limits that kernels have, the mildest first.
CANDIDATES = tuple(
    ShapeLimits(columns, rows, least)
    for columns, rows, least in (
        (64, 1, 1), (128, 1, 1), (256, 1, 1), (1, 16, 1), (1, 32, 1), (128, 16, 1), (128, 32, 1), (1, 128, 1), (1, 1, 128),
        (128, 128, 1), (128, 16, 128), (512, 1, 1), (1024, 1, 1), (256, 256, 1),
    )
)  # fmt: skip
#: Rows by which kernels go that take four rows, and neither one nor three.
ROWS = (2, 4)


def fit_session(session: TargetSession, formats: Sequence[str] | None = None) -> TargetSession:
    """The session; formats: default all of its own; where a function of it refuses every small matrix and takes some larger one, fitted to that.

    Asked are matrices of ordinary numbers, which every quantizer takes; targets that declare SHAPES are fitted already.
    """
    capabilities = session.capabilities
    formats = capabilities.formats if formats is None else formats
    if not formats or session.transport == "results-file" or (isinstance(session, FittedSession) and session.limits):
        return session
    if isinstance(session, FittedSession):
        session = session.inner
    found = {f: _find_limits(session, f, formats[0]) for f in ("quantize", "dequantize") if capabilities.has(f)}
    limits = {function: limit for function, limit in found.items() if limit is not None}
    whole = any(get_block(name).extent is not Extent.BLOCK for name in capabilities.formats)
    return FittedSession(session, limits) if limits or whole else session


@dataclass(frozen=True, slots=True)
class FirstCall:
    """One of the calls of a session before any other, and its answer."""

    function: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    answer: Any


_FIRST_CALLS: WeakKeyDictionary[TargetSession, list[FirstCall]] = WeakKeyDictionary()


def find_first_calls(session: TargetSession) -> Sequence[FirstCall]:
    """The first calls of a session that were answered: those that found the matrices that it takes.

    They are the only ones in which what is set up once, or by the first call, can be wrong.
    """
    return _FIRST_CALLS.get(getattr(session, "inner", session), [])


def _find_limits(session: TargetSession, function: str, name: str) -> ShapeLimits | None:
    """The mildest limits that a function has; None where it takes small matrices, or none at all."""
    if _takes(session, function, name, (4, 1)):
        odd = [_ask(session, function, name, (rows, 1)) for rows in (1, 3)]
        if not all(error is not None and error.kind in REFUSALS and not error.is_defect for error in odd):
            return None
        taken = (n for n in ROWS if _takes(session, function, name, (n, 1)) and _takes(session, function, name, (3 * n, 1)))
        return next((ShapeLimits(rows=n) for n in taken), None)
    if any(_takes(session, function, name, shape) for shape in ((1, 1), (3, 1))):
        return None
    k = get_block(name).k
    for limits in CANDIDATES:
        rows, columns = limits.fit(1, k)
        if _takes(session, function, name, (rows, columns // k)):
            return limits
    return None


def _takes(session: TargetSession, function: str, name: str, shape: tuple[int, int]) -> bool:
    """Whether a matrix of so many rows and blocks is answered."""
    return _ask(session, function, name, shape) is None


def _ask(session: TargetSession, function: str, name: str, shape: tuple[int, int]) -> CallError | None:
    """Why a matrix of so many rows and blocks is not answered."""
    fmt = get_block(name)
    rows, blocks = shape
    extra: dict[str, Any] = {}
    if fmt.has_tensor_scale and session.capabilities.has(function, "tensor_scale"):
        extra["tensor_scale"] = 1.0
    # Unequal numbers of either sign: what the first call of all has wrong may be one code, or one place.
    number = np.arange(rows * blocks * fmt.k).reshape(rows, -1) * 37
    shared = quantized_shapes(number.shape, fmt)[1]
    arguments: tuple[Any, ...] = ((number % 61 - 30).astype(np.float32) / 8, name)
    if function == "dequantize":
        codes = (number % (fmt.element.max_code + 1)).astype(np.uint8)
        arguments = (codes, np.full(shared, fmt.scale.bias << fmt.scale.mantissa_bits, code_dtype(fmt.scale)), name)
    try:
        answer = session.call(function, *arguments, **extra)
    except CallError as error:
        return error
    _FIRST_CALLS.setdefault(session, []).append(FirstCall(function, arguments, extra, answer))
    return None
