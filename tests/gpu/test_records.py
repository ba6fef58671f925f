"""ggml's records: values, packed codes, and back; tensors of GGUF files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mxspec
import mxspec_gpu
from mxspec import layouts
from mxspec.containers import write
from mxspec_gpu.records import RECORDS

from tests.gpu.arithmetic import DTYPES, pack
from tests.gpu.compare import message_of
from tests.gpu.device import LIBRARIES, Array, Guarded, Tally, bits_of, require_gpu, to_gpu, to_host

pytestmark = pytest.mark.gpu
require_gpu()


def draw(fmt: str, rows: int, records: int, seed: int) -> tuple[Array, Array, Array]:
    """Codes, scales and their records [rows, bytes]."""
    rng = np.random.default_rng(seed)
    _size, elements = RECORDS[fmt]
    codes = rng.integers(0, 16, (rows, records * elements), dtype=np.uint8)
    top = 256 if fmt == "mxfp4" else 128
    scales = np.resize(rng.permutation(top).astype(np.uint8), (rows, codes.shape[1] // mxspec.BLOCKS[fmt].k))
    return codes, scales, layouts.pack_blocks(codes, scales, f"ggml-{fmt}").reshape(rows, -1)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("fmt", list(RECORDS))
def test_every_code_under_every_scale(fmt: str, library: str, tally: Tally) -> None:
    """Values of random codes under all scale bytes; any number of records, at any address."""
    for number, (rows, records) in enumerate(((1, 1), (1, 257), (7, 33), (300, 64), (1024, 256))):
        codes, scales, data = draw(fmt, rows, records, number)
        for dtype, kind in DTYPES.items():
            want = mxspec.dequantize(codes, scales, fmt, dtype=kind)
            label = f"{fmt} {rows} x {records} {library} {dtype}"
            got = mxspec_gpu.dequantize_records(to_gpu(data, library), fmt, dtype=dtype)
            tally.equal(bits_of(to_host(got)), bits_of(want), label)
            if library == "cupy":
                guarded = Guarded((want.nbytes,))
                out = guarded.arrays[0].view(kind).reshape(want.shape)
                shifted = to_gpu(np.concatenate([[np.uint8(7)], data.reshape(-1)]))[1:].reshape(data.shape)
                mxspec_gpu.dequantize_records(shifted, fmt, dtype=dtype, out=out)
                tally.equal(bits_of(to_host(out)), bits_of(want), f"{label} off by one")
                tally.require(guarded.intact(), f"{label}: wrote outside its output")


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("fmt", list(RECORDS))
def test_there_and_back(fmt: str, library: str, tally: Tally) -> None:
    for number, (rows, records) in enumerate(((1, 1), (3, 85), (64, 128), (1000, 77))):
        codes, scales, data = draw(fmt, rows, records, number)
        got_codes, got_scales = mxspec_gpu.unpack_records(to_gpu(data, library), fmt)
        tally.equal(to_host(got_codes), pack(codes, 4), f"{fmt} codes")
        tally.equal(to_host(got_scales), scales, f"{fmt} scales")
        tally.equal(to_host(mxspec_gpu.pack_records(got_codes, got_scales, fmt)), data, f"{fmt} records")


@pytest.mark.parametrize("fmt", list(RECORDS))
def test_quantized(fmt: str, tally: Tally) -> None:
    x = np.random.default_rng(1).standard_normal((33, 640)).astype(np.float32)
    q = mxspec.quantize(x, fmt)
    want = layouts.pack_blocks(q.codes, q.scales, f"ggml-{fmt}").reshape(33, -1)
    tally.equal(to_host(mxspec_gpu.quantize_records(to_gpu(x), fmt)), want, fmt)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("fmt", list(RECORDS))
def test_files(fmt: str, library: str, tmp_path: Path, tally: Tally) -> None:
    """What a file holds is what `mxspec.containers` wrote."""
    x = np.random.default_rng(2).standard_normal((48, 512)).astype(np.float32)
    q = mxspec.quantize(x, fmt)
    write(tmp_path / "model.gguf", {"blk.0.ffn_up": q}, "gguf")
    tensor = mxspec_gpu.read_gguf(tmp_path / "model.gguf", "blk.0.ffn_up.weight", library=library)
    tally.require(tensor.format == fmt, tensor.format)
    tally.equal(bits_of(to_host(tensor.dequantize("float32"))), bits_of(mxspec.dequantize(q.codes, q.scales, fmt)), fmt)
    codes, scales = tensor.unpack()
    tally.equal(to_host(codes), pack(q.codes, 4), f"{fmt} codes")
    tally.equal(to_host(scales), q.scales, f"{fmt} scales")
    for call, kind, words in (
        (lambda: mxspec_gpu.read_gguf(tmp_path / "model.gguf", "other"), KeyError, "has no tensor 'other'"),
        (lambda: mxspec_gpu.read_gguf(tmp_path / "model.gguf", "x", library="jax"), ValueError, "allowed are cupy, torch"),
    ):
        message = message_of(call, kind)
        tally.require(words in message, message)


def test_wrong_calls(tally: Tally) -> None:
    data = to_gpu(np.zeros((2, 34), np.uint8))
    codes, scales = to_gpu(np.zeros((2, 24), np.uint8)), to_gpu(np.zeros((2, 3), np.uint8))
    calls: tuple[tuple[Any, type[Exception], str], ...] = (
        (lambda: mxspec_gpu.dequantize_records(data, "mxfp8_e4m3"), ValueError, "has no records here; allowed are mxfp4, nvfp4"),
        (lambda: mxspec_gpu.dequantize_records(data[:, :33], "mxfp4"), ValueError, "multiple of 17 bytes, 32 values each"),
        (lambda: mxspec_gpu.dequantize_records(data.astype("int32"), "mxfp4"), TypeError, "records have dtype int32"),
        (lambda: mxspec_gpu.dequantize_records(data, "mxfp4", dtype="int8"), TypeError, "allowed are the names"),
        (lambda: mxspec_gpu.dequantize_records(data, "mxfp4", out=codes), ValueError, "out has dtype uint8"),
        (lambda: mxspec_gpu.pack_records(codes, scales, "nvfp4"), ValueError, "a record of nvfp4 holds 64"),
    )
    for call, kind, words in calls:
        message = message_of(call, kind)
        tally.require(words in message, message)
