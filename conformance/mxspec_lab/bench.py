"""`python -m mxspec_lab bench`: how fast the model is, as ratios.

Times of arrays say more about a machine than about code, so every array row is a ratio to `np.copyto` of the same
float32 tensor, measured in pairs, one right after the other. Only commands and imports are given in seconds.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np
import numpy.typing as npt

import mxspec
from mxspec import fast
from mxspec.layouts import Padding, get_layout
from mxspec_conformance.cli.main import SETTINGS

Floats = npt.NDArray[np.float32]
Run = Callable[[], Any]

BASELINE = "np.copyto of the float32 tensor into a destination already touched, one thread"
#: Share of the input's bytes that an operation may need beyond input and output.
MEMORY_BAR = 0.5
#: Seconds of `import mxspec` beyond NumPy and ml_dtypes.
IMPORT_BAR = 0.15
IMPORT_RUNS = 9


@dataclass(frozen=True, slots=True)
class Case:
    """One array operation of mxspec."""

    what: str
    #: Makes, of the tensor, what is timed.
    prepare: Callable[[Floats], Run]
    #: Least elements per second in units of `np.copyto`'s, as a fraction 1 / bar.
    bar: float | None
    #: Threads of mxspec; None: one for each processor.
    threads: int | None = None


def _quantize(fmt: str, profile: str, tensor_scale: Literal["auto"] | None = None) -> Callable[[Floats], Run]:
    def prepare(x: Floats) -> Run:
        return lambda: mxspec.quantize(x, fmt, profile=profile, tensor_scale=tensor_scale)

    return prepare


def _dequantize(fmt: str, tensor_scale: Literal["auto"] | None = None) -> Callable[[Floats], Run]:
    def prepare(x: Floats) -> Run:
        t = mxspec.quantize(x, fmt, tensor_scale=tensor_scale)
        return lambda: mxspec.dequantize(t.codes, t.scales, fmt, tensor_scale=t.tensor_scale)

    return prepare


CASES: tuple[Case, ...] = (
    Case("mxfp4 quantize, mx-floor", _quantize("mxfp4", "mx-floor"), 12),
    Case("nvfp4 quantize, nvfp4-te, two-level", _quantize("nvfp4", "nvfp4-te", "auto"), 20),
    Case("mxfp8_e4m3 quantize, mx-floor", _quantize("mxfp8_e4m3", "mx-floor"), 12),
    Case("mxfp4 quantize, mx-floor, one thread", _quantize("mxfp4", "mx-floor"), None, 1),
    Case("mxfp4 quantize, mx-floor, two threads", _quantize("mxfp4", "mx-floor"), 5, 2),
    Case("mxfp4 dequantize, unpacked codes", _dequantize("mxfp4"), 2.4),
    Case("mxfp4 dequantize, unpacked codes, one thread", _dequantize("mxfp4"), None, 1),
    Case("mxint8 quantize, mx-rceil", _quantize("mxint8", "mx-rceil"), None),
    Case("nvfp4 dequantize, two-level", _dequantize("nvfp4", "auto"), None),
    Case("mxfp8_e4m3 dequantize", _dequantize("mxfp8_e4m3"), None),
)


@dataclass(frozen=True, slots=True)
class LayoutCase:
    """Packing and unpacking in one layout."""

    layout: str
    #: Columns of the matrix of items for each column of the tensor.
    divide: int
    #: Codes that items take.
    codes: int
    bar: int | None


#: Codes of a whole tensor, and the scales of its blocks.
LAYOUT_CASES: tuple[LayoutCase, ...] = (
    LayoutCase("nibble-low", 1, 16, 6),
    LayoutCase("nibble-high", 1, 16, 6),
    LayoutCase("nibble-split-32", 1, 16, 6),
    LayoutCase("128x4", 32, 256, 6),
    LayoutCase("128x4", 16, 128, 6),
    LayoutCase("8x4", 16, 128, 6),
    LayoutCase("fp6-le", 1, 64, 6),
    LayoutCase("gptq", 1, 16, 6),
    LayoutCase("awq", 1, 16, 6),
    LayoutCase("marlin", 1, 16, 6),
)


def _torchao_mxfp4(x: Floats) -> Run:
    import torch
    from torchao.prototype.mx_formats.mx_tensor import to_mx

    data = torch.from_numpy(x)
    return lambda: to_mx(data, torch.float4_e2m1fn_x2, 32)


def _torchao_nvfp4(x: Floats) -> Run:
    import torch
    from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize, per_tensor_amax_to_scale

    data = torch.from_numpy(x)
    return lambda: nvfp4_quantize(data, 16, per_tensor_amax_to_scale(torch.max(torch.abs(data))))


def _ggml(function: str, threads: int) -> Callable[[Floats], Run]:
    """A function of libggml-base on rows of the tensor, shared out to threads; codes and scale bytes in its own memory."""

    def prepare(x: Floats) -> Run:
        from mxspec_conformance.adapters.ggml import load_function

        call, blocks = load_function(function), x.size // 32
        stored = np.zeros((blocks, 17), np.uint8)
        load_function("quantize_row_mxfp4_ref")(x.ctypes.data, stored.ctypes.data, x.size)
        values = np.zeros(x.size, np.float32)
        source, target = (x.reshape(blocks, 32), stored) if function.startswith("quantize") else (stored, values.reshape(blocks, 32))
        ends = [blocks * i // threads for i in range(threads + 1)]

        def part(i: int) -> None:
            first, last = ends[i], ends[i + 1]
            call(source[first:].ctypes.data, target[first:].ctypes.data, 32 * (last - first))

        def run() -> None:
            if threads == 1:
                return part(0)
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(part, range(threads)))
            return None

        return run

    return prepare


def _gguf_mxfp4(x: Floats) -> Run:
    from gguf import GGMLQuantizationType, quants

    return lambda: quants.quantize(x, GGMLQuantizationType.MXFP4)


def _gguf_mxfp4_back(x: Floats) -> Run:
    from gguf import GGMLQuantizationType, quants

    stored = quants.quantize(x, GGMLQuantizationType.MXFP4)
    return lambda: quants.dequantize(stored, GGMLQuantizationType.MXFP4)


#: ggml's C functions and the Python package of llama.cpp. Codes are packed; C writes into memory that it is given.
GGML: tuple[Case, ...] = (
    *(Case(f"ggml {f}, C, {n} thread{'s' if n > 1 else ''}", _ggml(f, n), None)
      for f in ("quantize_row_mxfp4_ref", "dequantize_row_mxfp4") for n in (1, 2)),
    Case("gguf quantize, mxfp4", _gguf_mxfp4, None),
    Case("gguf dequantize, mxfp4", _gguf_mxfp4_back, None),
)  # fmt: skip

#: torchao's counterparts, eager on CPU with its own number of threads; its codes are packed.
TORCHAO: tuple[Case, ...] = (
    Case("torchao to_mx, mxfp4, floor", _torchao_mxfp4, None),
    Case("torchao nvfp4_quantize, two-level", _torchao_nvfp4, None),
)


def measure_ratio(
    run: Run, source: npt.NDArray[Any], target: npt.NDArray[Any], pairs: int, *, share: float = 1
) -> dict[str, Any]:
    """Elements per second of `run` in units of `np.copyto`'s: the median over interleaved pairs, and the spread.

    share: what `run` moves of as many elements as are copied.
    """
    for _ in range(2):
        np.copyto(target, source)
        run()
    ratios = []
    for _ in range(pairs):
        start = time.perf_counter()
        np.copyto(target, source)
        copied = time.perf_counter()
        result = run()
        end = time.perf_counter()
        del result  # giving its memory back is not the operation's work
        ratios.append(share * (copied - start) / (end - copied))
    low, median, high = statistics.quantiles(ratios, n=4, method="inclusive") if pairs > 1 else ratios * 3
    return {
        "ratio": round(median, 5),
        "quartiles": [round(low, 5), round(high, 5)],
        "range": [round(min(ratios), 5), round(max(ratios), 5)],
    }


def count_bytes(result: Any) -> int:
    """Bytes of the arrays that an operation returns."""
    if isinstance(result, mxspec.BlockTensor):
        return result.codes.nbytes + result.scales.nbytes
    return int(result.nbytes)


def measure_memory(run: Run, source: Floats) -> float:
    """The most memory held at once beyond input and output, as a share of the float32 tensor's bytes."""
    output = count_bytes(run())
    tracemalloc.start()
    try:
        result = run()
        peak = tracemalloc.get_traced_memory()[1]
        del result
    finally:
        tracemalloc.stop()
    return round(max(peak - output, 0) / source.nbytes, 4)


