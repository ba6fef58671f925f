"""Targets under tensor scales: each kind as it is named, and each under another's name."""

from __future__ import annotations

from types import SimpleNamespace

import mxspec
from mxspec.profiles.schema import TensorScaleKind

from tests.bugs.building import Answer, Array, by_amax, make
from tests.bugs.entry import Entry, Kind

#: Kind -> a profile whose own kind it is.
PROFILES = {"amax": "nvfp4-te", "encode": "nvfp4-paper", "decode": "torchao-0.18/nvfp4/eager"}


def by_kind(profile: str, named: str, used: str) -> SimpleNamespace:
    """A target that follows a profile, whose tensor scale it says to be of one kind and takes for another."""

    def tensor(value: float | None) -> mxspec.TensorScale | None:
        return None if value is None else mxspec.TensorScale.from_float(TensorScaleKind(used), value)

    def quantize(x: Array, fmt: str, tensor_scale: float | None = None) -> Answer:
        t = mxspec.quantize(x, fmt, profile=profile, tensor_scale=tensor(tensor_scale))
        return t.codes, t.scales

    def dequantize(codes: Array, scales: Array, fmt: str, tensor_scale: float | None = None) -> Array:
        return mxspec.dequantize(codes, scales, fmt, profile=profile, tensor_scale=tensor(tensor_scale))

    return make(
        ["nvfp4"], TENSOR_SCALE=named, quantize=quantize, dequantize=dequantize,
        tensor_scale=lambda x, fmt: mxspec.tensor_scale(x, fmt, profile).value,
    )  # fmt: skip


def dequantize_two_levels(codes: Array, scales: Array, fmt: str, tensor_scale: float) -> Array:
    return mxspec.dequantize(codes, scales, fmt, tensor_scale=by_amax(tensor_scale))


def _mistaken(named: str, used: str, profile: str) -> Entry:
    return Entry(
        id=f"{used} named {named}", what=f"the tensor scale that is named {named} is taken for one of the kind {used}",
        formats=("nvfp4",), target=lambda: by_kind(profile, named, used), profile=profile,
        must_fail=(
            "quantize/above-tie,below-tie,exact,inf,mixture,scale-tie,subnormal,tensor-scale,tie-even", "scale/scale-tie",
            "dequantize/tensor-scale", "tensor_scale/tensor-scale",
        ),
        may_fail=("quantize/overflow,scale-clamp", "tensor_scale/inf,nan,zero-block"),
    )  # fmt: skip


def _right(kind: str, profile: str) -> Entry:
    return Entry(
        id=f"tensor scales of the kind {kind}", what=f"{profile}, whose tensor scales are of the kind {kind}", formats=("nvfp4",),
        target=lambda: by_kind(profile, kind, kind), kind=Kind.UNUSUAL, profile=profile,
    )  # fmt: skip


#: (named, used, profile) of each mistaken kind.
MISTAKEN = tuple((named, used, profile) for used, profile in PROFILES.items() for named in PROFILES if named != used)

ENTRIES: tuple[Entry, ...] = (
    *(_right(kind, profile) for kind, profile in PROFILES.items()),
    *(_mistaken(*mistaken) for mistaken in MISTAKEN),
    Entry(
        id="amax named decode, without a one-level form", what="dequantize alone, which cannot be called without a tensor scale",
        formats=("nvfp4",), target=lambda: make(["nvfp4"], TENSOR_SCALE="decode", dequantize=dequantize_two_levels),
        must_fail=("dequantize/tensor-scale",),
    ),
)  # fmt: skip
