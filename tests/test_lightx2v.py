"""LightX2V's operators in NumPy: names, shapes, dtypes and words of its document; the linear layer; the example target."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import mxspec
from mxspec import containers, dot, lightx2v
from mxspec.containers.plain import read_plain
from mxspec.lightx2v import MMWeightNvfp4, facts, operators
from mxspec.tensorscale import TensorScale
from mxspec_conformance import check
from mxspec_conformance.lint import lint
from mxspec_gpu.finish import finish_bfloat16

from tests.support import seed

Array = npt.NDArray[Any]
BF16 = ml_dtypes.bfloat16
TARGET = Path(__file__).resolve().parents[1] / "conformance" / "examples" / "python" / "lightx2v_target.py"


def draw(*shape: int, seed: int = 0, dtype: Any = BF16, spread: float = 1.0) -> Array:
    drawn: Array = (np.random.default_rng(seed).standard_normal(shape) * spread).astype(dtype)
    return drawn


def unswizzle(scales: Array, rows: int, columns: int) -> Array:
    """By the index formula of the document: [tiles of rows, tiles of columns, 32, 4, 4]."""
    flat = scales.view(np.uint8).reshape(-1)
    r, c = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    tiles = -(-columns // 4)
    found: Array = flat[((r // 128) * tiles + c // 4) * 512 + r % 32 * 16 + r % 128 // 32 * 4 + c % 4]
    return found


QUANTIZERS: dict[str, tuple[Callable[..., tuple[Array, Array]], int, int, Any]] = {
    "nvfp4": (lambda x, **k: lightx2v.scaled_nvfp4_quant(x, np.float32(400), **k), 16, 4, ml_dtypes.float8_e4m3fn),
    "mxfp4": (lightx2v.scaled_mxfp4_quant, 32, 4, ml_dtypes.float8_e8m0fnu),
    "mxfp6_e3m2": (lightx2v.scaled_mxfp6_quant, 32, 6, ml_dtypes.float8_e8m0fnu),
    "mxfp8_e4m3": (lightx2v.scaled_mxfp8_quant, 32, 8, ml_dtypes.float8_e8m0fnu),
}


@pytest.mark.parametrize("dtype", [np.float16, BF16])
@pytest.mark.parametrize("fmt", QUANTIZERS)
def test_quantizers_give_the_profiles_bits_in_the_documents_shapes(fmt: str, dtype: Any) -> None:
    quantize, k, bits, scale_dtype = QUANTIZERS[fmt]
    m, n = 130, 96
    x = draw(m, n, seed=1, dtype=dtype)
    x[3, :k] = 0
    x[5, 7] = np.nan
    codes, scales = quantize(x)
    assert codes.shape == (m, n * bits // 8)
    assert scales.shape == (256, -(-(n // k) // 4) * 4)
    assert [codes.dtype.name, scales.dtype] == ["uint8", scale_dtype]
    scale = TensorScale("encode", 400.0) if fmt == "nvfp4" else None
    t = mxspec.quantize(x, fmt, profile=f"lightx2v-0.0.1/{fmt}", tensor_scale=scale)
    bit = np.unpackbits(codes, axis=-1, bitorder="little").reshape(m, n, bits)
    np.testing.assert_array_equal((bit << np.arange(bits)).sum(axis=-1), t.codes)
    np.testing.assert_array_equal(unswizzle(scales, m, n // k), t.scales)
    held = scales.view(np.uint8).copy()
    assert held.astype(np.int64).sum() == t.scales.astype(np.int64).sum()  # the padding is zero


@pytest.mark.parametrize("fmt", QUANTIZERS)
def test_scales_are_shown_as_words_or_bytes(fmt: str) -> None:
    quantize, k, _, _ = QUANTIZERS[fmt]
    x = draw(256, 4 * k, seed=2)
    codes, scales = quantize(x)
    _, words = quantize(x, scale_dtype="int32")
    same, plain = quantize(x, scale_dtype="uint8")
    assert words.shape == (256, 1)
    assert [words.dtype.name, plain.dtype.name] == ["int32", "uint8"]
    assert words.tobytes() == plain.tobytes() == scales.tobytes()
    np.testing.assert_array_equal(codes, same)
    # Row 1 of the words is row 32 of the matrix, and row 4 is row 1.
    rows = unswizzle(scales, 256, 4)
    assert words[1, 0].tobytes() == rows[32].tobytes()
    assert words[4, 0].tobytes() == rows[1].tobytes()


def test_the_form_without_a_global_scale_is_that_of_one() -> None:
    x = draw(8, 64, seed=3)
    without, one = lightx2v.scaled_nvfp4_quant(x, None), lightx2v.scaled_nvfp4_quant(x, np.array([1], np.float32))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(without, one, strict=True))
    other = lightx2v.scaled_nvfp4_quant(x, 2.0)
    assert other[1].tobytes() != one[1].tobytes()
    given = lightx2v.scaled_nvfp4_quant(x, TensorScale("encode", 2.0))
    assert given[1].tobytes() == other[1].tobytes()


@pytest.mark.parametrize("scale", [None, 1.0, 8.0, 437.25])
def test_the_e8m0_form(scale: float | None) -> None:
    """Blocks of 16, against float arithmetic of its own: reciprocals of powers of two are exact."""
    x = draw(64, 96, seed=4, spread=3.0)
    codes, scales = lightx2v.scaled_nvfp4_quant(x, scale, ue8m0=True)
    assert (scales.dtype, scales.shape) == (ml_dtypes.float8_e8m0fnu, (128, 8))
    s = np.float32(1 if scale is None else scale)
    blocks = x.astype(np.float32).reshape(64, 6, 16)
    ratio = s * (np.abs(blocks).max(axis=-1) * np.float32(1 / 6))
    fraction, above = np.frexp(ratio)
    exponent = above - (fraction == 0.5)  # up to a power of two
    np.testing.assert_array_equal(unswizzle(scales, 64, 6), exponent + 127)
    scaled = blocks * (s * np.exp2(-exponent).astype(np.float32))[..., None]
    want = np.clip(scaled, -6, 6).astype(ml_dtypes.float4_e2m1fn).view(np.uint8).reshape(64, 96)
    np.testing.assert_array_equal(codes, want[:, 0::2] | want[:, 1::2] << 4)
    zero, at = lightx2v.scaled_nvfp4_quant(np.zeros((1, 16), BF16), scale, ue8m0=True)
    assert (zero == 0x77).all()  # its byte 00 is 2**-127: 0 times infinity
    assert at[0, 0].view(np.uint8) == 0


def message(call: Callable[[], object], kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


def test_quantizers_refuse_in_the_librarys_words() -> None:
    quant = lightx2v.scaled_nvfp4_quant
    x = draw(2, 32)
    assert "The N dimension must be multiple of 16" in message(lambda: quant(draw(2, 24), 1.0), ValueError)
    assert "The N dimension must be multiple of 32" in message(lambda: lightx2v.scaled_mxfp8_quant(draw(2, 48)), ValueError)
    wide = x.astype(np.float32)
    words = [message(partial(QUANTIZERS[fmt][0], wide), TypeError) for fmt in QUANTIZERS]
    for bits, text in zip((4, 4, 6, 8), words, strict=True):
        assert f"Unsupported input data type for quantize_to_fp{bits}: input is float32" in text
    assert "must be a matrix" in message(lambda: quant(draw(32), 1.0), ValueError)
    # A kernel reads the memory of any other tensor as float32.
    assert "Inconsistency of Tensor type" in message(lambda: quant(x, np.ones(1)), TypeError)
    assert "pass one number" in message(lambda: quant(x, np.ones(2, np.float32)), ValueError)
    assert "kind decode" in message(lambda: quant(x, TensorScale("decode", 1.0)), ValueError)
    assert "is of type str" in message(lambda: quant(x, "auto"), TypeError)
    assert "allowed are float8_e4m3fn, int32, uint8" in message(lambda: quant(x, 1.0, scale_dtype="e4m3"), ValueError)


#: Operator, formats of both sides, and what k and n are multiples of.
PRODUCTS = {
    "nvfp4": (lightx2v.cutlass_scaled_nvfp4_mm, "nvfp4", "nvfp4", 32, 32),
    "mxfp4": (lightx2v.cutlass_scaled_mxfp4_mm, "mxfp4", "mxfp4", 128, 128),
    "mxfp6_mxfp8": (lightx2v.cutlass_scaled_mxfp6_mxfp8_mm, "mxfp8_e4m3", "mxfp6_e3m2", 128, 128),
    "mxfp8": (lightx2v.cutlass_scaled_mxfp8_mm, "mxfp8_e4m3", "mxfp8_e4m3", 32, 128),
}


def decode(fmt: str, codes: Array, scales: Array, k: int) -> Array:
    """float64 values without the global scale."""
    block = mxspec.BLOCKS[fmt]
    rows, bits = codes.shape[0], block.element.bits
    bit = np.unpackbits(codes, axis=-1, bitorder="little").reshape(rows, k, bits)
    q = mxspec.decode((bit << np.arange(bits)).sum(axis=-1).astype(np.uint8), block.element)
    s = mxspec.decode(unswizzle(scales, rows, k // block.k), block.scale)
    return q.astype(np.float64) * np.repeat(s.astype(np.float64), block.k, axis=1)


def round_once(x: Array) -> Array:
    """float64 to bfloat16's eight bits, ties to even; float32 on the way would round twice. (These numbers are far from its ends.)"""
    _, exponent = np.frexp(x)
    rounded: Array = np.ldexp(np.rint(np.ldexp(x, 8 - exponent)), exponent - 8)
    return rounded


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_the_sums_scaled_then_added_to_then_rounded(name: str) -> None:
    multiply, fmt_a, fmt_b, k, n = PRODUCTS[name]
    m, k = 5, max(k, 64)
    sides = [QUANTIZERS[fmt][0](draw(rows, k, seed=rows)) for fmt, rows in ((fmt_a, m), (fmt_b, n))]
    (a, scale_a), (b, scale_b) = sides
    bias = draw(1, n, seed=9)
    alpha = np.float32(0.37)
    sums = decode(fmt_a, a, scale_a, k) @ decode(fmt_b, b, scale_b, k).T
    want = round_once(sums * np.float64(alpha) + bias.astype(np.float64))
    got = multiply(a, b, scale_a, scale_b, alpha, bias)
    assert (got.dtype, got.shape) == (BF16, (m, n))
    np.testing.assert_array_equal(got.astype(np.float64), want)
    plain = multiply(a, b, scale_a.view(np.uint8), scale_b.view(np.int32), alpha=np.array([alpha]), bias=bias[0])
    np.testing.assert_array_equal(plain.view(np.uint16), got.view(np.uint16))
    without = multiply(a, b, scale_a, scale_b, 1)
    np.testing.assert_array_equal(without.astype(np.float64), round_once(sums))


