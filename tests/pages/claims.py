"""The table of reports/claims.md: what five circulating documents claim in numbers, and what computing or measuring gives.

    python -m tests.pages.claims [--page reports/claims.md]

A claim is data: its numbers as a range, and where the answer comes from. What can be computed is computed here, from formats and
layouts; what was measured is read from committed results of the GPU and of the small transformer. Whether a claim holds follows from the two ranges.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from mxspec import layouts, sparsity
from mxspec.affine import AffineFormat
from mxspec.enums import StrEnum
from mxspec.formats import E2M1, get_block
from mxspec_gpu.steps import find_grid
from mxspec_lab.evidence.status import REPORTS
from mxspec_vectors.files import write_file

BEGIN, END = "<!-- claims -->\n", "<!-- end -->\n"


class Document(StrEnum):
    """Where a claim stands."""

    MXFP4_NOTES = "MXFP4 research notes"
    PROCEDURES = "MXFP4 and NVFP4 procedures"
    COURSE = "quantized matmul, a course"
    LIGHTX2V = "LightX2V kernels"
    SPARSE = "2:4 sparse format"


class Basis(StrEnum):
    """Where the answer comes from."""

    COMPUTED = "computed"
    MEASURED = "measured"
    #: Nothing here can decide it.
    NONE = "not tested"


class Verdict(StrEnum):
    """What follows from the claimed and the found range."""

    HOLDS = "holds"
    PARTLY = "in part"
    FAILS = "does not hold"
    UNTESTED = "not tested"


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `low` to `high`, both included."""

    low: Fraction
    high: Fraction
    #: As it was printed, where that says more than the ends.
    text: str = ""

    def covers(self, other: Range) -> bool:
        """Whether all of the other's numbers are among these."""
        return self.low <= other.low and other.high <= self.high

    def meets(self, other: Range) -> bool:
        """Whether a number is in both."""
        return self.low <= other.high and other.low <= self.high


def between(low: object, high: object) -> Range:
    """A claim that names both ends, or results from the least to the largest."""
    return Range(Fraction(str(low)), Fraction(str(high)))


def printed(text: str) -> Range:
    """A claim of a rounded number: all that round to its digits."""
    half = Fraction(1, 2 * 10 ** len(text.partition(".")[2]))
    return Range(Fraction(text) - half, Fraction(text) + half, text)


def at_least(number: object, text: str) -> Range:
    """A claim without an upper end."""
    return Range(Fraction(str(number)), Fraction(10**9), text)


def exactly(number: object) -> Range:
    """A claim that the document derives by arithmetic, such as 16 bits / 4 bits."""
    return between(number, number)


class Evidence:
    """Committed results: of the GPU, and of the small transformer."""

    def __init__(self, folder: Path = REPORTS) -> None:
        self.steps = json.loads((folder / "gpu" / "steps-h200.json").read_text("utf-8"))
        self.transformer = json.loads((folder / "atlas" / "transformer.json").read_text("utf-8"))

    def rows(self, size: object = None, task: str = "", way: str = "") -> list[dict[str, Any]]:
        """Rows of the steps whose task starts with a text and whose way is one.

        Raises ValueError where there are none.
        """
        found = [r for r in self.steps["rows"] if size in (None, r["size"]) and r["task"].startswith(task) and way in ("", r["way"])]
        if not found:
            raise ValueError(f"no row of size {size}, task {task!r} and way {way!r} in steps-h200.json")
        return found

    def spread(self, key: str, size: object = None, task: str = "", way: str = "") -> Range:
        """The least and the largest of a number of such rows."""
        numbers = [r[key] for r in self.rows(size, task, way)]
        return between(min(numbers), max(numbers))

    def ceiling(self, size: object, task: str) -> Range:
        """Microseconds of a kernel without arithmetic that moves the bytes of such rows."""
        mixes = {(m["read"], m["written"]): m["microseconds"] for m in self.steps["mixes"]}
        numbers = [mixes[r["bytes"]["read"], r["bytes"]["written"]] for r in self.rows(size, task)]
        return between(min(numbers), max(numbers))

    def shares(self, rows: Sequence[int], find: Callable[[dict[str, float]], float]) -> Range:
        """What is found in the measurements of products with so many rows of x."""
        numbers = [find(self.steps["measurements"]["shares"]["rows"][str(m)]) for m in rows]
        return between(min(numbers), max(numbers))

    def against_q4_k(self, key: str) -> Range:
        """A figure of the small transformer in MXFP4 against itself in Q4_K, under each rule."""
        numbers = [r[key] for r in self.transformer["against_q4_k"] if r["format"] == "mxfp4"]
        return between(min(numbers), max(numbers))

    def adds_more(self, one: str, *others: str) -> Range:
        """By how many percent more a matrix adds to the perplexity, alone in MXFP4, than others do: of all blocks, two standard errors either way."""

        def list_added(*names: str) -> list[tuple[float, float]]:
            rows = [r for r in self.transformer["sensitivity"] if r["format"] == "mxfp4" and r["matrix"].rpartition(".")[2] in names]
            return [(100 * (r["ratio"] - 1), 100 * r["ratio_standard_error"]) for r in rows]

        found = [(a - b, 2 * math.hypot(p, q)) for a, p in list_added(one) for b, q in list_added(*others)]
        return between(min(more - error for more, error in found), max(more + error for more, error in found))


