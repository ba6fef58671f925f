"""How fast the kernels are: `python -m mxspec_gpu.bench --out FILE [--peers] [--quick] [--only ROW ...]`. Needs torch as well as CuPy.

Every row is given as a share of two bandwidths of the same run: of the copy (a 4 GiB torch copy, bytes read plus written), and
of its own mix (a kernel without arithmetic that reads and writes as many bytes; see ceilings.py). Launches take turns on three
sets of buffers or more. "burst" is the median over replays of a CUDA graph that holds several launches, so that the gaps
between launches do not count; "sustained" is the same for two seconds, with clock and power as nvidia-smi gives them. Peers
that cannot be captured are timed call by call with events.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mxspec import reals
from mxspec.adjacent import register_named
from mxspec.elements import default_nan_policy, encode_table
from mxspec.formats import ELEMENTS, get_block
from mxspec.rounding import Overflow, Rounding
from mxspec_gpu import api, kernels, lookup
from mxspec_gpu.bench_reports import build_here, describe_environment, round_bandwidths, write_report
from mxspec_gpu.bench_rows import describe_row
from mxspec_gpu.build import import_cupy
from mxspec_gpu.ceilings import Ceilings, measure_bandwidths
from mxspec_gpu.fused import quantize_rms_norm, quantize_silu_mul
from mxspec_gpu.launch import Prepared
from mxspec_gpu.peers import list_peers
from mxspec_gpu.plans import HEAD, KernelLaunch, plan_any
from mxspec_gpu.rules import generate_rules
from mxspec_gpu.tasks import LARGE, SHAPES, TASKS, Shape, Task, count_bytes
from mxspec_gpu.timing import LEAST_SETS, SECONDS, Timing, count_sets, import_torch, measure, measure_sustained
from mxspec_gpu.transform import find_signs
from mxspec_gpu.views import Matrix

#: Of the transform in the bench.
SIGNS = 0x5A3C


def _inputs(task: Task, shape: Shape, sets: int) -> list[Any]:
    torch = import_torch()
    generator = torch.Generator("cuda").manual_seed(7)
    rows, columns = task.shape_of(shape)
    columns *= 2 if task.kind == "fused" else 1
    found = []
    for _ in range(sets):
        width = columns + 256 if task.source == "pitched" else columns
        flat = torch.randn(rows * width + 8, device="cuda", generator=generator).to(getattr(torch, task.dtype))
        first = 1 if task.source == "shifted" else 0
        found.append(flat[first : first + rows * width].reshape(rows, width)[:, :columns])
    return found


def _make_calls(task: Task, shape: Shape) -> list[Callable[[], Any]]:
    """Calls of the API with outputs given, on enough buffers."""
    torch = import_torch()
    layout = "row-major" if not task.tiled else "column-major" if get_block(task.fmt).scale.storage_bits == 32 else "128x4"
    tensor = torch.full((1,), 5.5, device="cuda") if task.two_level else None
    calls: list[Callable[[], Any]] = []
    if task.kind in ("gemv", "embedding"):
        return _make_lookups(task, shape)
    for x in _inputs(task, shape, count_sets(sum(count_bytes(task, shape)))):
        common: dict[str, Any] = {"profile": task.profile, "tensor_scale": tensor, "scale_layout": layout}
        signs = {"signs": SIGNS} if task.transformed else {}
        if task.kind in ("fused", "norm"):
            norm = partial(quantize_rms_norm, x, torch.ones_like(x[0]), task.fmt, eps=1e-6, **common)
            call = norm if task.kind == "norm" else partial(quantize_silu_mul, x, task.fmt, **common)
            q = call()
            calls.append(partial(call, out=(q.codes, q.scales)))
        elif task.kind == "amax":
            out = torch.zeros(1, device="cuda")
            calls.append(partial(api.tensor_scale, x, "nvfp4", task.profile, out=out, **signs))
        elif task.kind == "both":
            common |= signs | ({"seed": 1234} if task.stochastic else {})
            first = api.quantize_both(x, task.fmt, **common)
            arrays = tuple(a for q in first for a in (q.codes, q.scales))
            calls.append(partial(api.quantize_both, x, task.fmt, out=arrays, **common))
        else:
            common |= {"axis": 0} if task.kind == "columns" else {"block": (16, 16)} if task.kind == "square" else {}
            common |= signs | ({"seed": 1234} if task.stochastic else {})
            q = api.quantize(x, task.fmt, pad=True, **common)
            if task.kind == "dequantize":
                calls.append(partial(api.dequantize, q.codes, q.scales, task.fmt, dtype=task.dtype, out=x, **common))
            else:
                calls.append(partial(api.quantize, x, task.fmt, pad=True, out=(q.codes, q.scales), **common))
    return calls


def _make_lookups(task: Task, shape: Shape) -> list[Callable[[], Any]]:
    """Calls that use weights where they lie."""
    torch = import_torch()
    n, k = shape
    block = get_block(task.fmt)
    low, high = (110, 126) if block.scale.mantissa_bits == 0 else (0x20, 0x60)
    calls: list[Callable[[], Any]] = []
    if task.kind == "gemv":
        x = torch.randn(task.batch, k, device="cuda").to(torch.bfloat16)
        for _ in range(count_sets(sum(count_bytes(task, shape)))):
            codes = torch.randint(0, 256, (n, k // 2), device="cuda", dtype=torch.uint8)
            scales = torch.randint(low, high, (n, k // block.k), device="cuda", dtype=torch.uint8)
            out = torch.empty(task.batch, n, device="cuda", dtype=torch.bfloat16)
            calls.append(partial(lookup.gemv, x, codes, scales, task.fmt, out=out))
        return calls
    codes = torch.randint(0, 256, (4 * n, k // 2), device="cuda", dtype=torch.uint8)
    scales = torch.randint(low, high, (4 * n, k // block.k), device="cuda", dtype=torch.uint8)
    for _ in range(LEAST_SETS + 1):
        ids, out = torch.randint(0, 4 * n, (n,), device="cuda"), torch.empty(n, k, device="cuda", dtype=torch.bfloat16)
        calls.append(partial(lookup.embedding, ids, codes, scales, task.fmt, profile=task.profile, out=out))
    return calls


def settle_shares(report: dict[str, Any]) -> None:
    """Shares of the larger of the bandwidths measured before and after the rows, in place, so that a slow copy does not flatter them."""
    first, last = report["bandwidth_at_the_start"], report["bandwidth_at_the_end"]
    bandwidth = {k: max(first[k], last[k]) for k in first}
    report["bandwidth"] = bandwidth
    for row in (*report["rows"], *report["peers"]):
        if "microseconds" in row:
            moved = row["bytes"]["read"] + row["bytes"]["written"]
            row["percent"] = round(moved / (row["microseconds"] * 1e-6) / bandwidth[row["against"]] * 100, 2)


def _row(name: str, shape: Shape, moved: tuple[int, int], timing: Timing, ceilings: Ceilings) -> dict[str, Any]:
    return describe_row(name, shape, moved, timing, ceilings) | {"mix_microseconds": round(ceilings.find(*moved) * 1e6, 2)}


def _sustain(calls: list[Callable[[], Any]], mix: float) -> dict[str, Any]:
    kept = measure_sustained(calls)
    if kept is None:
        return {}
    return {
        "sustained": {
            "microseconds": round(kept.seconds * 1e6, 2),
            "percent_of_mix": round(mix / kept.seconds * 100, 2),
            "sm_megahertz": kept.sm_megahertz,
            "watts": kept.watts,
        }
    }


def run_tasks(tasks: Sequence[Task], shapes: tuple[Shape, ...], ceilings: Ceilings) -> list[dict[str, Any]]:
    """One row for each task and shape."""
    torch = import_torch()
    rows = []
    for shape in shapes:
        for task in tasks:
            if shape not in task.shapes:
                continue
            calls = _make_calls(task, shape)
            moved = count_bytes(task, shape)
            row = _row(task.name, shape, moved, measure(calls), ceilings)
            row |= {
                "kind": task.kind,
                "format": task.fmt,
                "profile": task.profile,
                "tiled": task.tiled,
                "stochastic": task.stochastic,
                "transformed": task.transformed,
                "batch": task.batch,
                "dtype": task.dtype,
                "source": task.source,
            }
            if shape == task.judged:
                row |= {k: v for k in ("floor", "goal", "most") if (v := getattr(task, k)) is not None}
            rows.append(row)
            del calls
            torch.cuda.empty_cache()
            print(
                f"{row['size']!s:12} {row['name']:48} {row['microseconds']:9.1f} us {row['percent']:6.1f} % of copy "
                f"{row['percent_of_mix']:6.1f} % of mix",
                flush=True,
            )
    compare_rows(rows)
    return rows


def sustain_rows(rows: list[dict[str, Any]], ceilings: Ceilings) -> None:
    """Seconds of every task at the largest shape, in place; after all bursts, which a hot chip would slow down."""
    torch = import_torch()
    for task in TASKS:
        row = next((r for r in rows if r["name"] == task.name and r["size"] == LARGE[0]), None)
        if row is None or task.tiled or not (task.floor or task.goal or task.most):
            continue
        row |= _sustain(_make_calls(task, LARGE), ceilings.find(*count_bytes(task, LARGE)))
        torch.cuda.empty_cache()
        print(f"{row['name']:48} {row['microseconds']:9.1f} us, for seconds {row.get('sustained')}", flush=True)


def compare_rows(rows: list[dict[str, Any]]) -> None:
    """What rows are demanded to be against others, in place: tiles and data that lie badly against what lies well."""
    plain = {
        (r["size"], r["kind"], r["format"], r["profile"], r["dtype"], r["source"]): r
        for r in rows
        if not r["tiled"] and not r["stochastic"] and not r["transformed"]
    }
    for r in rows:
        key = r["size"], r["kind"], r["format"], r["profile"], r["dtype"]
        if r["tiled"]:
            base = plain.get((*key, "contiguous"), r)["microseconds"]
            r["percent_slower_than_row_major"] = round((r["microseconds"] / base - 1) * 100, 2)
            if r["size"] == LARGE[0]:
                r |= {"most_slower": 6, "goal_slower": 2}
        base_row = plain.get((*key, "contiguous"))
        if r["source"] in ("shifted", "odd") and base_row is not None:
            r["times_the_aligned_case"] = round(r["microseconds"] / base_row["microseconds"], 3)
            r["most_times"] = 2


def _time_calls(call: Callable[[], Any]) -> float:
    """Microseconds of a call on the CPU, while the GPU keeps up."""
    torch = import_torch()
    call()
    runs = []
    for _ in range(15):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(200):
            call()
        runs.append((time.perf_counter() - start) / 200 * 1e6)
    return round(statistics.median(runs), 2)


def measure_overhead() -> dict[str, Any]:
    """Microseconds of one Python call with outputs given, and of the driver's launch alone, which depends on the host."""
    cupy, torch = import_cupy(), import_torch()
    out: dict[str, Any] = {"floor": 20, "most_beyond_the_launch": 8, "goal": 7}
    for library, x in (("cupy", cupy.zeros((32, 64), cupy.float32)), ("torch", torch.zeros(32, 64, device="cuda"))):
        q = api.quantize(x, "mxfp4")
        given = (q.codes, q.scales)
        out[library] = _time_calls(lambda x=x, given=given: api.quantize(x, "mxfp4", out=given))  # type: ignore[misc]
    a = torch.zeros(32, 64, device="cuda")
    out["torch.add(out=), for comparison"] = _time_calls(lambda: torch.add(a, a, out=a))
    rules = generate_rules("mx-floor", "mxfp4", two_level=False)
    launch = plan_any(rules, Matrix(32, 64, 64, 1), "float32", 0, tiled=False, random=0)[0]
    assert isinstance(launch, KernelLaunch)
    ready = Prepared(launch.kernel, HEAD, launch.grid, launch.threads, launch.fixed)
    q = api.quantize(a, "mxfp4")
    ready.words[0], ready.words[1], ready.words[2] = a.data_ptr(), q.codes.data_ptr(), q.scales.data_ptr()
    out["launch alone"] = _time_calls(lambda: ready.launch(*ready.place, 0, 0, ready.where))
    return out


