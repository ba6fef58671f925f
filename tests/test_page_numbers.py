"""Numbers on pages that cite a committed result are those of that result.

A page that names a file of `reports` cites it: in that block every number, and below it every numeric cell of a table up
to the next heading, is held by a row here (or by the test that renders the block), and none stands unchecked. The pages
of tests/test_atlas_numbers.py are checked whole, and there.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxspec.sparsity import prune

from tests.gpu.arithmetic import LEVELS
from tests.peers.gpu_peers import describe_result
from tests.test_atlas_numbers import FENCE, Said, read_prose

ROOT = Path(__file__).resolve().parents[1]
REPORT = re.compile(r"reports/[\w/.-]+\.json")
NUMBER = re.compile(r"(?<![\w.#,^-])\d+(?:,\d{3})*(?:\.\d+)?(?![\w^]|\.\d|,\d)")
#: What is no measurement: a version after a name, a size, a power, a granularity, a commit, the name of a chip.
NAMES = re.compile(
    r"\b(?:torch|Triton|driver|MLX|gguf|transformers|compressed-tensors|comfy-kitchen|LLVM|Verilator|Verilog|cocotb) \d+(?:\.\d+)+"
    r"|\d+-bit|Verilog 2001|commit \w+|byte \d\d|24-in-32|\d+(?: x \d+)+|2\^\d+|groups of \d+|H[12]00|\(\d[\w.]*\)"
)
#: A cell of a table that is numeric: numbers, units, and what stands between them.
CELL = re.compile(r"[\d\s,./%*-]*\d[\d\s,./%*-]*(?:(?:us|times|MHz|differ|of|runs|%|/|,|\d|\.|\s)+)?")

Value = int | float | str


@cache
def load(name: str) -> Any:
    return json.loads((ROOT / "reports" / name).read_text("utf-8"))


@dataclass(frozen=True)
class Quote:
    """A block of a page, by its first words, and the numbers that it has, in the order of the page."""

    page: str
    start: str
    due: Callable[[], Iterator[Value] | tuple[Value, ...] | list[Value]]


def plain(text: str) -> str:
    """A block on one line, without code and without the targets of links."""
    return re.sub(r"\s+", " ", re.sub(r"`[^`]*`", "`", re.sub(r"\]\([^)]*\)", "]", text))).strip()


def list_numbers(block: str) -> list[str]:
    """The numbers of a sentence, or of the numeric cells of a row of a table."""
    text = plain(block)
    if text.startswith("|"):
        text = " | ".join(cell for cell in (c.strip() for c in text.strip("|").split("|")) if CELL.fullmatch(cell))
    return NUMBER.findall(NAMES.sub(" ", text))


def list_blocks(page: str) -> Iterator[tuple[bool, str]]:
    """Paragraphs, items of lists and rows of tables, and whether each cites a result or is a table below one that does."""
    cited = False
    text = FENCE.sub("", (ROOT / page).read_text("utf-8"))
    text = re.sub(r"(?<=\]\()[\w/.-]+\.json", lambda link: posixpath.normpath(posixpath.join(posixpath.dirname(page), link[0])), text)
    for part in re.split(r"\n\s*\n", text):
        lines = part.strip()
        if lines.startswith("#"):
            cited = False
        cites = bool(REPORT.search(lines))
        if lines.startswith("|"):
            rows = lines.split("\n")
            cited = cited or cites
            yield from ((cited, row) for row in rows[2:])
        elif lines.startswith("- "):
            for item in re.split(r"\n(?=- )", lines):
                yield bool(REPORT.search(item)), item
        else:
            yield cites, lines
        cited = cited or cites


def find_blocks(quote: Quote) -> list[str]:
    return [block for _, block in list_blocks(quote.page) if plain(block).startswith(quote.start)]


def is_written(text: str, value: Value) -> bool:
    """A number as the page writes it: the value, rounded to the digits that are shown."""
    if isinstance(value, str):
        return text == value
    shown = Decimal(text.replace(",", ""))
    exponent = shown.as_tuple().exponent
    assert isinstance(exponent, int)
    return abs(Decimal(str(value)) - shown) * 2 <= Decimal(1).scaleb(exponent)


# What the results hold


def bench(name: str, size: int | str = 16384, file: str = "bench-h200") -> Any:
    (row,) = (
        r
        for kind in ("rows", "products", "experts")
        for r in load(f"gpu/{file}.json").get(kind, ())
        if (r["name"], r["size"]) == (name, size)
    )
    return row


def task(*names: str, goal: bool = True) -> list[Value]:
    """Microseconds, shares of copy and mix, of each; of the first what is sustained, and the goal."""
    rows = [bench(name) for name in names]
    numbers = [r[key] for key in ("microseconds", "percent", "percent_of_mix") for r in rows]
    held = rows[0].get("sustained")
    numbers += [held["microseconds"], held["sm_megahertz"]] if held else []
    return [*numbers, rows[0].get("goal", rows[0].get("most"))] if goal else numbers


def columns(*names: str, keys: tuple[str, ...], size: int | str = 16384, file: str = "bench-h200") -> list[Value]:
    return [bench(name, size, file)[key] for key in keys for name in names]


def vectors(weights: str, *counts: int, goal: bool = True) -> list[Value]:
    names = [f"{weights} product with {n} vectors" for n in counts]
    shares = columns(*names, keys=("microseconds", "percent", "percent_of_mix"), file="products-h200")
    return [*shares, bench(names[0], file="products-h200")["goal"]]


def rows_of_x(weights: str, size: int) -> Iterator[Value]:
    """`gemm` and humming-kernels by the number of rows."""
    for row in load("gpu/rows-h200.json")["rows"]:
        if (row["format"], row["size"]) == (weights, size) and row["rows"] < 4096:
            yield from (row["ways"][way]["microseconds"] for way in ("gemm", "humming-kernels"))


def expert_rows(name: str) -> Iterator[Value]:
    """The ways of one product of experts; the numbers of its name come first."""
    row = next(r for r in load("gpu/rows-h200.json")["experts"] if r["name"] == name)
    yield from (row["ways"][way]["microseconds"] for way in row["ways"])


def group_products(shape: str) -> Iterator[Value]:
    """All ways of FP8 weights, by the number of rows."""
    for row in load("gpu/fp8-h200.json")["groups"]:
        if f"{row['size']} x {row['columns']}" == shape:
            yield from (row["ways"][way]["microseconds"] for way in row["ways"])


def groups(name: str, file: str) -> Iterator[Value]:
    """A row of the bench of FP8 in groups and of fused functions."""
    row = next(r for r in load(f"gpu/{file}-h200.json")["rows"] if r["name"] == name)
    yield from (row[key] for key in ("microseconds", "percent", "percent_of_mix"))


def gemm(weights: str) -> Iterator[Value]:
    for rows in (1, 16, 32, 48, 64, 128, 512):
        row = bench(f"{weights} product with {rows} rows", 8192, "products-h200")
        yield from (row["microseconds"], row["others"]["dequantize and multiply"]["microseconds"])


def experts(name: str) -> list[Value]:
    row = bench(name, 16384, "products-h200")
    return [row["microseconds"], *(row["others"][k]["microseconds"] for k in ("a call for each", "one matrix"))]


def steps(*names: str, size: int | str = 16384) -> list[Value]:
    keys = ("microseconds", "percent_of_mix", "times_the_real_kernel")
    rows = [bench(name, size, "steps-h200") for name in names]
    return [row[key] for key in keys for row in rows if row.get(key) is not None]


def sparse(fmt: str, size: int) -> list[Value]:
    return [
        bench(f"{fmt} {kind} product with {n} vectors", size, "steps-h200")["microseconds"]
        for n in (1, 8, 16)
        for kind in ("sparse", "dense")
    ]


def pairs(*formats: str) -> list[Value]:
    """Profiles of each format, pairs of each, and those that no block distinguishes, by reason."""
    found = [load("identify/pairs.json")["formats"][f] for f in formats]
    reasons = [[p["why"] for p in f["pairs"].values() if "why" in p] for f in found]
    same, apart = ([sum(word in why for why in whys) for whys in reasons] for word in ("one function", "no form in common"))
    assert [a + b for a, b in zip(same, apart, strict=True)] == [len(whys) for whys in reasons]
    return [*(len(f["profiles"]) for f in found), *(len(f["pairs"]) for f in found), *same, *apart]


def compared(*sections: str) -> list[Value]:
    return [sum(load("gpu/differential-h200.json")["sections"][s]["compared"] for s in sections)]


def mlx() -> Iterator[Value]:
    document = load("affine/mlx.json")
    formats = [c["format"].split("-") for c in document["comparisons"]]
    yield from sorted({int(f[0].removeprefix("int")) for f in formats})
    yield from sorted({int(f[1].removeprefix("g")) for f in formats})[1:]  # "groups of 32" is taken for a name
    assert not any(t["different"] for t in document["totals"].values())
    yield from (document["totals"][f]["compared"] for f in ("quantize", "dequantize", "quantized_matmul"))


def affine_torch() -> Iterator[Value]:
    document = load("affine/torch.json")
    yield from sorted({int(c["format"].split("-")[0].removeprefix("int")) for c in document["comparisons"]})
    totals = document["totals"].values()
    assert not any(t["different"] for t in totals)
    yield from (sum(t[key] for t in totals) for key in ("groups", "compared"))


def affine_mutants() -> tuple[Value, ...]:
    document = load("mutants/affine.json")
    assert not document["survivors"]
    return document["mutants"], document["places"], sum(bool(row["blind"]) for row in document["rows"])


def hardware(flow: str) -> tuple[Value, ...]:
    rows = {r["design"]: r for r in load("kits/hardware.json")["rows"] if r["flow"] == flow}
    right, wrong = rows["right"], rows["ties away"]
    return right["blocks"], right["failed"], wrong["failed"], wrong["open"], right["cpu_seconds"] + wrong["cpu_seconds"]


def covered(stimuli: str) -> tuple[Value, ...]:
    document = load("kits/hardware.json")
    texts = document["files"] | {r["flow"]: r["covered"] for r in document["rows"] if "covered" in r}
    return tuple(int(n) for n in re.findall(r"\d+", texts[stimuli]))


def c99() -> tuple[Value, ...]:
    rows = load("kits/c99.json")["rows"]
    assert not any(row["differ"] for row in rows)
    reciprocal = sum(row["random"] == 1 << 20 for row in rows)
    blocks = sum(row["cases"] + row["random"] for row in rows)
    return len(rows), reciprocal, max(r["random"] for r in rows if r["random"] < 1 << 20), blocks


def llvm() -> tuple[Value, ...]:
    document = load("kits/llvm.json")
    casts, swept = document["apfloat"]["casts"], document["swept"]
    seconds = sorted(row["cpu_seconds"] for row in swept)[len(swept) // 2]
    assert document["apfloat"]["digests_equal"] == casts
    assert all(row["equal"] for row in swept)
    return casts, round(seconds, -1), casts - len(swept)


def h100(name: str) -> list[Value]:
    own, other = bench(name, file="bench-h100"), bench(name)
    return [own["microseconds"], own["percent"], own["percent_of_mix"], other["percent_of_mix"]]


def other_nibbles() -> tuple[str, ...]:
    rows = [c for c in load("sparse/torch.json")["comparisons"] if "nibbles that differ" in c["what"]]
    return (f"{100 * sum(c['differ'] for c in rows) / sum(c['compared'] for c in rows):.0f}",)


def worse_groups() -> tuple[str, ...]:
    """Groups of which the document's procedure keeps other magnitudes than the largest two."""
    codes = np.indices((16,) * 4).reshape(4, -1).T.astype(np.uint8)
    kept = prune(codes, rule="metal-marlin/procedure") & 7
    largest = np.sort(codes & 7, axis=1)[:, 2:].astype(int).sum(axis=1)
    return (f"{np.count_nonzero(kept.astype(int).sum(axis=1) < largest):,}",)


