"""LightX2V's operators on the GPU against their NumPy form: bits of the quantizers, exact products, legal outputs of the others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxspec
from mxspec import dot, lightx2v as host
from mxspec.inputs import as_array
from mxspec.lightx2v import facts, operators
from mxspec_gpu import lightx2v as gpu

from tests.gpu.compare import message_of
from tests.gpu.device import LIBRARIES, Array, Tally, bits_of, cp, import_torch, require_gpu, to_gpu, to_host

pytestmark = pytest.mark.gpu
require_gpu()

BF16 = ml_dtypes.bfloat16
SHAPES = ((1, 32), (130, 96), (5, 2080), (257, 4128))
QUANTIZERS = ("scaled_mxfp4_quant", "scaled_mxfp6_quant", "scaled_mxfp8_quant")
PRODUCTS = (facts.NVFP4_MM, facts.MXFP4_MM, facts.MXFP6_MXFP8_MM, facts.MXFP8_MM)
LAYERS = {"torch": gpu.MMWeightNvfp4, "cupy": gpu.MMWeightNvfp4OnCupy}


def draw(shape: tuple[int, ...], seed: int, dtype: Any = BF16, spread: float = 1.0) -> Array:
    """Normal numbers with zeros, NaN, infinities, subnormal and large ones in some blocks."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * spread
    x = x * np.exp2(rng.integers(-12, 13, (shape[0], 1)))
    with np.errstate(all="ignore"):
        x = x.astype(dtype)
    x[rng.random(shape[0]) < 0.1] = 0
    for value, share in ((np.nan, 0.001), (np.inf, 0.001), (-np.inf, 0.001), (1e-7, 0.01), (-0.0, 0.01), (6e4, 0.001)):
        x[rng.random(shape) < share] = value
    return x


def plain(x: Any) -> Array:
    """Codes or scales as bytes."""
    return np.ascontiguousarray(as_array(x)).view(np.uint8)


def shown(library: str) -> tuple[str | None, ...]:
    return (None, "int32", "uint8") if library == "torch" else (None, "int32")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("dtype", [np.float16, BF16])
def test_quantizers(library: str, dtype: Any, tally: Tally) -> None:
    for i, shape in enumerate(SHAPES):
        x = draw(shape, i, dtype)
        given = to_gpu(x, library)
        for name in QUANTIZERS:
            for kind in shown(library):
                got = getattr(gpu, name)(given, scale_dtype=kind)
                want = getattr(host, name)(x, scale_dtype=kind)
                assert got[0].shape == want[0].shape
                assert tuple(got[1].shape) == want[1].shape
                for part, a, b in zip(("codes", "scales"), got, want, strict=True):
                    tally.equal(plain(a), plain(b), f"{name} {shape} {kind} {part}")
        number = np.float32(437.25)
        on_gpu = to_gpu(np.array([number]), library)
        for scale, device in ((None, None), (number, on_gpu), (number, float(number)), (number, on_gpu.reshape(()))):
            for ue8m0 in (False, True):
                got, want = (f.scaled_nvfp4_quant(y, s, ue8m0=ue8m0) for f, y, s in ((gpu, given, device), (host, x, scale)))
                for part, a, b in zip(("codes", "scales"), got, want, strict=True):
                    tally.equal(plain(a), plain(b), f"nvfp4 {shape} {scale} {ue8m0} {part}")


@pytest.mark.parametrize("library", LIBRARIES)
def test_types_of_scales(library: str) -> None:
    x = to_gpu(draw((3, 64), 1), library)
    made = gpu.scaled_mxfp4_quant(x), gpu.scaled_nvfp4_quant(x, None)
    names = [str(scales.dtype).removeprefix("torch.") for _, scales in made]
    assert names == (["float8_e8m0fnu", "float8_e4m3fn"] if library == "torch" else ["uint8", "uint8"])


