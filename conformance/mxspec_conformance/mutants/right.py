"""Right implementations: the plain one with every combination of what OCP leaves open. None of them may be accused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from mxspec.formats import get_block
from mxspec_conformance.mutants import reference
from mxspec_conformance.mutants.reference import Array, Context
from mxspec_conformance.mutants.scale_mutants import special

Steps = dict[str, Callable[..., Any]]

#: Far beyond any element: what infinities are while they are rounded.
INFINITE = 2.0**300


def any_codes(c: Context, codes: Array, stored: Array, x: Array) -> tuple[Array, Array]:
    """Codes under a NaN scale are what comes out of the unit: here a pattern."""
    pattern = np.arange(codes.shape[1]) * 37 & (c.element.code_count - 1)
    return np.where((stored == 255)[:, None], pattern, codes), stored


def infinity_code(c: Context, value: Array) -> Array:
    """The code of infinity for infinities."""
    assert c.element.inf_code is not None
    return np.where(value == INFINITE, c.element.inf_code, reference.code_magnitude(c, np.minimum(value, 1e9)))


def open_choices(fmt: str) -> Iterator[tuple[str, Steps]]:
    """Every combination of open choices for an MX format: names, steps; the first is the canonical one."""
    element = get_block(fmt).element
    nan: dict[str, Steps] = {"nan: codes 00": {}, "nan: any codes": {"finish": any_codes}}
    if element.nan_code is not None:
        nan["nan: the lane alone"] = {"find_amax": lambda c, x: np.fmax.reduce(np.abs(x), axis=1, initial=0)}
    own: Steps = (
        {
            "saturate": lambda c, rounded, magnitude: np.where(magnitude == INFINITE, INFINITE, reference.saturate(c, rounded, magnitude)),
            "code_magnitude": infinity_code,
        }
        if element.inf_code is not None
        else {}
    )
    scales = {"FE": 254, "NaN": 255} | ({"255 - emax": 255 - element.emax} if element.emax else {})
    lanes: dict[str, Steps] = {"inf: largest": {}} | ({"inf: Inf": own} if own else {})
    lowest: dict[str, Steps] = {"": {}}
    if element.twos_complement:
        lowest["lowest 80"] = {
            "saturate": lambda c, r, m: np.minimum(r, 2.0),
            "join_sign": lambda c, codes, negative: np.where(negative, -codes & 0xFF, np.minimum(codes, 127)),
        }
    for n, (word, inf), lane, zero, low in product(nan, scales.items(), lanes, (0x00, 0x7F, 0xFE), lowest):
        steps = {**nan[n], **lanes[lane], **lowest[low], "store_special": special(zero=zero, inf=inf)}
        yield f"{n}; inf: scale {word}; {lane}; zero: {zero:02X} {low}".rstrip(), steps