def megabytes(name: str) -> Iterator[Value]:
    document = load(f"containers/{name}.json")
    yield document["source"]["bytes"] / 1e9
    if name == "quantize":
        affine, block = (
            [r["peak_rss_bytes"] / 1e6 for r in document["runs"] if r["format"].startswith("int4") == which] for which in (True, False)
        )
        assert max(block) < 100
        yield from (100, max(affine))


def sweeps(witness: str, *kinds: str) -> Iterator[str]:
    """Functions, by kind or together, and their inputs as a mantissa of 10^10 or 10^11."""
    document = load("sweeps/index.json")
    total = document["totals"][witness]
    assert total["differences"] == 0
    counts = Counter(name.split("/")[0] for name, f in document["functions"].items() if witness in f["witnesses"])
    yield from (str(counts[kind]) for kind in kinds)
    if not kinds:
        yield str(total["functions"])
    inputs = Decimal(total["inputs"])
    yield f"{inputs.scaleb(-inputs.adjusted()):.1f}"


def chips() -> Iterator[Value]:
    """How fast one chip's memory is, as a share of the other's and by itself."""
    h100, h200 = (load(f"gpu/bench-{chip}.json")["bandwidth"] for chip in ("h100", "h200"))
    yield h100["copy"] / h200["copy"]
    yield h100["copy"] / 1e12
    yield h100["read"] / 1e12


