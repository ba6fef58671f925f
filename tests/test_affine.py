"""Affine integers: the document's example, exact against arrays, contracts, words, products, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mxspec import affine
from mxspec.affine import exact
from mxspec.affine.arrays import add_to_odd
from mxspec.affine.formats import AffineFormat, Offset
from mxspec.affine.products import Order
from mxspec.formats import FLOATS
from mxspec.reals import Real, decode_real, encode_real
from mxspec.rounding import Overflow
from mxspec_vectors.inputs_affine import list_groups, list_stored

from tests.support import FLOAT_TYPES, rng

DTYPES = tuple(FLOATS)
FORMATS = [
    AffineFormat(bits=b, group=32, offset=o, dtype=d) for b in (2, 3, 4, 8) for o in Offset for d in DTYPES
]  # fmt: skip


def floats(bits: Any, dtype: str) -> np.ndarray:
    kind, _, unsigned = FLOAT_TYPES[dtype]
    return np.array(bits, unsigned).view(kind)


def words(values: np.ndarray) -> np.ndarray:
    return values if values.dtype == np.uint8 else values.view(f"u{values.dtype.itemsize}")


def test_the_documents_example_and_mlx_answer_to_it() -> None:
    x = np.array([-0.5, -0.3, 0.1, 0.4, 0.8], np.float32)
    for profile in ("affine-minmax", "affine-minmax-float32"):
        t = affine.quantize(x, bits=4, group=5, profile=profile)
        assert t.codes.tolist() == [0, 2, 7, 10, 15]
        assert t.scales.tolist() == [np.float32(1.3 / 15)]
        assert t.biases is not None
        assert t.biases.tolist() == [-0.5]
    t = affine.quantize(x, bits=4, group=5, profile="mlx-0.32/affine/cpu")
    assert t.codes.tolist() == [15, 12, 8, 4, 0]
    assert t.scales[0] < 0
    assert t.biases is not None
    assert t.biases.tolist() == [np.float32(0.8)]


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda f: f.name)
def test_arrays_equal_the_exact_model(fmt: AffineFormat) -> None:
    inputs = list_groups(fmt)
    x = floats([g.bits for g in inputs], fmt.dtype)
    reals = [[decode_real(b, fmt.scalar) for b in g.bits] for g in inputs]
    for profile in affine.list_affine_profiles(fmt):
        t = affine.quantize(x, bits=fmt.bits, group=fmt.group, profile=profile)
        for row, values in enumerate(reals):
            group = exact.quantize_group(values, fmt, profile)
            found = (t.codes[row].tolist(), int(words(t.scales)[row, 0]), int(words(t.offsets)[row, 0]))
            nan = np.isnan(t.scales[row, 0].astype(np.float32))
            wanted = (list(group.codes), group.scale, group.offset)
            assert found == wanted or (nan and found[0] == wanted[0]), (profile.id, inputs[row].slug)


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda f: f.name)
def test_contracts_on_arrays_equal_the_exact_ones(fmt: AffineFormat) -> None:
    inputs = list_stored(fmt)
    codes = np.array([g.codes for g in inputs], np.uint8)
    scales = floats([[g.scale] for g in inputs], fmt.dtype)
    offsets = np.array([[g.offset] for g in inputs])
    stored = floats(offsets, fmt.dtype) if fmt.offset is Offset.BIAS else offsets.astype(np.uint8)
    for contract in affine.list_contracts(fmt):
        for dtype in DTYPES:
            got = affine.dequantize(codes, scales, stored, fmt, dtype=dtype, contract=contract)
            for row in range(0, len(inputs), 1 if dtype == fmt.dtype else 7):
                for column in range(0, fmt.group, 5):
                    value = exact.dequantize_code(int(codes[row, column]), inputs[row].scale, inputs[row].offset, fmt, contract)
                    bits = encode_real(value, FLOATS[dtype], overflow=Overflow.OWN)
                    assert int(words(got)[row, column]) & 0x7FFFFFFF == bits & 0x7FFFFFFF if value.nan else int(words(got)[row, column]) == bits, (
                        contract.name, dtype, inputs[row].slug, column,
                    )  # fmt: skip


def test_a_sum_is_rounded_to_odd() -> None:
    random = rng("affine", "odd")
    for _ in range(300):
        a, b = (random.choice((1, -1)) * (random.getrandbits(24) + 1) * 2.0 ** random.randint(-80, 80) for _ in range(2))
        total = Fraction(a) + Fraction(b)
        got = add_to_odd(np.array([a]), np.array([b]))[0]
        if Fraction(float(got)) == total:
            continue
        assert got.view(np.int64) & 1
        beside = sorted((got, np.nextafter(got, np.inf if Fraction(float(got)) < total else -np.inf)))
        assert Fraction(float(beside[0])) < total < Fraction(float(beside[1]))


@pytest.mark.parametrize("bits", range(1, 9))
def test_words_there_and_back(bits: int) -> None:
    random = np.random.default_rng(bits)
    codes = random.integers(0, 1 << bits, (5, 96), dtype=np.uint8)
    packed = affine.pack_words(codes, bits)
    assert packed.shape == (5, 96 * bits // 32)
    assert np.array_equal(affine.unpack_words(packed, bits), codes)
    stream = sum(int(c) << bits * i for i, c in enumerate(codes[2]))
    assert packed[2].tolist() == [stream >> 32 * i & 0xFFFFFFFF for i in range(packed.shape[1])]


def test_the_documents_word() -> None:
    a, b, c, d, e, f, g, h = range(8, 16)
    word = (h << 28) | (g << 24) | (f << 20) | (e << 16) | (d << 12) | (c << 8) | (b << 4) | a
    assert affine.pack_words(np.arange(8, 16, dtype=np.uint8)[None], 4).tolist() == [[word]]


def weights(k: int = 6, n: int = 128, **options: Any) -> affine.QuantizedWeights:
    w = np.random.default_rng(3).standard_normal((k, n)).astype(options.pop("dtype", np.float16))
    return affine.QuantizedWeights.from_dense(w, **options)


def test_quantized_weights_have_the_documents_fields() -> None:
    w = weights()
    assert (w.weight.shape, w.weight.dtype) == ((6, 16), np.uint32)
    assert (w.scales.shape, w.biases.shape, w.scales.dtype) == ((6, 2), (6, 2), np.float16)
    assert (w.group_size, w.bits, w.shape) == (64, 4, (6, 128))
    assert np.array_equal(w.dequantize(np.float16), w.tensor.dequantize(np.float16))


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"weight": np.zeros((6, 16), np.int64)}, TypeError, "pass uint32 words, 8 codes of 4 bits"),
        ({"scales": np.zeros((6, 2), np.uint16)}, TypeError, "do not say which 16-bit float"),
        ({"biases": np.zeros((6, 2), ml_dtypes.bfloat16)}, TypeError, "scales are float16, biases bfloat16"),
        ({"scales": np.zeros((6, 4), np.float16)}, ValueError, r"in groups of 64 need \(6, 2\)"),
        ({"group_size": 48}, ValueError, "128 is not a multiple of the group of 48"),
        ({"weight": np.zeros(16, np.uint32)}, ValueError, r"pass \[K, N \* 4 / 32\]"),
        ({"bits": 9}, ValueError, "allowed are 1 to 8"),
    ],
)
def test_fields_that_do_not_fit_are_refused(change: dict[str, Any], error: type[Exception], words: str) -> None:
    w = weights()
    fields = {"weight": w.weight, "scales": w.scales, "biases": w.biases, "group_size": 64, "bits": 4} | change
    with pytest.raises(error, match=words):
        affine.QuantizedWeights(**fields)


def test_refusals_say_what_is_allowed() -> None:
    x = np.zeros((2, 96), np.float32)
    with pytest.raises(ValueError, match="k = 96 is not a multiple of the group of 64 values"):
        affine.quantize(x)
    with pytest.raises(ValueError, match="does not cover int4-g32-zero-float32; choose one of gptq/asymmetric"):
        affine.quantize(x, group=32, offset="zero", profile="affine-minmax")
    with pytest.raises(ValueError, match="unknown affine profile"):
        affine.quantize(x, group=32, profile="affine-min-max")
    with pytest.raises(ValueError, match="such as int4-g64-bias-float16"):
        affine.get_affine("int4")
    t = affine.quantize(x, group=32)
    with pytest.raises(ValueError, match="allowed are exact, float32"):
        t.dequantize(contract="fp16")
    with pytest.raises(TypeError, match="never the bits"):
        affine.dequantize(t.codes, t.scales.view(np.uint32), t.offsets, t.format)
    with pytest.raises(ValueError, match="4 bits allow 0 to 15"):
        affine.dequantize(t.codes + np.uint8(16), t.scales, t.offsets, t.format)
    with pytest.raises(ValueError, match="a has 95 columns"):
        affine.quantized_matmul(x[:, :95], t)
    with pytest.raises(ValueError, match="choose one that does"):
        affine.quantized_matmul(x, t, contract="exact")


@pytest.mark.parametrize("offset", list(Offset))
@pytest.mark.parametrize("contract", ["exact", "float32", "float16"])
def test_exact_products_are_exact(offset: Offset, contract: str) -> None:
    random = np.random.default_rng(5)
    w = affine.quantize(random.standard_normal((3, 64)).astype(np.float16), group=32, offset=offset)
    a = (random.standard_normal((2, 64)) * 2.0 ** random.integers(-30, 3, (2, 64))).astype(np.float32)
    a[0, 3] = 2.0**-149
    rule = affine.get_contract(contract, w.format)
    got = affine.quantized_matmul_exact(a, w, contract=contract)
    for i, j in np.ndindex(2, 3):
        total = Fraction(0)
        for n in range(64):
            scale, bias = (int(words(p)[j, n // 32]) for p in (w.scales, w.offsets))
            value = exact.dequantize_code(int(w.codes[j, n]), scale, bias, w.format, rule)
            total += Fraction(float(a[i, n])) * value.value
        assert int(words(got)[i, j]) == encode_real(Real(int(total < 0), abs(total)), FLOATS["float32"])


def test_orders_of_a_product_and_the_linear_layer() -> None:
    w = weights(4, 128)
    a = np.random.default_rng(8).standard_normal((3, 128)).astype(np.float16)
    sequential = affine.quantized_matmul(a, w.tensor)
    assert sequential.dtype == np.float16
    dense = w.dequantize(np.float32, contract="float32")
    total = np.zeros((3, 4), np.float32)
    for n in range(128):
        total += a[:, n, None].astype(np.float32) * dense[:, n]
    assert np.array_equal(sequential, total.astype(np.float16))
    wide = affine.quantized_matmul(a, w.tensor, out=np.float32)
    factored = affine.quantized_matmul(a, w.tensor, out=np.float32, order=Order.FACTORED)
    assert np.any(wide != factored)
    bias = np.arange(4, dtype=np.float16)
    assert np.array_equal(affine.quantized_linear(a, w, bias), (sequential.astype(np.float32) + bias).astype(np.float16))
    assert affine.quantized_linear(a[0], w).shape == (4,)


def test_integers_give_the_same_bits_in_every_order() -> None:
    """Scales of powers of two, whole activations: no rounding anywhere, so every legal form gives the same bits."""
    random = np.random.default_rng(6)
    codes = random.integers(0, 16, (5, 256), dtype=np.uint8)
    scales = 2.0 ** random.integers(-2, 3, (5, 4))
    w = affine.AffineTensor(
        format=AffineFormat(offset=Offset.ZERO), codes=codes, scales=scales.astype(np.float16),
        offsets=random.integers(0, 16, (5, 4), dtype=np.uint8),
    )  # fmt: skip
    a = random.integers(-8, 9, (3, 256)).astype(np.float16)
    exactly = affine.quantized_matmul_exact(a, w)
    for order in Order:
        for contract in ("float32", "float16", "bfloat16-products", "float16-fma"):
            assert np.array_equal(affine.quantized_matmul(a, w, contract=contract, order=order, out="float32"), exactly)


def test_nan_and_infinities_go_through_a_product() -> None:
    w = weights(2, 64)
    a = np.zeros((3, 64), np.float32)
    a[0, 0], a[1, 5], a[2, 9] = np.nan, np.inf, 1
    for got in (affine.quantized_matmul_exact(a, w.tensor), affine.quantized_matmul(a, w.tensor)):
        assert np.isnan(got[0]).all()
        assert np.isinf(got[1]).all()
        assert np.isfinite(got[2]).all()


def test_a_layer_of_mlx_is_read_without_converting() -> None:
    class Layer:
        def __init__(self, w: affine.QuantizedWeights) -> None:
            self.weight, self.scales, self.biases = w.weight, w.scales, w.biases
            self.group_size, self.bits = w.group_size, w.bits

    w = weights(dtype=ml_dtypes.bfloat16)
    read = affine.QuantizedWeights.from_mlx_layer(Layer(w))
    assert read.scales.dtype == ml_dtypes.bfloat16
    assert np.array_equal(read.weight, w.weight)
    layer = Layer(w)
    layer.mode = "mxfp4"  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="mode 'mxfp4'"):
        affine.QuantizedWeights.from_mlx_layer(layer)
