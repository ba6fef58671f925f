"""From a dense side to a sparse one: which places are kept, and what is stored of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from mxspec.sparsity import KEPT, Sparsity, take
from mxspec_conformance.targets.operands import Numbers, OperandSpec

Codes = npt.NDArray[np.uint8]


def choose_places(wanted: npt.NDArray[np.bool_], sparsity: Sparsity, draw: np.random.Generator, keep: int | None = None) -> Codes:
    """Nibbles [rows, groups] that keep of each group what is wanted, as far as two items or pairs can, and others at random.

    keep: a place along k that every row keeps.
    """
    rows, k = wanted.shape
    weights = wanted.reshape(rows, -1, 4, sparsity.unit).sum(axis=-1) + draw.random((rows, k // sparsity.group, 4))
    if keep is not None:
        weights[:, keep // sparsity.group, keep % sparsity.group // sparsity.unit] += 4
    places = np.sort(np.argsort(-weights, axis=-1)[..., :2], axis=-1)
    nibbles: Codes = (places[..., 1] << 2 | places[..., 0]).astype(np.uint8)
    return nibbles


def thin_out(numbers: Numbers, spec: OperandSpec, metadata: Codes) -> Numbers:
    """A dense side with what the nibbles keep of it; scales and offsets stay where they are."""
    assert spec.sparsity is not None
    held = take(numbers.held, metadata, sparsity=spec.sparsity)
    return replace(numbers.with_held(held), spec=spec, metadata=metadata)


def cycle_places(rows: int, groups: int) -> Codes:
    """Nibbles [rows, groups] in turn, no two neighbours alike."""
    legal = np.array(sorted(KEPT), np.uint8)
    found: Codes = legal[(np.arange(rows)[:, None] * 5 + np.arange(groups)[None, :]) % len(legal)]
    return found


def find_stored(nibble: int, place: int, sparsity: Sparsity) -> int:
    """Where among the kept of the first group the item of a place is; it has to be kept."""
    return KEPT[nibble].index(place // sparsity.unit) * sparsity.unit + place % sparsity.unit