def _table_runs(name: str) -> tuple[Any, Any]:
    """A format's nearest-even encoder as (starts, codes) of runs over float32 patterns, from the model's table."""
    fmt = ELEMENTS[name]
    table = encode_table(fmt, Rounding.RNE, Overflow.SATURATE, default_nan_policy(fmt))
    # Table index: the upper 16 bits of a pattern, then whether any lower bit is set.
    index = np.arange(table.size, dtype=np.uint32)
    patterns = (index >> np.uint32(1)) << np.uint32(16) | (index & np.uint32(1))
    kept = np.append(True, table[1:] != table[:-1])
    return patterns[kept], table[kept]


def measure_sweeps() -> list[dict[str, Any]]:
    """Milliseconds of 2**32 conversions, each compared in the kernel with the model's answer."""
    from mxspec_gpu.launch import POINTER, U32, Kernel

    cupy = import_cupy()
    rows = []
    for name, fmt in ELEMENTS.items():
        positive, negative = reals.nan_codes(fmt, default_nan_policy(fmt))
        defines: dict[str, object] = {
            "MX_SCALAR": name.upper(), "MX_NAN_POSITIVE": positive, "MX_NAN_NEGATIVE": negative,
        }  # fmt: skip
        kernel = Kernel(kernels.sweep_kernel(1, defines, None, write=False), U32 + POINTER * 2 + U32 + POINTER * 2, 0)
        starts, codes = (cupy.asarray(a) for a in _table_runs(name))
        found = cupy.zeros(16, cupy.uint64)
        times = []
        for _ in range(9):
            events = cupy.cuda.Event(), cupy.cuda.Event()
            stream = cupy.cuda.get_current_stream().ptr
            events[0].record()
            kernel.launch((1 << 16, 1), 256, stream, 0, starts.data.ptr, codes.data.ptr, len(codes), found.data.ptr, 0)
            events[1].record()
            events[1].synchronize()
            times.append(float(cupy.cuda.get_elapsed_time(*events)))
        row = {"name": f"2**32 sweep of {name}", "milliseconds": round(statistics.median(times), 3), "most": 8, "goal": 4}
        rows.append(row | {"different": int(found[0])})
    return rows


