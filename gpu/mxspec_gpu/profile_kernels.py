"""The main kernels once each under Nsight Compute: `python -m mxspec_gpu.profile_kernels --out FILE [--steps]`.

The report says what was run: chip, versions, commit, date, ncu's own command. `--steps`: the documents' steps and sparse products, each
next to the kernel that it leads to. Needs torch as well as CuPy, and ncu on the path.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

#: ncu's name -> what it is called in the report.
METRICS = {
    "gpu__time_duration.sum": "microseconds",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "dram_percent",
    "dram__bytes_read.sum": "dram_bytes_read",
    "dram__bytes_write.sum": "dram_bytes_written",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "sm_percent",
    "smsp__issue_active.avg.pct_of_peak_sustained_active": "issue_slots_percent",
    "smsp__inst_executed.sum": "warp_instructions",
    "sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active": "alu_percent",
    "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active": "fma_percent",
    "sm__inst_executed_pipe_fmaheavy.avg.pct_of_peak_sustained_active": "fma_heavy_percent",
    "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active": "lsu_percent",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy_percent",
    "launch__registers_per_thread": "registers",
    # Of 32 bytes, for a warp's load: 16 where each of its threads reads 16 bytes that follow those of the thread before.
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio": "sectors_of_a_load",
    "lts__t_sectors.avg.pct_of_peak_sustained_elapsed": "l2_percent",
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": "stall_memory",
    "smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio": "stall_store_queue",
    "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio": "stall_math_pipe",
    "smsp__average_warps_issue_stalled_not_selected_per_issue_active.ratio": "stall_not_selected",
    "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio": "stall_wait",
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio": "stall_barrier",
    "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio": "stall_shared_memory",
    "smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio": "stall_mio",
    "smsp__average_warps_issue_stalled_no_instruction_per_issue_active.ratio": "stall_instruction_fetch",
    "smsp__average_warps_issue_stalled_drain_per_issue_active.ratio": "stall_drain",
}
SIZE = 16384
#: What is profiled, of all that a process launches.
_KERNELS = "quantize_rows|quantize_columns|quantize_both|quantize_square|quantize_grid_stride|dequantize|tensor_amax|gemv|gemv_sparse"
Launches = list[tuple[str, Any]]


def list_step_launches() -> Launches:
    """The same of the documents' steps and sparse products, each before or after the kernel that it is held against."""
    from mxspec_gpu import api, lookup, steps
    from mxspec_gpu.bench_rows import draw_blocks, draw_values
    from mxspec_gpu.bench_steps import QUANTIZE, draw_sparse
    from mxspec_gpu.sparse_gemv import sparse_gemv
    from mxspec_gpu.tasks import LARGE
    from mxspec_gpu.timing import import_torch

    torch = import_torch()
    launches: Launches = []
    x, vector = draw_values(*LARGE), draw_values(1, SIZE)
    for profile, fmt in QUANTIZE:
        tensor = {"tensor_scale": torch.full((1,), 500.0, device="cuda")} if fmt == "nvfp4" else {}
        options: dict[str, Any] = {"profile": profile, "scale_layout": "128x4", **tensor}
        launches.append((f"{fmt} quantize, grid stride", partial(steps.quantize_grid_stride, x, fmt, **options)))
        launches.append((f"{fmt} quantize, the real kernel", partial(api.quantize, x, fmt, **options)))
    for fmt in ("mxfp4", "nvfp4"):
        launches.append((f"{fmt} product with 1 vector", partial(lookup.gemv, vector, *draw_blocks(fmt, LARGE), fmt)))
        launches.append((f"{fmt} sparse product with 1 vector", partial(sparse_gemv, vector, *draw_sparse(fmt, LARGE), fmt)))
    torch.cuda.synchronize()
    return launches