def forms(what: str) -> list[str]:
    """Rows of the bench by format, in the order of the columns of a table."""
    rules = {"mxfp4": "mx-floor", "mxfp8_e4m3": "mx-floor", "nvfp4": "nvfp4-te"}
    return [f"{fmt} {what.format(rule=rule)}" for fmt, rule in rules.items()]


def loose(what: str) -> list[Value]:
    """Times the aligned case: one element off and an odd width, of each format."""
    ways = zip(*(forms(f"{what}, {way}") for way in ("one element off", "odd width")), strict=True)
    return columns(*chain(*ways), size=8192, keys=("times_the_aligned_case",))


def strides(fmt: str) -> list[str]:
    return [f"{fmt} quantize {dtype}, lightx2v-0.0.1/{fmt}, tiles: grid stride, 8 a thread" for dtype in ("float16", "bfloat16")]


#: Pages for people, and results that they were parts of.
PAGES = sorted([
    *(p.relative_to(ROOT).as_posix() for folder in ("docs", "reports") for p in (ROOT / folder).glob("*.md")),
    "reports/bench/speed.md", "reports/gpu/README.md", "reports/mutants/tables.md",
])  # fmt: skip
GPU, KITS = "reports/gpu/README.md", "docs/kits.md"
US, MIX = ("microseconds",), ("percent_of_mix",)
#: Sections of the differential run, as the rows of the table name them.
SECTIONS = (
    ("levels",), ("views",), ("quick",), ("transform",), ("steps",), ("sparse_gemv",), ("lookup",), ("affine", "exact", "products"),
    ("records", "sparse"), ("experts",), ("shapes",), ("stochastic",), ("tensor_scale",), ("scalars",), ("streams",), ("devices",),
    ("lightx2v",), ("calls",), ("sweeps",), ("volume",), ("square",), ("tiles",), ("fused",), ("fp8",),
)  # fmt: skip

