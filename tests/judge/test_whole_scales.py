"""FP8 with one float32 scale for each row, or for the tensor: right kernels pass, wrong ones are found, whatever the shape of their input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxspec
from mxspec_conformance.identification.target import identify
from mxspec_conformance.judge.check import check
from mxspec_conformance.judge.invariance import pace
from mxspec_conformance.proving.run import Plan, prove

from tests.float_scale_kernels import ROW, TENSOR, Floats, Quantizer, bfloat
from tests.transports import build_library, harness_command

TARGETS = Path(__file__).resolve().parents[1] / "targets"
ONE, LARGEST = np.float32(1), np.float32(448)
LEAST = np.float32(1 / (448 * 512))


def _of_tensor(m: Floats) -> Floats:
    return _repeat(m.max(), m)


#: As vLLM writes it: the floor is one of the scale; which NaN comes back is the cast's.
ROWS = Quantizer(ROW, floor=0, scale=lambda a: np.maximum(a / LARGEST, LEAST), lost=lambda s, q: False)
TENSORS = replace(ROWS, fmt=TENSOR, amax=_of_tensor)


def _repeat(value: Any, m: Floats) -> Floats:
    return np.full(m.shape[:-1], value, np.float32)


def _clamp(q: Floats, largest: float) -> Any:
    return np.clip(q, -largest, largest).astype(ml_dtypes.float8_e4m3fn)


def _leak_nan(amax: Floats) -> Floats:
    return np.where(np.logical_or.accumulate(np.isnan(amax)), np.float32(np.nan), amax)


def _divide_last(x: Floats, s: Floats) -> Floats:
    """What vectors of four leave over is divided."""
    return np.where(np.arange(x.shape[-1]) < x.shape[-1] // 4 * 4, x * (ONE / s), x / s)


class _NeverReset:
    """An atomic maximum that no call sets to zero again."""

    def __init__(self) -> None:
        self.known = np.float32(0)

    def __call__(self, m: Floats) -> Floats:
        self.known = np.fmax(self.known, m.max())
        return _repeat(self.known, m)


#: What is wrong in rows and tensors alike.
BOTH: dict[str, dict[str, Any]] = {
    "divided by 240": {"scale": lambda a: np.maximum(a / np.float32(240), LEAST)},
    "inverse is stored": {"stored": lambda s: ONE / s},
    "maximum of x": {"magnitude": lambda x: np.maximum(x, 0)},
    "no floor": {"scale": lambda a: a / LARGEST},
    "maximum floored at 1e-12": {"scale": lambda a: np.maximum(a, np.float32(1e-12)) / LARGEST},
    "scale in bfloat16": {"stored": bfloat},
    "clamped at 240": {"cast": lambda q: _clamp(q, 240)},
    "sign of zero lost": {"cast": lambda q: np.where(np.abs(q) <= 2.0**-10, 0, np.clip(q, -448, 448)).astype(ml_dtypes.float8_e4m3fn)},
    "divided, not multiplied": {"scaled": lambda x, s: x / s},
}
WRONG: dict[str, Quantizer] = {
    **{f"row, {name}": replace(ROWS, **how) for name, how in BOTH.items()},
    **{f"tensor, {name}": replace(TENSORS, **how) for name, how in BOTH.items()},
    "scale of the row before": replace(ROWS, amax=lambda m: np.roll(m.max(axis=-1), 1)),
    "scale of the tensor for each row": replace(ROWS, amax=_of_tensor),
    "scale of the first row for all": replace(ROWS, amax=lambda m: _repeat(m[0].max(), m)),
    "maximum of the first 128 of a row": replace(ROWS, amax=lambda m: m[..., :128].max(axis=-1)),
    "maximum of the first 1024 of a row": replace(ROWS, amax=lambda m: m[..., :1024].max(axis=-1)),
    "maximum of the first 16384 of a row": replace(ROWS, amax=lambda m: m[..., :16384].max(axis=-1)),
    "the last of an odd row are divided": replace(ROWS, scaled=_divide_last),
    "the last of an odd row is not in the maximum": replace(ROWS, amax=lambda m: (m[..., : m.shape[-1] // 8 * 8] if m.shape[-1] > 8 else m).max(axis=-1)),
    "a NaN leaks into the rows behind": replace(ROWS, amax=lambda m: _leak_nan(m.max(axis=-1))),
    "rows from 64 on have the scale of row 63": replace(ROWS, amax=lambda m: m.max(axis=-1)[np.minimum(np.arange(len(m)), 63)]),
    "maximum of the first row": replace(TENSORS, amax=lambda m: _repeat(m[0].max(), m)),
    "maximum of the last row": replace(TENSORS, amax=lambda m: _repeat(m[-1].max(), m)),
    "each row by its own maximum": replace(TENSORS, amax=lambda m: m.max(axis=-1)),
    "maximum of the first 4096": replace(TENSORS, amax=lambda m: _repeat(m.reshape(-1)[:4096].max(), m)),
    "maximum of the first 128 columns": replace(TENSORS, amax=lambda m: _repeat(m[..., :128].max(), m)),
    "the maximum of earlier calls": replace(TENSORS, amax=_NeverReset()),
}  # fmt: skip

#: What large calls alone show.
LARGE: dict[str, Quantizer] = {
    "rows from 65536 on have the scale of the row 65536 places before": replace(
        ROWS, amax=lambda m: m.max(axis=-1)[np.arange(len(m)) & 0xFFFF]
    ),
    "maximum of the first 2^20": replace(TENSORS, amax=lambda m: _repeat(m.reshape(-1)[: 1 << 20].max(), m)),
}


def judge(kernel: Quantizer, **options: Any) -> Any:
    return check(SimpleNamespace(FORMATS=[kernel.fmt], quantize=kernel.quantize), in_process=True, **options)


@pytest.mark.parametrize("kernel", [ROWS, TENSORS], ids=[ROW, TENSOR])
def test_a_right_kernel_passes(kernel: Quantizer) -> None:
    report = judge(kernel)
    assert (report.exit_code, report.formats[0].deviations) == (0, [])
    assert report.formats[0].identical_to == [f"vllm-0.33/fp8-{kernel.fmt.split('-')[1]}/native"]


_TWELVE, _INVERSE = np.float32(1e-12), ONE / LARGEST
#: Ways to scale that libraries have: (scale, scaled elements), and whose it is.
STYLES: dict[str, tuple[Callable[[Floats], Floats], Callable[[Floats, Floats], Floats]]] = {
    "torchao-0.18/fp8-{}/torch": (lambda a: a / LARGEST, lambda x, s: x / s),
    "torchao-0.18/fp8-{}/torch-cuda": (lambda a: a * _INVERSE, lambda x, s: x / s),
    "vllm-0.33/fp8-{}/native-cuda": (lambda a: np.maximum(a * _INVERSE, LEAST), lambda x, s: x * (ONE / s)),
    "sglang-0.5/fp8-{}/torch": (lambda a: np.maximum(a, _TWELVE) / LARGEST, lambda x, s: x / s),
    "sglang-0.5/fp8-{}/torch-rocm": (lambda a: np.maximum(a, _TWELVE) * _INVERSE, lambda x, s: x / s),
}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kernel", [ROWS, TENSORS], ids=[ROW, TENSOR])
def test_no_style_is_accused(kernel: Quantizer, style: str) -> None:
    """Whoever writes it so; which NaN comes back for a NaN is the library's own."""
    scale, scaled = STYLES[style]
    report = judge(
        replace(
            kernel,
            scale=scale,
            scaled=scaled,
            lost=(lambda s, q: False) if style == "torchao-0.18/fp8-{}/torch" else lambda s, q: np.isnan(q),
        )
    )
    assert {r.id.split("/")[2] for r in report.requirements if r.verdict not in ("pass", "unsupported")} <= {"nan"}
    assert report.formats[0].judged_against == style.format(kernel.fmt.split("-")[1])


