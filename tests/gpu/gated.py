"""Gates and ups whose SiLU(gate) * up has one value under any way to compute the SiLU that is as exact as the kernels'."""

from __future__ import annotations

import numpy as np

from tests.gpu.arithmetic import DTYPES
from tests.gpu.device import Array

#: Units in the last place of float32 by which SiLU may be off: 2 + 1.173 |x| of exp2, as `any-fast` has it, the others' one each.
_ULPS, _MORE = 6.0, 1.173


def round_silu(gates: Array) -> tuple[Array, Array]:
    """SiLU of 16-bit numbers rounded to their type, and whether every value within the bound is rounded to it."""
    with np.errstate(all="ignore"):
        x = gates.astype(np.float64)
        exact = x / (1 + np.exp(-x))
        margin = np.abs(exact) * ((_ULPS + _MORE * np.abs(x)) * 2.0**-23)
        low, high = (e.astype(np.float32).astype(gates.dtype) for e in (exact - margin, exact + margin))
    return low, (low == high) & np.isfinite(exact) & (np.abs(x) < 88)


def draw_gated(dtype: str, rows: int, k: int, seed: int) -> tuple[Array, Array]:
    """x [rows, 2 k], every gate of the dtype that is decided as often as any other; and SiLU(gate) * up, rounded twice."""
    rng, kind = np.random.default_rng(seed), DTYPES[dtype]
    every = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(kind)
    known = every[round_silu(every)[1]]
    gates = rng.permutation(np.resize(known, rows * k)).reshape(rows, k)
    ups = (rng.choice([-1.0, 1.0], gates.shape) * np.exp2(rng.uniform(-6, 6, gates.shape))).astype(kind)
    with np.errstate(all="ignore"):
        # The product of two such numbers is exact in float64, and in float32 where its rounding could depend on it.
        f = (round_silu(gates)[0].astype(np.float64) * ups.astype(np.float64)).astype(np.float32).astype(kind)
    return np.concatenate([gates, ups], axis=1), f