QUOTES = (
    Quote("docs/identify.md", "| mxfp4 |", lambda: pairs("mxfp4")),
    Quote("docs/identify.md", "| mxfp6_e2m3, mxfp6_e3m2 |", lambda: pairs("mxfp6_e2m3", "mxfp6_e3m2")),
    Quote("docs/identify.md", "| mxfp8_e4m3, mxfp8_e5m2 |", lambda: pairs("mxfp8_e4m3", "mxfp8_e5m2")),
    Quote("docs/identify.md", "| mxint8 |", lambda: pairs("mxint8")),
    Quote("docs/identify.md", "| nvfp4 |", lambda: pairs("nvfp4")),
    Quote("docs/affine.md", "- `: MLX", mlx),
    Quote("docs/affine.md", "- `: GPTQ's", affine_torch),
    Quote("docs/affine.md", "- `: 93", affine_mutants),
    Quote("docs/checkpoints.md", "- Files larger than memory", lambda: [4, *megabytes("convert")]),
    Quote("docs/checkpoints.md", "- Data are read and written", lambda: [4, *megabytes("quantize")]),
    Quote(KITS, "` is generated from the profiles' expressions", c99),
    Quote(KITS, "| Icarus Verilog", lambda: hardware("readmem")),
    Quote(KITS, "| Verilator", lambda: hardware("dpi")),
    Quote(KITS, "| cocotb", lambda: hardware("cocotb")),
    Quote(KITS, "| MXFP4 blocks", lambda: covered("mxfp4")),
    Quote(KITS, "| MXFP8 E4M3 blocks", lambda: covered("mxfp8_e4m3")),
    Quote(KITS, "| NVFP4 blocks", lambda: covered("nvfp4")),
    Quote(KITS, "| random blocks of `", lambda: covered("dpi")),
    Quote(KITS, "| kit and random blocks", lambda: covered("cocotb")),
    Quote(KITS, "` does this", llvm),
    Quote(GPU, "| MXFP4 quantize |", lambda: [*task("mxfp4 quantize, mx-floor")]),
    Quote(GPU, "| NVFP4 quantize, tensor scale given", lambda: [*task("nvfp4 quantize, nvfp4-te")]),
    Quote(GPU, "| NVFP4 quantize: vLLM / torchao |", lambda: task("nvfp4 quantize, vllm-0.33/nvfp4/kernel", "nvfp4 quantize, torchao-0.18/nvfp4/eager")),
    Quote(GPU, "| tensor amax (of the read bandwidth) |", lambda: task("tensor amax")),
    Quote(GPU, "| MXFP6 quantize, packed", lambda: task("mxfp6_e2m3 quantize, mx-floor", "mxfp6_e3m2 quantize, mx-floor")),
    Quote(GPU, "| MXFP8 quantize: e4m3 / e5m2 |", lambda: [*task("mxfp8_e4m3 quantize, mx-floor", "mxfp8_e5m2 quantize, mx-floor")]),
    Quote(GPU, "| MXINT8 quantize |", lambda: task("mxint8 quantize, mx-floor")),
    Quote(GPU, "| MXFP4 / NVFP4 dequantize |", lambda: task("mxfp4 dequantize", "nvfp4 dequantize")),
    Quote(GPU, "| MXFP6 e2m3 / MXFP8 e4m3 / MXINT8 dequantize |", lambda: task("mxfp6_e2m3 dequantize", "mxfp8_e4m3 dequantize", "mxint8 dequantize")),
    Quote(GPU, "| MXFP8 quantize columns |", lambda: task("mxfp8_e4m3 quantize columns")),
    Quote(GPU, "| MXFP4 quantize columns |", lambda: task("mxfp4 quantize columns")),
    Quote(GPU, "| MXFP6 quantize columns |", lambda: task("mxfp6_e2m3 quantize columns")),
    Quote(GPU, "| NVFP4 quantize columns |", lambda: task("nvfp4 quantize columns")),
    Quote(GPU, "| MXFP8 rows and columns in one pass |", lambda: task("mxfp8_e4m3 quantize rows and columns")),
    Quote(GPU, "| MXFP4 rows and columns in one pass |", lambda: task("mxfp4 quantize rows and columns")),
    Quote(GPU, "| NVFP4 rows and columns in one pass |", lambda: task("nvfp4 quantize rows and columns")),
    Quote(GPU, "| MXFP4 quantize, stochastic |", lambda: task("mxfp4 quantize, stochastic")),
    Quote(GPU, "| NVFP4 recipe (transform, quantize), rows", lambda: task("nvfp4 transform and quantize rows", "nvfp4 transform and quantize rows, stochastic")),
    Quote(GPU, "| NVFP4 recipe, columns", lambda: task("nvfp4 transform and quantize columns", "nvfp4 transform and quantize columns, stochastic", goal=False)),
    Quote(GPU, "| NVFP4 recipe, rows and columns", lambda: task(
        "nvfp4 transform and quantize rows and columns", "nvfp4 transform and quantize rows and columns, stochastic", goal=False)),
    Quote(GPU, "| scales into or from 128x4 tiles |", lambda: [2]),
    Quote(GPU, "| MXFP4 | 40.7", lambda: vectors("mxfp4", 1, 8, 16, 64)),
    Quote(GPU, "| NVFP4 | 43.2", lambda: vectors("nvfp4", 1, 8, 16, 64)),
    *(Quote(GPU, f"| INT4 in groups of {group}, {kind}, {dtype} | 4", lambda name=f"int4-g{group}-{short}-{dtype}", counts=counts: vectors(name, *counts))  # type: ignore[misc]
      for group in (64, 128) for kind, short in (("bias", "bias"), ("zero point", "zero"))
      for dtype, counts in (("bfloat16", (1, 8, 16, 64)), ("float16", (1,)))),
    Quote(GPU, "| MXFP4 | 14.6", lambda: gemm("mxfp4")),
    *(
        Quote(GPU, f"| Rows of x, {fmt.upper()}, {size} ", partial(rows_of_x, fmt, size))
        for fmt in ("mxfp4", "nvfp4")
        for size in (8192, 16384)
    ),
    *(Quote(GPU, f"| {row['name']} |", partial(expert_rows, row["name"])) for row in load("gpu/rows-h200.json")["experts"]),
    *(
        Quote(GPU, f"| {row['name']} |", partial(groups, row["name"], file))
        for file in ("groups", "norm")
        for row in load(f"gpu/{file}-h200.json")["rows"]
    ),
    *(Quote(GPU, f"| FP8, {shape} |", partial(group_products, shape)) for shape in ("4096 x 7168", "7168 x 2048", "8192 x 8192")),
    Quote(GPU, "| NVFP4 | 15.0", lambda: gemm("nvfp4")),
    Quote(GPU, "| INT4 in groups of 64, bias, bfloat16 | 16.0", lambda: gemm("int4-g64-bias-bfloat16")),
    Quote(GPU, "| MXFP4 | 241", lambda: experts("mxfp4 rows of 128 experts")),
    Quote(GPU, "| NVFP4, a tensor scale for each |", lambda: experts("nvfp4 rows of 128 experts")),
    Quote(GPU, "| rows, contiguous |", lambda: columns(*forms("quantize, {rule}"), size=8192, keys=US)),
    Quote(GPU, "| rows with a pitch", lambda: columns(*forms("quantize, pitched"), size=8192, keys=("microseconds", "most"))),
    Quote(GPU, "| rows, one element off", lambda: [*loose("quantize"), 2]),
    Quote(GPU, "| columns, one element off", lambda: [*loose("quantize columns"), 2]),
    Quote(GPU, "| columns of float32", lambda: columns(*forms("quantize columns of float32"), size=8192, keys=MIX)),
    Quote(GPU, "| tensor amax, one element off |", lambda: columns("tensor amax, one element off", size=8192, keys=("microseconds", "most"))),
    Quote(GPU, "| embedding, share", lambda: columns("mxfp4 embedding", "nvfp4 embedding", size=8192, keys=MIX)),
    Quote(GPU, "The same bench on an H100", chips),
    Quote(GPU, "| MXFP4 records to float16", lambda: steps(*(f"mxfp4 records to float16: a thread {a}" for a in ("an element", "a record")))),
    Quote(GPU, "| MXFP4 packed to float16", lambda: steps(*(f"mxfp4 packed to float16: {n} a thread" for n in (2, 4, 8)))),
    Quote(GPU, "| NVFP4 packed to bfloat16", lambda: steps(*(f"nvfp4 packed to bfloat16: {n} a thread" for n in (2, 4, 8)))),
    Quote(GPU, "| NVFP4 quantize, grid stride: ", lambda: steps(*strides("nvfp4"))),
    Quote(GPU, "| MXFP4 quantize, grid stride: ", lambda: steps(*strides("mxfp4"))),
    Quote(GPU, "| NVFP4 quantize, grid stride, at", lambda: steps(*strides("nvfp4"), size="1024 x 4096")),
    Quote(GPU, "| INT4 product (4096 x 4096", lambda: steps(*(f"int4-g64-bias-bfloat16 product with {n} rows: naive" for n in (1, 16, 256)), size=4096)),
    *(Quote(GPU, f"| {fmt.upper()}, {size} x {size} |", lambda fmt=fmt, size=size: sparse(fmt, size))  # type: ignore[misc]
      for fmt in ("mxfp4", "nvfp4") for size in (16384, 8192)),
    *(Quote(GPU, f"| {', '.join(names)} |", lambda names=names: compared(*names))  # type: ignore[misc]
      for names in SECTIONS),
    Quote(GPU, "` runs the tests of [tests/gpu]", lambda: [load("gpu/differential-h200.json")["levels"], len({level[0] for level in LEVELS})]),
    *(Quote(GPU, f"| {row['name']} |", lambda row=row: h100(row["name"]))  # type: ignore[misc]
      for row in load("gpu/bench-h100.json")["rows"] if row["size"] == 16384 and f"\n| {row['name']} |" in (ROOT / GPU).read_text("utf-8")),
)  # fmt: skip