def test_products_refuse_in_the_librarys_words() -> None:
    (a, sa), (b, sb) = (lightx2v.scaled_nvfp4_quant(draw(rows, 64, seed=rows), 1.0) for rows in (3, 32))
    mm = lightx2v.cutlass_scaled_nvfp4_mm
    assert "Inconsistency of Tensor type: a is int8" in message(lambda: mm(a.view(np.int8), b, sa, sb, 1.0), TypeError)
    assert "a must be a matrix" in message(lambda: mm(a[0], b, sa, sb, 1.0), ValueError)
    assert "a and b shapes cannot be multiplied" in message(lambda: mm(a[:, :16], b, sa, sb, 1.0), ValueError)
    assert "Expected n to be divisible by 32" in message(lambda: mm(a, b[:24], sa, sb, 1.0), ValueError)
    short = lightx2v.scaled_nvfp4_quant(draw(32, 48), 1.0)
    assert "Expected k to be divisible by 32" in message(lambda: mm(short[0], short[0], short[1], short[1], 1.0), ValueError)
    assert "scale_b must be padded and swizzled to shape (128x4)" in message(lambda: mm(a, b, sa, sb[:64], 1.0), ValueError)
    e8m0 = sa.view(ml_dtypes.float8_e8m0fnu)
    assert "scale_a is float8_e8m0fnu" in message(lambda: mm(a, b, e8m0, sb, 1.0), TypeError)
    assert "alpha is float64" in message(lambda: mm(a, b, sa, sb, np.ones(1)), TypeError)
    assert "bias is float32" in message(lambda: mm(a, b, sa, sb, 1.0, np.zeros((1, 32), np.float32)), TypeError)
    assert "(1, 32)" in message(lambda: mm(a, b, sa, sb, 1.0, np.zeros((32, 1), BF16)), ValueError)
    wide = [lightx2v.scaled_mxfp4_quant(draw(rows, 64)) for rows in (1, 128)]
    words = message(lambda: lightx2v.cutlass_scaled_mxfp4_mm(wide[0][0], wide[1][0], wide[0][1], wide[1][1], 1.0), ValueError)
    assert "Expected k to be divisible by 128" in words


