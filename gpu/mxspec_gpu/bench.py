"""How fast the kernels are: `python -m mxspec_gpu.bench --out FILE [--peers] [--quick]`. Needs torch as well as CuPy.

Every row is a share of the copy bandwidth measured in the same run (a 4 GiB torch copy, bytes read plus written). Times
are medians over replays of a CUDA graph that holds several launches, so that the gaps between launches do not count. The
launches take turns on as many sets of buffers as fill 512 MiB (`ROTATION`); a set that is larger by itself, as at
16384 x 16384, is the only one, and what a launch left in L2 is then there for the next. Peers that cannot be captured are
timed call by call with events.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import mxspec
from mxspec import reals
from mxspec.elements import default_nan_policy, encode_table
from mxspec.formats import ELEMENTS, get_block
from mxspec.rounding import Overflow, Rounding
from mxspec_gpu import api, kernels
from mxspec_gpu.build import import_cupy
from mxspec_gpu.compile_all import build_all
from mxspec_gpu.rules import generate_rules

SIZES = (16384, 8192, 4096)
#: Bytes that the buffers of one graph take at least, in whole sets: several times the L2 of any chip.
ROTATION = 1 << 29
REPLAYS = 21


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A row of the table, with its least share of the copy bandwidth and its goal in percent (16384 x 16384 bfloat16)."""

    name: str
    #: "quantize", "dequantize", "columns", "both", "amax".
    kind: str
    fmt: str
    profile: str
    tiled: bool = False
    stochastic: bool = False
    dtype: str = "bfloat16"
    floor: float | None = None
    goal: float | None = None

    @property
    def two_level(self) -> bool:
        """Whether a tensor scale is given."""
        return self.fmt == "nvfp4"


def _tasks() -> tuple[Task, ...]:
    def q(fmt: str, profile: str = "mx-floor", **more: Any) -> Task:
        return Task(name=f"{fmt} quantize, {profile}", kind="quantize", fmt=fmt, profile=profile, **more)

    plain = [
        q("mxfp4", floor=92, goal=101),
        q("mxfp4", "mx-rceil", floor=92, goal=101),
        q("nvfp4", "nvfp4-te", floor=80, goal=95),
        q("nvfp4", "vllm-0.33/nvfp4/kernel", floor=80, goal=95),
        q("nvfp4", "torchao-0.18/nvfp4/eager", floor=80, goal=95),
        q("mxfp6_e2m3", floor=80, goal=95),
        q("mxfp6_e3m2", floor=80, goal=95),
        q("mxfp8_e4m3", floor=92, goal=101),
        q("mxfp8_e5m2", floor=92, goal=101),
        q("mxint8", floor=90, goal=99),
    ]
    tiled = [
        Task(
            name=f"{t.fmt} quantize, {t.profile}, 128x4 tiles",
            kind="quantize",
            fmt=t.fmt,
            profile=t.profile,
            tiled=True,
        )
        for t in plain
        if t.profile in ("mx-floor", "nvfp4-te")
    ]
    back = [
        Task(
            name=f"{f} dequantize", kind="dequantize", fmt=f, profile="nvfp4-te" if f == "nvfp4" else "mx-floor",
            floor=92 if f in ("mxfp4", "nvfp4") else 90, goal=98 if f in ("mxfp4", "nvfp4") else 97,
        )
        for f in ("mxfp4", "nvfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp8_e4m3", "mxfp8_e5m2", "mxint8")
    ]  # fmt: skip
    tiled += [
        Task(name=f"{t.name}, 128x4 tiles", kind="dequantize", fmt=t.fmt, profile=t.profile, tiled=True) for t in back
    ]
    columns = [
        Task(name=f"{f} quantize columns", kind="columns", fmt=f, profile=p, floor=floor, goal=goal)
        for f, p, floor, goal in (
            ("mxfp8_e4m3", "mx-floor", 75, 90),
            ("mxfp4", "mx-floor", 75, 90),
            ("mxfp6_e2m3", "mx-floor", None, None),
            ("nvfp4", "nvfp4-te", None, None),
        )
    ]
    both = [
        Task(name=f"{f} quantize rows and columns", kind="both", fmt=f, profile="mx-floor")
        for f in ("mxfp8_e4m3", "mxfp4")
    ]
    stochastic = Task(
        name="mxfp4 quantize, stochastic",
        kind="quantize",
        fmt="mxfp4",
        profile="mx-floor",
        stochastic=True,
        floor=75,
        goal=90,
    )
    amax = Task(name="tensor amax", kind="amax", fmt="nvfp4", profile="nvfp4-te", floor=95, goal=99)
    wide = [
        Task(name=f"{f} quantize of {d}", kind="quantize", fmt=f, profile=p, dtype=d)
        for d in ("float32", "float16")
        for f, p in (("mxfp4", "mx-floor"), ("nvfp4", "nvfp4-te"), ("mxfp8_e4m3", "mx-floor"))
    ]
    return (*plain, *tiled, amax, *back, *columns, *both, stochastic, *wide)


