"""`python -m mxspec_lab bench`: how fast the model is, as ratios.

Times of arrays say more about a machine than about code, so every array row is a ratio to `np.copyto` of the same
float32 tensor, measured in pairs, one right after the other. Only commands and imports are given in seconds.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import click
import numpy as np
import numpy.typing as npt

import mxspec
from mxspec import fast
from mxspec.layouts import Padding, get_layout
from mxspec_conformance.cli.console import show_progress
from mxspec_conformance.cli.main import SETTINGS
from mxspec_conformance.results.environment import describe_machine
from mxspec_vectors.files import write_file

Floats = npt.NDArray[np.float32]
Run = Callable[[], Any]

BASELINE = "np.copyto of the float32 tensor into a destination already touched, one thread"
#: Share of the input's bytes that an operation may need beyond input and output.
MEMORY_BAR = 0.5
#: Seconds of `import mxspec` beyond NumPy and ml_dtypes.
IMPORT_BAR = 0.15
IMPORT_RUNS = 9
PACKAGES = ("numpy", "ml_dtypes", "torch", "torchao", "gguf")
#: Commands and the exit codes with which they did their work (`check` returns 1 for a library that deviates).
COMMANDS: tuple[tuple[list[str], tuple[int, ...]], ...] = ((["check", "gguf"], (0, 1)), (["vectors", "build", "--out", "OUT"], (0,)))


@dataclass(frozen=True, slots=True)
class Case:
    """One array operation."""

    what: str
    #: Makes, of the tensor, what is timed.
    prepare: Callable[[Floats], Run]
    #: Least elements per second in units of `np.copyto`'s, as a fraction 1 / bar.
    bar: float | None = None
    #: Threads of mxspec; None: one for each processor.
    threads: int | None = None


def _quantize(fmt: str, profile: str, tensor_scale: Literal["auto"] | None = None) -> Callable[[Floats], Run]:
    return lambda x: lambda: mxspec.quantize(x, fmt, profile=profile, tensor_scale=tensor_scale)


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
    Case("mxint8 quantize, mx-rceil", _quantize("mxint8", "mx-rceil")),
    Case("nvfp4 dequantize, two-level", _dequantize("nvfp4", "auto")),
    Case("mxfp8_e4m3 dequantize", _dequantize("mxfp8_e4m3")),
)
#: Layout, columns of the tensor for each column of the matrix of items, and codes that items take; the bar is of all.
LAYOUT_BAR = 6
LAYOUTS = (
    ("nibble-low", 1, 16), ("nibble-high", 1, 16), ("nibble-split-32", 1, 16), ("128x4", 32, 256), ("128x4", 16, 128), ("8x4", 16, 128),
    ("fp6-le", 1, 64), ("gptq", 1, 16), ("awq", 1, 16), ("marlin", 1, 16),
)  # fmt: skip


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
    *(Case(f"ggml {f}, C, {n} thread{'s' if n > 1 else ''}", _ggml(f, n))
      for f in ("quantize_row_mxfp4_ref", "dequantize_row_mxfp4") for n in (1, 2)),
    Case("gguf quantize, mxfp4", _gguf_mxfp4),
    Case("gguf dequantize, mxfp4", _gguf_mxfp4_back),
)  # fmt: skip
#: torchao's counterparts, eager on CPU with its own number of threads; its codes are packed.
TORCHAO = (Case("torchao to_mx, mxfp4, floor", _torchao_mxfp4), Case("torchao nvfp4_quantize, two-level", _torchao_nvfp4))


def measure_ratio(run: Run, source: npt.NDArray[Any], target: npt.NDArray[Any], pairs: int, *, share: float = 1) -> dict[str, Any]:
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
        "ratio": round(median, 5), "quartiles": [round(low, 5), round(high, 5)], "range": [round(min(ratios), 5), round(max(ratios), 5)],
    }  # fmt: skip


def _judge(row: dict[str, Any], bar: float | None) -> dict[str, Any]:
    return {"what": row["what"], "bar": bar, **row, "met": None if bar is None else row["ratio"] * bar >= 1}


def measure_memory(run: Run, source: Floats) -> float:
    """The most memory held at once beyond input and output, as a share of the float32 tensor's bytes."""
    found = run()
    output = found.codes.nbytes + found.scales.nbytes if isinstance(found, mxspec.BlockTensor) else found.nbytes
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
        row = _judge({"what": case.what, **measure_ratio(run, source, target, pairs)}, case.bar)
        row["extra_memory"] = measure_memory(run, source)
        row["memory_met"] = row["extra_memory"] <= MEMORY_BAR
    finally:
        fast.most_threads = None
    return row