def test_the_end_of_a_product_in_pairs_of_floats_is_that_in_rationals() -> None:
    """What the GPU form does to exact sums, on NumPy, over ties, cancellation and both ends of the range."""
    rng = np.random.default_rng(seed())
    shape = 12, 24
    for case in range(16):
        bias = (
            None
            if case % 3 == 0
            else np.ldexp(rng.integers(-200, 201, shape[1]).astype(float), rng.integers(-12, 12, shape[1])).astype(BF16)
        )
        alpha = np.float32(rng.choice([1, -0.5, 1 / 3, 1e-3, 3e5, 0.1, 0, 1 + 2**-8, 2.0**-130]))
        sums = np.ldexp(rng.integers(-600, 601, shape).astype(float), rng.integers(-160, 120, shape))
        if case % 4 == 1:
            sums = np.ldexp(rng.integers(-(1 << 53), 1 << 53, shape).astype(float), rng.integers(-150, 80, shape))
        if case % 4 == 2 and bias is not None and alpha:
            sums = -(bias.astype(float) / float(alpha)) * (1 + rng.integers(-3, 4, shape) * 2.0 ** -rng.integers(8, 52, shape))
        sums[0, :4] = 0, np.nan, np.inf, -np.inf
        special = np.select(
            [np.isnan(sums), sums == np.inf, sums == -np.inf], [dot.Special.NAN, dot.Special.PLUS_INF, dot.Special.MINUS_INF], 0
        )
        zero = np.zeros(shape, np.int16)
        known = dot.Sums(
            nearest=np.where(np.isfinite(sums), sums, 0), remainder=zero.astype(np.int8), magnitude=np.abs(sums), unit=zero, top=zero,
            special=special.astype(np.int8), k=1,
        )  # fmt: skip
        with np.errstate(all="ignore"):
            want = dot.finish_product(known, "bfloat16", epilogue=dot.Epilogue(alpha=float(alpha), bias=bias))
            got = finish_bfloat16(sums, np.float64(alpha), None if bias is None else bias.astype(float), np, BF16)
        np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))


