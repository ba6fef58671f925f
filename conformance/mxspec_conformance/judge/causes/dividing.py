"""Blocks divided and encoded under the scales that were returned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mxspec.arrays import ARRAYS
from mxspec.blocks import encode_elements
from mxspec.elements_given_scale import scale_lanes
from mxspec.expressions import Expr, evaluate
from mxspec.formats import BlockFormat, ElementFormat
from mxspec.profiles.schema import Profile, QuantizationSteps
from mxspec_conformance.judge.causes.rows import Rows
from mxspec_vectors.cases import Codes
from mxspec_vectors.tensor_scales import TensorScales, bind_profile


@dataclass(frozen=True, slots=True)
class Divided:
    """Blocks [n, k] under the scales that a target returned, as the profile divides them."""

    rows: Rows
    #: The quotients [n, k].
    scaled: npt.NDArray[Any]
    #: Leaves of the profile's expressions, and those of them that the tensor scale binds.
    known: Mapping[str, Any]
    bound: Mapping[str, Any]
    steps: QuantizationSteps
    element: ElementFormat

    def encode(self, scaled: npt.NDArray[Any] | None = None, **changed: Any) -> Codes:
        """The codes [n, k] of the quotients, or of others; changed: fields of the profile's element rule."""
        with np.errstate(all="ignore"):
            return encode_elements(
                self.scaled if scaled is None else scaled, self.known["x"], np.isnan(self.known["sf"]),
                replace(self.steps.element, **changed), self.element,
            )  # fmt: skip

    def with_values(self, values: Mapping[str, Any], quotient: Expr | None = None) -> Divided:
        """The same blocks, divided with other values in the expressions, or by another expression."""
        known = {**self.known, **values}
        with np.errstate(all="ignore"):
            scaled = np.broadcast_to(evaluate(quotient or self.steps.scaled, known, ARRAYS), self.rows.x.shape)
        return replace(self, scaled=np.ascontiguousarray(scaled), known=known)


def divide(rows: Sequence[Rows], fmt: BlockFormat, profile: Profile) -> Sequence[Divided]:
    """All blocks, divided; none where the profile searches codes of elements, which no quotient decides."""
    found = []
    for r in rows:
        steps, bound = bind_profile(profile, r.tensor)
        if steps.element.error is not None:
            return ()
        with np.errstate(all="ignore"):
            scaled, known = scale_lanes(r.x, usable_scales(r, fmt), fmt, profile, steps, bound)
        found.append(Divided(r, scaled, known, bound, steps, fmt.element))
    return found


def bind_tensor(tensor: TensorScales | None) -> dict[str, Any]:
    """The encode scale S and the decode scale g of a tensor; both 1 where there is none."""
    return {leaf: np.float32(1 if tensor is None else tensor.value(kind)) for leaf, kind in (("S", "encode"), ("g", "decode"))}


def usable_scales(rows: Rows, fmt: BlockFormat) -> Codes:
    """The returned scale bytes; one that is no code of the format counts as the largest."""
    return np.minimum(rows.scales, fmt.scale.code_count - 1).astype(rows.scales.dtype)
