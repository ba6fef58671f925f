"""How fast products and stored weights are: `python -m mxspec_gpu.bench_products --out FILE`. Needs torch as well as CuPy.

Measured as in `mxspec_gpu.bench`: shares of the copy (or of the read bandwidth) and of the mix of the same run, launches taking
turns on three sets of buffers or more. Products that allocate or that cuBLAS keeps out of a graph are timed call by call. An
exact product is compared with the model on some of its outputs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from mxspec import dot
from mxspec.affine import AffineFormat, Offset
from mxspec.formats import get_block
from mxspec_gpu import affine, api, exact, experts, lookup, products, records, sparse
from mxspec_gpu.bench_reports import run_command
from mxspec_gpu.bench_rows import Row, describe_timing, draw_affine, draw_blocks, draw_bytes, draw_values, measure_row
from mxspec_gpu.ceilings import Ceilings
from mxspec_gpu.gemv_tunings import MOST_VECTORS
from mxspec_gpu.kernels import list_instantiations
from mxspec_gpu.product_kernels import list_product_kernels
from mxspec_gpu.tasks import LARGE, MIDDLE, Shape
from mxspec_gpu.timing import LEAST_SETS, Call, count_sets, import_torch, measure

#: Of the exact product: most seconds, and those aimed at.
EXACT_MOST, EXACT_GOAL = 0.3, 0.15
#: Rows and columns of an exact product that are compared with the model.
COMPARED = 64
#: Share of the read bandwidth that affine products with one vector are to reach.
AFFINE_GOAL = 70
#: The same of block-scaled ones.
VECTOR_GOALS = {"mxfp4": 78, "nvfp4": 72}
#: Rows of experts: how many, how long, and of how many.
EXPERT_ROWS, EXPERT_COLUMNS, EXPERTS = 16384, 8192, 128
#: Rows of x of the products.
ROWS = (1, 4, 8, 16, 32, 48, 64, 128, 256, 512, 1024, 2048, 8192)
#: How much slower than the faster way a product may be measured to be: two measurements of one call differ by as much.
NOISE = 1.03


def measure_exact() -> list[Row]:
    """Exact products of 8192**3, and how many of their outputs are certain."""
    torch, rows = import_torch(), []
    m = k = 8192
    for fmt in ("nvfp4", "mxfp4"):
        sides = []
        for _ in range(2):
            q = api.quantize(draw_values(m, k), fmt, tensor_scale="auto" if fmt == "nvfp4" else None)
            sides.append(exact.Operand(q.codes, q.scales, fmt))
        timing = measure([partial(exact.exact_product, *sides)], capture=False, replays=7)
        product = exact.exact_product(*sides)
        at = torch.randperm(m)[:COMPARED].sort().values.cuda()
        factors = []
        for side in sides:
            codes = api.unpack(side.codes[at], fmt).cpu().numpy()
            factors.append(dot.block_factor(codes, side.scales[at].cpu().numpy(), fmt))
        sums = dot.sum_products(*factors)
        part = {name: getattr(product, name)[at][:, at].cpu().numpy() for name in ("values", "certain", "unit")}
        fits = sums.fits(53)
        different = int((part["certain"] != fits).sum()) + int((part["unit"] != sums.unit).sum())
        different += int((part["values"][fits].view(np.uint64) != sums.nearest[fits].view(np.uint64)).sum())
        row = {
            "name": f"{fmt} exact product", "size": m, **describe_timing(timing),
            "certain": float(product.certain.double().mean()), "compared": 3 * fits.size, "different": different,
            "most": EXACT_MOST * 1e6, "goal": EXACT_GOAL * 1e6,
        }  # fmt: skip
        rows.append(row)
        print(
            f"{row['name']}: {row['microseconds'] / 1e3:.1f} ms, {row['certain']:.4%} certain, {different} of {row['compared']} different",
            flush=True,
        )
        del product, sides, factors
        torch.cuda.empty_cache()
    return rows


def measure_affine(ceilings: Ceilings) -> list[Row]:
    """Products of affine weights with vectors, and their dequantizing."""
    rows = []
    for group in (64, 128):
        for fmt in (AffineFormat(group=group, offset=o, dtype=d) for o in Offset for d in ("float16", "bfloat16")):
            codes, groups = LARGE[0] * LARGE[1] // 2, LARGE[0] * LARGE[1] // group
            read = codes + groups * (3 if fmt.offset is Offset.ZERO else 4)
            parts = [draw_affine(fmt, LARGE) for _ in range(count_sets(read))]
            for batch in (1, 8, 16, 64) if fmt.dtype == "bfloat16" else (1,):
                x = draw_values(batch, LARGE[1], dtype=fmt.dtype)
                outs = [draw_values(batch, LARGE[0], dtype=fmt.dtype) for _ in parts]
                calls: list[Call] = [partial(affine.affine_gemv, x, *p, fmt, out=out) for p, out in zip(parts, outs, strict=True)]
                row = measure_row(f"{fmt.name} product with {batch} vectors", LARGE, (read, 0), calls, ceilings)
                rows.append(row | ({"goal": AFFINE_GOAL} if batch == 1 else {}))
            if fmt.dtype == "bfloat16":
                targets = [draw_values(*LARGE) for _ in parts[:LEAST_SETS]]
                calls = [partial(affine.affine_dequantize, *p, fmt, out=out) for p, out in zip(parts, targets, strict=False)]
                rows.append(measure_row(f"{fmt.name} dequantize", LARGE, (read, 2 * LARGE[0] * LARGE[1]), calls, ceilings))
                del targets
            del parts, calls
            import_torch().cuda.empty_cache()
    return rows


def measure_records(ceilings: Ceilings) -> list[Row]:
    """ggml's records to numbers, to packed codes, and from them."""
    rows, count = [], LARGE[0] * LARGE[1]
    for fmt, (size, elements) in records.RECORDS.items():
        held, block = count // elements * size, get_block(fmt)
        packed = count // 2 + count // block.k
        blocks = [draw_blocks(fmt, LARGE) for _ in range(LEAST_SETS + 1)]
        data = [records.pack_records(*b, fmt) for b in blocks]
        outs = [draw_values(*LARGE) for _ in data]
        values: list[Call] = [partial(records.dequantize_records, d, fmt, out=out) for d, out in zip(data, outs, strict=True)]
        rows.append(measure_row(f"{fmt} records dequantize", LARGE, (held, 2 * count), values, ceilings))
        del outs, values
        import_torch().cuda.empty_cache()
        apart: list[Call] = [partial(records.unpack_records, d, fmt) for d in data]
        rows.append(measure_row(f"{fmt} records to packed codes", LARGE, (held, packed), apart, ceilings))
        together: list[Call] = [partial(records.pack_records, *b, fmt) for b in blocks]
        rows.append(measure_row(f"{fmt} packed codes to records", LARGE, (packed, held), together, ceilings))
        del blocks, data, apart, together
        import_torch().cuda.empty_cache()
    return rows


