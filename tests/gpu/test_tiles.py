"""Products by wgmma: every tuning, ragged on all sides, and the same bits in every call."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxspec
import mxspec_gpu
from mxspec_gpu.arrays import view_array
from mxspec_gpu.tiles import list_tunings, multiply_tiles

from tests.gpu.device import Guarded, Tally, bits_of, cp, is_hopper, require_gpu, to_gpu, to_host
from tests.gpu.products import draw_codes, pack_codes

require_gpu()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not is_hopper(), reason="the GPU has no wgmma")]

BF16 = ml_dtypes.bfloat16


@pytest.mark.parametrize("fmt", ["mxfp4", "nvfp4"])
def test_tiles(fmt: str, tally: Tally) -> None:
    """Every tuning, ragged on all sides: sums that no order rounds, with alpha and bias; and each code under each scale byte."""
    block = mxspec.BLOCKS[fmt]
    rng = np.random.default_rng(5)
    for m, n, k in ((1, 130, 128), (33, 300, 640), (64, 512, 1024), (129, 257, 384), (200, 136, 2048), (40, 140, 192), (300, 131, 2880)):
        codes = rng.integers(0, 16, (n, k), np.uint8)
        scales = rng.integers(*((126, 129) if block.scale.name == "e8m0" else (0x30, 0x41)), (n, k // block.k), np.uint8)
        weights = mxspec.dequantize(codes, scales, fmt, dtype=np.float32).astype(np.float64)
        x, bias = rng.integers(-4, 5, (m, k)).astype(BF16), rng.integers(-9, 10, n)
        want = x.astype(np.float64) @ weights.T * 0.5 + bias
        views = [view_array(to_gpu(a), "a") for a in (x, pack_codes(codes, fmt), scales)]
        for tuning, kind in product(list_tunings(half=k % 128 != 0), (BF16, np.float32)):
            guarded = Guarded((m * n * np.dtype(kind).itemsize,))
            out = guarded.arrays[0].view(kind).reshape(m, n)
            added = to_gpu(bias.astype(kind))
            multiply_tiles(
                *views, block, view_array(out, "out"), alpha=(0, 0x3F000000), bias=view_array(added, "bias").pointer, tuning=tuning
            )
            tally.equal(bits_of(to_host(out)), bits_of(want.astype(np.float32).astype(kind)), f"{fmt} {m} x {n} x {k}, {tuning}")
            tally.require(guarded.intact(), f"{fmt} {tuning}: wrote outside its output")
    # Every code under every scale byte, one number of x alone in each row.
    scales = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 128 // block.k, axis=1)
    codes = np.tile(np.arange(16, dtype=np.uint8), (256, 8))
    want = mxspec.dequantize(codes, scales if block.k == 32 else scales & 0x7F, fmt, dtype=np.float32)[:, :16].T
    views = [view_array(to_gpu(a), "a") for a in (np.eye(16, 128).astype(BF16), pack_codes(codes, fmt), scales)]
    # A weight that is NaN, or infinite in bfloat16, makes all sums of its row NaN.
    lost = ~np.isfinite(want.astype(BF16).astype(np.float32)).all(axis=0)
    for tuning in list_tunings():
        out = cp().zeros((16, 256), np.float32)
        multiply_tiles(*views, block, view_array(out, "out"), alpha=(0, 0x3F800000), bias=0, tuning=tuning)
        found = to_host(out)
        tally.equal(np.isnan(found), np.broadcast_to(lost, found.shape), f"{fmt} NaN, {tuning}")
        tally.equal(found[:, ~lost], want[:, ~lost], f"{fmt} values, {tuning}")


@pytest.mark.parametrize("fmt", ["mxfp4", "nvfp4"])
def test_experts(fmt: str, tally: Tally) -> None:
    """Rows of experts, with none, one and many, under every tuning; through the API, and with other offsets in a graph."""
    block, rng = mxspec.BLOCKS[fmt], np.random.default_rng(6)
    for counts, n, k in (((0, 7, 130, 0, 33, 300, 1, 0), 131, 320), ((0, 0, 3), 260, 64), (tuple(rng.integers(0, 40, 128)), 64, 192)):
        experts, m = len(counts), sum(counts)
        codes = rng.integers(0, 16, (experts * n, k), np.uint8)
        scales = rng.integers(*((126, 129) if block.scale.name == "e8m0" else (0x30, 0x41)), (experts * n, k // block.k), np.uint8)
        weights = mxspec.dequantize(codes, scales, fmt, dtype=np.float32).astype(np.float64).reshape(experts, n, k)
        x, bias = rng.integers(-4, 5, (m, k)).astype(BF16), rng.integers(-9, 10, (experts, n)).astype(BF16)
        alpha = np.ldexp(1.0, rng.integers(-1, 2, experts)).astype(np.float32)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        want = np.concatenate([
            x[a:b].astype(np.float64) @ weights[e].T * alpha[e] + bias[e].astype(np.float64)
            for e, (a, b) in enumerate(pairwise(starts))
        ]).astype(np.float32).astype(BF16)  # fmt: skip
        given = to_gpu(x), to_gpu(pack_codes(codes, fmt).reshape(experts, n, -1)), to_gpu(scales.reshape(experts, n, -1))
        offsets, factors, added = to_gpu(starts), to_gpu(alpha), to_gpu(bias)
        (xs, cs, ss), where = (view_array(a, "a") for a in given), view_array(offsets, "offsets")
        for tuning in list_tunings(half=True):
            guarded = Guarded((m * n * 2,))
            out = guarded.arrays[0].view(BF16).reshape(m, n)
            multiply_tiles(
                xs, cs, ss, block, view_array(out, "out"), alpha=(view_array(factors, "alpha").pointer, 0),
                bias=view_array(added, "bias").pointer, offsets=where, tuning=tuning,
            )  # fmt: skip
            tally.equal(bits_of(to_host(out)), bits_of(want), f"{fmt} {counts} x {n} x {k}, {tuning}")
            tally.require(guarded.intact(), f"{fmt} {tuning}: wrote outside its output")
        found = mxspec_gpu.grouped_gemm(given[0], *given[1:], fmt, offsets, alpha=factors, bias=added)
        tally.equal(bits_of(to_host(found)), bits_of(want), f"{fmt} {counts}: grouped_gemm")
        # All rows are the first expert's now.
        stream = cp().cuda.Stream(non_blocking=True)
        with stream:
            mxspec_gpu.grouped_gemm(given[0], *given[1:], fmt, offsets, out=found)
            stream.begin_capture()
            mxspec_gpu.grouped_gemm(given[0], *given[1:], fmt, offsets, out=found)
            graph = stream.end_capture()
            offsets[1:] = m
            graph.launch()
        stream.synchronize()
        alone = (x.astype(np.float64) @ weights[0].T).astype(np.float32).astype(BF16)
        tally.equal(bits_of(to_host(found)), bits_of(alone), f"{fmt} {counts}: other offsets in a graph")


def test_wrong_calls(tally: Tally) -> None:
    """What `grouped_gemm` refuses, and with which words."""
    x, codes, scales = (cp().zeros(s, t) for s, t in (((5, 128), "uint16"), ((2, 8, 64), "uint8"), ((2, 8, 4), "uint8")))
    x, offsets = x.view(BF16), cp().array([0, 2, 5], "int32")

    def call(*, x: Any = x, fmt: str = "mxfp4", offsets: Any = offsets, **more: Any) -> Any:
        return mxspec_gpu.grouped_gemm(x, codes, scales, fmt, offsets, **more)

    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"fmt": "mxfp8_e4m3"}, "grouped_gemm takes mxfp4 and nvfp4"), ({"x": x[:, :96]}, "K a multiple of 64"),
        ({"offsets": offsets[:2]}, r"pass contiguous int32 \(3,\)"), ({"fmt": "nvfp4"}, r"uint8 \(2, 8, 8\)"),
        ({"alpha": cp().ones(1, "float32")}, r"float32 \[2\]"), ({"dtype": "float16"}, "'bfloat16' and 'float32'"),
    )  # fmt: skip
    for given, words in wrong:
        with pytest.raises(ValueError, match=words):
            call(**given)
        tally.require(to_host(call()).shape == (5, 8), "a right call")


def test_tiles_give_the_same_bits(tally: Tally) -> None:
    """In 1,000 calls, on two streams, and whatever other rows hold."""
    codes, scales = draw_codes("mxfp4", 512, 4096, 1)
    arrays = to_gpu(pack_codes(codes, "mxfp4")), to_gpu(scales)
    x = np.random.default_rng(2).standard_normal((96, 4096)).astype(BF16)
    first = to_host(mxspec_gpu.gemm(to_gpu(x), *arrays, "mxfp4", dtype="float32"))
    given, other = to_gpu(x), cp().cuda.Stream(non_blocking=True)
    cp().cuda.get_current_stream().synchronize()
    kept = []
    for i in range(1000):
        with other if i % 2 else cp().cuda.Stream.null:
            kept.append(mxspec_gpu.gemm(given, *arrays, "mxfp4", dtype="float32"))
        if len(kept) == 100:
            cp().cuda.runtime.deviceSynchronize()
            for y in kept:
                tally.equal(bits_of(to_host(y)), bits_of(first), f"call {i}")
            kept.clear()
    x[1:] = np.inf
    tally.equal(to_host(mxspec_gpu.gemm(to_gpu(x), *arrays, "mxfp4", dtype="float32"))[0], first[0], "next to infinities")
