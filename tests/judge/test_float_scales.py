"""FP8 in groups of 128 with float32 scales: kernels that are wrong in one step are found, and what is wrong with the scale is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mxspec_conformance.judge.check import check

from tests.float_scale_kernels import ROWS, Floats, K, Quantizer, bfloat
from tests.transports import build_library, harness_command

TARGETS = Path(__file__).resolve().parents[1] / "targets"
ONE = np.float32(1)

RIGHT = Quantizer()


def _pow2(s: Floats) -> Floats:
    fraction, exponent = np.frexp(s)
    return np.ldexp(ONE, exponent - (fraction == 0.5)).astype(np.float32)


def _truncated(q: Floats) -> Any:
    return (np.clip(q, -448, 448).view(np.uint32) & np.uint32(0xFFF00000)).view(np.float32).astype(ml_dtypes.float8_e4m3fn)


def _neighbour(scales: Floats) -> Floats:
    return np.roll(scales, 1, axis=-1) if scales.shape[-1] > 1 else scales


#: What is wrong, and of some what the judge says of it.
WRONG: dict[str, tuple[Quantizer, str]] = {
    "no floor": (replace(RIGHT, floor=0), ""),
    "floor 1e-10": (replace(RIGHT, floor=1e-10), "scale"),
    "floor 1e-3": (replace(RIGHT, floor=1e-3), "scale floored at 2.232e-06, for every amax up to 0.000"),
    "times the reciprocal of 448": (replace(RIGHT, scale=lambda a: a * (ONE / np.float32(448))), "scale: (max(amax, 0.0001) *_f32 0.002232143 [0x3b124925])"),
    "reciprocal of 448 / amax": (replace(RIGHT, scale=lambda a: ONE / (np.float32(448) / a)), "scale: 1 / (448 / amax)"),
    "inverse is stored": (replace(RIGHT, stored=lambda s: ONE / s), "scale: the inverse of amax / 448"),
    "power of two up": (replace(RIGHT, scale=lambda a: _pow2(a / np.float32(448))), "scale: amax / 448 up to a power of two"),
    "divided by 240": (replace(RIGHT, scale=lambda a: a / np.float32(240)), "scale: amax / 240"),
    "divided by 256": (replace(RIGHT, scale=lambda a: a / np.float32(256)), "scale: amax / 256"),
    "divided by 127": (replace(RIGHT, scale=lambda a: a / np.float32(127)), "scale: amax / 127"),
    "scale is the maximum": (replace(RIGHT, scale=lambda a: a), "scale: amax"),
    "scale in bfloat16": (replace(RIGHT, scale=lambda a: bfloat(a / np.float32(448))), "scale: amax / 448 held in bfloat16"),
    "maximum in bfloat16": (replace(RIGHT, amax=lambda m: bfloat(m.max(axis=-1))), "maximum were held in bfloat16"),
    "maximum of x": (replace(RIGHT, magnitude=lambda x: np.maximum(x, 0)), "as if the maximum were taken of x, not of |x|"),
    "maximum of half": (replace(RIGHT, amax=lambda m: m[..., : K // 2].max(axis=-1)), ""),
    "scale one ulp up": (replace(RIGHT, stored=lambda s: np.nextafter(s, np.float32(np.inf))), ""),
    "scale of the next group": (replace(RIGHT, placed=_neighbour), ""),
    "divided, not multiplied": (replace(RIGHT, scaled=lambda x, s: x / s), ""),
    "quotient in bfloat16": (replace(RIGHT, scaled=lambda x, s: bfloat(x * (ONE / s))), "bfloat16"),
    "truncated": (replace(RIGHT, cast=_truncated), "toward zero"),
    "clamped at 240": (replace(RIGHT, cast=lambda q: np.clip(q, -240, 240).astype(ml_dtypes.float8_e4m3fn)), ""),
    "sign of zero lost": (replace(RIGHT, cast=lambda q: np.where(np.abs(q) <= 2.0**-10, 0, np.clip(q, -448, 448)).astype(ml_dtypes.float8_e4m3fn)), ""),
    "subnormal elements flushed": (
        replace(RIGHT, cast=lambda q: np.where(np.abs(q) < 2.0**-6, np.copysign(0, q), np.clip(q, -448, 448)).astype(ml_dtypes.float8_e4m3fn)),
        "",
    ),
}  # fmt: skip


def judge(kernel: Quantizer, profile: str = "deepgemm-2.6/fp8-128/float32") -> Any:
    return check(SimpleNamespace(FORMATS=[ROWS], PROFILE=profile, quantize=kernel.quantize), in_process=True)


def test_a_right_kernel_passes() -> None:
    report = judge(RIGHT)
    assert (report.exit_code, report.formats[0].deviations) == (0, [])


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kernel_is_found_and_its_scale_is_named(name: str) -> None:
    kernel, words = WRONG[name]
    report = judge(kernel)
    assert report.exit_code == 1
    assert words in "; ".join(report.formats[0].deviations)


#: Scales as float32, codes and values by the model.
MODEL = """
import mxspec
FORMATS = [mxspec.register_adjacent("fp8_e4m3-128-f32").name]
def quantize(x, fmt):
    t = mxspec.quantize(x, fmt, profile="vllm-0.33/fp8-128/native")
    return t.codes, mxspec.decode(t.scales, "f32")