@pytest.mark.parametrize("rule", ["torchao-0.18/fp8-row/triton", "fbgemm-gemm/fp8-row/torch"])
def test_the_inverse_of_a_multiplier_is_not_accused(rule: str) -> None:
    """The second is torch's `448 / tensor`."""
    times: Any = (lambda a: LARGEST * (ONE / a)) if rule.endswith("torch") else lambda a: LARGEST / a
    kernel = replace(ROWS, scale=lambda a: times(np.maximum(a, _TWELVE)), stored=lambda s: ONE / s, scaled=lambda x, s: x * s)
    report = judge(kernel, only="quantize/*/[!ni]*")
    assert (report.exit_code, report.formats[0].judged_against) == (0, rule)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kernel_is_found(name: str) -> None:
    kernel = WRONG[name]
    assert judge(kernel, profile=f"vllm-0.33/fp8-{kernel.fmt.split('-')[1]}/native").exit_code == 1


@pytest.mark.all_calls
@pytest.mark.parametrize("name", LARGE)
def test_a_kernel_that_is_wrong_in_large_calls_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "measure_speed", lambda call: pace.Speed.FAST)
    assert judge(LARGE[name]).exit_code == 1


#: A quantizer by the model that takes torch's shapes: a scale for each row as [rows, 1] or [rows], one as [] or [1].
MODEL = """
import mxspec, numpy as np
FORMATS = [mxspec.register_adjacent(name).name for name in ("fp8_e4m3-row-f32", "fp8_e4m3-tensor-f32", "fp8_e5m2-row-f32")]
def quantize(x, fmt):
    t = mxspec.quantize(x, fmt, profile="torchao/" + ("fp8-tensor/torch" if "tensor" in fmt else "fp8-row/torch"))
    scales = mxspec.decode(t.scales, "f32")
    return t.codes, scales.reshape(-1)[:1] if "tensor" in fmt else scales[:, 0]
def dequantize(codes, scales, fmt):
    wanted = (1,) if "tensor" in fmt else (len(codes), 1)
    assert scales.shape == wanted and scales.dtype == np.float32, (scales.shape, scales.dtype)
    return mxspec.dequantize(codes, np.broadcast_to(scales.reshape(-1, 1), (len(codes), 1)), fmt)
"""