def list_launches() -> Launches:
    """Names in order, and what launches each kernel."""
    import torch

    from mxspec.formats import get_block
    from mxspec_gpu import api

    generator = torch.Generator("cuda").manual_seed(7)
    x = torch.randn(SIZE, SIZE, device="cuda", generator=generator).to(torch.bfloat16)
    scales = {"nvfp4": {"tensor_scale": torch.full((1,), 5.5, device="cuda")}}

    def quantize(name: str, fmt: str, **options: Any) -> tuple[str, Any]:
        return f"{fmt} quantize{name}", partial(api.quantize, options.pop("x", x), fmt, **scales.get(fmt, {}), **options)

    profiles = (
        ("mxfp4", "mx-floor"), ("nvfp4", "nvfp4-te"), ("nvfp4", "vllm-0.33/nvfp4/kernel"), ("mxfp6_e2m3", "mx-floor"),
        ("mxfp8_e4m3", "mx-floor"), ("mxint8", "mx-floor"),
    )  # fmt: skip
    launches: Launches = [quantize(f", {profile}", fmt, profile=profile) for fmt, profile in profiles]
    launches += [quantize(", 16 x 16 blocks", "nvfp4", block=(16, 16)), quantize(", stochastic", "mxfp4", seed=1)]
    launches += [quantize(", 128x4 tiles", fmt, scale_layout="128x4") for fmt in ("mxfp4", "nvfp4")]
    launches += [quantize(" columns", fmt, axis=0) for fmt in ("mxfp4", "mxfp8_e4m3", "mxfp6_e2m3", "nvfp4")]
    for fmt in ("mxfp4", "mxfp8_e4m3", "nvfp4"):
        launches.append((f"{fmt} quantize rows and columns", partial(api.quantize_both, x, fmt, **scales.get(fmt, {}))))
    for fmt in ("mxfp4", "nvfp4"):
        launches += [quantize(", pitched", fmt, x=x[:, :-32]), quantize(", odd width", fmt, x=x[:, 1:], pad=True)]
    for fmt in ("mxfp4", "nvfp4", "mxfp6_e2m3", "mxfp8_e4m3", "mxint8"):
        block = get_block(fmt)
        # Scales near 1 and any codes: what the bits are does not matter to the kernel's speed.
        codes = torch.randint(0, 256, (SIZE, SIZE * block.element.bits // 8), device="cuda", dtype=torch.uint8)
        near = torch.full((SIZE, SIZE // block.k), 120 if fmt != "nvfp4" else 56, device="cuda", dtype=torch.uint8)
        launches.append((f"{fmt} dequantize", partial(api.dequantize, codes, near, fmt, out=x, **scales.get(fmt, {}))))
    launches.append(("tensor amax", partial(api.tensor_scale, x, "nvfp4")))
    torch.cuda.synchronize()
    return launches


def parse_report(text: str, names: list[str]) -> list[dict[str, Any]]:
    """ncu's CSV (raw page) as one dictionary for each kernel, in launch order.

    Raises ValueError where the numbers of kernels differ.
    """
    lines = [line for line in text.splitlines() if line.startswith('"')]
    table = list(csv.DictReader(io.StringIO("\n".join(lines))))
    units, rows = table[0], table[1:]
    if len(rows) != len(names):
        raise ValueError(f"the profile has {len(rows)} kernels, {len(names)} were expected: {', '.join(names)}")
    scale = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}
    out = []
    for name, row in zip(names, rows, strict=True):
        values: dict[str, Any] = {"name": name, "kernel": row["Kernel Name"]}
        for metric, short in METRICS.items():
            cell = (row.get(metric) or "").replace(",", "")
            if cell:
                values[short] = round(float(cell) * scale.get(units.get(metric) or "", 1.0), 4)
        out.append(values)
    return out


def _profile(steps: bool) -> dict[str, Any]:
    from mxspec_gpu.bench_reports import describe_environment

    with tempfile.TemporaryDirectory() as folder:
        log, names = Path(folder, "log.csv"), Path(folder, "names.json")
        ncu = ["ncu", "--clock-control", "none", "--target-processes", "all", "--csv", "--page", "raw", "-k", f"regex:^({_KERNELS})$"]
        run = [sys.executable, "-m", "mxspec_gpu.profile_kernels", "--launch", str(names), *(["--steps"] if steps else [])]
        subprocess.run([*ncu, "--metrics", ",".join(METRICS), "--log-file", str(log), *run], check=True)
        rows = parse_report(log.read_text("utf-8"), json.loads(names.read_text("utf-8")))
    version = subprocess.run(["ncu", "--version"], check=True, capture_output=True, text=True).stdout.strip().splitlines()[-1]
    return {
        "what": f"Nsight Compute's counters of one launch of each kernel, {SIZE} x {SIZE}",
        **describe_environment(),
        "ncu": version,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "command": " ".join([*ncu, "--metrics", "METRICS", "python -m mxspec_gpu.profile_kernels --launch NAMES", *run[5:]]),
        "metrics": METRICS,
        "rows": rows,
    }


def main() -> int:
    """Profile this module's own launches, or launch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="the report")
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--launch", type=Path, help="what ncu runs: each kernel once, and their names into this file")
    options = parser.parse_args()
    if options.launch:
        from mxspec_gpu.timing import import_torch

        launches = list_step_launches() if options.steps else list_launches()
        for _, call in launches:
            call()
            import_torch().cuda.synchronize()
        options.launch.write_text(json.dumps([name for name, _ in launches]), "utf-8")
        return 0
    if options.out is None:
        parser.error("--out FILE is needed")
    from mxspec_gpu.bench_reports import write_report

    write_report(options.out, _profile(options.steps))
    return 0


if __name__ == "__main__":
    sys.exit(main())