# The linear layer


def test_the_documents_example() -> None:
    """Its class, corrected where it says that calibration is missing, written with the operators; and ours."""

    class Documented:
        def __init__(self, weight: Array, bias: Array | None, inputs: Array) -> None:
            self.weight_global_scale = np.float32(2688) / np.abs(weight.astype(np.float32)).max()
            self.weight, self.weight_scale = lightx2v.scaled_nvfp4_quant(weight, self.weight_global_scale)
            self.bias = bias
            self.input_global_scale = np.float32(2688) / np.abs(inputs.astype(np.float32)).max()
            self.alpha = np.float32(1) / (self.input_global_scale * self.weight_global_scale)

        def apply(self, x: Array) -> Array:
            codes, scale = lightx2v.scaled_nvfp4_quant(x, self.input_global_scale)
            return lightx2v.cutlass_scaled_nvfp4_mm(codes, self.weight, scale, self.weight_scale, alpha=self.alpha, bias=self.bias)

    m, k, n = 24, 256, 96
    x, weight = draw(m, k, seed=1), draw(n, k, seed=2)
    for bias in (None, draw(n, seed=3)):
        mm = MMWeightNvfp4(weight, bias)
        mm.calibrate_x_absmax(x[:8], x[8:])
        theirs = Documented(weight, bias, x)
        y = mm.apply(x)
        assert (y.dtype, y.shape) == (BF16, (m, n))
        np.testing.assert_array_equal(y.view(np.uint16), theirs.apply(x).view(np.uint16))
        values = [t.astype(np.float64) for t in (values_of(x, mm.input_global_scale), values_of(weight, mm.weight_global_scale))]
        assert mm.alpha is not None
        sums = values[0] @ values[1].T * np.float64(mm.alpha) + (0 if bias is None else bias.astype(np.float64))
        np.testing.assert_array_equal(y.astype(np.float64), round_once(sums))