def measure_sparse(ceilings: Ceilings) -> list[Row]:
    """2:4 sparse codes to dense numbers."""
    rows, (n, k) = [], LARGE
    legal = import_torch().tensor([4, 8, 9, 12, 13, 14], device="cuda", dtype=import_torch().uint8)
    for fmt in ("mxfp4", "nvfp4"):
        calls: list[Call] = []
        for _ in range(LEAST_SETS + 1):
            low, high = (legal[import_torch().randint(0, 6, (n, k // 8), device="cuda")] for _ in range(2))
            scales = draw_blocks(fmt, LARGE)[1]
            calls.append(partial(sparse.sparse_dequantize, draw_bytes(n, k // 4), low | high << 4, scales, fmt, out=draw_values(n, k)))
        moved = n * k // 4 + n * k // 8 + n * k // get_block(fmt).k, 2 * n * k
        rows.append(measure_row(f"{fmt} 2:4 sparse dequantize", LARGE, moved, calls, ceilings))
        del calls
    return rows


def measure_lookups(ceilings: Ceilings) -> list[Row]:
    """Block-scaled weights where they lie, in the same run as the affine ones."""
    rows = []
    for fmt, goal in VECTOR_GOALS.items():
        read = LARGE[0] * LARGE[1] // 2 + LARGE[0] * LARGE[1] // get_block(fmt).k
        parts = [draw_blocks(fmt, LARGE) for _ in range(count_sets(read))]
        for batch in (1, 8, 16, 32, 64):
            x, outs = draw_values(batch, LARGE[1]), [draw_values(batch, LARGE[0]) for _ in parts]
            calls: list[Call] = [partial(lookup.gemv, x, *p, fmt, out=out) for p, out in zip(parts, outs, strict=True)]
            row = measure_row(f"{fmt} product with {batch} vectors", LARGE, (read, 0), calls, ceilings)
            rows.append(row | ({"goal": goal} if batch == 1 else {}))
        del parts
    return rows


@dataclass(frozen=True, slots=True)
class _Weights:
    """Weights of the products: how to draw them, and the ways of using them; each takes the parts of a drawing last."""

    name: str
    draw: Callable[[Shape], tuple[Any, ...]]
    #: (x, out, parts): the product.
    gemm: Callable[[Any, Any, tuple[Any, ...]], Any]
    #: (numbers, parts): dequantize.
    numbers: Callable[[Any, tuple[Any, ...]], Any]
    #: (x, out, parts): at most MOST_VECTORS rows.
    vectors: Callable[[Any, Any, tuple[Any, ...]], Any]


def _block_weights(name: str) -> _Weights:
    return _Weights(
        name, partial(draw_blocks, name),
        lambda x, out, p: products.gemm(x, p[0], p[1], name, out=out),
        lambda out, p: api.dequantize(p[0], p[1], name, out=out),
        lambda x, out, p: lookup.gemv(x, p[0], p[1], name, out=out),
    )  # fmt: skip


def _affine_weights(fmt: AffineFormat) -> _Weights:
    contract = affine.gemv_contract(fmt)
    return _Weights(
        fmt.name, partial(draw_affine, fmt),
        lambda x, out, p: products.gemm(x, p[0], p[1], fmt, offsets=p[2], out=out),
        lambda out, p: affine.affine_dequantize(p[0], p[1], p[2], fmt, contract=contract, out=out),
        lambda x, out, p: affine.affine_gemv(x, p[0], p[1], p[2], fmt, out=out),
    )  # fmt: skip


def measure_products() -> list[Row]:
    """`gemm` against both of its ways: dequantize and torch's product, and the weights where they lie, as many rows at a time as a launch takes."""
    torch, rows, (n, k) = import_torch(), [], MIDDLE
    for weights in (_block_weights("mxfp4"), _block_weights("nvfp4"), _affine_weights(AffineFormat(group=64, dtype="bfloat16"))):
        sets = [weights.draw(MIDDLE) for _ in range(14)]
        numbers = torch.empty(n, k, device="cuda", dtype=torch.bfloat16)

        def apart(x: Any, out: Any, p: tuple[Any, ...], *, weights: _Weights = weights, numbers: Any = numbers) -> None:
            weights.numbers(numbers, p)
            torch.matmul(x, numbers.t(), out=out)

        def vectors(x: Any, out: Any, p: tuple[Any, ...], *, weights: _Weights = weights) -> None:
            for first in range(0, len(x), MOST_VECTORS):
                weights.vectors(x[first : first + MOST_VECTORS], out[first : first + MOST_VECTORS], p)

        for m in ROWS:
            used = sets if m <= 512 else sets[:4]
            x, outs = draw_values(m, k), [draw_values(m, n) for _ in used]
            ways = {"gemm": weights.gemm, "dequantize and multiply": apart} | ({"vectors": vectors} if m <= 256 else {})
            timings = {what: measure([partial(way, x, out, p) for p, out in zip(used, outs, strict=True)]) for what, way in ways.items()}
            others = min(t.median for what, t in timings.items() if what != "gemm")
            row = {
                "name": f"{weights.name} product with {m} rows", "size": n, **describe_timing(timings["gemm"]),
                "others": {what: describe_timing(t) for what, t in timings.items() if what != "gemm"},
                "times_the_faster": round(timings["gemm"].median / others, 3), "most_times": NOISE,
            }  # fmt: skip
            rows.append(row)
            said = ", ".join(f"{what} {t.median * 1e6:.1f}" for what, t in timings.items())
            print(f"{row['name']:44} {said} us: {row['times_the_faster']}", flush=True)
            del outs
        del sets, numbers
        torch.cuda.empty_cache()
    return rows


def measure_experts() -> list[Row]:
    """Rows sorted by expert in one launch, against a call for each of them; and the same rows as one matrix."""
    torch, rows = import_torch(), []
    # No two are alike, some have none: what routing gives.
    drawn = np.random.default_rng(1).multinomial(EXPERT_ROWS, np.random.default_rng(2).dirichlet(np.full(EXPERTS, 0.5)))
    counts = [int(n) for n in drawn]
    firsts = np.cumsum([0, *counts])
    for fmt, tensor in (("mxfp4", None), ("nvfp4", "auto")):
        sets = [draw_values(EXPERT_ROWS, EXPERT_COLUMNS) for _ in range(LEAST_SETS)]

        def apart(x: Any, *, fmt: str = fmt, tensor: str | None = tensor) -> None:
            for first, last in pairwise(firsts):
                if first < last:
                    api.quantize(x[first:last], fmt, tensor_scale=tensor, scale_layout="128x4")

        timings = {}
        for what, way in (
            ("experts", lambda x, fmt=fmt, tensor=tensor: experts.quantize_experts(x, counts, fmt, tensor_scales=tensor)),
            ("a call for each", apart),
            ("one matrix", lambda x, fmt=fmt, tensor=tensor: api.quantize(x, fmt, tensor_scale=tensor, scale_layout="128x4")),
        ):
            timings[what] = measure([partial(way, x) for x in sets], capture=False)
        row = {
            "name": f"{fmt} rows of {EXPERTS} experts", "size": EXPERT_ROWS, "columns": EXPERT_COLUMNS, **describe_timing(timings["experts"]),
            "others": {what: describe_timing(t) for what, t in timings.items() if what != "experts"},
        }  # fmt: skip
        rows.append(row)
        print(f"{row['name']:44} " + ", ".join(f"{what} {t.median * 1e6:.1f}" for what, t in timings.items()) + " us", flush=True)
        del sets
        torch.cuda.empty_cache()
    return rows


def _measure(ceilings: Ceilings) -> list[Row]:
    return [
        *measure_exact(), *measure_affine(ceilings), *measure_lookups(ceilings), *measure_records(ceilings), *measure_sparse(ceilings),
    ]  # fmt: skip


def main() -> int:
    """Measure and write the report."""
    levels = (("mx-floor", "mxfp4", False), ("nvfp4-te", "nvfp4", False), ("nvfp4-te", "nvfp4", True))
    what = "products and stored weights: time, and shares of the bandwidths and ceilings of the same run"
    parts = {"rows": _measure, "products": lambda _: measure_products(), "experts": lambda _: measure_experts()}
    return run_command(__doc__, what, [*list_product_kernels(), *list_instantiations(levels, (0,))], parts)


if __name__ == "__main__":
    sys.exit(main())
