"""Blocks with what a target returned for them and what a profile says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from mxspec.acceptance import flag_nan, fold_zeros
from mxspec.elements import decode_codes, decode_table
from mxspec.formats import BlockFormat, ElementFormat
from mxspec.profiles.schema import Profile
from mxspec_conformance.judge.invariance.answered import ORDINARY
from mxspec_conformance.judge.scale_bounds import Bounds
from mxspec_conformance.observations.quantize import Observed
from mxspec_vectors.cases import Codes
from mxspec_vectors.tensor_scales import TensorScales

#: Topics of ordinary blocks, and those at which a rule of the scale changes.
_TOPICS = (*ORDINARY, "scale-boundary", "scale-tie")


@dataclass(frozen=True, slots=True)
class Rows:
    """Ordinary blocks of one dtype and tensor scale, what was returned and what the profile says."""

    #: [n, k].
    x: npt.NDArray[np.float32]
    #: [n] and [n, k], as returned.
    scales: Codes
    codes: Codes
    #: The same of the profile.
    want_scales: Codes
    want_codes: Codes
    tensor: TensorScales | None
    #: Whether the target returns values, of which other scales and codes may be the same.
    of_values: bool = False

    def agree(self, scales: Codes, codes: Codes, fmt: BlockFormat) -> npt.NDArray[np.bool_]:
        """Blocks [n] that were answered with these bits, or values; the signs of zero and NaN do not count, nor the scale of zeros."""
        if self.of_values:
            given, returned = (_decode(s, c, fmt) for s, c in ((scales, codes), (self.scales, self.codes)))
            agreed: npt.NDArray[np.bool_] = ((given == returned) | (np.isnan(given) & np.isnan(returned))).all(axis=1)
            return agreed
        fold = _fold_signs(fmt.element)
        same = (fold[codes] == fold[self.codes]).all(axis=1)
        empty = ~fold[self.codes].any(axis=1)
        result: npt.NDArray[np.bool_] = same & ((scales == self.scales) | (empty & (self.scales < 0xFF)))
        return result


def _decode(scales: Codes, codes: Codes, fmt: BlockFormat) -> npt.NDArray[np.float64]:
    with np.errstate(all="ignore"):
        return decode_table(fmt.element)[codes] * decode_codes(scales, fmt.scale).astype(np.float64)[:, None]


def put(codes: Codes, where: npt.NDArray[np.bool_], other: Codes) -> Codes:
    """Codes with others in some of the blocks."""
    changed = codes.copy()
    changed[where] = other
    return changed


@lru_cache(maxsize=32)
def _fold_signs(element: ElementFormat) -> Codes:
    """For each of 256 codes the code itself; zeros, and codes of NaN that differ by the sign alone, are one."""
    fold = fold_zeros(element).copy()
    nan = flag_nan(element)
    fold[nan] &= element.sign_bit - 1
    return fold


def collect_rows(
    seen: Sequence[Observed], fmt: BlockFormat, profile: Profile, dtype: str, bounds: Bounds, *, of_values: bool = False
) -> Iterator[Rows]:
    """The ordinary blocks of a dtype that were answered with codes of the format, one `Rows` for each tensor scale.

    bounds: blocks whose scale lies at one of these are left out.
    """
    groups: dict[TensorScales | None, list[Observed]] = {}
    for item in seen:
        special = item.case.tensor is not None and item.case.tensor.is_special
        if (
            item.case.is_row and item.dtype == dtype and item.case.topic in _TOPICS
            and profile.id in item.case.answers and not special and np.isfinite(item.case.x).all()
            and (item.codes < fmt.element.code_count).all() and bounds.within(np.abs(item.case.x).max(axis=1).view(np.uint32), item.case.tensor).all()
        ):  # fmt: skip
            groups.setdefault(item.case.tensor, []).append(item)
    for tensor, members in groups.items():
        legal = [m.case.answers[profile.id][0] for m in members]
        yield Rows(
            x=np.concatenate([m.case.x for m in members]),
            scales=np.concatenate([m.scales.reshape(-1) for m in members]),
            codes=np.concatenate([m.codes.reshape(1, -1) for m in members]),
            want_scales=np.concatenate([a.scale.reshape(-1) for a in legal]),
            want_codes=np.stack([a.codes.reshape(-1) for a in legal]),
            tensor=tensor,
            of_values=of_values,
        )
