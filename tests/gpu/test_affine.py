"""Four-bit affine weights: values under every contract, and products with a few vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mxspec_gpu
from mxspec.affine import AffineFormat, Offset, list_contracts
from mxspec_gpu import affine
from mxspec_gpu.affine import gemv_contract
from mxspec_gpu.product_kernels import AFFINE_FORMATS

from tests.gpu.arithmetic import DTYPES, pack
from tests.gpu.compare import message_of
from tests.gpu.device import LIBRARIES, Array, Guarded, Tally, bits_of, cp, require_gpu, to_gpu, to_host
from tests.gpu.products import LESS_MEMORY, draw_affine, every_scale, expect_affine

pytestmark = pytest.mark.gpu
require_gpu()

FORMATS_16 = [AffineFormat(group=16, offset=o, dtype=d) for o in Offset for d in ("float16", "bfloat16")]


def name_of(fmt: AffineFormat) -> str:
    return fmt.name


def send(parts: tuple[Array, Array, Array], library: str = "cupy") -> tuple[Any, Any, Any]:
    codes, scales, offsets = parts
    return to_gpu(pack(codes, 4), library), to_gpu(scales, library), to_gpu(offsets, library)


@pytest.mark.parametrize("fmt", FORMATS_16, ids=name_of)
def test_every_scale(fmt: AffineFormat, tally: Tally) -> None:
    """All 16-bit scales with all codes, under every contract, to every dtype."""
    parts = every_scale(fmt, 7)
    arrays = send(parts)
    for rule in list_contracts(fmt):
        for dtype, kind in DTYPES.items():
            want = expect_affine(*parts, fmt, rule.name, dtype)
            guarded = Guarded((want.nbytes,))
            out = guarded.arrays[0].view(kind).reshape(want.shape)
            mxspec_gpu.affine_dequantize(*arrays, fmt, contract=rule, dtype=dtype, out=out)
            label = f"{fmt.name} {rule.name} {dtype}"
            tally.equal(bits_of(to_host(out)), bits_of(want), label)
            tally.require(guarded.intact(), f"{label}: wrote outside its output")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("fmt", AFFINE_FORMATS, ids=name_of)
def test_shapes_and_words(fmt: AffineFormat, library: str, tally: Tally) -> None:
    """Bytes and words, views, three axes, ragged counts."""
    for shape in ((1, fmt.group), (37, 3 * fmt.group), (2, 5, 9 * fmt.group)):
        rows = int(np.prod(shape[:-1]))
        parts = draw_affine(fmt, rows, shape[-1], rows)
        want = expect_affine(*parts, fmt, "exact", "bfloat16").reshape(shape)
        codes, scales, offsets = (x.reshape(*shape[:-1], -1) for x in (pack(parts[0], 4), *parts[1:]))
        others = to_gpu(scales, library), to_gpu(offsets, library)
        wide = to_gpu(np.concatenate([codes, codes], axis=-1), library)[..., : codes.shape[-1]]
        words = to_gpu(codes.view(np.uint32 if library == "cupy" else np.int32), library)
        for what, given in (("bytes", to_gpu(codes, library)), ("words", words), ("view", wide)):
            got = mxspec_gpu.affine_dequantize(given, *others, fmt)
            tally.equal(bits_of(to_host(got)), bits_of(want), f"{fmt.name} {shape} {what}")


@pytest.mark.parametrize("offset", list(Offset))
def test_float32_scales(offset: Offset, tally: Tally) -> None:
    fmt = AffineFormat(group=64, offset=offset, dtype="float32")
    parts = draw_affine(fmt, 50, 640, 4)
    held = [rule for rule in list_contracts(fmt) if rule.dtype == "float32"]
    for rule in held:
        for dtype in DTYPES:
            got = mxspec_gpu.affine_dequantize(*send(parts), fmt, contract=rule, dtype=dtype)
            tally.equal(bits_of(to_host(got)), bits_of(expect_affine(*parts, fmt, rule.name, dtype)), f"{rule.name} {dtype}")
    got = mxspec_gpu.affine_dequantize(*send(parts), fmt, dtype="float32")
    tally.equal(bits_of(to_host(got)), bits_of(expect_affine(*parts, fmt, "exact", "float32")), "exact")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("fmt", AFFINE_FORMATS, ids=name_of)
def test_gemv_of_whole_numbers(fmt: AffineFormat, library: str, tally: Tally) -> None:
    """Sums that no order rounds."""
    kind = DTYPES[fmt.dtype]
    for number, (n, groups) in enumerate(((1, 1), (16, 2), (40, 5), (1000, 8), (129, 32))):
        k = groups * fmt.group
        parts = draw_affine(fmt, n, k, number, exact=True)
        weights = expect_affine(*parts, fmt, "exact", "float32").astype(np.float64)
        arrays = send(parts, library)
        for m in (1, 2, 8, 9, 16, 17, 64):
            x = np.random.default_rng(m).integers(-2, 3, (m, k)).astype(kind)
            given = to_gpu(x[0] if m == 1 else x, library)
            for alpha in (1.0, 0.5):
                want = (x.astype(np.float64) @ weights.T * alpha).astype(np.float32)
                y = mxspec_gpu.affine_gemv(given, *arrays, fmt, alpha=alpha, dtype="float32")
                tally.equal(to_host(y), want[0] if m == 1 else want, f"{fmt.name} {n} x {k}, {m} vectors, alpha {alpha}")


@pytest.mark.parametrize("fmt", AFFINE_FORMATS, ids=name_of)
def test_gemv_of_any_numbers(fmt: AffineFormat, tally: Tally) -> None:
    """Weights of the contract, within what the sums may round; one vector's sums do not depend on its neighbours."""
    kind = DTYPES[fmt.dtype]
    n, k = 256, 32 * fmt.group
    parts = draw_affine(fmt, n, k, 3)
    arrays = send(parts)
    weights = expect_affine(*parts, fmt, gemv_contract(fmt), fmt.dtype).astype(np.float64)
    x = np.random.default_rng(1).standard_normal((64, k)).astype(kind)
    y = {d: to_host(mxspec_gpu.affine_gemv(to_gpu(x), *arrays, fmt, dtype=d)) for d in DTYPES}
    wide = x.astype(np.float64)
    bound = (k / 16 + 8) * 17 * 2.0**-23 * (np.abs(wide) @ np.abs(weights.T))
    tally.require(bool((np.abs(y["float32"] - wide @ weights.T) <= bound).all()), f"{fmt.name}: beyond the bound")
    tally.compared += y["float32"].size
    for dtype in ("float16", "bfloat16"):
        with np.errstate(over="ignore"):
            tally.equal(bits_of(y[dtype]), bits_of(y["float32"].astype(DTYPES[dtype])), f"{fmt.name} rounded to {dtype}")
    for m in (1, 3, 8, 11, 16, 29, 48):
        part = mxspec_gpu.affine_gemv(to_gpu(x[:m]), *arrays, fmt, dtype="float32")
        tally.equal(bits_of(to_host(part)), bits_of(y["float32"][:m]), f"{fmt.name}: {m} vectors against 64")
    spoiled = x.copy()
    spoiled[5, 7] = np.nan
    y_nan = to_host(mxspec_gpu.affine_gemv(to_gpu(spoiled), *arrays, fmt, dtype="float32"))
    others = np.delete(np.arange(64), 5)
    tally.require(bool(np.isnan(y_nan[5]).all()), f"{fmt.name}: NaN")
    tally.equal(bits_of(y_nan[others]), bits_of(y["float32"][others]), f"{fmt.name}: beside a NaN")