Find = Callable[[Evidence], Range]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One number of a document."""

    id: str
    document: Document
    section: str
    #: In our words, without the number.
    what: str
    claimed: Range | None
    unit: str
    basis: Basis
    find: Find | None = None
    #: Why the answer is what it is.
    why: str

    def judge(self, evidence: Evidence) -> tuple[Range | None, Verdict]:
        """What was found, and whether the claim holds."""
        if self.find is None or self.claimed is None:
            return None, Verdict.UNTESTED
        found = self.find(evidence)
        if self.claimed.covers(found):
            return found, Verdict.HOLDS
        return found, Verdict.PARTLY if self.claimed.meets(found) else Verdict.FAILS


def _state(
    basis: Basis, name: str, document: Document, section: str, what: str, claimed: Range | None, unit: str, find: Find | None, why: str
) -> Claim:
    return Claim(id=name, document=document, section=section, what=what, claimed=claimed, unit=unit, basis=basis, find=find, why=why)


# What is computed


def _bits(fmt: str) -> Fraction:
    return get_block(fmt).bits_per_element


def _bytes_of_block(fmt: str) -> Fraction:
    return _bits(fmt) * get_block(fmt).k / 8


def _ratio(fmt: str) -> Fraction:
    return 16 / _bits(fmt)


def _affine_bits(group: int) -> Fraction:
    return Fraction(AffineFormat(group=group, dtype="float16").bits_per_element)


def _scale_bytes(rows: int, columns: int) -> int:
    return layouts.get_layout("128x4").size((rows, columns))


def _quantized_bytes(rows: int, columns: int) -> int:
    return rows * columns // 2 + _scale_bytes(rows, columns // 16)


def _largest_error(codes: Sequence[int] = range(8)) -> Fraction:
    values = [E2M1.magnitude(code) for code in codes]
    return max((b - a) / 2 for a, b in pairwise(values))


def _intensity(side: int) -> Fraction:
    moved = 2 * _quantized_bytes(side, side) + 2 * side * side
    return Fraction(2 * side**3, moved)


_SIZE = sparsity.describe_size(4096, 4096)
_SIDE = 4096


def _list_computed() -> Iterator[Claim]:
    def claim(
        name: str, document: Document, section: str, what: str, claimed: Range, unit: str, find: Callable[[], object], why: str
    ) -> Claim:
        return _state(Basis.COMPUTED, name, document, section, what, claimed, unit, lambda _: exactly(find()), why)

    notes, course, light, sparse = Document.MXFP4_NOTES, Document.COURSE, Document.LIGHTX2V, Document.SPARSE
    for fmt, size, ratio in (("mxfp4", 17, "3.76"), ("mxfp6_e2m3", 25, "2.56"), ("mxfp8_e4m3", 33, "1.94"), ("mxint8", 33, "1.94")):
        shown = fmt.partition("_")[0].upper()
        yield claim(f"{fmt}-bytes", notes, "2.2", f"bytes of a block of {shown}", exactly(size), "", partial(_bytes_of_block, fmt),
            "codes and one scale byte")  # fmt: skip
        yield claim(f"{fmt}-ratio", notes, "2.2", f"{shown} is smaller than float16", printed(ratio), "times", partial(_ratio, fmt),
            "the scale counts")  # fmt: skip
    yield claim("mxfp4-bits", notes, "8.1", "bits of an MXFP4 weight", exactly("4.5"), "", lambda: _bits("mxfp4"),
        "that is NVFP4's number: a scale byte for 16, not for 32")  # fmt: skip
    yield claim("mxfp4-20b", notes, "8.1", "20 billion weights in MXFP4", exactly("11.25"), "GB", lambda: _bits("mxfp4") * 20 / 8,
        "follows from the bits")  # fmt: skip
    yield claim("mxfp4-ratio-again", notes, "8.1", "MXFP4 is smaller than float16", printed("3.56"), "times", partial(_ratio, "mxfp4"),
        "NVFP4's number again; the notes' own section 2.2 has it right")  # fmt: skip
    yield claim("mxfp4-error", notes, "3.1", "largest rounding error of an element, in scales", exactly("0.25"), "", _largest_error,
        "half of the widest step, from 4 to 6")  # fmt: skip
    yield claim("mxfp4-range", notes, "3.1", "largest element, in scales", exactly("3.5"), "", lambda: E2M1.max_value, "steps are not even")
    procedures = Document.PROCEDURES
    yield claim("block-bits", procedures, "MX", "bits of a block of 32 4-bit codes by w + k d", exactly(8 + 32 * 4), "",
        lambda: _bits("mxfp4") * 32, "the formula is right")  # fmt: skip
    yield claim("e2m1-range", procedures, "MXFP4", "largest element", exactly(6), "", lambda: E2M1.max_value,
        "right here; the list of values beside it has 1 twice")  # fmt: skip
    yield claim("affine-ratio", course, "Solution", "INT4 in groups of 64 is smaller than 16 bits", exactly(4), "times",
        lambda: 16 / _affine_bits(64), "a scale and a bias of 16 bits for each group; groups of 128 give MXFP4's ratio")  # fmt: skip
    yield claim("affine-bytes", course, "Storage", "bytes of a weight, groups of 64", exactly("0.5"), "", lambda: _affine_bits(64) / 8,
        "scales and biases count")  # fmt: skip
    yield claim("affine-intensity", course, "Solution", "operations for a byte of weights, one vector", exactly(4), "",
        lambda: 2 / (_affine_bits(64) / 8), "follows from the bytes")  # fmt: skip
    yield claim("dense-intensity", course, "Why", "operations for a byte of 16-bit weights, one vector", exactly(1), "",
        lambda: Fraction(2, 2), "a multiplication and an addition for two bytes")  # fmt: skip
    layer = 3 * 896 * 4864 + 4 * 896**2
    yield claim("qwen-layer", course, "Why", "16-bit weights of a layer of Qwen2-0.5B, in the document's shapes", printed("31"), "MB",
        lambda: Fraction(2 * layer, 10**6), "31.06 MiB")  # fmt: skip
    yield claim("qwen-bytes", course, "Why", "the same of 24 layers, which each token reads",
        Range(Fraction(745), Fraction(755), "about 750"), "MB", lambda: Fraction(24 * 2 * layer, 10**6),
        "745.5 MiB, divided as if they were MB; four square matrices of attention count keys and values in full")  # fmt: skip
    yield claim("qwen-operations", course, "Why", "operations for a token", Range(Fraction(775), Fraction(785), "about 780"), "million",
        lambda: Fraction(24 * 2 * layer, 10**6), "a multiplication and an addition for each weight")  # fmt: skip
    yield claim("qwen-share", course, "Why", "share of 10 TFLOPS that 400 GB/s feed with 16-bit weights", printed("4"), "%",
        lambda: Fraction(100 * 400, 10_000), "one operation for a byte")  # fmt: skip
    yield claim("scales-1024x4096", light, "1.2", "bytes of the scales of 1024 x 4096 in NVFP4", exactly(64 * 1024), "",
        lambda: _scale_bytes(1024, 256), "the int32 view has 64 columns of four bytes: seen as float8 it has 256")  # fmt: skip
    yield claim("ratio-1024x4096", light, "1.2", "NVFP4 is smaller than bfloat16 at 1024 x 4096", printed("3.88"), "times",
        lambda: Fraction(2 * 1024 * 4096, _quantized_bytes(1024, 4096)), "follows from the scales' bytes")  # fmt: skip
    yield claim("memory", light, "4.6", "NVFP4 is smaller than bfloat16", exactly(4), "times", partial(_ratio, "nvfp4"), "4.5 bits, not 4")
    yield claim("scales-4096", light, "3.3", "KiB of the scales of two 4096 x 4096 operands", printed("128"), "",
        lambda: Fraction(2 * _scale_bytes(_SIDE, _SIDE // 16), 1024), "blocks run along K only: each row has its own")  # fmt: skip
    yield claim("scales-tile", light, "3.3", "bytes of the scales of a 128 x 128 tile", exactly(64), "",
        lambda: _scale_bytes(128, 128 // 16), "blocks run along K only")  # fmt: skip
    yield claim("gemm-shared", light, "3.3", "shared memory of a block of threads: tiles of 128 x 128 x 128 and their scales",
        between(16, 20), "KiB", lambda: Fraction(2 * (128 * 128 // 2 + _scale_bytes(128, 128 // 16)), 1024),
        "of one stage; CUTLASS takes as many stages as fit")  # fmt: skip
    yield claim("intensity", light, "3.3", "operations for a byte of a product of 4096", printed("2854"), "", lambda: _intensity(_SIDE),
        "powers of ten and of two are mixed, and the scales are larger; still bound by arithmetic")  # fmt: skip
    yield claim("e2m1-standard", light, "2.1", "largest element of standard E2M1", exactly(3), "", lambda: E2M1.max_value,
        "it is OCP's E2M1 that NVFP4 has")  # fmt: skip
    yield claim("grid-864", light, "3.2", "blocks of threads for 1024 x 4096 on 144 multiprocessors", exactly(864), "",
        lambda: find_grid(1024, 4096, 144, 1536)[0], "with 1536 threads each; an H200 takes all 1024 rows at once")  # fmt: skip
    yield claim("sparse-metadata", sparse, "3.3", "metadata of dense 4-bit codes", exactly("0.125"), "times",
        lambda: Fraction(_SIZE.metadata, _SIZE.dense), "K N / 8 bytes of K N / 2")  # fmt: skip
    yield claim("sparse-total", sparse, "3.3", "sparse of dense 4-bit codes", exactly("0.625"), "times", lambda: _SIZE.ratio,
        "the sum of the two lines above it")  # fmt: skip
    yield claim("sparse-compression", sparse, "3.3", "sparse is smaller than dense", exactly("1.6"), "times", lambda: 1 / _SIZE.ratio,
        "as its own section 9.1 says")  # fmt: skip
    yield claim("sparse-metadata-values", sparse, "3.3", "metadata of the kept values", exactly(25), "%",
        lambda: Fraction(100 * _SIZE.metadata, _SIZE.values), "4 bits for two codes of 4 bits")  # fmt: skip
    yield claim("sparse-scales", sparse, "9.1", "sparse MXFP4 is smaller than dense, scales counted", printed("1.33"), "times",
        lambda: 1 / sparsity.describe_size(_SIDE, _SIDE, 32, scale_bytes=1).ratio_with_scales,
        "the scales are those of the dense matrix")  # fmt: skip
    yield claim("load-8-bytes", sparse, "9.2", "8 bytes at 400 GB/s", exactly(20), "ns", lambda: Fraction(8, 400),
        "a factor of a thousand: nothing hides 24 cycles behind it")  # fmt: skip


# What was measured


def _list_measured() -> Iterator[Claim]:
    claim = partial(_state, Basis.MEASURED)
    notes, course, light, sparse = Document.MXFP4_NOTES, Document.COURSE, Document.LIGHTX2V, Document.SPARSE
    share = "dequantize_percent_of_product"
    few, many = (1, 16, 128, 256, 512), (1024, 2048, 4096, 8192)
    yield claim("share-few", notes, "8.1", "dequantizing MXFP4 weights, of the time of the 16-bit product: up to 512 rows of x",
        between(10, 20), "%", lambda e: e.shares(few, lambda r: r[share]),
        "dequantizing does not depend on the rows of x, the product does")  # fmt: skip
    yield claim("share-many", notes, "8.1", "the same from 1024 rows of x on", between(10, 20), "%",
        lambda e: e.shares(many, lambda r: r[share]), "true of about 2000 rows")  # fmt: skip
    yield claim("speedup", notes, "8.1", "MXFP4 with one vector, against 16-bit weights, where nothing is dequantized to memory",
        between("2.5", 3), "times", lambda e: exactly(e.steps["measurements"]["vectors"]["times_faster"]),
        "3.76 times fewer bytes are read, and decoding takes a part of the gain")  # fmt: skip
    yield claim("speedup-apart", notes, "8.1", "the same for dequantize, then multiply: 1 to 8192 rows", between("2.5", 3), "times",
        lambda e: e.shares((*few, *many), lambda r: r["bfloat16_product"] / r["dequantize_then_product"]),
        "a product of 16-bit weights follows, and dequantizing is added")  # fmt: skip
    yield claim("fusion-few", notes, "4.3", "what using weights where they lie saves against dequantize, then multiply: 1 and 16 rows",
        between(20, 30), "%", lambda e: e.shares((1, 16), lambda r: 100 * (1 - r["gemm"] / r["dequantize_then_product"])),
        "16-bit weights are neither written nor read")  # fmt: skip
    yield claim("occupancy-bounds", light, "3.2", "occupancy that launch bounds of 256 threads and 6 blocks ask for", exactly(100), "%",
        lambda e: exactly(e.steps["measurements"]["occupancy"]["percent_of_bounds"]),
        "1536 threads of the 2048 that an H200's multiprocessor has")  # fmt: skip
    yield claim("occupancy", light, "3.2", "occupancy that the step's registers allow", exactly(100), "%",
        lambda e: _occupancy(e, "percent"), "fewer registers than the bounds allow, so eight blocks fit")  # fmt: skip
    yield claim("registers", light, "3.2", "registers of a thread", between(40, 50), "", lambda e: _occupancy(e, "registers"),
        "of our kernel in this thread model; theirs was not built")  # fmt: skip
    yield claim("time-best", light, "3.2", "quantizing 1024 x 4096 bfloat16 to NVFP4, in theory", printed("5"), "us",
        lambda e: e.ceiling("1024 x 4096", "nvfp4 quantize bfloat16"),
        "a kernel without arithmetic that moves these bytes on an H200, launch included; the document reckons with 2 TB/s")  # fmt: skip
    yield claim("time", light, "3.2", "the same in fact, in this thread model", between(10, 20), "us",
        lambda e: e.spread("microseconds", "1024 x 4096", "nvfp4 quantize bfloat16", "grid stride, 8 a thread"),
        "the H200 has more than twice the bandwidth that the document reckons with")  # fmt: skip
    yield claim("tokens", notes, "7.3", "equal tokens of greedy continuations, against Q4_K_M", at_least(95, "95 or more"), "%",
        lambda e: _scaled(e.against_q4_k("greedy_token_match"), 100),
        f"{_SMALL}, against Q4_K, which most of Q4_K_M is: after the first other token the texts tell other stories")  # fmt: skip
    yield claim("tokens-top", notes, "7.3", "equal tokens where both models read the same text", at_least(95, "95 or more"), "%",
        lambda e: _scaled(e.against_q4_k("top_token_match"), 100), "the document does not say which of the two it means")  # fmt: skip
    yield claim("perplexity", notes, "7.3", "perplexity against Q4_K_M", between(99, 101), "%",
        lambda e: _scaled(e.against_q4_k("ratio"), 100), _SMALL)  # fmt: skip
    yield claim("cosine", notes, "7.3", "cosine similarity, here of the logits", at_least("0.99", "0.99 or more"), "",
        lambda e: e.against_q4_k("cosine"),
        f"{_SMALL}; as a rule of acceptance it lets wrong kernels pass: [acceptance.md](acceptance.md)")  # fmt: skip
    more = at_least("1e-9", "more than 0")
    yield claim("sensitive-head", notes, "3.3", "perplexity that the head adds more than QKV, each quantized alone to MXFP4", more, "%",
        _adds_more("head", "qkv"), f"{_SMALL}; two standard errors either way")  # fmt: skip
    yield claim("sensitive-embedding", notes, "3.3", "the same of the embedding", more, "%", _adds_more("embed", "qkv"),
        "the embedding adds less than its standard error")  # fmt: skip
    yield claim("sensitive-qkv", notes, "3.3", "the same of QKV, more than FFN", more, "%", _adds_more("qkv", "up", "down"),
        "so it seems, but not beyond two standard errors")  # fmt: skip
    yield claim("int4-throughput", course, "Solution", "INT4 in groups of 64 with one vector, against 16-bit weights", exactly(4), "times",
        lambda e: exactly(e.steps["measurements"]["vectors"]["times_faster_int4"]),
        "fewer bytes are saved, and decoding takes the time")  # fmt: skip
    yield claim("sparse-speed", sparse, "9.1", "sparse MXFP4 with one vector, against dense", printed("1.33"), "times",
        lambda e: e.spread("times_faster_than_dense", None, "mxfp4 product with 1 vectors", "sparse"),
        "both kernels are bound by the arithmetic of decoding, which fewer bytes do not shorten")  # fmt: skip
    yield claim("sparse-batches", sparse, "9.3", "the same with 8 and 16 vectors: no gain", between(0, 1), "times", _batches,
        "as the document says of large batches")  # fmt: skip


_SMALL = "of the small transformer"


def _adds_more(one: str, *others: str) -> Find:
    return lambda e: e.adds_more(one, *others)


def _scaled(numbers: Range, factor: int) -> Range:
    return Range(numbers.low * factor, numbers.high * factor)


def _occupancy(evidence: Evidence, key: str) -> Range:
    kernels = [k[key] for k in evidence.steps["measurements"]["occupancy"]["kernels"].values()]
    return between(min(kernels), max(kernels))


def _batches(evidence: Evidence) -> Range:
    spreads = [evidence.spread("times_faster_than_dense", None, f"mxfp4 product with {m} vectors", "sparse") for m in (8, 16)]
    return Range(min(s.low for s in spreads), max(s.high for s in spreads))


def _list_untested() -> Iterator[Claim]:
    def claim(name: str, document: Document, section: str, what: str, why: str) -> Claim:
        return _state(Basis.NONE, name, document, section, what, None, "", None, why)

    light = Document.LIGHTX2V
    yield claim("blackwell-speed", light, "4.6", "inference two to three times as fast as in bfloat16",
        "needs a chip with FP4 tensor cores")  # fmt: skip
    yield claim("blackwell-peak", light, "3.3", "2000 TFLOPS, of which 80 to 90 % are reached", "needs a chip with FP4 tensor cores")
    yield claim("accuracy", Document.MXFP4_NOTES, "1", "one to two percent of accuracy against float16",
        "names no measure; [acceptance.md](acceptance.md) has some")  # fmt: skip
    yield claim("vram", Document.MXFP4_NOTES, "8.2", "18 to 25 GB for a model of 20 billion weights",
        "KV cache and activations depend on the serving; `mxspec footprint` gives the weights")  # fmt: skip
    yield claim("lossless", Document.PROCEDURES, "results", "NVFP4 is nearly lossless above 32 billion weights",
        "needs models of that size")  # fmt: skip
    yield claim("gemm-registers", light, "3.3", "more than 100 registers a thread and an occupancy of 50 to 75 % in the product",
        "needs a chip with FP4 tensor cores")  # fmt: skip


CLAIMS: tuple[Claim, ...] = (*_list_computed(), *_list_measured(), *_list_untested())


# The page


def _number(value: Fraction) -> str:
    if value.denominator == 1:
        return f"{int(value):,}"
    return f"{float(value):.4g}"


def show_range(numbers: Range, unit: str) -> str:
    """Its ends, once where they are shown alike."""
    low, high = _number(numbers.low), _number(numbers.high)
    return " ".join(filter(None, (low if low == high else f"{low} to {high}", unit)))


def _claimed(claim: Claim) -> str:
    if claim.claimed is None:
        return ""
    if claim.claimed.text:
        return f"{claim.claimed.text} {claim.unit}".rstrip()
    return show_range(claim.claimed, claim.unit)


def list_lines(claims: Sequence[Claim], evidence: Evidence) -> Iterator[str]:
    """A table for each document."""
    for document in Document:
        yield f"\n## {document.value[0].upper()}{document.value[1:]}\n"
        yield "| § | what | claimed | found | | why |"
        yield "|---|---|---|---|---|---|"
        for claim in (c for c in claims if c.document is document):
            found, verdict = claim.judge(evidence)
            shown = "" if found is None else f"{show_range(found, claim.unit)}, {claim.basis.value}"
            yield f"| {claim.section} | {claim.what} | {_claimed(claim)} | {shown} | **{verdict.value}** | {claim.why} |"


def render_page(text: str, claims: Sequence[Claim], evidence: Evidence) -> str:
    """The page with the tables between its marks."""
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"the page has no place for claims: a line {BEGIN.strip()} and a line {END.strip()}")
    return pattern.sub(lambda _: BEGIN + "\n".join(list_lines(claims, evidence)) + "\n" + END, text)


def main(arguments: Sequence[str]) -> None:
    """Print the tables, or write them into a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--page", type=Path)
    page = parser.parse_args(arguments).page
    evidence = Evidence()
    if page is None:
        print("\n".join(list_lines(CLAIMS, evidence)))
        return
    write_file(page, render_page(page.read_text("utf-8"), CLAIMS, evidence).encode("utf-8"))
    print(f"{page}: {len(CLAIMS)} claims")


if __name__ == "__main__":
    main(sys.argv[1:])
