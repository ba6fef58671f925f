"""FP8 products in groups of 128 against the model of the chip's sums, bit for bit: every tile, ragged on all sides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxspec
import mxspec_gpu
from mxspec.dot import get_accumulator
from mxspec.dot.factor import Factor, plain_factor
from mxspec.dot.rounding import add_to_odd, round_floats
from mxspec.dot.simulate import simulate_product
from mxspec.formats import FLOAT32
from mxspec_gpu.arrays import view_array
from mxspec_gpu.fp8 import GROUP, list_tunings, multiply_groups

from tests.gpu.device import Array, Guarded, Tally, bits_of, cp, is_hopper, require_gpu, to_gpu, to_host

require_gpu()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not is_hopper(), reason="the GPU has no wgmma")]

BF16 = ml_dtypes.bfloat16


def cut_columns(factor: Factor, first: int) -> Factor:
    """Those of one group."""
    part = slice(first, first + GROUP)
    return replace(factor, values=factor.values[:, part], exponents=factor.exponents[:, part])


def expect_product(a: Array, scales_a: Array, b: Array, scales_b: Array) -> Array:
    """float32 [M, N]: the sums of groups by the measured class of the tensor cores, each moved by one fused multiply-add."""
    unit = get_accumulator("fused-f13-32")
    x, w = (plain_factor(codes.view(ml_dtypes.float8_e4m3fn)) for codes in (a, b))
    total = np.zeros((len(a), len(b)))
    for group in range(-(-a.shape[1] // GROUP)):
        part = simulate_product(cut_columns(x, group * GROUP), cut_columns(w, group * GROUP), unit)
        scale = scales_a[:, group, None] * np.repeat(scales_b[:, group], GROUP)[None, : len(b)]
        total = round_floats(add_to_odd(total, part * scale.astype(np.float64)), FLOAT32)
    return total.astype(np.float32)


def draw_operands(m: int, n: int, k: int, seed: int, *, powers: bool) -> tuple[Array, ...]:
    """Codes of any finite numbers, and scales as stored and as float32."""
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, 256, (rows, k), np.uint8) for rows in (m, n)]
    for c in codes:
        c[c % 128 == 127] = 0
        c[rng.random(c.shape) < 0.1] = 0
    shapes = (m, -(-k // GROUP)), (-(-n // GROUP), -(-k // GROUP))
    stored = [
        rng.integers(120, 134, s, np.uint8) if powers else np.ldexp(rng.uniform(1, 2, s), rng.integers(-9, 3, s)).astype(np.float32)
        for s in shapes
    ]
    values = [mxspec.decode(s, "e8m0") if powers else s for s in stored]
    return codes[0], codes[1], *stored, *values


@pytest.mark.parametrize("powers", [False, True])
def test_groups(powers: bool, tally: Tally) -> None:
    """Every tuning, ragged on all sides, and through the API: the bits that the model says."""
    for m, n, k in ((1, 130, 128), (77, 264, 272), (300, 139, 400), (129, 520, 144)):
        a, b, sa, sb, va, vb = draw_operands(m, n, k, m, powers=powers)
        want = expect_product(a, va, b, vb)
        views = [view_array(to_gpu(x), "x") for x in (a, sa, b, sb)]
        for tuning in list_tunings():
            for kind in (BF16, np.float32):
                guarded = Guarded((m * n * np.dtype(kind).itemsize,))
                out = guarded.arrays[0].view(kind).reshape(m, n)
                multiply_groups(views[0], views[1], views[2], views[3], view_array(out, "out"), tuning=tuning)
                tally.equal(bits_of(to_host(out)), bits_of(want.astype(kind)), f"{m} x {n} x {k}, {tuning}")
                tally.require(guarded.intact(), f"{tuning}: wrote outside its output")
        columns = to_gpu(np.asfortranarray(sa).T).T
        found = mxspec_gpu.fp8_gemm(to_gpu(a), columns, to_gpu(b), to_gpu(sb), dtype="float32")
        tally.equal(bits_of(to_host(found)), bits_of(want), f"{m} x {n} x {k}, scales by columns")


def test_large_products(tally: Tally) -> None:
    """Whole numbers, of which no order rounds a sum: many tiles, the largest shapes of which float64 holds a product in time."""
    rng = np.random.default_rng(3)
    for m, n, k in ((1000, 1536, 2048), (4111, 4104, 512)):
        a, b = (rng.integers(-4, 5, (rows, k)).astype(ml_dtypes.float8_e4m3fn) for rows in (m, n))
        want = a.astype(np.float32) @ b.astype(np.float32).T
        ones = [np.ones((rows, k // GROUP), np.float32) for rows in (m, -(-n // GROUP))]
        views = [view_array(to_gpu(x), "x") for x in (a.view(np.uint8), ones[0], b.view(np.uint8), ones[1])]
        for tuning in list_tunings():
            out = cp().full((m, n), 7, np.float32)
            multiply_groups(views[0], views[1], views[2], views[3], view_array(out, "out"), tuning=tuning)
            tally.equal(to_host(out), want, f"{m} x {n} x {k}, {tuning}")


def test_numbers_that_are_none(tally: Tally) -> None:
    """A NaN code reaches its row or column alone, a NaN scale its rows, columns and nothing else; FF of E8M0 is NaN, 00 is 2**-127."""
    a, b = (np.full((140, 256), 0x38, np.uint8) for _ in range(2))
    a[3, 200], b[5, 7] = 0x7F, 0xFF
    for kind, one, nan, least in ((np.float32, 1, np.nan, 2.0**-127), (np.uint8, 127, 0xFF, 0)):
        sa, sb = np.full((140, 2), one, kind), np.full((2, 2), one, kind)
        sa[9, 0], sb[1, 1], sa[20] = nan, nan, least
        found = to_host(mxspec_gpu.fp8_gemm(*map(to_gpu, (a, sa, b, sb)), dtype="float32"))
        lost = np.zeros((140, 140), bool)
        lost[3], lost[:, 5], lost[9], lost[:, 128:] = True, True, True, True
        tally.equal(np.isnan(found), lost, f"NaN, {kind.__name__}")
        want = np.full((140, 140), 256, np.float32)
        want[20] = 2.0**-119
        tally.equal(found[~lost], want[~lost], f"numbers, {kind.__name__}")


def test_the_same_bits(tally: Tally) -> None:
    """In 1,000 calls, on two streams, and whatever other rows hold; views of other strides are taken as what they are."""
    a, b, sa, sb, *_ = map(to_gpu, draw_operands(700, 512, 2048, 5, powers=False))
    first = to_host(mxspec_gpu.fp8_gemm(a, sa, b, sb))
    other = cp().cuda.Stream(non_blocking=True)
    cp().cuda.get_current_stream().synchronize()
    kept: list[Any] = []
    for i in range(1000):
        with other if i % 2 else cp().cuda.Stream.null:
            kept.append(mxspec_gpu.fp8_gemm(a, sa, b, sb))
        if len(kept) == 100:
            cp().cuda.runtime.deviceSynchronize()
            for y in kept:
                tally.equal(bits_of(to_host(y)), bits_of(first), f"call {i}")
            kept.clear()
    for rows in (1, 64, 129):
        tally.equal(bits_of(to_host(mxspec_gpu.fp8_gemm(a[:rows], sa[:rows], b, sb))), bits_of(first[:rows]), f"{rows} rows alone")
    tally.equal(bits_of(to_host(mxspec_gpu.fp8_gemm(a[::-1], sa[::-1], b, sb))), bits_of(first[::-1]), "rows backwards")


def test_wrong_calls(tally: Tally) -> None:
    """What is refused, and with which words."""
    a, b, sa, sb = (cp().zeros(s, t) for s, t in (((5, 256), "uint8"), ((130, 256), "uint8"), ((5, 2), "float32"), ((2, 2), "float32")))

    def call(a: Any = a, sa: Any = sa, b: Any = b, sb: Any = sb, **more: Any) -> Any:
        return mxspec_gpu.fp8_gemm(a, sa, b, sb, **more)

    wrong: tuple[tuple[dict[str, Any], type[Exception], str], ...] = (
        ({"a": a[:, :250]}, ValueError, "K a multiple of 16"), ({"a": a[:, :0]}, ValueError, "K a multiple of 16"), ({"b": b[:, :128]}, ValueError, r"b \[N, K\]"),
        ({"sa": sa[:3]}, ValueError, r"\(5, 2\)"), ({"sb": sa}, ValueError, r"\(2, 2\)"), ({"sb": sb.astype("uint8")}, TypeError, "both as float32"),
        ({"dtype": "float16"}, ValueError, "'bfloat16' and 'float32'"),
    )  # fmt: skip
    for given, kind, words in wrong:
        with pytest.raises(kind, match=words):
            call(**given)
        tally.require(to_host(call()).shape == (5, 130), "a right call")
    for empty in ({"a": a[:0], "sa": sa[:0]}, {"b": b[:0], "sb": sb[:0]}):
        tally.require(call(**empty).size == 0, "an empty product")
