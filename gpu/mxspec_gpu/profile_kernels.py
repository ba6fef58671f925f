"""The main kernels once each, for Nsight Compute, and its answer as JSON.

    ncu --clock-control none --target-processes all --csv --page raw --metrics METRICS \\
        -k regex:'^(quantize_rows|quantize_columns|dequantize|tensor_amax)$' --log-file FILE python -m mxspec_gpu.profile_kernels
    python -m mxspec_gpu.profile_kernels --parse FILE --out JSON

METRICS is what `python -m mxspec_gpu.profile_kernels --metrics` prints.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
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


def list_launches() -> list[tuple[str, Any]]:
    """Names in order, and what launches each kernel."""
    import torch

    from mxspec.formats import get_block
    from mxspec_gpu import api

    generator = torch.Generator("cuda").manual_seed(7)
    x = torch.randn(SIZE, SIZE, device="cuda", generator=generator).to(torch.bfloat16)
    tensor = torch.full((1,), 5.5, device="cuda")
    launches: list[tuple[str, Any]] = []

    def add(name: str, call: Any) -> None:
        launches.append((name, call))

    for fmt, profile in (
        ("mxfp4", "mx-floor"), ("nvfp4", "nvfp4-te"), ("nvfp4", "vllm-0.33/nvfp4/kernel"), ("mxfp6_e2m3", "mx-floor"),
        ("mxfp8_e4m3", "mx-floor"), ("mxint8", "mx-floor"),
    ):  # fmt: skip
        t = tensor if fmt == "nvfp4" else None
        add(f"{fmt} quantize, {profile}", lambda f=fmt, p=profile, t=t: api.quantize(x, f, profile=p, tensor_scale=t))
    for fmt in ("mxfp4", "nvfp4"):
        t = tensor if fmt == "nvfp4" else None
        add(f"{fmt} quantize, 128x4 tiles", lambda f=fmt, t=t: api.quantize(x, f, tensor_scale=t, scale_layout="128x4"))
    add("mxfp4 quantize, stochastic", lambda: api.quantize(x, "mxfp4", seed=1))
    for fmt in ("mxfp4", "mxfp8_e4m3", "mxfp6_e2m3", "nvfp4"):
        t = tensor if fmt == "nvfp4" else None
        add(f"{fmt} quantize columns", lambda f=fmt, t=t: api.quantize(x, f, axis=0, tensor_scale=t))
    for fmt in ("mxfp4", "mxfp8_e4m3", "nvfp4"):
        t = tensor if fmt == "nvfp4" else None
        add(f"{fmt} quantize rows and columns", lambda f=fmt, t=t: api.quantize_both(x, f, tensor_scale=t))
    for fmt in ("mxfp4", "nvfp4"):
        t = tensor if fmt == "nvfp4" else None
        add(f"{fmt} quantize, pitched", lambda f=fmt, t=t: api.quantize(x[:, :-32], f, tensor_scale=t))
        add(f"{fmt} quantize, odd width", lambda f=fmt, t=t: api.quantize(x[:, 1:], f, tensor_scale=t, pad=True))
    for fmt in ("mxfp4", "nvfp4", "mxfp6_e2m3", "mxfp8_e4m3", "mxint8"):
        block = get_block(fmt)
        # Scales near 1 and any codes: what the bits are does not matter to the kernel's speed.
        codes = torch.randint(0, 256, (SIZE, SIZE * block.element.bits // 8), device="cuda", dtype=torch.uint8)
        scales = torch.full((SIZE, SIZE // block.k), 120 if fmt != "nvfp4" else 56, device="cuda", dtype=torch.uint8)
        t = tensor if fmt == "nvfp4" else None
        add(f"{fmt} dequantize", lambda c=codes, s=scales, f=fmt, t=t: api.dequantize(c, s, f, tensor_scale=t, out=x))
    add("tensor amax", lambda: api.tensor_scale(x, "nvfp4"))
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


def main() -> int:
    """Launch, parse, or print the metrics."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parse", type=Path)
    parser.add_argument("--names", type=Path, help="where the launch order is written, and read when parsing")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--metrics", action="store_true")
    options = parser.parse_args()
    if options.metrics:
        print(",".join(METRICS))
        return 0
    if options.parse:
        names = json.loads(options.names.read_text("utf-8"))
        rows = parse_report(options.parse.read_text("utf-8"), names)
        options.out.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
        return 0
    import torch

    launches = list_launches()
    for _, call in launches:
        call()
        torch.cuda.synchronize()
    if options.names:
        options.names.write_text(json.dumps([name for name, _ in launches]), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
