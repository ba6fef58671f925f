"""What a target's differences mean on ordinary data. For people: no verdict depends on it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

import mxspec
from mxspec.blocktensor import BlockTensor
from mxspec.formats import BlockFormat, Extent
from mxspec.measures import ErrorMeasures, join_measures, measure_error
from mxspec.profiles.schema import Profile
from mxspec.tensorscale import find_tensor_amax
from mxspec_conformance.observations.quantize import tensor_argument
from mxspec_conformance.results.report import Impact
from mxspec_conformance.targets.dtypes import cast_input, preferred_dtype
from mxspec_conformance.targets.errors import CallError
from mxspec_conformance.targets.sessions import TargetSession
from mxspec_conformance.targets.texts import clean_text
from mxspec_vectors.tensor_scales import TensorScales, native_scale

Floats = npt.NDArray[np.float32]

#: Rows and columns of the default data: whole tiles for kernels with limits, and quick for any target.
_SHAPE = (128, 256)
_SEED = 0
#: Characters that are kept of a target's words.
_NOTE = 200


@dataclass(frozen=True, slots=True)
class Data:
    """Numbers on which targets are tried."""

    #: "N(0, 1)", or the name of a file.
    name: str
    tensors: tuple[Floats, ...]


@lru_cache(maxsize=1)
def normal_data() -> Data:
    """Numbers of the standard normal distribution, the same in every run."""
    x = np.random.default_rng(_SEED).standard_normal(_SHAPE).astype(np.float32)
    x.flags.writeable = False
    return Data("N(0, 1)", (x,))


def measure_impact(session: TargetSession, fmt: BlockFormat, profile: Profile, data: Iterable[Data]) -> list[Impact]:
    """What the target and the profile make of each data: how many codes and scales differ, and the error of both.

    The codes of both are read back by the profile's arithmetic. A target that does not answer has its words in `note`.
    """
    return [_measure(session, fmt, profile, d) for d in data]


def _measure(session: TargetSession, fmt: BlockFormat, profile: Profile, data: Data) -> Impact:
    errors: list[tuple[ErrorMeasures, ErrorMeasures]] = []
    counts = np.zeros(5, np.int64)
    for given in data.tensors:
        try:
            x, theirs, ours = _quantize_both(session, fmt, profile, given)
        except (CallError, ValueError) as error:
            return Impact(data=data.name, note=clean_text(str(error), _NOTE))
        codes, scales = theirs.codes != ours.codes, theirs.scales != ours.scales
        values = theirs.dequantize(), ours.dequantize()
        unequal = (values[0] != values[1]) & ~(np.isnan(values[0]) & np.isnan(values[1]))
        counts += (codes.sum(), codes.size, scales.sum(), scales.size, unequal.sum())
        errors.append((measure_error(x, values[0]), measure_error(x, values[1])))
    target, model = (join_measures(e) for e in zip(*errors, strict=True))
    return Impact(
        data=data.name,
        codes=int(counts[1]), codes_differ=int(counts[0]), scales=int(counts[3]), scales_differ=int(counts[2]),
        values_differ=int(counts[4]),
        sqnr=_finite(target.sqnr), sqnr_profile=_finite(model.sqnr),
        largest=_finite(target.largest), largest_profile=_finite(model.largest),
    )  # fmt: skip


def _quantize_both(session: TargetSession, fmt: BlockFormat, profile: Profile, given: Floats) -> tuple[Floats, BlockTensor, BlockTensor]:
    capabilities = session.capabilities
    dtype = preferred_dtype(capabilities.dtypes)
    tail = -given.shape[-1] % fmt.k
    padded = np.pad(given, ((0, 0), (0, tail)))
    typed = cast_input(padded if fmt.extent is Extent.BLOCK else padded.reshape(-1, fmt.k), dtype)
    x = typed.astype(np.float32)
    has_scale = capabilities.has("quantize", "tensor_scale") and profile.two_level is not None and fmt.has_tensor_scale
    tensor = TensorScales.from_amax(find_tensor_amax(x)) if has_scale else None
    codes, scales = session.call("quantize", typed, fmt.name, **tensor_argument(tensor, capabilities))
    scale = native_scale(profile, tensor)
    ours = mxspec.quantize(x, fmt, profile=profile, tensor_scale=scale)
    return x, BlockTensor.from_codes(codes, scales, fmt, profile=profile, tensor_scale=scale), ours


def _finite(number: float) -> float | None:
    """A number for JSON, to nine digits; None where there is no error at all, or it is no number."""
    return float(f"{number:.9g}") if np.isfinite(number) else None
