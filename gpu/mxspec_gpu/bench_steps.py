"""How fast the documents' steps and sparse products are, and what their claims yield: `python -m mxspec_gpu.bench_steps --out FILE`.

Measured as in `mxspec_gpu.bench`, each step next to the kernel that it leads to, in one run: shares of the copy (or of the read
bandwidth) and of the mix. "measurements" are single numbers that `reports/claims.md` holds against what documents say. Needs torch as
well as CuPy.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from mxspec.affine import AffineFormat
from mxspec.formats import get_block
from mxspec_gpu import api, lookup, products, records, step_kernels, steps
from mxspec_gpu.affine import affine_gemv
from mxspec_gpu.bench_reports import run_command
from mxspec_gpu.bench_rows import Row, describe_timing, draw_affine, draw_blocks, draw_bytes, draw_values, measure_row
from mxspec_gpu.build import import_cupy, load_kernel
from mxspec_gpu.ceilings import Ceilings
from mxspec_gpu.kernels import list_instantiations
from mxspec_gpu.product_kernels import list_product_kernels
from mxspec_gpu.rules import generate_rules
from mxspec_gpu.sparse_gemv import sparse_gemv
from mxspec_gpu.tasks import LARGE, MIDDLE, TOKENS, Shape
from mxspec_gpu.timing import LEAST_SETS, Call, Timing, count_sets, import_torch, measure

#: The levels that rows are quantized under: the LightX2V notes' own.
QUANTIZE = (("lightx2v-0.0.1/nvfp4", "nvfp4"), ("lightx2v-0.0.1/mxfp4", "mxfp4"))
#: Rows of x of the naive affine product, and its square weights.
AFFINE_ROWS, AFFINE_SIDE = (1, 16, 256), 4096
#: Rows of x for which dequantizing is held against the product that follows it.
GEMM_ROWS = (1, 16, 128, 256, 512, 1024, 2048, 4096, 8192)


def _compare(name: str, shape: Shape, moved: tuple[int, int], ways: dict[str, list[Call]], ceilings: Ceilings) -> list[Row]:
    """A row for each way of doing one thing; the last one is the real kernel, which the others are held against."""
    rows = [measure_row(f"{name}: {way}", shape, moved, calls, ceilings) | {"task": name, "way": way} for way, calls in ways.items()]
    for row in rows:
        row["times_the_real_kernel"] = round(row["microseconds"] / rows[-1]["microseconds"], 3)
    return rows


def measure_dequantize(ceilings: Ceilings) -> list[Row]:
    """The steps of dequantizing: of records, and of packed codes."""
    rows, count = [], LARGE[0] * LARGE[1]
    for fmt, dtype in (("mxfp4", "float16"), ("mxfp4", "bfloat16"), ("nvfp4", "bfloat16")):
        size, elements = records.RECORDS[fmt]
        sets = LEAST_SETS + 1
        data = [draw_bytes(LARGE[0], LARGE[1] // elements * size, low=20, high=120) for _ in range(sets)]
        outs = [draw_values(*LARGE, dtype=dtype) for _ in data]
        functions: dict[str, Any] = {
            "a thread an element": steps.dequantize_elements, "a thread a record": steps.dequantize_blocks,
            "the real kernel": records.dequantize_records,
        }  # fmt: skip
        ways: dict[str, list[Call]] = {
            way: [partial(f, d, fmt, dtype=dtype, out=out) for d, out in zip(data, outs, strict=True)] for way, f in functions.items()
        }
        rows += _compare(f"{fmt} records to {dtype}", LARGE, (count // elements * size, 2 * count), ways, ceilings)
        del data, ways
        blocks = [draw_blocks(fmt, LARGE) for _ in range(sets)]
        ways = {
            f"{way} a thread": [
                partial(steps.dequantize_ways, b[0], b[1], fmt, way, dtype=dtype, out=out) for b, out in zip(blocks, outs, strict=True)
            ]
            for way in step_kernels.WAYS
        }
        ways["the real kernel"] = [
            partial(api.dequantize, b[0], b[1], fmt, dtype=dtype, out=out) for b, out in zip(blocks, outs, strict=True)
        ]
        rows += _compare(f"{fmt} packed to {dtype}", LARGE, (count // 2 + count // get_block(fmt).k, 2 * count), ways, ceilings)
        del blocks, ways, outs
        import_torch().cuda.empty_cache()
    return rows


def measure_quantize(ceilings: Ceilings) -> list[Row]:
    """The grid-stride step, at the documents' shape and at one that fills the chip."""
    rows, torch = [], import_torch()
    tensor = torch.full((1,), 500.0, device="cuda")  # the notes' scale: 2688 / largest magnitude
    for shape in (LARGE, TOKENS):
        count = shape[0] * shape[1]
        for profile, fmt in QUANTIZE:
            scale = tensor if fmt == "nvfp4" else None
            moved = 2 * count, count // 2 + count // get_block(fmt).k
            for dtype in step_kernels.HALVES:
                inputs = [draw_values(*shape, dtype=dtype) for _ in range(count_sets(sum(moved)))]
                made = [api.quantize(x, fmt, profile=profile, tensor_scale=scale, scale_layout="128x4") for x in inputs]
                outs = [(q.codes, q.scales) for q in made]
                options: dict[str, Any] = {"profile": profile, "tensor_scale": scale, "scale_layout": "128x4"}
                pairs = list(zip(inputs, outs, strict=True))
                ways: dict[str, list[Call]] = {
                    "grid stride, 8 a thread": [partial(steps.quantize_grid_stride, x, fmt, out=out, **options) for x, out in pairs],
                    "the real kernel": [partial(api.quantize, x, fmt, out=out, **options) for x, out in pairs],
                }
                rows += _compare(f"{fmt} quantize {dtype}, {profile}, tiles", shape, moved, ways, ceilings)
                del inputs, made, outs, pairs, ways
                torch.cuda.empty_cache()
    return rows