def values_of(x: Array, scale: TensorScale | None) -> Array:
    """Code times block scale, as the product takes them."""
    t = mxspec.quantize(x, "nvfp4", profile="lightx2v-0.0.1/nvfp4", tensor_scale=scale)
    return dot.block_factor(t.codes, t.scales, "nvfp4").values


def test_calibration_is_that_of_all_batches() -> None:
    mm = MMWeightNvfp4(draw(32, 64, seed=5))
    x = draw(9, 64, seed=6)
    assert "no inputs were seen" in message(lambda: mm.apply(x), ValueError)
    mm.calibrate_x_absmax(x[:2], x[2:3])
    mm.calibrate_x_absmax(mxspec.RunningAmax().update(x[3:]))
    amax = np.abs(x.astype(np.float32)).max()
    assert mm.seen.value == amax
    assert mm.seen.count == x.size
    assert mm.input_global_scale == TensorScale("encode", float(np.float32(2688) / amax))
    assert mm.alpha is not None
    assert mm.alpha.dtype == np.float32
    fixed = MMWeightNvfp4(draw(32, 64, seed=5))
    fixed.calibrate_x_absmax(np.array([5.0], np.float32))  # the document's constant
    assert fixed.input_global_scale == TensorScale("encode", float(np.float32(2688) / np.float32(5)))
    with_nan = x.copy()
    with_nan[0, 0] = np.nan
    assert "NaN" in message(lambda: mm.calibrate_x_absmax(with_nan), ValueError)
    assert mm.seen.value == amax  # as it was
    assert "no scale" in message(lambda: MMWeightNvfp4(np.zeros((32, 64), BF16)), ValueError)
    assert "multiples of 32" in message(lambda: MMWeightNvfp4(draw(30, 64)), ValueError)
    assert "bias has shape" in message(lambda: MMWeightNvfp4(draw(32, 64), draw(31)), ValueError)


def same_layer(a: MMWeightNvfp4, b: MMWeightNvfp4) -> bool:
    arrays = [(a.weight, b.weight), (a.weight_scale, b.weight_scale)] + ([] if a.bias is None or b.bias is None else [(a.bias, b.bias)])
    facts_of = [(x.weight_global_scale, x.input_global_scale, x.alpha, x.bias is None) for x in (a, b)]
    return facts_of[0] == facts_of[1] and all(x.tobytes() == y.tobytes() and x.dtype == y.dtype for x, y in arrays)


