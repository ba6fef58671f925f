"""Products with any number of rows: both ways, alpha, bias, outputs."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mxspec
import mxspec_gpu
from mxspec.affine import AffineFormat, Offset
from mxspec_gpu.products import MOST_ROWS

from tests.gpu.arithmetic import DTYPES, pack
from tests.gpu.compare import LAYOUTS, lay_out, message_of
from tests.gpu.device import LIBRARIES, Array, Guarded, Tally, bits_of, cp, import_torch, require_gpu, to_gpu, to_host
from tests.gpu.products import draw_affine, draw_codes, expect_affine, pack_codes

pytestmark = pytest.mark.gpu
require_gpu()

BF16 = ml_dtypes.bfloat16
ROWS = (1, 2, 16, 17, 33, MOST_ROWS, MOST_ROWS + 1, 200)
BLOCKS = {"mxfp4": 1, "nvfp4": 1, "mxfp8_e4m3": 1, "mxfp6_e2m3": 1}


def whole_weights(fmt: str, n: int, k: int) -> tuple[Array, Array, Array]:
    """Packed codes, scales of 1, and the weights: small numbers whose sums no order rounds."""
    block = mxspec.BLOCKS[fmt]
    values = mxspec.decode(np.arange(block.element.code_count, dtype=np.uint8), block.element).astype(np.float64)
    plain = np.flatnonzero(np.isin(values, np.arange(-6, 7))).astype(np.uint8)
    codes = np.random.default_rng(n).choice(plain, (n, k))
    scales = np.full((n, k // block.k), 127 if block.scale.name == "e8m0" else 0x38, np.uint8)
    return pack_codes(codes, fmt), scales, values[codes]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("fmt", list(BLOCKS))
def test_whole_numbers(fmt: str, library: str, tally: Tally) -> None:
    """Every number of rows, with and without alpha and bias, to both outputs, from both layouts of scales."""
    n, k = 136, 1024
    codes, scales, weights = whole_weights(fmt, n, k)
    half = to_gpu(np.array([0.5], np.float32), library)
    for m in ROWS:
        x = np.random.default_rng(m).integers(-2, 3, (m, k)).astype(BF16)
        sums = x.astype(np.float64) @ weights.T
        given = to_gpu(x[0] if m == 1 else x, library)
        for layout in LAYOUTS:
            arrays = to_gpu(codes, library), to_gpu(lay_out(scales, layout), library)
            for dtype, kind in (("bfloat16", BF16), ("float32", np.float32)):
                bias = np.random.default_rng(1).integers(-9, 10, n).astype(kind)
                for alpha, factor in ((1.0, 1), (0.5, 0.5), (half, 0.5)):
                    for added in (None, bias):
                        want = (sums * factor + (0 if added is None else added.astype(np.float64))).astype(np.float32)
                        y = mxspec_gpu.gemm(
                            given, *arrays, fmt, alpha=alpha, bias=None if added is None else to_gpu(added, library),
                            dtype=dtype, scale_layout=layout,
                        )  # fmt: skip
                        want = (want[0] if m == 1 else want).astype(kind)
                        label = f"{fmt} {m} {layout} {dtype} {factor} {added is not None}"
                        tally.equal(bits_of(to_host(y)), bits_of(want), label)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("offset", list(Offset))
@pytest.mark.parametrize("stored", ["float16", "bfloat16"])
def test_affine_whole_numbers(stored: str, offset: Offset, library: str, tally: Tally) -> None:
    for group in (16, 64, 128):
        fmt = AffineFormat(group=group, offset=offset, dtype=stored)
        n, k, kind = 72, 1024, DTYPES[stored]
        parts = draw_affine(fmt, n, k, group, exact=True)
        weights = expect_affine(*parts, fmt, "exact", "float32").astype(np.float64)
        q, s, o = to_gpu(pack(parts[0], 4), library), to_gpu(parts[1], library), to_gpu(parts[2], library)
        for m in ROWS:
            x = np.random.default_rng(m).integers(-2, 3, (m, k)).astype(kind)
            want = (x.astype(np.float64) @ weights.T * 2).astype(np.float32)
            for dtype in (stored, "float32"):
                y = mxspec_gpu.gemm(to_gpu(x, library), q, s, fmt, offsets=o, alpha=2.0, dtype=dtype)
                with np.errstate(over="ignore"):
                    tally.equal(bits_of(to_host(y)), bits_of(want.astype(DTYPES[dtype])), f"{fmt.name} {m} {dtype}")


@pytest.mark.parametrize("fmt", ["mxfp4", "nvfp4"])
def test_any_numbers(fmt: str, tally: Tally) -> None:
    """Both ways within what float32 sums may round; outputs are guarded."""
    most, k = 8200, 2048
    whole = draw_codes(fmt, most, k, 1)
    for n, m in ((200, 5), (200, 40), (most, 50), (200, 100)):
        codes, scales = whole[0][:n], whole[1][:n]
        weights = mxspec.dequantize(codes, scales, fmt, dtype=np.float32).astype(np.float64)
        arrays = to_gpu(pack_codes(codes, fmt)), to_gpu(scales)
        x = np.random.default_rng(m).standard_normal((m, k)).astype(BF16)
        bias = np.random.default_rng(1).standard_normal(n).astype(np.float32)
        guarded = Guarded((m * n * 4,))
        out = guarded.arrays[0].view(np.float32).reshape(m, n)
        mxspec_gpu.gemm(to_gpu(x), *arrays, fmt, alpha=0.37, bias=to_gpu(bias), dtype="float32", out=out)
        wide = x.astype(np.float64)
        want = wide @ weights.T * float(np.float32(0.37)) + bias.astype(np.float64)
        bound = (k + 8) * 2.0**-23 * (np.abs(wide) @ np.abs(weights.T) + np.abs(bias))
        tally.require(bool((np.abs(to_host(out) - want) <= bound).all()), f"{fmt} {m}: beyond the bound")
        tally.compared += m * n
        tally.require(guarded.intact(), f"{fmt} {m}: wrote outside its output")


def test_streams_and_graphs(tally: Tally) -> None:
    """On the caller's stream; after a first call a product can be captured, and replayed with other numbers."""
    codes, scales, weights = whole_weights("mxfp4", 64, 256)
    x = np.random.default_rng(1).integers(-2, 3, (100, 256)).astype(BF16)
    want = (x.astype(np.float64) @ weights.T).astype(np.float32)
    arrays, given = (to_gpu(codes), to_gpu(scales)), to_gpu(x)
    one = to_gpu(np.array([1.0], np.float32))
    stream = cp().cuda.Stream(non_blocking=True)
    cp().cuda.get_current_stream().synchronize()
    with stream:
        y = mxspec_gpu.gemm(given, *arrays, "mxfp4", alpha=one, dtype="float32")
    stream.synchronize()
    tally.equal(to_host(y), want, "side stream")
    torch = import_torch()
    arrays, given = (to_gpu(codes, "torch"), to_gpu(scales, "torch")), to_gpu(np.zeros_like(x), "torch")
    out = torch.empty(100, 64, device="cuda", dtype=torch.float32)
    for rows in (100, 8):
        mxspec_gpu.gemm(given[:rows], *arrays, "mxfp4", dtype="float32", out=out[:rows])
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            mxspec_gpu.gemm(given[:rows], *arrays, "mxfp4", dtype="float32", out=out[:rows])
        given.copy_(to_gpu(x, "torch"))
        out.fill_(-1)
        graph.replay()
        torch.cuda.synchronize()
        tally.equal(to_host(out[:rows]), want[:rows], f"graph of {rows} rows")
        given.zero_()