def dequantize(codes, scales, fmt):
    return mxspec.dequantize(codes, scales, fmt)
"""


@pytest.mark.parametrize("transport", ["library", "process", "file"])
def test_float_scales_go_over_every_transport(transport: str, tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(MODEL, encoding="utf-8")
    if transport == "library":
        target = str(build_library(TARGETS / "float_scales.cpp", tmp_path / "libfloat.so"))
    else:
        target = str(path) if transport == "file" else harness_command(path)
    report = check(target, formats=[ROWS])
    assert {r.verdict for r in report.requirements} <= {"pass", "unsupported"}
    assert [f.identical_to for f in report.formats] == [["vllm-0.33/fp8-128/native"]]


def _some_lanes(s: Floats, q: Floats) -> Any:
    """NaN in lanes of the lower half alone; above it the cast's clip keeps it out."""
    return np.isnan(q) & (np.arange(q.shape[-1]) < K // 2)


#: What becomes of NaN, whether a profile is claimed, and the exit code: a NaN of FP8 stays one, the rest no text says.
NAN: dict[str, tuple[Quantizer, bool, int]] = {
    "kept under its own scale": (replace(RIGHT, amax=lambda m: np.nan_to_num(m.max(axis=-1), nan=448.0), lost=lambda s, q: np.isnan(q)), False, 0),
    "kept, against a claim": (replace(RIGHT, amax=lambda m: np.nan_to_num(m.max(axis=-1), nan=448.0), lost=lambda s, q: np.isnan(q)), True, 1),
    "kept in some lanes": (
        replace(
            RIGHT, amax=lambda m: np.nan_to_num(m.max(axis=-1), nan=448.0), lost=_some_lanes,
            cast=lambda q: np.nan_to_num(np.clip(q, -448, 448), nan=448.0).astype(ml_dtypes.float8_e4m3fn),
        ),
        False, 1,
    ),
    "lost": (
        replace(
            RIGHT, amax=lambda m: np.nan_to_num(m.max(axis=-1), nan=448.0), lost=lambda s, q: np.zeros(q.shape, bool),
            cast=lambda q: np.nan_to_num(np.clip(q, -448, 448), nan=-448.0).astype(ml_dtypes.float8_e4m3fn),
        ),
        False, 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NAN)
def test_what_no_text_defines_is_open_unless_it_is_claimed(name: str) -> None:
    kernel, claimed, code = NAN[name]
    claim = {"PROFILE": "deepgemm-2.6/fp8-128/float32"} if claimed else {}
    report = check(SimpleNamespace(FORMATS=[ROWS], quantize=kernel.quantize, **claim), in_process=True)
    assert report.exit_code == code
    bad = {r.topic for r in report.requirements if r.verdict in ("fail", "deviation")}
    assert bad <= {"nan", "inf", "choice", "position"}


def of_groups(end: float, element: Any, *, sglang: bool = False, powers: bool = False) -> Any:
    """What kernels of serving libraries do to groups of 128 numbers: a maximum of at least 1e-10, of what is no NaN, and a clamp that makes numbers of NaN."""

    def quantize(x: Any, fmt: str) -> Any:
        groups = x.astype(np.float32).reshape(len(x), -1, 128)
        with np.errstate(all="ignore"):
            amax = np.fmax.reduce(np.abs(groups), axis=-1, initial=np.float32(1e-10))
            ratio = amax * (np.float32(1) / np.float32(end)) if sglang else amax / np.float32(end)
            scale = ratio
            factor = np.float32(end) / amax
            if powers:
                bits = (ratio if sglang else np.fmax(ratio, np.float32(1e-10))).view(np.uint32)
                exponent = (bits >> 23) + (bits & 0x7FFFFF > 0)
                scale = exponent.astype(np.uint8)
                factor = ((254 - exponent.astype(np.int64)) << 23).astype(np.uint32).view(np.float32)
                factor = factor if sglang else np.where(exponent == 255, np.float32(0), factor)
            scaled = groups * factor[..., None] if powers or sglang else groups / scale[..., None]
            return np.fmin(np.fmax(scaled, np.float32(-end)), np.float32(end)).astype(element).view(np.uint8).reshape(x.shape), scale

    return quantize


@pytest.mark.parametrize(("profile", "fmt", "quantize"), [
    ("vllm-0.33/fp8-128/packed-ue8m0", "fp8_e4m3-128", of_groups(448, ml_dtypes.float8_e4m3fn, powers=True)),
    ("sglang-0.5/fp8-128/cuda-ue8m0", "fp8_e4m3-128", of_groups(448, ml_dtypes.float8_e4m3fn, powers=True, sglang=True)),
    ("sglang-0.5/fp8-128/cuda", "fp8_e4m3-128-f32", of_groups(448, ml_dtypes.float8_e4m3fn, sglang=True)),
    ("vllm-0.33/fp8-128/cuda/e4m3fnuz", "fp8_e4m3fnuz-128-f32", of_groups(224, ml_dtypes.float8_e4m3fnuz)),
])  # fmt: skip
def test_a_kernel_of_a_serving_library_is_recognised(profile: str, fmt: str, quantize: Any) -> None:
    report = check(SimpleNamespace(FORMATS=[fmt], DTYPES=["bfloat16"], PROFILE=profile, quantize=quantize), in_process=True, quick=True)
    assert profile in report.formats[0].identical_to
    assert report.exit_code == 0