@pytest.mark.parametrize("with_bias", [False, True])
def test_a_layer_is_saved_and_loaded(tmp_path: Path, with_bias: bool) -> None:
    x = draw(4, 128, seed=1)
    mm = MMWeightNvfp4(draw(160, 128, seed=2), draw(160, seed=3) if with_bias else None)
    mm.save(tmp_path / "early.safetensors")
    assert MMWeightNvfp4.load(tmp_path / "early.safetensors").input_global_scale is None
    mm.calibrate_x_absmax(x)
    path = tmp_path / "layer.safetensors"
    mm.save(path, "blocks.0.qkv")
    stored = containers.open_checkpoint(path).tensors
    own = {"weight": "U8", "weight_scale": "F8_E4M3", "weight_global_scale": "F32", "input_absmax": "F32"} | (
        {"bias": "BF16"} if with_bias else {}
    )
    assert {name: t.dtype for name, t in stored.items()} == {f"blocks.0.qkv.{name}": dtype for name, dtype in own.items()}
    back = MMWeightNvfp4.load(path, "blocks.0.qkv")
    assert same_layer(back, mm)
    np.testing.assert_array_equal(back.apply(x).view(np.uint16), mm.apply(x).view(np.uint16))
    assert lint(path).findings == ()
    with pytest.raises(containers.ContainerError, match="exists"):
        mm.save(path)
    # Through another convention, which keeps the scale of the inputs and not their maximum, and back.
    containers.convert(path, tmp_path / "ct.safetensors", "compressed-tensors")
    other = MMWeightNvfp4.load(tmp_path / "ct.safetensors", "blocks.0.qkv")
    assert same_layer(other, mm)
    other.save(tmp_path / "scale.safetensors")
    assert {"linear.input_global_scale", "linear.alpha"} <= set(containers.open_checkpoint(tmp_path / "scale.safetensors").tensors)
    assert same_layer(MMWeightNvfp4.load(tmp_path / "scale.safetensors"), mm)


def test_plain_tensors_next_to_block_tensors_are_checked(tmp_path: Path) -> None:
    t = {"a": mxspec.quantize(draw(32, 64), "mxfp4")}
    path = tmp_path / "x.safetensors"
    with pytest.raises(containers.ContainerError, match=r"a\.weight_scale would be written twice"):
        containers.write(path, t, "lightx2v", others={"a.weight_scale": np.zeros(1, np.float32)})
    with pytest.raises(TypeError, match="array of int64"):
        containers.write(path, t, "lightx2v", others={"a.bias": np.zeros(1, np.int64)})
    with pytest.raises(TypeError, match="others is of type list"):
        containers.write(path, t, "lightx2v", others=[])  # type: ignore[arg-type]
    assert not path.exists()
    numbers = {"a.bias": draw(32, seed=4), "norm": draw(3, 5, seed=5, dtype=np.float32)}
    for suffix, convention in ((".safetensors", "lightx2v"), (".gguf", "gguf")):
        containers.write(tmp_path / f"y{suffix}", t, convention, others=numbers)
        stored = containers.open_checkpoint(tmp_path / f"y{suffix}", formats=["mxfp4"])
        assert set(stored.blocks) == {"a"}
        for name, x in numbers.items():
            found = stored.tensors[name]
            assert (found.dtype, found.shape) == ("BF16" if x.dtype == BF16 else "F32", x.shape)
            np.testing.assert_array_equal(read_plain(found, 0, x.size), x.astype(np.float32).reshape(-1))


def test_a_wrong_alpha_in_a_file_is_refused(tmp_path: Path) -> None:
    mm = MMWeightNvfp4(draw(128, 64, seed=2))
    mm._take_input(TensorScale("encode", 300.0))
    path = tmp_path / "x.safetensors"
    mm.save(path)
    alpha = containers.open_checkpoint(path).tensors["linear.alpha"]
    data = bytearray(path.read_bytes())
    data[alpha.offset] ^= 1
    path.write_bytes(data)
    with pytest.raises(containers.ContainerError, match="alpha is not 1"):
        MMWeightNvfp4.load(path)


class OfTheNotes(MMWeightNvfp4):
    """The mistake of the library's notes on conversion: the weight is multiplied by the scale of the INPUTS, the weight's is stored."""

    def __init__(self, weight: Array, bias: Array | None, inputs: Array) -> None:
        super().__init__(weight, bias)
        wrong = TensorScale("encode", float(np.float32(2688) / np.abs(inputs.astype(np.float32)).max()))
        self.weight, self.weight_scale = lightx2v.scaled_nvfp4_quant(weight, wrong)
        self.calibrate_x_absmax(inputs)