def run_case(case: Case, source: Floats, target: Floats, pairs: int) -> dict[str, Any]:
    """One row of mxspec."""
    fast.most_threads = case.threads
    try:
        run = case.prepare(source)
        row: dict[str, Any] = {"what": case.what, "bar": case.bar, **measure_ratio(run, source, target, pairs)}
        row["met"] = None if case.bar is None else row["ratio"] * case.bar >= 1
        row["extra_memory"] = measure_memory(run, source)
        row["memory_met"] = row["extra_memory"] <= MEMORY_BAR
    finally:
        fast.most_threads = None
    return row


def run_layout(case: LayoutCase, size: int, pairs: int) -> list[dict[str, Any]]:
    """Two rows: packing and unpacking, in bytes of items per second against a plain copy's; none where the size does not fit."""
    layout = get_layout(case.layout)
    if layout.padding is Padding.REFUSED and (size % layout.tile[0] or size // case.divide % layout.tile[1]):
        return []
    items = np.random.default_rng(0).integers(0, case.codes, (size, size // case.divide)).astype(np.uint8)
    data = layout.pack(items)
    # The copy is of a whole tensor of codes: scales alone would lie in the cache.
    source = np.ones((size, size), np.uint8)
    target, share = np.zeros_like(source), items.size / source.size
    rows = []
    for what, run in (("pack", lambda: layout.pack(items)), ("unpack", lambda: layout.unpack(data, items.shape))):
        row: dict[str, Any] = {
            "what": f"{case.layout} {what}, {items.shape[0]} x {items.shape[1]} bytes",
            "bar": case.bar,
        }
        row |= measure_ratio(run, source, target, pairs, share=share)
        row["met"] = None if case.bar is None else row["ratio"] * case.bar >= 1
        rows.append(row)
    return rows


def run_ggml(case: Case, source: Floats, target: Floats, pairs: int) -> dict[str, Any]:
    """One row of ggml or gguf, or why there is none."""
    try:
        run = case.prepare(source)
    except ImportError as error:
        return {"what": case.what, "reason": str(error)}
    return {"what": case.what, **measure_ratio(run, source, target, pairs)}


def run_torchao(case: Case, source: Floats, target: Floats, pairs: int) -> dict[str, Any]:
    """One row of torchao, or why there is none."""
    if find_spec("torch") is None or find_spec("torchao") is None:
        return {"what": case.what, "reason": "torch and torchao are not both installed"}
    try:
        run = case.prepare(source)
    except ImportError as error:
        return {"what": case.what, "reason": f"this torchao lacks it ({error})"}
    return {"what": case.what, **measure_ratio(run, source, target, pairs)}


def _child_environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def measure_import() -> float:
    """Seconds that `import mxspec` takes once NumPy and ml_dtypes are there: the median of fresh interpreters."""
    code = "import time, numpy, ml_dtypes; t = time.perf_counter(); import mxspec; print(time.perf_counter() - t)"
    seconds = []
    for _ in range(IMPORT_RUNS + 1):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_child_environment()
        )
        seconds.append(float(done.stdout))
    return round(statistics.median(seconds[1:]), 4)  # the first one may compile


def run_command(arguments: list[str], accepted: tuple[int, ...]) -> dict[str, Any]:
    """Seconds of one `mxspec` command in a process of its own, or why there are none."""
    row: dict[str, Any] = {"what": " ".join(["mxspec", *arguments])}
    if find_spec("mxspec_conformance") is None:
        return {**row, "reason": "the command line is not importable"}
    folder = Path(tempfile.mkdtemp(prefix="mxspec-bench-"))
    placed = [a.replace("OUT", str(folder / "v1")) for a in arguments]
    start = time.perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "mxspec_conformance", *placed],
            capture_output=True, text=True, check=False, env=_child_environment(), cwd=folder,
        )  # fmt: skip
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    seconds = time.perf_counter() - start
    if done.returncode not in accepted:
        lines = done.stderr.strip().splitlines()
        return {**row, "reason": f"exit code {done.returncode}: {lines[-1] if lines else 'no message'}"}
    return {**row, "seconds": round(seconds, 2)}