TASKS = _tasks()


def count_bytes(task: Task, n: int) -> tuple[int, int]:
    """Bytes that must be read and written, scales included, for an n x n tensor."""
    block = get_block(task.fmt)
    item = {"float32": 4, "float16": 2, "bfloat16": 2}[task.dtype]
    codes, scales = n * n * block.element.bits // 8, n * n // block.k
    if task.kind == "amax":
        return n * n * item, 0
    if task.kind == "dequantize":
        return codes + scales, n * n * item
    written = (codes + scales) * (2 if task.kind == "both" else 1)
    return n * n * item, written


def _torch() -> Any:
    import torch

    return torch


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one call."""

    median: float
    low: float
    high: float
    method: str


def measure(calls: list[Callable[[], Any]], *, capture: bool = True, replays: int = REPLAYS) -> Timing:
    """The time of one call: `calls` do the same on different buffers."""
    torch = _torch()
    for call in calls[:2]:
        call()
    torch.cuda.synchronize()
    graph = None
    launches = calls * -(-8 // len(calls))
    if capture:
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for call in launches:
                    call()
        except Exception:
            graph = None
            torch.cuda.synchronize()
    times = []
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    for i in range(replays + 3):
        events[0].record()
        if graph is not None:
            graph.replay()
        else:
            launches[i % len(launches)]()
        events[1].record()
        events[1].synchronize()
        times.append(events[0].elapsed_time(events[1]) * 1e-3 / (len(launches) if graph is not None else 1))
    times = times[3:]
    low, median, high = statistics.quantiles(times, n=4)
    method = f"graph of {len(launches)} launches" if graph is not None else "events, call by call"
    return Timing(median, low, high, method)


def measure_ceilings() -> dict[str, float]:
    """Bytes a second of a 4 GiB copy (read plus written), a 4 GiB read and a 4 GiB fill, through torch."""
    torch = _torch()
    a = torch.zeros(1 << 30, device="cuda", dtype=torch.float32)
    b = torch.empty_like(a)
    size = a.numel() * 4
    out = {
        "copy": 2 * size / measure([partial(b.copy_, a)], capture=False).median,
        "read": size / measure([a.sum]).median,
        "write": size / measure([partial(b.fill_, 1.0)]).median,
    }
    torch.cuda.empty_cache()
    return out


def _inputs(n: int, dtype: str, sets: int) -> list[Any]:
    torch = _torch()
    generator = torch.Generator("cuda").manual_seed(7)
    kind = getattr(torch, dtype)
    return [torch.randn(n, n, device="cuda", generator=generator).to(kind) for _ in range(sets)]


def _make_calls(task: Task, n: int) -> list[Callable[[], Any]]:
    """Calls of the API with outputs given, on enough buffers."""
    torch = _torch()
    read, written = count_bytes(task, n)
    sets = max(1, -(-ROTATION // (read + written)))
    layout = "128x4" if task.tiled else "row-major"
    tensor = torch.full((1,), 5.5, device="cuda") if task.two_level else None
    calls: list[Callable[[], Any]] = []
    for x in _inputs(n, task.dtype, sets):
        common: dict[str, Any] = {"profile": task.profile, "tensor_scale": tensor, "scale_layout": layout}
        if task.kind == "amax":
            out = torch.zeros(1, device="cuda")
            calls.append(partial(api.tensor_scale, x, "nvfp4", task.profile, out=out))
        elif task.kind == "both":
            first = api.quantize_both(x, task.fmt, **common)
            arrays = tuple(a for q in first for a in (q.codes, q.scales))
            calls.append(partial(api.quantize_both, x, task.fmt, out=arrays, **common))
        else:
            common |= {"axis": 0} if task.kind == "columns" else {}
            common |= {"seed": 1234} if task.stochastic else {}
            q = api.quantize(x, task.fmt, **common)
            if task.kind == "dequantize":
                calls.append(partial(api.dequantize, q.codes, q.scales, task.fmt, dtype=task.dtype, out=x, **common))
            else:
                calls.append(partial(api.quantize, x, task.fmt, out=(q.codes, q.scales), **common))
    return calls


def settle_ceilings(report: dict[str, Any]) -> None:
    """Shares of the larger of the bandwidths measured before and after the rows, in place: a slow copy flatters nobody."""
    first, last = report["bandwidth_at_the_start"], report["bandwidth_at_the_end"]
    ceilings = {k: max(first[k], last[k]) for k in first}
    report["bandwidth"] = ceilings
    for row in (*report["rows"], *report["peers"]):
        if "microseconds" in row:
            read, written = row["bytes"]["read"], row["bytes"]["written"]
            seconds = row["microseconds"] * 1e-6
            row["percent"] = round((read + written) / seconds / ceilings[row["against"]] * 100, 2)
            least = read / ceilings["read"] + written / ceilings["write"]
            row["percent_of_roofline"] = round(least / seconds * 100, 2)


def _row(name: str, n: int, bytes_moved: tuple[int, int], timing: Timing, ceilings: dict[str, float]) -> dict[str, Any]:
    read, written = bytes_moved
    least = read / ceilings["read"] + written / ceilings["write"]
    against = "copy" if written else "read"
    return {
        "name": name,
        "size": n,
        "microseconds": round(timing.median * 1e6, 2),
        "quartiles": [round(timing.low * 1e6, 2), round(timing.high * 1e6, 2)],
        "method": timing.method,
        "bytes": {"read": read, "written": written},
        "against": against,
        "percent": round((read + written) / timing.median / ceilings[against] * 100, 2),
        "percent_of_roofline": round(least / timing.median * 100, 2),
    }


def run_tasks(sizes: tuple[int, ...], ceilings: dict[str, float]) -> list[dict[str, Any]]:
    """One row for each task and size."""
    torch = _torch()
    rows = []
    for n in sizes:
        for task in TASKS:
            calls = _make_calls(task, n)
            row = _row(task.name, n, count_bytes(task, n), measure(calls), ceilings)
            row |= {
                "kind": task.kind,
                "format": task.fmt,
                "profile": task.profile,
                "tiled": task.tiled,
                "dtype": task.dtype,
            }
            if n == SIZES[0] and task.floor is not None:
                row |= {"floor": task.floor, "goal": task.goal}
            rows.append(row)
            del calls
            torch.cuda.empty_cache()
            print(f"{n:6} {row['name']:50} {row['microseconds']:9.1f} us {row['percent']:6.1f} %", flush=True)
    plain = {(r["size"], r["name"]): r["microseconds"] for r in rows}
    for r in rows:
        if r["tiled"]:
            base = plain[r["size"], r["name"].removesuffix(", 128x4 tiles")]
            r["percent_slower_than_row_major"] = round((r["microseconds"] / base - 1) * 100, 2)
            if r["size"] == SIZES[0]:
                r |= {"most_slower": 6, "goal_slower": 2}
    return rows


def measure_overhead() -> dict[str, Any]:
    """Microseconds of one Python call with outputs given, while the GPU keeps up."""
    cupy, torch = import_cupy(), _torch()
    out: dict[str, Any] = {"floor": 20, "goal": 10}
    for library, x in (("cupy", cupy.zeros((32, 64), cupy.float32)), ("torch", torch.zeros(32, 64, device="cuda"))):
        q = api.quantize(x, "mxfp4")
        given = (q.codes, q.scales)
        runs = []
        for _ in range(15):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(200):
                api.quantize(x, "mxfp4", out=given)
            runs.append((time.perf_counter() - start) / 200 * 1e6)
        out[library] = round(statistics.median(runs), 2)
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
        row = {
            "name": f"2**32 sweep of {name}",
            "milliseconds": round(statistics.median(times), 3),
            "most": 8,
            "goal": 4,
        }
        rows.append(row | {"different": int(found[0])})
    return rows


# Peers


def _make_call(function: Callable[..., Any], arguments: tuple[Any, ...], x: Any) -> Callable[[], Any]:
    return partial(function, x, *arguments)


def _peer_calls(n: int) -> list[tuple[str, str, tuple[int, int], Callable[[Any], Callable[[], Any]]]]:
    """(library, what, bytes, from a tensor the call)."""
    torch = _torch()

    def size(bits: float, k: int = 0, scale: int = 1) -> tuple[int, int]:
        return n * n * 2, int(n * n * bits / 8) + (n * n * scale // k if k else 0)

    peers: list[tuple[str, str, tuple[int, int], Callable[[Any], Callable[[], Any]]]] = [
        ("torch", "x.to(float8_e4m3fn), no scale", size(8), lambda x: lambda: x.to(torch.float8_e4m3fn)),
        ("torch", "x.to(float32), for comparison", (n * n * 2, n * n * 4), lambda x: lambda: x.to(torch.float32)),
    ]
    try:
        from torchao.prototype.mx_formats.config import ScaleCalculationMode
        from torchao.prototype.mx_formats.mx_tensor import to_dtype, to_mx
        from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize
    except Exception as error:
        print(f"torchao: {error}", file=sys.stderr)
    else:
        fp4 = getattr(torch, "float4_e2m1fn_x2", None)
        compiled = torch.compile(to_mx, fullgraph=True)
        for mode in (ScaleCalculationMode.FLOOR, ScaleCalculationMode.RCEIL):
            for element, bits in ((fp4, 4), (torch.float8_e4m3fn, 8)):
                if element is not None:
                    peers.append((
                        "torchao, torch.compile", f"to_mx {'mxfp4' if bits == 4 else 'mxfp8_e4m3'} {mode.name}", size(bits, 32),
                        partial(_make_call, compiled, (element, 32, mode)),
                    ))  # fmt: skip
        nv = torch.compile(nvfp4_quantize, fullgraph=True)
        scale = torch.full((), 0.002, device="cuda")
        peers.append(("torchao, torch.compile", "nvfp4_quantize", size(4, 16), lambda x: lambda: nv(x, 16, scale)))

        def make_dequantize(x: Any) -> Callable[[], Any]:
            scales, codes = compiled(x, torch.float8_e4m3fn, 32, ScaleCalculationMode.FLOOR)
            back = torch.compile(to_dtype, fullgraph=True)
            return lambda: back(codes, scales, torch.float8_e4m3fn, 32, torch.bfloat16)

        peers.append(("torchao, torch.compile", "to_dtype mxfp8_e4m3", size(8, 32), make_dequantize))
    try:
        import bitsandbytes.functional as bnb
    except Exception as error:
        print(f"bitsandbytes: {error}", file=sys.stderr)
    else:
        peers.append(
            (
                "bitsandbytes",
                "quantize_fp4, blocks of 64",
                size(4, 64, 4),
                lambda x: lambda: bnb.quantize_fp4(x, blocksize=64),
            )
        )

        def make_back(x: Any) -> Callable[[], Any]:
            codes, state = bnb.quantize_fp4(x, blocksize=64)
            return lambda: bnb.dequantize_fp4(codes, state)

        peers.append(("bitsandbytes", "dequantize_fp4, blocks of 64", size(4, 64, 4), make_back))
    return peers


def run_peers(sizes: tuple[int, ...], ceilings: dict[str, float]) -> list[dict[str, Any]]:
    """Other libraries on the same data in the same run."""
    torch = _torch()
    rows = []
    for n in sizes:
        torch._dynamo.reset()  # each size gets kernels of its own, as the first one does
        for library, what, moved, make in _peer_calls(n):
            try:
                sets = min(max(1, -(-ROTATION // sum(moved))), 4)
                calls = [make(x) for x in _inputs(n, "bfloat16", sets)]
                timing = measure(calls)
            except Exception as error:
                print(f"{library} {what}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
                rows.append(
                    {
                        "library": library,
                        "name": what,
                        "size": n,
                        "failed": f"{type(error).__name__}: {str(error)[:160]}",
                    }
                )
                torch.cuda.synchronize()
                continue
            rows.append({"library": library, **_row(what, n, moved, timing, ceilings)})
            del calls
            torch.cuda.empty_cache()
            print(
                f"{n:6} {library + ': ' + what:50} {rows[-1]['microseconds']:9.1f} us {rows[-1]['percent']:6.1f} %",
                flush=True,
            )
    return rows


def describe_environment() -> dict[str, Any]:
    """Chip, driver, versions and commit."""
    cupy, torch = import_cupy(), _torch()
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    query = subprocess.run(
        ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=False,
    )
    git = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    versions = {}
    for name in ("torch", "triton", "torchao", "bitsandbytes", "numpy"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    return {
        "device": properties["name"].decode(),
        "compute_capability": f"{properties['major']}.{properties['minor']}",
        "multiprocessors": properties["multiProcessorCount"],
        "driver": query.stdout.strip().splitlines()[0] if query.stdout.strip() else "unknown",
        "cuda": torch.version.cuda,
        "nvrtc": ".".join(map(str, cupy.cuda.nvrtc.getVersion())),
        "cupy": cupy.__version__,
        **versions,
        "python": platform.python_version(),
        "mxspec": mxspec.__version__,
        "commit": os.environ.get("MXSPEC_COMMIT") or git.stdout.strip() or "unknown",
    }


def _prebuild() -> None:
    sources = []
    for fmt, profile in {(t.fmt, t.profile) for t in TASKS}:
        level = (profile, fmt, fmt == "nvfp4")
        generate_rules(profile, fmt, two_level=level[2])
        sources += kernels.list_instantiations([level], (0,))
    capability = import_cupy().cuda.Device().compute_capability
    from mxspec_gpu.build import name_arch

    build_all(list(dict.fromkeys(sources)), name_arch((int(capability[:-1]), int(capability[-1]))), os.cpu_count() or 1)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--quick", action="store_true", help="only 16384 x 16384")
    options = parser.parse_args()
    run_bench(options.out, peers=options.peers, quick=options.quick)
    return 0


def run_bench(out: Path, *, peers: bool = False, quick: bool = False) -> None:
    """Measure and write the report. quick: only the largest size."""
    _prebuild()
    ceilings = measure_ceilings()
    print({k: f"{v / 1e12:.3f} TB/s" for k, v in ceilings.items()}, flush=True)
    sizes = SIZES[:1] if quick else SIZES
    report: dict[str, Any] = {
        "what": "the GPU kernels' speed as shares of the copy bandwidth of the same run",
        **describe_environment(),
        "bandwidth_at_the_start": {k: round(v) for k, v in ceilings.items()},
        "tasks": [asdict(t) for t in TASKS],
        "rows": run_tasks(sizes, ceilings),
        "overhead_microseconds": measure_overhead(),
        "sweeps": measure_sweeps(),
    }
    report["peers"] = run_peers(sizes, ceilings) if peers else []
    again = measure_ceilings()
    report["bandwidth_at_the_end"] = {k: round(v) for k, v in again.items()}
    settle_ceilings(report)
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_suffix(".part")
    temporary.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    temporary.replace(out)


if __name__ == "__main__":
    sys.exit(main())
