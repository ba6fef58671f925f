"""FP8 whose zero has no sign and whose NaN is code 80: ml_dtypes has the same numbers, and kernels that take another FP8 for it are found."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import mxspec
from mxspec import exact
from mxspec.adjacent import register_named
from mxspec.formats import E4M3FNUZ, E5M2FNUZ, FLOAT32, ElementFormat
from mxspec.reals import decode_real, encode_real
from mxspec_conformance.judge.check import check

from tests.support import both_signs, floats, reals_of, rounding_points

TYPES: dict[ElementFormat, Any] = {E4M3FNUZ: ml_dtypes.float8_e4m3fnuz, E5M2FNUZ: ml_dtypes.float8_e5m2fnuz}
ELEMENTS = pytest.mark.parametrize("fmt", TYPES, ids=lambda f: f.name)
FMT = "fp8_e4m3fnuz-row-f32"
Floats = npt.NDArray[np.float32]
CODES = np.arange(256, dtype=np.uint8)


@ELEMENTS
def test_every_code_means_what_it_does_in_ml_dtypes(fmt: ElementFormat) -> None:
    register_named([fmt.name])
    values, known = mxspec.decode(CODES, fmt.name), CODES.view(TYPES[fmt]).astype(np.float32)
    lost = np.isnan(known)
    assert CODES[lost].tolist() == [0x80]
    assert np.array_equal(np.isnan(values), lost)
    assert np.array_equal(values[~lost].view(np.uint32), known[~lost].view(np.uint32))
    for code in (0x00, 0x01, 0x7F, 0x80, 0x81, 0xFF):
        assert decode_real(code, fmt).nan == (code == 0x80)
        assert fmt.join(*fmt.split(code)) == code
    assert (fmt.has_minus_zero, fmt.is_nan(0x80), fmt.is_nan(0x7F)) == (False, True, False)


@ELEMENTS
def test_every_rounding_point_is_encoded_as_in_ml_dtypes(fmt: ElementFormat) -> None:
    """Values, ties and their neighbours; ml_dtypes makes NaN of what is beyond, which is the format's own overflow."""
    bits = both_signs(rounding_points(fmt))
    x = floats(bits)
    own = mxspec.encode(x, fmt, overflow="own")
    with np.errstate(all="ignore"):
        assert np.array_equal(own, x.astype(TYPES[fmt]).view(np.uint8))
    saturated = [encode_real(decode_real(b, FLOAT32), fmt) for b in bits]
    assert mxspec.encode(x, fmt).tolist() == saturated
    assert mxspec.encode(np.array([-0.0, np.nan, -np.nan, np.inf, -np.inf], np.float32), fmt).tolist() == [0, 0x80, 0x80, 0x7F, 0xFF]


def right_encode(x: Any, element: str) -> Any:
    kind, largest = next((t, float(f.max_value)) for f, t in TYPES.items() if f.name == element)
    with np.errstate(all="ignore"):
        return np.clip(x, -largest, largest).astype(kind).view(np.uint8)


def right_decode(codes: Any, element: str) -> Any:
    return np.asarray(codes).view(next(t for f, t in TYPES.items() if f.name == element)).astype(np.float32)


def of_numbers(encode: Callable[..., Any] = right_encode, decode: Callable[..., Any] = right_decode) -> Any:
    return check(SimpleNamespace(ELEMENTS=[f.name for f in TYPES], encode=encode, decode=decode), in_process=True)


def test_right_numbers_pass() -> None:
    report = of_numbers()
    assert {r.verdict for r in report.requirements} <= {"pass", "unsupported"}
    assert {r.id.split("/")[0] for r in report.requirements} == {"encode", "decode"}
    assert [r.id for r in report.requirements if r.id.endswith("zero-sign")] == []


#: Kernels that take another format for it: (encode, decode).
NUMBERS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "minus zero becomes the NaN": (lambda x, e: np.where((x == 0) & np.signbit(x), np.uint8(0x80), right_encode(x, e)), right_decode),
    "small negative numbers become the NaN": (
        lambda x, e: np.where((right_encode(x, e) == 0) & np.signbit(x), np.uint8(0x80), right_encode(x, e)), right_decode,
    ),
    "NaN is OCP's 7f": (lambda x, e: np.where(np.isnan(x), np.uint8(0x7F), right_encode(x, e)), right_decode),
    "NaN is -0 (triton#10745)": (right_encode, lambda c, e: np.where(c == 0x80, np.float32(-0.0), right_decode(c, e))),
    "7f is a NaN": (right_encode, lambda c, e: np.where(c & 0x7F == 0x7F, np.float32(np.nan), right_decode(c, e))),
    "bias one less": (right_encode, lambda c, e: 2 * right_decode(c, e)),
    "bias one more": (lambda x, e: right_encode(2 * x, e), right_decode),
    "beyond the largest comes the NaN": (lambda x, e: np.where(np.abs(x) > 240, np.uint8(0x80), right_encode(x, e)), right_decode),
}  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_another_format_are_found(name: str) -> None:
    assert of_numbers(*NUMBERS[name]).exit_code == 1


def kernel(largest: float = 240, kind: Any = ml_dtypes.float8_e4m3fnuz, change: Callable[[Any], Any] = lambda c: c) -> Any:
    """A plain quantizer of rows: amax / largest, elements divided, clamped and cast."""

    def quantize(x: Any, fmt: str) -> tuple[Any, Any]:
        rows = x.astype(np.float32)
        with np.errstate(all="ignore"):
            scales = np.abs(rows).max(axis=1) / np.float32(largest)
            codes = np.clip(rows / scales[:, None], -largest, largest).astype(np.float32).astype(kind).view(np.uint8)
        return change(codes), scales

    return SimpleNamespace(FORMATS=[FMT], PROFILE="torchao-0.18/fp8-row/torch/e4m3fnuz", quantize=quantize)


def test_a_right_row_passes() -> None:
    report = check(kernel(), in_process=True)
    assert (report.exit_code, report.formats[0].identical_to) == (0, ["torchao-0.18/fp8-row/torch/e4m3fnuz"])


@pytest.mark.parametrize(
    "wrong",
    [
        kernel(224), kernel(448), kernel(kind=ml_dtypes.float8_e4m3fn), kernel(kind=ml_dtypes.float8_e4m3b11fnuz),
        kernel(change=lambda c: np.where(c == 0x80, np.uint8(0x7F), c)), kernel(change=lambda c: np.where(c == 0, np.uint8(0x80), c)),
    ],
    ids=["divided by 224", "divided by 448", "cast to OCP's e4m3", "bias 11", "NaN is OCP's", "zero is the NaN"],
)  # fmt: skip
def test_a_row_of_another_format_is_found(wrong: Any) -> None:
    assert check(wrong, in_process=True).exit_code == 1


@ELEMENTS
@pytest.mark.parametrize("what", ["128", "row", "tensor"])
def test_rows_are_the_exact_models(fmt: ElementFormat, what: str) -> None:
    block = mxspec.register_adjacent(f"fp8_{fmt.name}-{what}-f32")
    x = (np.random.default_rng(3).standard_normal((1, 128)) * 2.0**-9).astype(np.float32)
    x[0, :4] = -0.0, 1e-20, -1e-20, np.float32(3)
    for profile in mxspec.list_profiles(block):
        t = mxspec.quantize(x, block, profile=profile)
        wanted = exact.quantize_block(reals_of(x[0]), block, profile=profile)
        assert (int(t.scales[0, 0]), t.codes[0].tolist()) == (wanted.scale_code, list(wanted.codes))
        assert t.codes[0, :3].tolist() == [0, 0, 0]