@pytest.mark.parametrize("fmt", AFFINE_FORMATS, ids=name_of)
def test_gemv_in_every_way(fmt: AffineFormat, tally: Tally) -> None:
    """Bits do not depend on how many rows a block of threads takes, nor on whether scales travel with their codes."""
    n, k = 8200, 1536
    parts = draw_affine(fmt, n, k, 9)
    arrays = send(parts)
    x = np.random.default_rng(2).standard_normal((64, k)).astype(DTYPES[fmt.dtype])
    flat = np.concatenate([np.zeros(1, parts[1].dtype), parts[1].reshape(-1)])
    shifted = to_gpu(flat)[1:].reshape(parts[1].shape)
    whole = to_host(mxspec_gpu.affine_gemv(to_gpu(x), *arrays, fmt, dtype="float32"))
    for m in (1, 2, 16, 40, 64):
        away = mxspec_gpu.affine_gemv(to_gpu(x[:m]), arrays[0], shifted, arrays[2], fmt, dtype="float32")
        tally.equal(bits_of(to_host(away)), bits_of(whole[:m]), f"{fmt.name}: scales elsewhere, {m} vectors")
        for rows in (7, 4100, 8192):
            part = mxspec_gpu.affine_gemv(to_gpu(x[:m]), *send(tuple(p[:rows] for p in parts)), fmt, dtype="float32")
            tally.equal(bits_of(to_host(part)), bits_of(whole[:m, :rows]), f"{fmt.name}: {rows} rows, {m} vectors")


