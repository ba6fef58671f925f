"""Targets under tensor scales: each kind as it is named, and each under another's name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

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
        may_fail=("quantize/overflow,scale-clamp", "dequantize/refusal", "tensor_scale/inf,nan,zero-block"),
    )  # fmt: skip


def _right(kind: str, profile: str) -> Entry:
    return Entry(
        id=f"tensor scales of the kind {kind}", what=f"{profile}, whose tensor scales are of the kind {kind}", formats=("nvfp4",),
        target=lambda: by_kind(profile, kind, kind), kind=Kind.UNUSUAL, profile=profile,
    )  # fmt: skip


def float64_inside(form: str) -> Any:
    """The formula as it stands, in float64: by the decode scale, x / (sf g), or by the encode scale, x S / sf."""

    def quantize(x: Array, fmt: str, tensor_scale: float | None = None) -> Answer:
        blocks = x.astype(np.float64).reshape(len(x), -1, 16)
        t = 1.0 if tensor_scale is None else float(tensor_scale)
        with np.errstate(all="ignore"):
            largest = np.abs(blocks).max(axis=2)
            wide = largest / (6 * t) if form == "decode" else largest * t / 6
            stored = encode_exactly(np.where(largest == 0, 0, wide), "ue4m3")
            sf = mxspec.decode(stored, "ue4m3").astype(np.float64)[..., None]
            quotient = np.where(sf == 0, 0, blocks / (sf * t) if form == "decode" else blocks * t / sf)
        codes = encode_exactly(np.abs(quotient), "e2m1") | np.signbit(blocks) << 3
        special = ~np.isfinite(x).all(axis=1)
        model = mxspec.quantize(
            x,
            fmt,
            profile=EXACT[form],
            tensor_scale=None if tensor_scale is None else mxspec.TensorScale.from_float(TensorScaleKind(form), t),
        )
        codes, stored = codes.reshape(x.shape).astype(np.uint8), stored.astype(np.uint8)
        codes[special], stored[special] = model.codes[special], model.scales[special]
        return codes, stored

    return quantize


def encode_exactly(x: Array, name: str) -> Array:
    """The nearest code of non-negative float64 numbers, ties to even, by differences."""
    fmt = mxspec.get_scalar(name)
    grid = np.array([float(fmt.magnitude(m)) for m in range(fmt.max_code + 1)])
    middle = (grid[1:] + grid[:-1]) / 2
    low, high = np.searchsorted(middle, x, "left"), np.searchsorted(middle, x, "right")
    return np.where(low == high, low, low + low % 2).astype(np.uint8)


#: Form -> the exact profile.
EXACT = {"decode": "nvfp4-exact", "encode": "nvfp4-exact-encode"}


def decode_form(x: Array, fmt: str, tensor_scale: float | None = None) -> Answer:
    """float32 throughout, as an inference kernel writes it: x / (sf * g)."""
    t = None if tensor_scale is None else mxspec.TensorScale.from_float("decode", tensor_scale)
    if t is None or not np.isfinite(x).all():
        answer = mxspec.quantize(x, fmt, profile="nvfp4-decode", tensor_scale=t)
        return answer.codes, answer.scales
    g, blocks = np.float32(tensor_scale), x.astype(np.float32).reshape(len(x), -1, 16)
    with np.errstate(all="ignore"):
        largest = np.abs(blocks).max(axis=2)
        wide = np.where(largest == 0, np.float32(0), np.minimum(largest / np.float32(6) / g, np.finfo(np.float32).max))
        stored = encode_exactly(wide.astype(np.float64), "ue4m3")
        sf = mxspec.decode(stored, "ue4m3")[..., None]
        quotient = np.where(sf == 0, np.float32(0), blocks / (sf * g))
    codes = encode_exactly(np.abs(quotient).astype(np.float64), "e2m1") | np.signbit(blocks) << 3
    return codes.reshape(x.shape).astype(np.uint8), stored


def by_blocks(quantize: Any) -> Any:
    """The same, one block to a row: so that blocks with NaN do not spoil their neighbours."""

    def whole(x: Array, fmt: str, tensor_scale: float | None = None) -> Answer:
        codes, scales = np.zeros((x.size // 16, 16), np.uint8), np.zeros((x.size // 16, 1), np.uint8)
        rows = x.reshape(-1, 16)
        finite = np.isfinite(rows.astype(np.float32)).all(axis=1)
        for part in (finite, ~finite):
            if part.any():
                codes[part], scales[part] = quantize(rows[part], fmt, tensor_scale)
        return codes.reshape(x.shape), scales.reshape(len(x), -1)

    return whole


def codes_under_zero(x: Array, fmt: str, tensor_scale: float | None = None) -> Answer:
    t = None if tensor_scale is None else mxspec.TensorScale.from_float("encode", tensor_scale)
    answer = mxspec.quantize(x, fmt, profile="nvfp4-paper", tensor_scale=t)
    codes = answer.codes.copy()
    lost = (answer.scales == 0) & (x.astype(np.float32) != 0).any(axis=1, keepdims=True) & np.isfinite(x).all(axis=1, keepdims=True)
    codes[lost[:, 0]] = 7
    return codes, answer.scales


def _of_ones_own(id_: str, what: str, kind: str, profile: str, quantize: Any) -> Entry:
    return Entry(
        id=id_, what=what, formats=("nvfp4",), kind=Kind.UNUSUAL, nearest=profile,
        target=lambda: make(["nvfp4"], TENSOR_SCALE=kind, quantize=by_blocks(quantize)),
    )  # fmt: skip


#: (named, used, profile) of each mistaken kind.
MISTAKEN = tuple((named, used, profile) for used, profile in PROFILES.items() for named in PROFILES if named != used)

ENTRIES: tuple[Entry, ...] = (
    *(_right(kind, profile) for kind, profile in PROFILES.items()),
    *(_mistaken(*mistaken) for mistaken in MISTAKEN),
    _of_ones_own("NVFP4 in float64, by the decode scale", "the formula as it stands, in float64", "decode", "nvfp4-exact", float64_inside("decode")),
    _of_ones_own("NVFP4 in float64, by the encode scale", "the formula as it stands, in float64", "encode", "nvfp4-exact-encode", float64_inside("encode")),
    _of_ones_own("NVFP4 in decode form", "float32, x / (sf * g)", "decode", "nvfp4-decode", decode_form),
    _of_ones_own("NVFP4 codes under a zero scale", "as nvfp4-paper, whose definition divides by a scale of zero: those codes are the largest", "encode", "nvfp4-paper", codes_under_zero),
    Entry(
        id="amax named decode, without a one-level form", what="dequantize alone, which cannot be called without a tensor scale",
        formats=("nvfp4",), target=lambda: make(["nvfp4"], TENSOR_SCALE="decode", dequantize=dequantize_two_levels),
        must_fail=("dequantize/tensor-scale",),
    ),
)  # fmt: skip