def run_peers(shapes: Sequence[Shape], ceilings: Ceilings) -> list[dict[str, Any]]:
    """Other libraries on the same data in the same run."""
    torch = import_torch()
    rows: list[dict[str, Any]] = []
    for shape in shapes:
        torch._dynamo.reset()  # each size gets kernels of its own, as the first one does
        for library, what, moved, make in list_peers(shape[0]):
            try:
                sets = min(count_sets(sum(moved)), LEAST_SETS + 1)
                calls = [make(x) for x in _inputs(TASKS[0], shape, sets)]
                timing = measure(calls)
            except Exception as error:
                print(f"{library} {what}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
                failed = f"{type(error).__name__}: {str(error)[:160]}"
                rows.append({"library": library, "name": what, "size": shape[0], "failed": failed})
                torch.cuda.synchronize()
                continue
            rows.append({"library": library, **_row(what, shape, moved, timing, ceilings)})
            del calls
            torch.cuda.empty_cache()
            print(f"{shape[0]:6} {library + ': ' + what:50} {rows[-1]['microseconds']:9.1f} us {rows[-1]['percent']:6.1f} %", flush=True)
    return rows


def _prebuild(tasks: Sequence[Task]) -> None:
    sources = []
    for fmt, profile, transformed in {(t.fmt, t.profile, t.transformed) for t in tasks}:
        level = (profile, fmt, fmt == "nvfp4")
        rules = generate_rules(profile, fmt, two_level=level[2])
        if transformed:
            sources += kernels.list_transformed(rules, "bfloat16", find_signs(SIGNS, rules.profile))
        else:
            sources += kernels.list_instantiations([level], (0,))
    build_here(list(dict.fromkeys(sources)))


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--quick", action="store_true", help="only 16384 x 16384")
    parser.add_argument("--only", nargs="*", default=[], choices=[t.name for t in TASKS], metavar="ROW", help="of these rows alone")
    options = parser.parse_args()
    run_bench(options.out, peers=options.peers, quick=options.quick, only=options.only)
    return 0


def run_bench(out: Path, *, peers: bool = False, quick: bool = False, only: Sequence[str] = ()) -> None:
    """Measure and write the report. quick: only the largest size; only: rows by name, and nothing but rows."""
    tasks = [t for t in TASKS if not only or t.name in only]
    register_named(t.fmt for t in tasks)
    _prebuild(tasks)
    bandwidth = measure_bandwidths()
    ceilings = Ceilings(bandwidth)
    print({k: f"{v / 1e12:.3f} TB/s" for k, v in bandwidth.items()}, flush=True)
    shapes = SHAPES[:1] if quick else SHAPES
    report: dict[str, Any] = {
        "what": "the GPU kernels' speed as shares of the copy bandwidth and of their mix's ceiling, of the same run",
        **describe_environment(),
        "least_sets_of_buffers": LEAST_SETS,
        "seconds_of_a_sustained_row": SECONDS,
        "bandwidth_at_the_start": round_bandwidths(bandwidth),
        "tasks": [asdict(t) for t in tasks],
        "rows": run_tasks(tasks, shapes, ceilings),
    }
    if not only:
        report |= {"overhead_microseconds": measure_overhead(), "sweeps": measure_sweeps()}
    sustain_rows(report["rows"], ceilings)
    report["peers"] = run_peers(shapes[:1], ceilings) if peers else []
    report["mixes"] = ceilings.describe()
    again = measure_bandwidths()
    report["bandwidth_at_the_end"] = round_bandwidths(again)
    settle_shares(report)
    write_report(out, report)


if __name__ == "__main__":
    sys.exit(main())
