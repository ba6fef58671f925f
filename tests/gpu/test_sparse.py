"""Sparse codes to dense numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mxspec
import mxspec_gpu
from mxspec.sparsity import SparseTensor, Sparsity

from tests.gpu.arithmetic import DTYPES, pack
from tests.gpu.compare import message_of
from tests.gpu.device import LIBRARIES, Tally, bits_of, require_gpu, to_gpu, to_host

pytestmark = pytest.mark.gpu
require_gpu()


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("sparsity", list(Sparsity))
@pytest.mark.parametrize("fmt", ["mxfp4", "nvfp4", "nvfp4 with a tensor scale"])
def test_values(fmt: str, sparsity: Sparsity, library: str, tally: Tally) -> None:
    """Quantized tensors, pruned: every dtype, ragged counts; some scales are NaN."""
    name, two = fmt[:5], len(fmt) > 5
    for number, shape in enumerate(((1, 32), (7, 96), (3, 5, 480), (256, 2048))):
        x = np.random.default_rng(number).standard_normal(shape).astype(np.float32)
        if number:
            x[..., 1, 3] = np.nan
        dense = mxspec.quantize(x, name, tensor_scale="auto" if two else None)
        tensor = SparseTensor.from_blocks(dense, sparsity=sparsity)
        rows = int(np.prod(shape[:-1]))
        kept, nibbles = (to_gpu(pack(a.reshape(rows, -1), 4).reshape(*shape[:-1], -1), library) for a in (tensor.kept, tensor.metadata))
        scales = to_gpu(dense.scales, library)
        for dtype, kind in DTYPES.items():
            got = mxspec_gpu.sparse_dequantize(kept, nibbles, scales, name, sparsity=sparsity, tensor_scale=dense.tensor_scale, dtype=dtype)
            tally.equal(bits_of(to_host(got)), bits_of(tensor.dequantize(kind)), f"{fmt} {sparsity} {shape} {library} {dtype}")


@pytest.mark.parametrize("sparsity", list(Sparsity))
def test_illegal_nibbles(sparsity: Sparsity, tally: Tally) -> None:
    """A group of one is NaN, its neighbours are what they are."""
    nibbles = np.resize(np.arange(16, dtype=np.uint8), 16 * sparsity.group)
    k = nibbles.size * sparsity.group
    kept = np.full(k // 2, 2, np.uint8)
    y = to_host(
        mxspec_gpu.sparse_dequantize(
            to_gpu(pack(kept[None], 4)[0]), to_gpu(pack(nibbles[None], 4)[0]), to_gpu(np.full(k // 32, 127, np.uint8)), "mxfp4",
            sparsity=sparsity, dtype="float32",
        )
    )  # fmt: skip
    illegal = mxspec.sparsity.find_illegal(nibbles)
    tally.equal(np.isnan(y), np.repeat(illegal, sparsity.group), "NaN")
    tally.equal(np.nansum(y.reshape(-1, sparsity.group), axis=1), np.where(illegal, 0, sparsity.group // 2).astype(np.float32), "sums")


def test_wrong_calls(tally: Tally) -> None:
    kept, nibbles, scales = (to_gpu(np.zeros((4, n), np.uint8)) for n in (16, 8, 2))
    call = mxspec_gpu.sparse_dequantize
    calls: tuple[tuple[Any, type[Exception], str], ...] = (
        (lambda: call(kept, nibbles, scales, "mxfp8_e4m3"), ValueError, "sparse codes are of mxfp4 or nvfp4 here"),
        (lambda: call(kept, nibbles[:, :4], scales, "mxfp4"), ValueError, "pass metadata of shape (4, 8)"),
        (lambda: call(kept[:, :12], nibbles, scales, "mxfp4"), ValueError, "K = 48 is not a multiple of the 32-element block"),
        (lambda: call(kept.view("int8"), nibbles, scales, "mxfp4"), TypeError, "all are uint8"),
        (lambda: call(kept, nibbles, scales, "mxfp4", sparsity="1:2"), ValueError, "unknown sparsity '1:2'"),
        (lambda: call(kept, nibbles, scales, "mxfp4", out=kept), ValueError, "out has dtype uint8"),
    )
    for wrong, kind, words in calls:
        message = message_of(wrong, kind)
        tally.require(words in message, message)