#: Phrases of sentences and of prose in tables.
SAID = (
    Said("docs/evidence.md", "# functions, # x 10^10 inputs | # differences", lambda: (*sweeps("cuda-headers"), "0")),
    Said("docs/evidence.md", "| # encoders, # (scale rule, element) pairs: # x 10^11 inputs against the exact answer | # differences",
         lambda: (*sweeps("array-model", "encode", "scale"), "0")),
    Said("docs/kits.md", "half of the mutants, drawn # times", lambda: (str(load("kits/cross-validation.json")["splits"]),)),
    Said("docs/kits.md", "worst share over # splits of the held-out mutants, among those that some golden call", lambda: (str(load("kits/products.json")["splits"]),)),
    Said("docs/fuzzing.md", "` has # rare bugs", lambda: ({13: "thirteen"}[len(load("fuzz/planted.json")["planted"])],)),
    Said("docs/affine.md", "than two numbers # % get another nibble", other_nibbles),
    Said("docs/affine.md", "run on all # groups of four e2m1 codes", lambda: (f"{16**4:,}",)),
    Said("docs/affine.md", "drops a larger magnitude for a smaller one in # of them", worse_groups),
)  # fmt: skip

#: Blocks that another test renders or holds: a page, how the block begins, and the test.
ELSEWHERE = (
    *(
        (GPU, f"| {size} | {us}", "tests/test_gpu_api.py::test_the_page_shows_square_blocks")
        for size, us in (("16384 x 16384", 224), ("8192 x 8192", 60), ("4096 x 4096", 18), ("1024 x 4096", 8))
    ),
    ("reports/acceptance.md", "", "tests/test_kit_products.py::test_named_rules_agree_with_the_published_table"),
    ("reports/claims.md", "", "tests/test_claims_page.py"),
    ("reports/bench/speed.md", "", "tests/test_docs.py::test_the_speed_page_is_the_published_measurement"),
    ("reports/mutants/tables.md", "", "tests/test_mutants.py::test_the_page_shows_what_is_published"),
    ("docs/kits.md", "| mxf", "tests/test_kits.py::test_the_published_numbers_are_of_the_published_choice"),
    (GPU, "| ` |", "tests/test_page_numbers.py::test_libraries_on_a_gpu_are_shown_as_they_were_judged"),
    ("docs/fuzzing.md", "| block formats and floats |", "tests/test_product_matrix.py::test_the_documents_quote_the_counts"),
    ("docs/fuzzing.md", "| with an affine or sparse operand |", "tests/test_product_matrix.py::test_the_documents_quote_the_counts"),
)


