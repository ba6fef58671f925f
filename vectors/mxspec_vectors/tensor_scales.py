"""The tensor scale of a case in every kind, so that each implementation is handed the kind that it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import mxspec
from mxspec.profiles.schema import Profile, QuantizationSteps, TensorScaleKind
from mxspec.tensorscale import TensorScale, bind_arrays, derive_tensor_scale
from mxspec_vectors.points import QUIET_NAN


@dataclass(frozen=True, slots=True)
class TensorScales:
    """float32 bits of one tensor's scale in its three kinds."""

    #: The largest magnitude of the tensor.
    amax: int
    #: g of v = code * scale * g.
    decode: int
    #: S, about 1 / g.
    encode: int

    def bits(self, kind: TensorScaleKind | str) -> int:
        """The float32 bits of one kind."""
        return {"amax": self.amax, "decode": self.decode, "encode": self.encode}[TensorScaleKind(kind).value]

    def value(self, kind: TensorScaleKind | str) -> float:
        """One kind as a number."""
        return float(np.uint32(self.bits(kind)).view(np.float32))

    def native(self, profile: Profile) -> TensorScale:
        """The tensor scale as a profile takes it.

        Raises ValueError for a profile without a tensor scale.
        """
        if profile.tensor is None:
            raise ValueError(f"profile {profile.id} has no tensor scale")
        return TensorScale(profile.tensor.native, self.bits(profile.tensor.native))

    @property
    def is_special(self) -> bool:
        """Whether the tensor's largest magnitude is an infinity or a NaN."""
        return self.amax >= 0x7F800000

    def as_dict(self) -> dict[str, str]:
        """As it stands in files: eight hex digits for each kind."""
        return {"amax": f"{self.amax:08x}", "decode": f"{self.decode:08x}", "encode": f"{self.encode:08x}"}

    @classmethod
    def from_dict(cls, entry: Mapping[str, str]) -> TensorScales:
        """The inverse of `as_dict`."""
        return cls(**{kind: int(entry[kind], 16) for kind in ("amax", "decode", "encode")})

    @classmethod
    def from_amax(cls, amax: int) -> TensorScales:
        """The scale of a tensor with this maximum (float32 bits) in its three kinds.

        decode is the rounded amax / 2688; encode is the rounded 2688 / amax, at most FLT_MAX, and 1 for a maximum of zero.
        """
        encode = derive_tensor_scale(amax, mxspec.get_profile("nvfp4-paper", "nvfp4"))
        with np.errstate(all="ignore"):
            decode = np.float32(np.float32(TensorScale(TensorScaleKind.AMAX, amax).value) / np.float32(2688))
        bits = int(decode.view(np.uint32)) if not np.isnan(decode) else QUIET_NAN
        return cls(amax, bits, encode.bits)


def native_scale(profile: Profile, scales: TensorScales | None) -> TensorScale | None:
    """The tensor scale as a profile takes it; None where there is none.

    Raises ValueError for a scale and a profile without one.
    """
    return None if scales is None else scales.native(profile)


def bind_profile(profile: Profile, scales: TensorScales | None) -> tuple[QuantizationSteps, dict[str, Any]]:
    """The profile's arithmetic with or without a tensor scale, and the leaves of its expressions that the scale binds.

    Raises ValueError where the profile has no such form.
    """
    steps = profile.steps(with_tensor_scale=scales is not None)
    return steps, {} if scales is None else dict(bind_arrays(profile, scales.native(profile)))