def measure_affine() -> list[Row]:
    """A thread an output against the kernels for weights where they lie (up to 16 rows) and `gemm`."""
    rows, side = [], (AFFINE_SIDE, AFFINE_SIDE)
    for dtype in step_kernels.HALVES:
        fmt = AffineFormat(group=64, dtype=dtype)
        parts = [draw_affine(fmt, side) for _ in range(count_sets(side[0] * side[1] * 9 // 16))]
        for m in AFFINE_ROWS:
            x, outs = draw_values(m, side[1], dtype=dtype), [draw_values(m, side[0], dtype=dtype) for _ in parts]
            pairs = list(zip(parts, outs, strict=True))
            ways: dict[str, list[Call]] = {"naive": [partial(steps.affine_matmul_naive, x, *p, fmt, out=out) for p, out in pairs]}
            if m <= 16:
                ways["the real kernel"] = [partial(affine_gemv, x, *p, fmt, out=out) for p, out in pairs]
            else:
                ways["the real kernel"] = [partial(products.gemm, x, p[0], p[1], fmt, offsets=p[2], out=out) for p, out in pairs]
            timings = {way: measure(calls) for way, calls in ways.items()}
            for way, timing in timings.items():
                row = {
                    "name": f"{fmt.name} product with {m} rows: {way}", "task": f"{fmt.name} product with {m} rows", "way": way,
                    "size": AFFINE_SIDE, **describe_timing(timing),
                    "times_the_real_kernel": round(timing.median / timings["the real kernel"].median, 3),
                }  # fmt: skip
                rows.append(row)
                print(f"{row['size']!s:8} {row['name']:60} {row['microseconds']:9.1f} us", flush=True)
        del parts
        import_torch().cuda.empty_cache()
    return rows


def draw_sparse(fmt: str, shape: Shape) -> tuple[Any, Any, Any]:
    """Kept codes, legal nibbles and ordinary scales."""
    n, k = shape
    legal = import_torch().tensor([4, 8, 9, 12, 13, 14], device="cuda", dtype=import_torch().uint8)
    low, high = (legal[import_torch().randint(0, 6, (n, k // 8), device="cuda")] for _ in range(2))
    return draw_bytes(n, k // 4), low | high << 4, draw_blocks(fmt, shape)[1]


def measure_sparse(ceilings: Ceilings) -> list[Row]:
    """Sparse against dense products with a few vectors, each against the bytes that it reads."""
    rows = []
    for shape in (LARGE, MIDDLE):
        n, k = shape
        for fmt in ("mxfp4", "nvfp4"):
            scales = n * k // get_block(fmt).k
            read = {"sparse": n * k * 3 // 8 + scales, "dense": n * k // 2 + scales}
            sets = count_sets(read["sparse"])
            parts: dict[str, list[Any]] = {
                "sparse": [draw_sparse(fmt, shape) for _ in range(sets)],
                "dense": [draw_blocks(fmt, shape) for _ in range(sets)],
            }
            functions: dict[str, Any] = {"sparse": sparse_gemv, "dense": lookup.gemv}
            for batch in (1, 8, 16):
                x, outs = draw_values(batch, k), [draw_values(batch, n) for _ in range(sets)]
                found = {}
                for way, function in functions.items():
                    calls: list[Call] = [partial(function, x, *p, fmt, out=out) for p, out in zip(parts[way], outs, strict=True)]
                    found[way] = measure_row(f"{fmt} {way} product with {batch} vectors", shape, (read[way], 0), calls, ceilings)
                times = found["dense"]["microseconds"] / found["sparse"]["microseconds"]
                found["sparse"] |= {"times_faster_than_dense": round(times, 3), "bytes_of_dense": round(read["sparse"] / read["dense"], 4)}
                rows += [row | {"task": f"{fmt} product with {batch} vectors", "way": way} for way, row in found.items()]
            del parts
            import_torch().cuda.empty_cache()
    return rows


def _microseconds(timing: Timing) -> float:
    return round(timing.median * 1e6, 2)


def measure_shares() -> dict[str, Any]:
    """Dequantizing 8192 x 8192 weights, the product that follows, both, and the weights where they lie; a bfloat16 product alone."""
    torch, (n, k) = import_torch(), MIDDLE
    blocks = [draw_blocks("mxfp4", MIDDLE) for _ in range(14)]
    numbers = [draw_values(n, k) for _ in range(5)]
    alone = measure([partial(api.dequantize, b[0], b[1], "mxfp4", out=numbers[i % 5]) for i, b in enumerate(blocks)])
    found = {}
    for m in GEMM_ROWS:
        x, outs = draw_values(m, k), [draw_values(m, n) for _ in blocks]
        used = 14 if m <= 512 else 5

        def both(b: Any, out: Any, *, x: Any = x, held: Any = numbers[0]) -> None:
            api.dequantize(b[0], b[1], "mxfp4", out=held)
            torch.matmul(x, held.t(), out=out)

        product = measure([partial(torch.matmul, x, w.t(), out=out) for w, out in zip(numbers, outs, strict=False)])
        apart = measure([partial(both, b, out) for b, out in zip(blocks[:used], outs, strict=False)])
        own = measure([partial(products.gemm, x, b[0], b[1], "mxfp4", out=out) for b, out in zip(blocks[:used], outs, strict=False)])
        found[str(m)] = {
            "bfloat16_product": _microseconds(product), "dequantize_then_product": _microseconds(apart), "gemm": _microseconds(own),
            "dequantize_percent_of_product": round(alone.median / product.median * 100, 1),
        }  # fmt: skip
        print(f"{m} rows: {found[str(m)]}", flush=True)
        del outs
    del blocks, numbers
    torch.cuda.empty_cache()
    return {"size": n, "format": "mxfp4", "dequantize": _microseconds(alone), "rows": found}


def measure_vectors() -> dict[str, Any]:
    """One vector: bfloat16 weights through torch, MXFP4 where it lies, sparse MXFP4 where it lies; 16384 x 16384."""
    torch, (n, k) = import_torch(), LARGE
    x, out = draw_values(1, k), draw_values(1, n)
    dense = [draw_values(n, k) for _ in range(LEAST_SETS)]
    plain = measure([partial(torch.matmul, x, w.t(), out=out) for w in dense])
    del dense
    torch.cuda.empty_cache()
    blocks = [draw_blocks("mxfp4", LARGE) for _ in range(4)]
    stored = measure([partial(lookup.gemv, x, b[0], b[1], "mxfp4", out=out) for b in blocks])
    del blocks
    affine = AffineFormat(group=64, dtype="float16")
    half, half_out = draw_values(1, k, dtype="float16"), draw_values(1, n, dtype="float16")
    groups = [draw_affine(affine, LARGE) for _ in range(4)]
    int4 = measure([partial(affine_gemv, half, *p, affine, out=half_out) for p in groups])
    del groups
    torch.cuda.empty_cache()
    return {
        "size": n, "bfloat16_product": _microseconds(plain), "mxfp4": _microseconds(stored), "int4_g64": _microseconds(int4),
        "times_faster": round(plain.median / stored.median, 2), "times_faster_int4": round(plain.median / int4.median, 2),
    }  # fmt: skip


def find_occupancy() -> dict[str, Any]:
    """What is resident of the grid-stride step: by its launch bounds, and by what the driver says of the compiled kernel."""
    cupy = import_cupy()
    attributes = cupy.cuda.Device(0).attributes
    threads_of_sm = attributes["MaxThreadsPerMultiProcessor"]
    found = {}
    for profile, fmt in QUANTIZE:
        rules = generate_rules(profile, fmt, two_level=fmt == "nvfp4")
        function = load_kernel(step_kernels.step_quantize_kernel(rules, "bfloat16", tiled=True), 0).kernel
        blocks = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(function.ptr, steps.THREADS, 0)
        registers = cupy.cuda.driver.funcGetAttribute(cupy.cuda.driver.CU_FUNC_ATTRIBUTE_NUM_REGS, function.ptr)
        found[fmt] = {
            "registers": registers, "blocks_of_a_multiprocessor": blocks,
            "percent": round(blocks * steps.THREADS / threads_of_sm * 100, 1),
        }  # fmt: skip
    return {"threads_of_a_multiprocessor": threads_of_sm, "percent_of_bounds": round(6 * 256 / threads_of_sm * 100, 1), "kernels": found}


def _measure(ceilings: Ceilings) -> list[Row]:
    return [*measure_dequantize(ceilings), *measure_quantize(ceilings), *measure_affine(), *measure_sparse(ceilings)]


def _measure_claims(_: Ceilings) -> dict[str, Any]:
    return {"occupancy": find_occupancy(), "shares": measure_shares(), "vectors": measure_vectors()}


def main() -> int:
    """Measure and write the report."""
    levels = (("mx-floor", "mxfp4", False), ("nvfp4-te", "nvfp4", False), *((p, f, f == "nvfp4") for p, f in QUANTIZE))
    sources = [*step_kernels.list_step_kernels(), *list_product_kernels(), *list_instantiations(levels, (0,))]
    what = "the documents' steps and sparse products beside the real kernels, and what the documents' claims come to"
    return run_command(__doc__, what, sources, {"rows": _measure, "measurements": _measure_claims})


if __name__ == "__main__":
    sys.exit(main())