def hide_phrases(page: str, block: str) -> str:
    text = plain(block)
    for said in SAID:
        text = said.pattern.sub(" ", text) if said.page == page else text
    return text


def show(quote: Quote) -> str:
    return f"{Path(quote.page).stem}: {quote.start}"


@pytest.mark.parametrize("said", SAID, ids=lambda said: f"{Path(said.page).stem}: {said.words}")
def test_a_phrase_has_the_numbers_of_the_result(said: Said) -> None:
    due = said.due()
    assert said.pattern.findall(read_prose(said.page)) == [due[0] if len(due) == 1 else due]


def list_wrong(block: str, quote: Quote) -> list[tuple[str, Value]]:
    return [(shown, due) for shown, due in zip(list_numbers(block), quote.due(), strict=True) if not is_written(shown, due)]


@pytest.mark.parametrize("quote", QUOTES, ids=show)
def test_a_block_has_the_numbers_of_the_result(quote: Quote) -> None:
    (block,) = find_blocks(quote)
    assert list_wrong(block, quote) == []


@pytest.mark.parametrize("page", sorted({quote.page for quote in QUOTES}))
def test_a_wrong_number_is_found(page: str) -> None:
    quote = next(q for q in QUOTES if q.page == page)
    (block,) = find_blocks(quote)
    number = list_numbers(block)[-1]
    planted = f"{number[:-1]}{(int(number[-1]) + 2) % 10}".join(block.rsplit(number, 1))
    assert len(list_wrong(planted, quote)) == 1


def test_libraries_on_a_gpu_are_shown_as_they_were_judged() -> None:
    page = (ROOT / GPU).read_text("utf-8").split("\n")
    shown = sorted(line for line in page if line.startswith("| `") and "on an NVIDIA GPU" in line)
    names = sorted(p.stem for p in (ROOT / "reports/gpu").glob("*-cuda.json"))
    assert shown == sorted(describe_result(name, ROOT / "reports/gpu") for name in names)


@pytest.mark.parametrize("test", sorted({test for *_, test in ELSEWHERE}))
def test_what_is_held_elsewhere_is(test: str) -> None:
    path, _, name = test.partition("::")
    assert f"def {name}" in (ROOT / path).read_text("utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_no_number_next_to_a_citation_stands_unchecked(page: str) -> None:
    held = [quote.start for quote in QUOTES if quote.page == page] + [start for p, start, _ in ELSEWHERE if p == page]
    unchecked = {
        plain(block)[:60]: numbers
        for cites, block in list_blocks(page)
        if cites and (numbers := list_numbers(hide_phrases(page, block))) and not plain(block).startswith(tuple(held))
    }
    assert unchecked == {}