def test_a_shared_library_has_rows_and_tensors(tmp_path: Path) -> None:
    """Scales are as many floats as there are rows, or one."""
    report = check(str(build_library(TARGETS / "float_scales.cpp", tmp_path / "libfloat.so")), formats=[ROW, TENSOR], quick=True)
    assert {r.verdict for r in report.requirements} <= {"pass", "unsupported"}
    assert [f.identical_to for f in report.formats] == [["vllm-0.33/fp8-row/native"], ["vllm-0.33/fp8-tensor/native"]]


@pytest.mark.parametrize("transport", ["process", "file"])
def test_whole_scales_go_over_transports(transport: str, tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(MODEL, encoding="utf-8")
    report = check(str(path) if transport == "file" else harness_command(path), quick=True)
    assert {r.verdict for r in report.requirements} <= {"pass", "unsupported"}
    assert [f.identical_to for f in report.formats] == [[f"torchao-0.18/fp8-{w}"] for w in ("row/torch", "tensor/torch", "row/torch/e5m2")]


@pytest.mark.parametrize("declared", [True, False])
def test_rows_go_into_the_shapes_that_a_target_takes(declared: bool) -> None:
    """Those of 128 are filled up with zeros, a tensor with rows of them; what is declared is asked, what is not is found."""

    def take(x: Any) -> Any:
        if x.shape[1] % 256 or x.shape[0] % 16:
            raise ValueError("k is no multiple of 256, or rows none of 16")
        return x

    module = SimpleNamespace(FORMATS=[ROW, TENSOR], quantize=lambda x, fmt: (ROWS if fmt == ROW else TENSORS).quantize(take(x), fmt))
    if declared:
        module.SHAPES = {"k": 256, "rows": 16}
    report = check(module, in_process=True)
    assert {r.verdict for r in report.requirements} == {"pass"}


def test_it_is_identified() -> None:
    result = identify(
        SimpleNamespace(FORMATS=[ROW, TENSOR], quantize=lambda x, fmt: (ROWS if fmt == ROW else TENSORS).quantize(x, fmt)), in_process=True
    )
    assert [f.identical for f in result] == [["vllm-0.33/fp8-row/native"], ["vllm-0.33/fp8-tensor/native"]]


def test_sixteen_bit_numbers_that_come_as_float32_are_proven_so() -> None:
    """By the profile of float32, and not by the library's path for 16-bit inputs, which rounds the scale to them."""

    def quantize(x: Any, fmt: str) -> tuple[Any, Any]:
        assert x.dtype == np.float32
        t = mxspec.quantize(x, fmt, profile="torchao-0.18/fp8-row/torch")
        return t.codes, mxspec.decode(t.scales, "f32")

    mxspec.register_adjacent(ROW)
    report = prove(
        SimpleNamespace(FORMATS=[ROW], quantize=quantize),
        Plan(fmt=ROW, profile="torchao-0.18/fp8-row/torch", part=(1, 400)),
        in_process=True,
    )
    assert {r.verdict for r in report.requirements} <= {"pass", "unsupported"}


def test_the_axis_of_a_row_is_judged() -> None:
    """Columns are rows of the transposed matrix; one that takes the scales of rows all the same is found."""

    def along(x: Any, fmt: str, axis: int = -1) -> tuple[Any, Any]:
        t = mxspec.quantize(x, fmt, axis=axis, profile="vllm-0.33/fp8-row/native")
        return t.codes, mxspec.decode(t.scales, "f32")

    def wrong(x: Any, fmt: str, axis: int = -1) -> tuple[Any, Any]:
        codes, scales = along(x, fmt, axis)
        return codes, np.roll(scales, 1, axis=-1)

    for kernel, expected in ((along, {"pass"}), (wrong, {"fail"})):
        report = check(SimpleNamespace(FORMATS=[ROW], quantize=kernel), in_process=True, only="quantize/*/axis")
        assert {r.verdict for r in report.requirements} == expected


@pytest.mark.parametrize("wrong", [None, "scales", "random_bits"])
def test_given_scales_and_random_bits_stay_with_their_rows(wrong: str | None) -> None:
    def quantize(x: Any, fmt: str, scales: Any = None, random_bits: Any = None, axis: int = -1) -> tuple[Any, Any]:
        given = {}
        if scales is not None:
            assert scales.shape == ((len(x), 1) if axis in (-1, 1) else (1, x.shape[1]))
            given["scales"] = np.roll(scales, 1) if wrong == "scales" else scales
        if random_bits is not None:
            given["random_bits"] = np.roll(random_bits, 1) if wrong == "random_bits" else random_bits
        t = mxspec.quantize(x, fmt, profile="vllm-0.33/fp8-row/native", axis=axis, **given)
        return t.codes, mxspec.decode(t.scales, "f32")

    report = check(SimpleNamespace(FORMATS=[ROW], quantize=quantize), in_process=True, quick=True)
    failing = {r.id.split("/")[2] for r in report.requirements if r.verdict not in ("pass", "unsupported")}
    assert failing == {None: set(), "scales": {"given-scale"}, "random_bits": {"random-bits"}}[wrong]


def test_products_and_fused_quantizers_need_blocks() -> None:
    mxspec.register_adjacent(ROW)
    module = SimpleNamespace(OPERANDS=[{"a": ROW, "b": ROW}], matmul=lambda a, b, out_dtype: None)
    with pytest.raises(
        Exception, match="has one scale for each whole row; products that are judged take formats with blocks of a fixed length"
    ):
        check(module, in_process=True)


def test_zeros_under_a_scale_that_is_a_number_are_right() -> None:
    """Also where the nearest profile makes such blocks NaN, by 0 / 0."""
    kernel = replace(ROWS, scale=lambda a: np.where(a == 0, ONE, a * _INVERSE), scaled=lambda x, s: x / s)
    report = judge(kernel, quick=True, only="quantize/*/zero-block")
    assert [f.judged_against for f in report.formats] == ["torchao-0.18/fp8-row/torch-cuda"]
    assert [r.verdict for r in report.requirements] == ["pass"]