def test_a_weight_under_the_scale_of_its_inputs_is_reported(tmp_path: Path) -> None:
    """Cosines say that all is well; the gain, and the range of the block scales in the file, do not."""
    x, weight = draw(16, 256, seed=1, spread=150), draw(64, 256, seed=2)
    right, wrong = MMWeightNvfp4(weight), OfTheNotes(weight, None, x)
    right.calibrate_x_absmax(x)
    assert right.weight_scale.view(np.uint8).max() == 0x7E  # 448: its own maximum's
    exact = x.astype(np.float64) @ weight.astype(np.float64).T
    for layer, is_right in ((right, True), (wrong, False)):
        y = layer.apply(x).astype(np.float64)
        cosine = (y * exact).sum() / np.sqrt((y * y).sum() * (exact * exact).sum())
        gain = (y * exact).sum() / (exact * exact).sum()
        assert cosine > 0.98
        assert (gain > 0.9) == is_right
        path = tmp_path / f"{is_right}.safetensors"
        layer.save(path)
        assert ("global/range" in {f.rule.id for f in lint(path).findings}) == (not is_right)


# The example target


def run_check(*arguments: str, module: str | None) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "MXSPEC_LIGHTX2V"}
    environment |= {} if module is None else {"MXSPEC_LIGHTX2V": module}
    command = [sys.executable, "-m", "mxspec_conformance", "check", str(TARGET), "-v", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)


def test_the_target_says_what_is_missing() -> None:
    done = run_check(module=None)
    assert done.returncode == 2
    text = " ".join(done.stderr.split())
    assert "lightx2v_kernel.gemm cannot be imported" in text
    assert "sm_120" in text


def test_the_numpy_form_is_judged_through_the_target() -> None:
    done = run_check(module="mxspec.lightx2v")
    assert done.returncode == 0, done.stdout + done.stderr
    text = " ".join(done.stdout.split())
    for fmt in QUANTIZERS:
        assert f"lightx2v-0.0.1/{fmt}" in text
    for product in ("nvfp4@nvfp4", "mxfp4@mxfp4", "mxfp8_e4m3@mxfp6_e3m2", "mxfp8_e4m3@mxfp8_e4m3"):
        assert f"{product} conforms to float32 sums" in text


def load_target(monkeypatch: pytest.MonkeyPatch) -> Any:
    import importlib.util

    monkeypatch.setenv("MXSPEC_LIGHTX2V", "mxspec.lightx2v")
    spec = importlib.util.spec_from_file_location("lightx2v_target", TARGET)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _alpha_twice(a: Array, b: Array, sa: Array, sb: Array, alpha: Any, bias: Any = None) -> Array:
    return lightx2v.cutlass_scaled_nvfp4_mm(a, b, sa, sb, np.float32(alpha) * np.float32(alpha), bias)


def test_a_wrong_product_is_reported_through_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """So what the target hands over is what is judged."""
    target = load_target(monkeypatch)
    target.OPERANDS = target.OPERANDS[:1]
    verdicts = []
    for operator in (lightx2v.cutlass_scaled_nvfp4_mm, _alpha_twice):
        target.BY_FORMATS = {("nvfp4", "nvfp4"): operator}
        report = check(target, in_process=True, only="matmul/nvfp4@nvfp4/epilogue")
        assert [r.id for r in report.requirements] == ["matmul/nvfp4@nvfp4/epilogue"]
        verdicts.append(report.exit_code)
    assert verdicts[0] == 0
    assert verdicts[1] == 1


def test_facts_agree_with_the_profiles() -> None:
    for quantizer in (facts.NVFP4, facts.MXFP4, facts.MXFP6, facts.MXFP8):
        assert mxspec.get_profile(quantizer.profile, quantizer.format).dtypes == ("float16", "bfloat16")
    assert facts.NVFP4_UE8M0.has_global_scale
    assert not facts.MXFP4.has_global_scale
    assert replace(facts.NVFP4, name="x").shape_scales(1024, 4096) == (1024, 256)  # the document's size; its int32 view has 64
    assert operators.NO_SCALE.value == 1