@pytest.mark.parametrize("fmt", AFFINE_FORMATS, ids=name_of)
def test_gemv_on_chips_with_less_shared_memory(fmt: AffineFormat, monkeypatch: pytest.MonkeyPatch, tally: Tally) -> None:
    """The same bits by several launches, and where x only just lies whole in what a block of this chip has."""
    n, k = 200, 1536
    parts, kind = send(draw_affine(fmt, n, k, 6)), DTYPES[fmt.dtype]
    x = np.random.default_rng(4).standard_normal((64, k)).astype(kind)
    whole = to_host(mxspec_gpu.affine_gemv(to_gpu(x), *parts, fmt, dtype="float32"))
    for memory in LESS_MEMORY:
        with monkeypatch.context() as patch:
            patch.setattr(affine, "read_shared_memory", lambda device, memory=memory: memory)
            for m in (1, 8, 16, 17, 48, 49, 64):
                part = mxspec_gpu.affine_gemv(to_gpu(x[:m]), *parts, fmt, dtype="float32")
                tally.equal(bits_of(to_host(part)), bits_of(whole[:m]), f"{fmt.name} {n} x {k}, {m} vectors, {memory}")
    for m, widths in ((2, range(31, 41)), (1, range(63, 79))):
        for k in (width << 10 for width in widths):
            wide = send(draw_affine(fmt, 40, k, 7))
            x = np.random.default_rng(5).standard_normal((m, k)).astype(kind)
            here = to_host(mxspec_gpu.affine_gemv(to_gpu(x), *wide, fmt, dtype="float32"))
            with monkeypatch.context() as patch:
                patch.setattr(affine, "read_shared_memory", lambda device: LESS_MEMORY[-1])
                parts_of_x = mxspec_gpu.affine_gemv(to_gpu(x), *wide, fmt, dtype="float32")
            tally.equal(bits_of(here), bits_of(to_host(parts_of_x)), f"{fmt.name} 40 x {k}, {m} vectors")


def test_wrong_calls(tally: Tally) -> None:
    fmt = AffineFormat(group=64)
    codes, scales, offsets = send(draw_affine(fmt, 8, 128, 1))
    x = cp().ones((2, 128), cp().float16)
    dequantize, gemv = mxspec_gpu.affine_dequantize, mxspec_gpu.affine_gemv
    calls: tuple[tuple[Any, type[Exception], str], ...] = (
        (lambda: dequantize(codes, scales, offsets, 4), TypeError, "fmt = 4 is of type int"),
        (lambda: dequantize(codes, scales.astype("float32"), offsets, fmt), TypeError, "scales have dtype float32"),
        (lambda: dequantize(codes[:, :60], scales, offsets, fmt), ValueError, "120 codes in a row"),
        (lambda: dequantize(codes, scales[:4], offsets, fmt), ValueError, "do not match for int4-g64-bias-float16"),
        (lambda: dequantize(codes, scales, offsets, fmt, contract="float8"), ValueError, "unknown contract"),
        (lambda: dequantize(codes, scales, offsets, fmt, dtype="int8"), TypeError, "allowed are the names"),
        (lambda: dequantize(codes, scales, offsets, fmt, out=codes), ValueError, "out has dtype uint8"),
        (lambda: gemv(x.astype("float32"), codes, scales, offsets, fmt), TypeError, "x has dtype float32; pass float16"),
        (lambda: gemv(x[:, :64], codes, scales, offsets, fmt), ValueError, "do not match; pass codes of N rows"),
        (lambda: gemv(cp().ones((65, 128), cp().float16), codes, scales, offsets, fmt), ValueError, "x has 65 vectors"),
        (lambda: gemv(x, codes, scales, offsets, "int4-g16-bias-float16"), ValueError, "groups of a multiple of 32"),
        (lambda: gemv(x, codes, scales, offsets, fmt, alpha=x), ValueError, "alpha has dtype float16"),
    )
    for call, kind, words in calls:
        message = message_of(call, kind)
        tally.require(words in message, message)
