"""How fast products of four-bit weights, and of FP8 in groups, are by the number of rows: `python -m mxspec_gpu.bench_tiles --out FILE`. Needs torch.

`gemm` and `grouped_gemm`, each of the ways apart, humming-kernels with the same weights (prepared beforehand) where it is installed, and cuBLAS with
bfloat16 weights; `fp8_gemm` with cuBLAS and DeepGEMM; in one run, launches taking turns on three sets of buffers or more.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from mxspec.formats import get_block
from mxspec_gpu import api, lookup
from mxspec_gpu.arrays import view_array
from mxspec_gpu.bench_reports import run_command
from mxspec_gpu.bench_rows import Row, describe_timing, draw_blocks, draw_values
from mxspec_gpu.ceilings import Ceilings
from mxspec_gpu.fp8 import GROUP, fp8_gemm, list_group_kernels
from mxspec_gpu.gemv_tunings import MOST_VECTORS
from mxspec_gpu.peers import find_deepgemm, prepare_humming
from mxspec_gpu.tasks import Shape
from mxspec_gpu.tiles import gemm, grouped_gemm, list_tile_kernels, multiply_tiles
from mxspec_gpu.timing import LEAST_SETS, Call, count_sets, import_torch, measure

#: Weights, and the rows of x with each.
SQUARE: tuple[Shape, ...] = ((8192, 8192), (16384, 16384))
ROWS = (1, 8, 16, 32, 64, 128, 256, 512, 4096)
#: Shapes of models, by which `gemm` chooses its way.
MODELS: tuple[Shape, ...] = ((2048, 4096), (4096, 4096), (4096, 14336), (14336, 4096))
MODEL_ROWS = (17, 32, 64, 128, 512, 1024)
#: How many experts, their weights, rows of x in all: of gpt-oss, and of a model with few large ones.
EXPERTS: tuple[tuple[int, Shape, int], ...] = (
    (128, (2880, 2880), 64), (128, (2880, 2880), 1024), (128, (2880, 2880), 8192), (8, (14336, 4096), 64), (8, (14336, 4096), 1024),
)  # fmt: skip
#: FP8 weights of DeepSeek's models, and a square; and the rows with each.
GROUPS: tuple[Shape, ...] = ((4096, 7168), (7168, 2048), (8192, 8192))
GROUP_ROWS = (16, 64, 128, 512, 4096, 8192)
ONE = (0, 0x3F800000)


def _multiply_apart(fmt: str, numbers: Any, x: Any, part: tuple[Any, Any], out: Any) -> None:
    api.dequantize(*part, fmt, out=numbers)
    import_torch().matmul(x, numbers.t(), out=out)


def _multiply_tiles(fmt: str, x: Any, part: tuple[Any, Any], out: Any) -> None:
    codes, scales = (view_array(p, "weights") for p in part)
    multiply_tiles(view_array(x), codes, scales, get_block(fmt), view_array(out), alpha=ONE, bias=0)


def measure_rows(fmt: str, shape: Shape, numbers_of_rows: tuple[int, ...], *, peers: bool) -> list[Row]:
    """All ways of one matrix of weights."""
    torch, (n, k) = import_torch(), shape
    parts = [draw_blocks(fmt, shape) for _ in range(count_sets(n * k // 2))]
    layers = [layer for layer in (prepare_humming(fmt, *part) for part in parts) if layer] if peers else []
    dense = [draw_values(n, k) for _ in range(count_sets(2 * n * k))] if peers else []
    numbers = torch.empty(n, k, device="cuda", dtype=torch.bfloat16)
    rows = []
    for m in numbers_of_rows:
        x, outs = draw_values(m, k), [draw_values(m, n) for _ in parts]
        ways: dict[str, list[Call]] = {"gemm": [partial(gemm, x, *p, fmt, out=y) for p, y in zip(parts, outs, strict=True)]}
        if m <= MOST_VECTORS:
            ways["vectors"] = [partial(lookup.gemv, x, *p, fmt, out=y) for p, y in zip(parts, outs, strict=True)]
        if m > 1:
            ways["tiles"] = [partial(_multiply_tiles, fmt, x, p, y) for p, y in zip(parts, outs, strict=True)]
        if m > MOST_VECTORS // 2:
            ways["dequantize and multiply"] = [partial(_multiply_apart, fmt, numbers, x, p, y) for p, y in zip(parts, outs, strict=True)]
        if layers:
            ways["humming-kernels"] = [partial(layer, x) for layer in layers]
        if dense:
            ways["cuBLAS, bfloat16 weights"] = [partial(torch.matmul, x, w.t(), out=y) for w, y in zip(dense, outs, strict=False)]
        timings = {what: describe_timing(measure(calls, rest=m >= 128)) for what, calls in ways.items()}
        rows.append({"name": f"{fmt}, weights {n} x {k}, {m} rows", "format": fmt, "size": n, "columns": k, "rows": m, "ways": timings})
        print(f"{rows[-1]['name']:44} " + ", ".join(f"{what} {t['microseconds']:.1f}" for what, t in timings.items()), flush=True)
        del outs, ways
    del parts, layers, dense, numbers
    torch.cuda.empty_cache()
    return rows


def measure_experts(fmt: str, experts: int, shape: Shape, rows: int) -> Row:
    """Rows of experts with weights of their own, unevenly many: one launch, a call for each, humming-kernels, bfloat16 weights."""
    torch, (n, k) = import_torch(), shape
    drawn = np.random.default_rng(1).multinomial(rows, np.random.default_rng(2).dirichlet(np.full(experts, 0.5)))
    firsts = [0, *np.cumsum(drawn).tolist()]
    offsets = torch.tensor(firsts, device="cuda", dtype=torch.int32)
    block, parts = get_block(fmt), []
    for _ in range(count_sets(experts * n * k // 2)):
        codes, scales = draw_blocks(fmt, (experts * n, k))
        parts.append((codes.view(experts, n, k // 2), scales.view(experts, n, k // block.k)))
    x, out = draw_values(rows, k), draw_values(rows, n)

    def apart(codes: Any, scales: Any) -> None:
        for e, (first, last) in enumerate(pairwise(firsts)):
            if first < last:
                gemm(x[first:last], codes[e], scales[e], fmt, out=out[first:last])

    ways: dict[str, list[Call]] = {"grouped_gemm": [partial(grouped_gemm, x, *p, fmt, offsets, out=out) for p in parts]}
    ways["a call for each"] = [partial(apart, *p) for p in parts]
    layers = [prepare_humming(fmt, *p) for p in parts]
    if all(layers):
        options = {"expert_layout": offsets, "compute_config": {"gemm_type": "grouped_contiguous"}}
        ways["humming-kernels"] = [partial(layer, x, **options) for layer in layers if layer]
    dense = [draw_values(experts, n, k).transpose(1, 2) for _ in range(LEAST_SETS)]
    ways["torch, bfloat16 weights"] = [partial(torch._grouped_mm, x, w, offs=offsets[1:]) for w in dense]
    timings = {}
    for what, calls in ways.items():
        try:
            timings[what] = describe_timing(measure(calls))
        except AssertionError as error:  # humming-kernels has no kernel of some shapes
            print(f"{what}: {error!r}", file=sys.stderr)
    name = f"{fmt}, {experts} experts, weights {n} x {k}, {rows} rows"
    print(f"{name:56} " + ", ".join(f"{what} {t['microseconds']:.1f}" for what, t in timings.items()), flush=True)
    del parts, layers, dense, ways
    torch.cuda.empty_cache()
    return {"name": name, "format": fmt, "experts": experts, "size": n, "columns": k, "rows": rows, "ways": timings}


def _draw_groups(rows: int, k: int, scales: int) -> tuple[Any, Any]:
    torch = import_torch()
    return draw_values(rows, k).to(torch.float8_e4m3fn), torch.rand(scales, k // GROUP, device="cuda") + 0.5


def measure_groups(shape: Shape, m: int) -> Row:
    """FP8 rows in groups of 1 x 128 with blocks of 128 x 128, scales as each library wants them."""
    torch, (n, k) = import_torch(), shape
    sets = [(*_draw_groups(m, k, m), *_draw_groups(n, k, -(-n // GROUP))) for _ in range(count_sets((n + m) * k))]
    outs = [draw_values(m, n) for _ in sets]
    columns = [sx.t().contiguous().t() for _, sx, _, _ in sets]
    ways: dict[str, list[Call]] = {"fp8_gemm": [partial(fp8_gemm, *part, out=y) for part, y in zip(sets, outs, strict=True)]}
    ways["cuBLAS"] = [
        partial(torch._scaled_mm, x, w.t(), c, sw.t(), out_dtype=torch.bfloat16) for (x, _, w, sw), c in zip(sets, columns, strict=True)
    ]
    if multiply := find_deepgemm():
        ways["DeepGEMM"] = [partial(multiply, (x, c), (w, sw), y) for (x, _, w, sw), c, y in zip(sets, columns, outs, strict=True)]
    timings = {what: describe_timing(measure(calls)) for what, calls in ways.items()}
    name = f"FP8 in groups of 128, weights {n} x {k}, {m} rows"
    print(f"{name:56} " + ", ".join(f"{what} {t['microseconds']:.1f}" for what, t in timings.items()), flush=True)
    del sets, outs, ways
    torch.cuda.empty_cache()
    return {"name": name, "size": n, "columns": k, "rows": m, "ways": timings}


FORMATS = ("mxfp4", "nvfp4")
PARTS: dict[str, Callable[[Ceilings], Any]] = {
    "rows": lambda _: [row for fmt in FORMATS for shape in SQUARE for row in measure_rows(fmt, shape, ROWS, peers=True)],
    "models": lambda _: [row for fmt in FORMATS for shape in MODELS for row in measure_rows(fmt, shape, MODEL_ROWS, peers=False)],
    "experts": lambda _: [measure_experts(fmt, *case) for fmt in FORMATS for case in EXPERTS],
    "groups": lambda _: [measure_groups(shape, rows) for shape in GROUPS for rows in GROUP_ROWS],
}


def main() -> int:
    """Measure and write the report."""
    what = "products by the number of rows: microseconds of each way and of peers in the same run"
    return run_command(__doc__, what, [*list_tile_kernels(), *list_group_kernels()], PARTS)


if __name__ == "__main__":
    sys.exit(main())
