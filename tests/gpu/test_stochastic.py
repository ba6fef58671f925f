"""Stochastic rounding: explicit words of 32 and 8 bits, and bytes from the counter, against the model."""

from __future__ import annotations

import numpy as np
import pytest

import mxspec_gpu

from tests.gpu.arithmetic import DTYPES, LEVELS, Level, level_id, native_values, random_blocks, rules_of
from tests.gpu.compare import compare, compare_arrays, expect, gpu_tensor, layouts_of
from tests.gpu.device import SEED, Tally, require_gpu, to_gpu
from tests.test_gpu_arithmetic import counter_bytes

pytestmark = pytest.mark.gpu
require_gpu()


@pytest.mark.parametrize("level", LEVELS, ids=level_id)
def test_stochastic(level: Level, tally: Tally) -> None:
    k = rules_of(level).fmt.k
    native = native_values(rules_of(level))[0]
    rng = np.random.default_rng(SEED)
    for dtype in DTYPES:
        blocks = random_blocks(dtype, k, 600, SEED)
        x = np.where(np.isnan(blocks.astype(np.float32)), 1, blocks).astype(blocks.dtype).reshape(-1, 3 * k)
        words = rng.integers(0, 1 << 32, x.shape, dtype=np.uint32)
        for bits in (32, 8):
            compare(tally, level, x, native, options={"random_bits": words, "sr_bits": bits}, label=f"words of {bits}")
        for seed in (0x0123456789ABCDEF, (1 << 64) - 1):
            counted = counter_bytes(seed, x.size).astype(np.uint32).reshape(x.shape)
            want = expect(level, x, native, random_bits=counted, sr_bits=8)
            shifted = to_gpu(np.concatenate([x.reshape(-1)[:1], x.reshape(-1)]))[1:].reshape(x.shape)
            for layout in layouts_of(level):
                for given, what in ((to_gpu(x), "seed"), (shifted, "seed, off by one element")):
                    q = mxspec_gpu.quantize(
                        given, level[1], profile=level[0], tensor_scale=gpu_tensor(level, native), seed=seed, scale_layout=layout
                    )
                    compare_arrays(tally, (q.codes, q.scales), want, layout, f"{level_id(level)} {dtype} {what} {layout}")
