"""One failing block, shrunk and described: what `prove` and `fuzz` show."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.formats import BlockFormat
from mxspec.profiles.schema import Profile
from mxspec_conformance.counterexample.failure import draw_failure
from mxspec_conformance.observations.quantize import Observed, tensor_argument
from mxspec_conformance.results.report import Failure
from mxspec_conformance.targets.dtypes import DTYPES, preferred_dtype
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_vectors.cases import QuantizeCase
from mxspec_vectors.entries import has_level
from mxspec_vectors.tensor_scales import TensorScales, native_scale


def draw_block(
    session: TargetSession, fmt: BlockFormat, profile: Profile, x: npt.NDArray[np.float32], tensor: TensorScales | None,
    label: str,
) -> Failure | None:  # fmt: skip
    """The failure of one block [1, k], shrunk; None where the target does not answer, or answers as the profile does."""
    dtype = preferred_dtype(session.capabilities.dtypes)
    case = QuantizeCase(id=label, topic="mixture", x=x, tensor=tensor)
    extra = tensor_argument(tensor, session.capabilities)
    try:
        with np.errstate(all="ignore"):
            codes, scales = session.call("quantize", x.astype(DTYPES[dtype]), fmt.name, **extra)
    except CallError:
        return None
    with np.errstate(all="ignore"):
        want = mxspec.quantize(x, fmt, profile=profile, tensor_scale=native_scale(profile, tensor))
    if np.array_equal(want.codes, codes) and np.array_equal(want.scales, scales):
        return None
    failure = draw_failure(session, Observed(case, dtype, scales, codes), fmt, profile)
    failure.also = name_equals(fmt, profile, x, tensor, scales, codes)
    return failure


def name_equals(
    fmt: BlockFormat, judged: Profile, x: npt.NDArray[np.float32], tensor: TensorScales | None, scales: Any, codes: Any
) -> list[str]:
    """Other profiles that give exactly what was returned for these blocks."""
    equal = []
    for other in mxspec.list_profiles(fmt):
        if other.id == judged.id or not has_level(other, two_level=tensor is not None):
            continue
        try:
            with np.errstate(all="ignore"):
                t = mxspec.quantize(x, fmt, profile=other, tensor_scale=native_scale(other, tensor))
        except ValueError:  # a profile that refuses the block
            continue
        if np.array_equal(t.codes, codes) and np.array_equal(t.scales, scales):
            equal.append(other.id)
    return equal