def sides_of(product: facts.Product, m: int, n: int, k: int, library: str, spread: float) -> tuple[list[Any], list[Any]]:
    """Codes and scales of both sides, on the host and on the GPU."""
    rng = np.random.default_rng(m + n + k)
    on_host = []
    for rows, quantizer in ((m, product.a), (n, product.b)):
        x = (rng.standard_normal((rows, k)) * np.exp2(rng.uniform(-spread, spread, (rows, k // 32)).repeat(32, axis=1))).astype(BF16)
        arguments = (np.float32(300),) if quantizer.format.name == "nvfp4" else ()
        on_host.append(getattr(host, quantizer.name)(x, *arguments))
    pairs = []
    for codes, scales in on_host:
        bytes_ = to_gpu(scales.view(np.uint8), library)
        dtype = getattr(import_torch(), scales.dtype.name) if library == "torch" else None
        pairs.append((to_gpu(codes, library), bytes_ if dtype is None else bytes_.view(dtype)))
    return on_host, pairs


def accepts(product: facts.Product, packed: list[Any], k: int, alpha: float, bias: Array | None, y: Array) -> Array:
    """Which outputs some order and rounding of float32 additions gives."""
    factors = [
        dot.block_factor(*operators.unpack_side(q, codes, scales, k), q.format)
        for q, (codes, scales) in zip((product.a, product.b), packed, strict=True)
    ]
    epilogue = dot.Epilogue(alpha=alpha, bias=None if bias is None else bias.reshape(-1))
    sums = dot.sum_products(*factors)
    return dot.allow_outputs(sums, dot.get_accumulator("float32"), "bfloat16", epilogue=epilogue).accepts(y)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("product", PRODUCTS, ids=lambda p: p.name)
def test_products(product: facts.Product, library: str, tally: Tally) -> None:
    """exact: the NumPy form's bits, also where scales spread so far that float64 does not decide; else a legal result."""
    for m, n, k, spread in ((1, 128, 128, 0), (5, 128, 256, 0), (33, 256, 512, 2), (70, 128, 1024, 30)):
        on_host, pairs = sides_of(product, m, n, k, library, spread)
        for alpha, with_bias in ((1.0, False), (0.37, False), (0.37, True)):
            factor = np.float32(alpha)
            bias = (np.random.default_rng(n).standard_normal(n) * 4).astype(BF16).reshape(1, n) if with_bias else None
            mine = None if bias is None else to_gpu(bias, library)
            arguments = pairs[0][0], pairs[1][0], pairs[0][1], pairs[1][1]
            want = getattr(host, product.name)(on_host[0][0], on_host[1][0], on_host[0][1], on_host[1][1], factor, bias)
            label = f"{product.name} {m} {n} {k} {spread} {alpha} {with_bias}"
            for given in (float(factor), to_gpu(np.array([factor]), library)):
                got = getattr(gpu, product.name)(*arguments, given, mine, exact=True)
                tally.equal(bits_of(to_host(got)), bits_of(want), label)
            fast = to_host(getattr(gpu, product.name)(*arguments, factor, mine))
            legal = accepts(product, on_host, k, float(factor), bias, fast)
            tally.equal(legal.astype(np.uint8), np.ones(legal.shape, np.uint8), f"{label} legal")


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_layer(library: str, tmp_path: Path, tally: Tally) -> None:
    """The document's example, in both forms of the layer; saved on the GPU, loaded on the CPU, and the reverse."""
    rng = np.random.default_rng(3)
    m, k, n = 48, 512, 256
    x, weight = rng.standard_normal((m, k)).astype(BF16), rng.standard_normal((n, k)).astype(BF16)
    bias = rng.standard_normal(n).astype(BF16)
    layer = LAYERS[library]
    mm, cpu = layer(to_gpu(weight, library), to_gpu(bias, library)), host.MMWeightNvfp4(weight, bias)
    mm.calibrate_x_absmax(to_gpu(x[:9], library), to_gpu(x[9:], library))
    cpu.calibrate_x_absmax(x)
    assert (mm.weight_global_scale, mm.input_global_scale, mm.alpha, mm.seen) == (
        cpu.weight_global_scale, cpu.input_global_scale, cpu.alpha, cpu.seen
    )  # fmt: skip
    mm.save(tmp_path / "gpu.safetensors")
    cpu.save(tmp_path / "cpu.safetensors")
    assert (tmp_path / "gpu.safetensors").read_bytes() == (tmp_path / "cpu.safetensors").read_bytes()
    back = layer.load(tmp_path / "cpu.safetensors")
    for name in ("weight", "weight_scale", "bias"):
        tally.equal(plain(getattr(back, name)), plain(getattr(mm, name)), name)
    y = to_host(back.apply(to_gpu(x, library)))
    tally.equal(bits_of(y), bits_of(to_host(mm.apply(to_gpu(x, library)))), "loaded")
    packed = [cpu.act_quant_nvfp4(x), (cpu.weight, cpu.weight_scale)]
    assert cpu.alpha is not None
    legal = accepts(facts.NVFP4_MM, packed, k, float(cpu.alpha), bias, y)
    tally.equal(legal.astype(np.uint8), np.ones(legal.shape, np.uint8), "legal")
    with_nan = to_gpu(np.where(np.arange(k) == 3, np.nan, x).astype(BF16), library)
    assert "NaN" in message_of(lambda: mm.calibrate_x_absmax(with_nan), ValueError)


@pytest.mark.parametrize("library", LIBRARIES)
def test_refusals_are_those_of_the_host(library: str) -> None:
    x = draw((4, 64), 1)
    given = to_gpu(x, library)
    calls: list[tuple[Callable[[Any, Any], Any], type[Exception]]] = [
        (lambda f, y: f.scaled_nvfp4_quant(y[:, :24], None), ValueError),
        (lambda f, y: f.scaled_mxfp8_quant(y[0]), ValueError),
        (lambda f, y: f.scaled_nvfp4_quant(y, "auto"), TypeError),
        (lambda f, y: f.scaled_nvfp4_quant(y, mxspec.TensorScale("decode", 1.0)), ValueError),
        (lambda f, y: f.scaled_mxfp4_quant(y, scale_dtype="e8m0"), ValueError),
    ]
    for fails, error in calls:
        assert message_of(partial(fails, gpu, given), error) == message_of(partial(fails, host, x), error)
    wide = to_gpu(np.ones((2, 32), np.float32), library)
    assert "quantize_to_fp4" in message_of(lambda: gpu.scaled_mxfp4_quant(wide), TypeError)
    double = cp().ones(1, "float64") if library == "cupy" else import_torch().ones(1, dtype=import_torch().float64).cuda()
    assert "Inconsistency of Tensor type" in message_of(lambda: gpu.scaled_nvfp4_quant(given, double), TypeError)
    codes, scales = gpu.scaled_mxfp4_quant(given)
    text = message_of(lambda: gpu.cutlass_scaled_mxfp4_mm(codes, codes, scales, scales, 1.0), ValueError)
    assert "Expected k to be divisible by 128" in text
