"""Right kernels with affine and sparse sides: every contract, order and form that is left open."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mxspec.dot import Order
from mxspec_lab.products.kernels import Floats, add_double
from mxspec_lab.products.kinds import KindKernel, add_bias, by_float32, fuse_bias, subtract_products, subtract_zero
from mxspec_lab.products.right import ALL, simulate as simulate_blocks

simulate = partial(simulate_blocks, least=-126)
BIAS, ZERO = ("float16", "int4-g32-bias-float16"), ("float16", "int4-g32-zero-float16")
SPARSE = ("bfloat16", "mxfp4-2to4")


def by_groups(form: str, a: Floats, q: Floats, s: Floats, o: Floats, group: int) -> Floats:
    """Sums of each group in float32, scaled and added group by group: no number of b is ever formed."""
    x = a.astype(np.float32)
    total = np.zeros((len(a), len(q)), np.float32)
    for start in range(0, a.shape[1], group):
        run = slice(start, start + group)
        scale, offset = (part[:, start].astype(np.float32) for part in (s, o))
        if form == "differences":
            total = total + x[:, run] @ (q[:, run] - o[:, run]).astype(np.float32).T * scale
            continue
        codes, ones = x[:, run] @ q[:, run].astype(np.float32).T, x[:, run].sum(axis=1, dtype=np.float32)[:, None]
        total = total + (codes * scale + ones * offset if form == "bias" else scale * (codes - offset * ones))
    return total.astype(np.float64)


def zero_steps(**steps: Any) -> dict[str, Any]:
    """The steps of a kernel of zero points, some replaced."""
    return {"product": ZERO, "number": partial(subtract_zero, "float32")} | steps


RIGHT_KINDS: tuple[KindKernel, ...] = (
    KindKernel(name="bias, float32", out_dtypes=ALL),
    KindKernel(name="bias, fma in float32", number=partial(fuse_bias, "float32"), contract="float32-fma"),
    KindKernel(name="bias, float16", number=partial(add_bias, "float16"), contract="float16"),
    KindKernel(name="bias, float16, not declared", number=partial(add_bias, "float16")),
    KindKernel(name="bias, fma in float16", number=partial(fuse_bias, "float16")),
    KindKernel(name="bias, bfloat16 of bfloat16 scales", number=partial(add_bias, "bfloat16"), product=("bfloat16", "int4-g32-bias-bfloat16")),
    KindKernel(name="bias, float32 then bfloat16", number=partial(by_float32, "bfloat16"), product=("bfloat16", "int4-g32-bias-float16")),
    KindKernel(name="bias, group by group", whole=partial(by_groups, "bias")),
    KindKernel(name="bias, float64", add=add_double, number=partial(fuse_bias, "float64")),
    KindKernel(name="bias, pairs", add=partial(simulate, "float32-nearest", order=Order.PAIRS), accumulator="float32-nearest"),
    KindKernel(name="bias, backward", add=partial(simulate, "float32-nearest", order=Order.BACKWARD), accumulator="float32-nearest"),
    KindKernel(name="bias, tensor cores", number=partial(add_bias, "float16"), add=partial(simulate, "fused-f25-16"), accumulator="fused-f25-16"),
    KindKernel(name="bias of a", product=BIAS[::-1], side="a"),
    KindKernel(name="zero, float32", **zero_steps(out_dtypes=ALL)),
    KindKernel(name="zero, float16", **zero_steps(number=partial(subtract_zero, "float16"))),
    KindKernel(name="zero, products in float16", **zero_steps(number=partial(subtract_products, "float16"))),
    KindKernel(name="zero, group by group", **zero_steps(whole=partial(by_groups, "zero"))),
    KindKernel(name="zero, differences group by group", **zero_steps(whole=partial(by_groups, "differences"))),
    KindKernel(name="zero, AWQ", **zero_steps(product=("float16", "int4-g32-zero-float16/awq+awq-zeros+transposed"))),
    KindKernel(name="zero, GPTQ", **zero_steps(product=("float16", "int4-g32-zero-float16/gptq+gptq-v1-zeros+transposed"))),
    KindKernel(name="zero, Marlin", **zero_steps(product=("float16", "int4-g32-zero-float16/marlin"))),
    KindKernel(name="zero, 8 bits", **zero_steps(product=("float16", "int8-g32-zero-float16"))),
    KindKernel(name="3-bit words of float32", product=("float32", "int3-g32-bias-float32/words")),
    KindKernel(name="2 bits of both sides", product=("int2-g16-zero-float16", "int2-g16-zero-float16"), number=partial(subtract_zero, "float32")),
    KindKernel(name="2:4 of MXFP4", product=SPARSE, out_dtypes=ALL),
    KindKernel(name="2:4 of MXFP4 in Metal Marlin's layouts", product=("float16", "mxfp4-2to4/metal-marlin-values+metal-marlin-metadata")),
    KindKernel(name="2:4 of MXFP8, tensor cores", product=("mxfp8_e4m3", "mxfp8_e4m3-2to4"), add=partial(simulate, "fused-f25-32"), accumulator="fused-f25-32"),
    KindKernel(name="4:8 of NVFP4", product=("nvfp4", "nvfp4-4to8")),
    KindKernel(name="2:4 of float16", product=("float16", "float16-2to4")),
    KindKernel(name="2:4 of affine integers", product=("float16", "int4-g32-bias-float16-2to4")),
    KindKernel(name="2:4 of affine integers with zero points", **zero_steps(product=("float16", "int4-g32-zero-float16-2to4"))),
    KindKernel(name="2:4 of a", product=("mxfp4-2to4", "bfloat16"), side="a"),
)  # fmt: skip
