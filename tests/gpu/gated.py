"""Inputs of fused functions that have one value under any way to compute them as exactly as the kernels do; and which answers are legal."""

from __future__ import annotations

import numpy as np

from mxspec.formats import get_block
from mxspec.fused.contracts import get_contract
from mxspec.fused.evaluating import evaluate
from mxspec.fused.functions import FUNCTIONS
from mxspec.fused.legality import Legality, judge_answer
from mxspec.profiles import get_profile
from mxspec.tensorscale import TensorScale

from tests.gpu.arithmetic import DTYPES, FORMAT_LEVELS, GROUP_LEVELS, Level
from tests.gpu.device import Array

#: One level of each format.
FUSED_LEVELS = (*FORMAT_LEVELS, GROUP_LEVELS[1], GROUP_LEVELS[3], GROUP_LEVELS[-1])
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


def draw_norm(dtype: str, rows: int, k: int, seed: int, *, exact: bool = True) -> tuple[Array, Array]:
    """x [rows, k] and a weight [k]. exact: of rows of whole numbers times a power of two each, whose squares float32 adds exactly."""
    rng, kind = np.random.default_rng(seed), DTYPES[dtype]
    largest = min(31, int((2**24 / k) ** 0.5))
    numbers = rng.integers(-largest, largest + 1, (rows, k)) if exact else rng.standard_normal((rows, k))
    x = numbers * np.exp2(rng.integers(-9, 10, (rows, 1)))
    return x.astype(kind), (rng.choice([-1.0, 1.0], k) * np.exp2(rng.uniform(-4, 4, k))).astype(kind)


def normalize(x: Array, weight: Array, eps: float) -> Array:
    """RMSNorm as the kernels' order has it, of rows whose sum of squares is exact."""
    total = np.square(x.astype(np.float64)).sum(axis=1, keepdims=True)
    assert (total.astype(np.float32) == total).all(), "a sum that is not exact in float32"
    r = np.float32(1) / np.sqrt(total.astype(np.float32) / np.float32(x.shape[1]) + np.float32(eps))
    y = (x.astype(np.float32) * r).astype(x.dtype)
    return (y.astype(np.float32) * weight.astype(np.float32)).astype(x.dtype)


def judge_norm(
    level: Level, x: Array, weight: Array, eps: float, codes: Array, scales: Array, tensor_scale: TensorScale | None
) -> Legality:  # fmt: skip
    """What of codes, one a byte, and scales is legal of RMSNorm under the kernels' contract."""
    function = FUNCTIONS["rmsnorm"]
    contract = get_contract(f"any-2ulp+inner-{x.dtype}+product-{x.dtype}", function)
    fmt, found = get_block(level[1]), evaluate(function, contract, {"x": x, "weight": weight}, float(np.float32(eps)))
    return judge_answer(found, scales, codes, fmt, get_profile(level[0], fmt.name), tensor_scale)
