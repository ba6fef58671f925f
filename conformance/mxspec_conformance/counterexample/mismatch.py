"""Judging answers against a profile: which blocks have a wrong scale, which lanes a wrong code, which only a wrong zero."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.acceptance import flag_nan, flag_nan_codes, fold_zeros, is_lowest_allowed, legal_rows
from mxspec.elements_given_scale import encode_given_scale
from mxspec.enums import StrEnum
from mxspec.profiles.schema import Kind
from mxspec_conformance.counterexample.kinds import CallKind
from mxspec_conformance.counterexample.sample_space import Codes, Float32s, SampleSpace


class Part(StrEnum):
    """What of a block is wrong."""

    SCALE = "scale"
    CODE = "code"
    ZERO_SIGN = "zero-sign"
    #: Of `dequantize`.
    VALUE = "value"


@dataclass(slots=True)
class Wrong:
    """The blocks that differ, and in what."""

    #: Indices of blocks that are wrong.
    rows: npt.NDArray[np.intp]
    #: Of those: whether the scale is wrong [m]; lanes with a wrong code, and with the wrong sign of zero [m, k].
    scale: npt.NDArray[np.bool_]
    codes: npt.NDArray[np.bool_]
    signs: npt.NDArray[np.bool_]
    #: The codes that the profile gives under the scales returned [m, k].
    expected: Codes


def find_wrong(space: SampleSpace, x: Float32s, want: tuple[Codes, Codes], got: tuple[Codes, Codes]) -> Wrong | None:
    """What is wrong in answers to blocks of finite numbers [n, k]; None where nothing is."""
    rows = np.flatnonzero((got[0] != want[0]) | (got[1] != want[1]).any(axis=1))
    if not rows.size:
        return None
    values, scales, codes = x[rows], got[0][rows], got[1][rows]
    expected = want[1][rows].copy()
    wrong_scale = scales != want[0][rows]
    if wrong_scale.any():
        expected[wrong_scale], _ = _given(space, values[wrong_scale], scales[wrong_scale])
    fold = fold_zeros(space.fmt.element)
    wrong = fold[codes] != fold[expected]
    signs = (codes != expected) & ~wrong
    if space.profile.kind is Kind.NORMATIVE and not space.fmt.has_tensor_scale:
        zero = ~values.any(axis=1) & ~flag_nan_codes(scales, space.fmt.scale)
        wrong_scale &= ~zero
        wrong[zero] = fold[codes[zero]] != 0
        signs[zero] = False
        if space.fmt.element.twos_complement:
            _, scaled = _given(space, values, scales)
            wrong &= ~((codes == space.fmt.element.sign_bit) & is_lowest_allowed(space.fmt.element, scaled))
    kept = wrong_scale | wrong.any(axis=1) | signs.any(axis=1)
    if not kept.any():
        return None
    return Wrong(rows[kept], wrong_scale[kept], wrong[kept], signs[kept], expected[kept])


def _given(space: SampleSpace, x: Float32s, scales: Codes) -> tuple[Codes, npt.NDArray[Any]]:
    usable = np.minimum(scales, space.fmt.scale.code_count - 1).astype(scales.dtype)
    with np.errstate(all="ignore"):
        return encode_given_scale(x, usable, space.fmt, space.profile, space.steps, space.bindings)


def find_wrong_special(space: SampleSpace, x: Float32s, want: tuple[Codes, Codes], got: tuple[Codes, Codes]) -> Wrong | None:
    """The same for blocks with NaN, infinities or zeros: each is compared with the list of its legal answers.

    Where the profile's stack is not pinned on NaN, nothing is required of it.
    """
    if space.profile.unspecified_nan_input_scales:
        x = np.where(np.isnan(x).any(axis=1, keepdims=True), np.float32(0), x)
    flags, fold = flag_nan(space.fmt.element), fold_zeros(space.fmt.element)
    rows, loose = [], space.profile.unspecified_nan_block_codes
    nan_scale = space.fmt.scale.nan_code
    for row in np.flatnonzero((got[0] != want[0]) | (got[1] != want[1]).any(axis=1)):
        if space.profile.unspecified_nan_input_scales and not x[row].any():
            continue
        if loose and want[0][row] == nan_scale and got[0][row] & (space.fmt.scale.code_count - 1) == nan_scale:
            continue
        legal = legal_rows(x[row], space.fmt, space.profile, int(want[0][row]), want[1][row])
        if not any(a.matches(int(got[0][row]), got[1][row], flags) for a in legal):
            rows.append(row)
    if not rows:
        return None
    index = np.array(rows, np.intp)
    expected = want[1][index]
    codes = got[1][index]
    wrong = fold[codes] != fold[expected]
    return Wrong(index, got[0][index] != want[0][index], wrong, (codes != expected) & ~wrong, expected)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One wrong lane, or scale, in one call of a batch."""

    batch: int
    #: Number of the call in the batch, and the block's place in the call.
    call: int
    row: int
    kind: CallKind
    part: Part
    lane: int
    scale: int
    expected: int
    returned: int
    #: Blocks of the call.
    blocks: int
    #: How the input lay in memory.
    arrangement: str = "contiguous"

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Mismatch:
        """From what `dataclasses.asdict` gave, perhaps by way of JSON."""
        typed = {"kind": CallKind(document["kind"]), "part": Part(document["part"])}
        return cls(**{**document, **typed})