#: Commands and the exit codes with which they did their work (`check` returns 1 for a library that deviates).
COMMANDS: tuple[tuple[list[str], tuple[int, ...]], ...] = (
    (["check", "gguf"], (0, 1)),
    (["vectors", "build", "--out", "OUT"], (0,)),
)


def _find_cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _find_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def describe_machine() -> dict[str, Any]:
    """Where the run took place."""
    return {
        "cpu": _find_cpu(),
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "os": platform.platform(terse=True),
        "python": platform.python_version(),
        "mxspec": mxspec.__version__,
        **{name: _find_version(name) for name in ("numpy", "ml_dtypes", "torch", "torchao", "gguf")},
    }


def run_bench(
    *, size: int = 4096, pairs: int = 15, commands: bool = True, progress: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Measure everything on a size x size tensor of N(0, 1) and return rows that JSON can hold."""
    if size < 32 or size % 32:
        raise ValueError(f"size = {size}; it must be a positive multiple of 32, the largest block")
    if pairs < 1:
        raise ValueError(f"pairs = {pairs}; at least one is needed")
    step = progress or (lambda _: None)
    machine = describe_machine()
    source = np.random.default_rng(0).standard_normal((size, size), dtype=np.float32)
    target = np.zeros_like(source)
    rows, moved, ggml, others, timed = [], [], [], [], []
    for case in CASES:
        step(case.what)
        rows.append(run_case(case, source, target, pairs))
    for layout_case in LAYOUT_CASES:
        step(layout_case.layout)
        moved += run_layout(layout_case, size, pairs)
    for case in GGML:
        step(case.what)
        ggml.append(run_ggml(case, source, target, pairs))
    for case in TORCHAO:
        step(case.what)
        others.append(run_torchao(case, source, target, pairs))
    step("import mxspec")
    seconds = measure_import()
    for arguments, accepted in COMMANDS if commands else ():
        step(" ".join(arguments))
        timed.append(run_command(arguments, accepted))
    return {
        "command": f"python -m mxspec_lab bench --size {size} --pairs {pairs}" + ("" if commands else " --no-commands"),
        "machine": machine,
        "input": f"{size} x {size} float32, N(0, 1)",
        "baseline": BASELINE,
        "pairs": pairs,
        "memory_bar": MEMORY_BAR,
        "arrays": rows,
        "layouts": moved,
        "ggml": ggml,
        "torchao": others,
        "import": {"what": "import mxspec", "seconds": seconds, "bar": IMPORT_BAR, "met": seconds <= IMPORT_BAR},
        "commands": timed,
    }


def format_ratio(ratio: float) -> str:
    """A ratio as people say it: 1/7.4 or 1.3."""
    return f"1/{1 / ratio:.1f}" if ratio < 1 else f"{ratio:.1f}"


def format_met(met: bool | None) -> str:
    """Whether a bar is met; nothing where there is none."""
    return {True: "yes", False: "no", None: ""}[met]


HEADERS = ("operation", "relative to np.copyto", "quartiles", "required", "met", "extra memory")
SECOND_HEADERS = ("operation", "seconds", "required", "met")


def table_rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """Cells of the measured array rows, under `HEADERS`."""
    cells: list[tuple[str, ...]] = []
    for row in [*result["arrays"], *result.get("ggml", ()), *result["torchao"], *result["layouts"]]:
        if "ratio" in row:
            quartiles = " .. ".join(format_ratio(r) for r in row["quartiles"])
            bar = "" if row.get("bar") is None else f"1/{row['bar']}"
            memory = f"{row['extra_memory']:.0%}" if "extra_memory" in row else ""
            cells.append((row["what"], format_ratio(row["ratio"]), quartiles, bar, format_met(row.get("met")), memory))
    return cells


def missing_rows(result: dict[str, Any]) -> list[str]:
    """A line for each row that could not be measured."""
    every = [*result.get("ggml", ()), *result["torchao"], *result["commands"]]
    return [f"{row['what']}: not measured, {row['reason']}" for row in every if "reason" in row]


def second_rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """(what, seconds, bar, met) of imports and commands."""
    cells: list[tuple[str, ...]] = []
    for row in [result["import"], *result["commands"]]:
        if "seconds" in row:
            bar = f"{row['bar']} s" if "bar" in row else ""
            cells.append((row["what"], f"{row['seconds']:.2f} s", bar, format_met(row.get("met"))))
    return cells


def describe_run(result: dict[str, Any]) -> list[str]:
    """What, where and against what, in a few lines."""
    machine = result["machine"]
    packages = [f"{p} {machine[p]}" for p in ("mxspec", "numpy", "ml_dtypes", "torch", "torchao", "gguf") if machine.get(p)]
    load = "" if machine["load_average"] is None else f", load {machine['load_average']} at the start"
    return [
        f"{machine['cpu']}, {machine['cores']} cores{load}; {machine['os']}; Python {machine['python']}",
        ", ".join(packages),
        f"{result['input']}; baseline: {result['baseline']}; median of {result['pairs']} interleaved pairs",
        "layouts: bytes of items per second, relative to a copy of one byte per element",
        f"extra memory: peak beyond input and output, as a share of the float32 tensor; required: at most {result['memory_bar']:.0%}",
    ]


def format_bench(result: dict[str, Any]) -> str:
    """The result as Markdown."""

    def table(headers: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
        lines = ["| " + " | ".join(headers) + " |", "|" + " --- |" * len(headers)]
        return lines + ["| " + " | ".join(row) + " |" for row in rows]

    lines = [*(f"- {line}" for line in describe_run(result)), ""]
    lines += [*table(HEADERS, table_rows(result)), "", *table(SECOND_HEADERS, second_rows(result))]
    missing = missing_rows(result)
    if missing:
        lines += ["", *(f"- {line}" for line in missing)]
    return "\n".join(lines) + "\n"


@click.command("bench", context_settings=SETTINGS)
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the result as JSON; '-' prints it."
)
@click.option("--size", default=4096, show_default=True, help="Rows and columns of the tensor, a multiple of 32.")
@click.option("--pairs", default=15, show_default=True, help="Number of interleaved measurements; the median is reported.")
@click.option("--no-commands", is_flag=True, help="Skip the measurements of whole commands.")
@click.option(
    "--markdown", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Print the tables of reports/bench/speed.md from this result and exit.",
)  # fmt: skip
def bench(json_file: Path | None, size: int, pairs: int, no_commands: bool, markdown: Path | None) -> None:
    """Benchmark the model against a plain memory copy."""
    from rich.table import Table

    from mxspec_conformance.cli.console import make_console, show_progress
    from mxspec_vectors.files import write_file

    if markdown is not None:
        click.echo(format_bench(json.loads(markdown.read_text("ascii"))), nl=False)
        return
    with show_progress("measuring") as progress:
        result = run_bench(size=size, pairs=pairs, commands=not no_commands, progress=progress)
    text = json.dumps(result, indent=1) + "\n"
    if str(json_file) == "-":
        click.echo(text, nl=False)
        return
    if json_file is not None:
        write_file(json_file, text.encode("ascii"))
    console = make_console()
    for line in describe_run(result):
        console.print(line, style="dim")
    for headers, rows in ((HEADERS, table_rows(result)), (SECOND_HEADERS, second_rows(result))):
        table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
        for header in headers:
            table.add_column(header, no_wrap=header != "operation")
        for cells in rows:
            met = cells[headers.index("met")]
            table.add_row(*cells, style={"yes": "green", "no": "bold red"}.get(met, ""))
        console.print()
        console.print(table)
    for line in missing_rows(result):
        console.print(line, style="dim")