def run_layout(name: str, divide: int, codes: int, size: int, pairs: int) -> list[dict[str, Any]]:
    """Two rows: packing and unpacking, in bytes of items per second against a plain copy's; none where the size does not fit."""
    layout = get_layout(name)
    if layout.padding is Padding.REFUSED and (size % layout.tile[0] or size // divide % layout.tile[1]):
        return []
    items = np.random.default_rng(0).integers(0, codes, (size, size // divide)).astype(np.uint8)
    data = layout.pack(items)
    # The copy is of a whole tensor of codes: scales alone would lie in the cache.
    source = np.ones((size, size), np.uint8)
    target, share = np.zeros_like(source), items.size / source.size
    return [
        _judge(
            {"what": f"{name} {what}, {size} x {size // divide} bytes", **measure_ratio(run, source, target, pairs, share=share)},
            LAYOUT_BAR,
        )
        for what, run in (("pack", lambda: layout.pack(items)), ("unpack", lambda: layout.unpack(data, items.shape)))
    ]


def run_other(case: Case, source: Floats, target: Floats, pairs: int) -> dict[str, Any]:
    """One row of another library, or why there is none."""
    try:
        run = case.prepare(source)
    except ImportError as error:
        return {"what": case.what, "reason": str(error)}
    return {"what": case.what, **measure_ratio(run, source, target, pairs)}


def _run_python(*arguments: str, folder: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, env=environment, cwd=folder)


def measure_import() -> float:
    """Seconds that `import mxspec` takes once NumPy and ml_dtypes are there: the median of fresh interpreters."""
    code = "import time, numpy, ml_dtypes; t = time.perf_counter(); import mxspec; print(time.perf_counter() - t)"
    seconds = [float(_run_python("-c", code).stdout) for _ in range(IMPORT_RUNS + 1)]
    return round(statistics.median(seconds[1:]), 4)  # the first one may compile


def run_command(arguments: list[str], accepted: tuple[int, ...]) -> dict[str, Any]:
    """Seconds of one `mxspec` command in a process of its own, or why there are none."""
    row: dict[str, Any] = {"what": " ".join(["mxspec", *arguments])}
    with tempfile.TemporaryDirectory(prefix="mxspec-bench-", ignore_cleanup_errors=True) as folder:
        start = time.perf_counter()
        done = _run_python("-m", "mxspec_conformance", *(a.replace("OUT", str(Path(folder) / "v1")) for a in arguments), folder=folder)
        seconds = time.perf_counter() - start
    if done.returncode not in accepted:
        lines = done.stderr.strip().splitlines()
        return {**row, "reason": f"exit code {done.returncode}: {lines[-1] if lines else 'no message'}"}
    return {**row, "seconds": round(seconds, 2)}


def _find_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def run_bench(
    *, size: int = 4096, pairs: int = 15, commands: bool = True, progress: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Measure everything on a size x size tensor of N(0, 1) and return rows that JSON can hold.

    Raises ValueError for a size that is no positive multiple of 32, and for no pairs.
    """
    if size < 32 or size % 32:
        raise ValueError(f"size = {size}; it must be a positive multiple of 32, the largest block")
    if pairs < 1:
        raise ValueError(f"pairs = {pairs}; at least one is needed")
    where = describe_machine()
    machine = {
        "cpu": where["processor"], "cores": where["cores"], "load_average": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "os": platform.platform(terse=True), "python": platform.python_version(), "mxspec": mxspec.__version__,
        **{name: _find_version(name) for name in PACKAGES},
    }  # fmt: skip
    source = np.random.default_rng(0).standard_normal((size, size), dtype=np.float32)
    target = np.zeros_like(source)

    def measure(cases: tuple[Case, ...], run: Callable[..., dict[str, Any]]) -> list[dict[str, Any]]:
        rows = []
        for case in cases:
            progress(case.what)
            rows.append(run(case, source, target, pairs))
        return rows

    found: dict[str, Any] = {"arrays": measure(CASES, run_case), "layouts": []}
    for layout in LAYOUTS:
        progress(layout[0])
        found["layouts"] += run_layout(*layout, size, pairs)
    found |= {"ggml": measure(GGML, run_other), "torchao": measure(TORCHAO, run_other)}
    progress("import mxspec")
    seconds = measure_import()
    found |= {"import": {"what": "import mxspec", "seconds": seconds, "bar": IMPORT_BAR, "met": seconds <= IMPORT_BAR}, "commands": []}
    for arguments, accepted in COMMANDS if commands else ():
        progress(" ".join(arguments))
        found["commands"].append(run_command(arguments, accepted))
    return {
        "command": f"python -m mxspec_lab bench --size {size} --pairs {pairs}" + ("" if commands else " --no-commands"),
        "machine": machine, "input": f"{size} x {size} float32, N(0, 1)", "baseline": BASELINE, "pairs": pairs, "memory_bar": MEMORY_BAR, **found,
    }  # fmt: skip


def format_ratio(ratio: float) -> str:
    """A ratio as people say it: 1/7.4 or 1.3."""
    return f"1/{1 / ratio:.1f}" if ratio < 1 else f"{ratio:.1f}"


_MET = {True: "yes", False: "no", None: ""}


def _table(headers: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    return ["| " + " | ".join(headers) + " |", "|" + " --- |" * len(headers), *("| " + " | ".join(row) + " |" for row in rows), ""]


def format_bench(result: dict[str, Any]) -> str:
    """The result as Markdown: what, where and against what; ratios; seconds; what could not be measured."""
    machine = result["machine"]
    load = "" if machine["load_average"] is None else f", load {machine['load_average']} at the start"
    lines = [
        f"- {machine['cpu']}, {machine['cores']} cores{load}; {machine['os']}; Python {machine['python']}",
        "- " + ", ".join(f"{p} {machine[p]}" for p in ("mxspec", *PACKAGES) if machine.get(p)),
        f"- {result['input']}; baseline: {result['baseline']}; median of {result['pairs']} interleaved pairs",
        "- layouts: bytes of items per second, relative to a copy of one byte per element",
        f"- extra memory: peak beyond input and output, as a share of the float32 tensor; required: at most {result['memory_bar']:.0%}",
        "",
    ]
    others = [*result.get("ggml", ()), *result["torchao"]]
    ratios = [
        (
            row["what"], format_ratio(row["ratio"]), " .. ".join(map(format_ratio, row["quartiles"])),
            "" if row.get("bar") is None else f"1/{row['bar']}", _MET[row.get("met")], f"{row['extra_memory']:.0%}" if "extra_memory" in row else "",
        )
        for row in (*result["arrays"], *others, *result["layouts"]) if "ratio" in row
    ]  # fmt: skip
    lines += _table(("operation", "relative to np.copyto", "quartiles", "required", "met", "extra memory"), ratios)
    timed = [
        (row["what"], f"{row['seconds']:.2f} s", f"{row['bar']} s" if "bar" in row else "", _MET[row.get("met")])
        for row in (result["import"], *result["commands"]) if "seconds" in row
    ]  # fmt: skip
    lines += _table(("operation", "seconds", "required", "met"), timed)
    lines += [f"- {row['what']}: not measured, {row['reason']}" for row in (*others, *result["commands"]) if "reason" in row]
    return "\n".join(lines).rstrip("\n") + "\n"


@click.command("bench", context_settings=SETTINGS)
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the result as JSON; '-' prints it.")
@click.option("--size", default=4096, show_default=True, help="Rows and columns of the tensor, a multiple of 32.")
@click.option("--pairs", default=15, show_default=True, help="Number of interleaved measurements; the median is reported.")
@click.option("--no-commands", is_flag=True, help="Skip the measurements of whole commands.")
@click.option(
    "--markdown", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Print the tables of reports/bench/speed.md from this result and exit.",
)  # fmt: skip
def bench(json_file: Path | None, size: int, pairs: int, no_commands: bool, markdown: Path | None) -> None:
    """Benchmark the model against a plain memory copy."""
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
    click.echo(format_bench(result), nl=False)