def test_wrong_calls(tally: Tally) -> None:
    codes, scales, _ = whole_weights("mxfp4", 8, 64)
    c, s, x = to_gpu(codes), to_gpu(scales), to_gpu(np.ones((2, 64), BF16))
    bias = cp().ones(8, cp().float32)
    gemm = mxspec_gpu.gemm
    calls: tuple[tuple[Any, type[Exception], str], ...] = (
        (lambda: gemm(x.astype("float32"), c, s, "mxfp4"), TypeError, "x has dtype float32; pass bfloat16"),
        (lambda: gemm(x[:, :32], c, s, "mxfp4"), ValueError, "x is [K] or [M, K] with weights [N, K]"),
        (lambda: gemm(x, c, s, "mxfp4", bias=bias), ValueError, "bias has dtype float32"),
        (lambda: gemm(x, c, s, "mxfp4", bias=bias[:4], dtype="float32"), ValueError, "pass float32 of shape (8,)"),
        (lambda: gemm(x, c, s, "mxfp4", dtype="float16"), TypeError, "allowed are the names bfloat16, float32"),
        (lambda: gemm(x, c, s, "mxfp4", offsets=s), ValueError, "offsets were given with fmt = 'mxfp4'"),
        (lambda: gemm(x, c, s, "int4-g64-bias-float16"), TypeError, "offsets is a builtins.NoneType"),
        (lambda: gemm(x, c, s, "mxfp4", out=c), ValueError, "out has dtype uint8"),
        (lambda: gemm(x, c[None], s[None], "mxfp4"), ValueError, "pass [N, bytes of a row]"),
        (lambda: gemm(x, c, s, "mxfp4", alpha="1"), TypeError, "alpha is a builtins.str"),
    )
    for call, kind, words in calls:
        message = message_of(call, kind)
        tally.require(words in message, message)
