"""From each normative sentence of OCP MX v1.0 to the cases that ask for it and to the implementations that differ.

    python -m tests.pages.sentences [--page reports/peers/ocp.md]

Sentences are in our words, by their sections. Cases are those of the vectors; implementations those of reports/peers, in their newest version.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from mxspec.formats import BLOCKS
from mxspec_conformance.atlas.entries import Entry, age
from mxspec_conformance.atlas.reading import read_collection
from mxspec_conformance.results.report import Requirement, Verdict
from mxspec_lab.evidence.status import REPORTS
from mxspec_vectors.files import parse, vectors_root, write_file
from mxspec_vectors.topics import Level

MX = tuple(name for name, block in BLOCKS.items() if block.is_ocp)
FP8_BLOCKS = ("mxfp8_e4m3", "mxfp8_e5m2")
SMALL_BLOCKS = tuple(name for name in MX if name not in FP8_BLOCKS)
FP8, SMALL = ("e4m3", "e5m2"), ("e3m2", "e2m3", "e2m1", "int8")
ROUNDED = ("tie-even", "below-tie", "above-tie", "exact", "mixture", "position")
PAGE = Path(__file__).resolve().parents[2] / "reports" / "peers" / "ocp.md"


@dataclass(frozen=True, slots=True)
class Asked:
    """Which requirements ask for a sentence: an operation, its formats and topics."""

    operation: str
    formats: tuple[str, ...]
    topics: tuple[str, ...]

    def covers(self, operation: str, fmt: str, topic: str) -> bool:
        """Whether a requirement is among them."""
        return operation == self.operation and fmt in self.formats and topic in self.topics


@dataclass(frozen=True, slots=True)
class Sentence:
    """One normative sentence."""

    section: str
    #: How binding OCP makes it; `contract`: nothing for an implementation of conversions or products.
    level: Level
    words: str
    asked: tuple[Asked, ...] = ()
    #: Why no case asks, or what a case cannot ask.
    note: str = ""


SENTENCES: tuple[Sentence, ...] = (
    Sentence("5.1", Level.OPEN, "Elements and scale may be stored together or apart.", (), "layouts are contracts of their own: [layouts](../../docs/layouts.md)"),
    Sentence("5.1", Level.MUST, "Value i of a block is the scale times element i.", (Asked("dequantize", MX, ("code", "scale-code")),),
             "products beyond float32 are open, and are not asked"),
    Sentence("5.2", Level.MUST, "A format that is supported has the parameters of its row: 32 elements under one E8M0 scale.",
             (Asked("quantize", MX, ("position", "axis")), Asked("dequantize", MX, ("code",)))),
    Sentence("5.2", Level.OPEN, "An implementation may support any of the formats.", (), "what it does not offer is `unsupported`"),
    Sentence("5.3.1", Level.MUST, "FP8 elements are those of OFP8.",
             (Asked("encode", FP8, ("exact", "subnormal", "tie-even", "nan")), Asked("decode", FP8, ("code",)), Asked("quantize", FP8_BLOCKS, (*ROUNDED, "subnormal"))),
             "given the scale that a target stores"),
    Sentence("5.3.1", Level.MUST, "Conversion to FP8 is supported with and without saturation.", (Asked("encode", FP8, ("overflow",)), Asked("quantize", FP8_BLOCKS, ("overflow",))),
             "a target is asked in the one mode that it has; a block's quotients saturate"),
    Sentence("5.3.1", Level.MUST, "A NaN stays a NaN in FP8 elements, as OFP8 has it.", (Asked("encode", FP8, ("nan",)), Asked("quantize", FP8_BLOCKS, ("nan",)))),
    Sentence("5.3.2 to 5.3.4", Level.MUST, "Conversion to FP6, FP4 and INT8 supports rounding to the nearest, ties to even.",
             (Asked("encode", SMALL, ROUNDED), Asked("quantize", SMALL_BLOCKS, ROUNDED)), "judged in the one mode that a target offers, given its own scale"),
    Sentence("5.3.2 to 5.3.4", Level.OPEN, "Other roundings may be supported.", (), "profiles with other roundings: [identify](../../docs/identify.md)"),
    Sentence("5.3.2 to 5.3.4", Level.MUST, "What rounds beyond the largest number becomes that number, sign kept.",
             (Asked("encode", SMALL, ("overflow",)), Asked("quantize", SMALL_BLOCKS, ("overflow",)))),
    Sentence("5.3.2 to 5.3.4", Level.MUST, "What rounds below the smallest subnormal becomes zero; subnormal elements are numbers.",
             (Asked("encode", SMALL, ("subnormal",)), Asked("quantize", SMALL_BLOCKS, ("subnormal",)))),
    Sentence("5.3.2 to 5.3.4", Level.OPEN, "What NaN and infinities become in FP6, FP4 and INT8 is the implementation's.",
             (Asked("encode", SMALL, ("nan", "inf")), Asked("quantize", SMALL_BLOCKS, ("nan", "inf")))),
    Sentence("5.3.2 to 5.3.3", Level.MUST, "FP6 and FP4 have no NaN and no infinity: every code is a number.", (Asked("decode", ("e3m2", "e2m3", "e2m1"), ("code",)),)),
    Sentence("5.3.4", Level.MUST, "INT8 is two's complement times 2^-6.", (Asked("decode", ("int8",), ("code",)), Asked("dequantize", ("mxint8",), ("code",)))),
    Sentence("5.3.4", Level.OPEN, "INT8's code for -2 may be left unused.", (Asked("quantize", ("mxint8",), ("overflow",)),), "both answers are accepted: `mxspec/acceptance.py`"),
    Sentence("5.4.1", Level.MUST, "E8M0 holds powers of two from 2^-127 to 2^127; it has no zero, sign or infinity.", (Asked("decode", ("e8m0",), ("code",)), Asked("dequantize", MX, ("scale-code",)))),
    Sentence("5.4.1", Level.MUST, "FF is the one NaN, and makes every value of its block NaN.", (Asked("decode", ("e8m0",), ("code",)), Asked("dequantize", MX, ("scale-code",))),
             "these topics ask for every other byte too"),
    Sentence("6.1", Level.MUST, "The product of two blocks is both scales times the sum of the elements' products.",
             (Asked("matmul", tuple(f"{a}@{a}" for a in MX), ("identity", "code", "sum", "block-scale", "shape", "scale-code")),), "asked where all orders give one result"),
    Sentence("6.1", Level.OPEN, "Its inner precision and order are the implementation's.", (Asked("matmul", tuple(f"{a}@{a}" for a in MX), ("interval", "overflow")),),
             "an interval for the class of additions that a target declares: [products](../../docs/products.md)"),
    Sentence("6.2", Level.SHOULD, "A general product's result is float32.", (), "16-bit outputs are a declaration of the target"),
    Sentence("6.3", Level.MUST, "There is a conversion of 32 numbers to a block.", (), "a target without `quantize` is judged by what it has"),
    Sentence("6.3", Level.SHOULD, "The scale is the largest power of two not above the largest magnitude, over the element type's largest power of two.",
             (Asked("quantize", MX, ("scale-boundary",)), Asked("scale", MX, ("scale-boundary",))), "other rules are named, never called wrong; a target is judged by the nearest of four"),
    Sentence("6.3", Level.SHOULD, "Elements are the numbers over the scale, converted; normal numbers beyond the largest are clamped, sign kept.",
             (Asked("quantize", MX, (*ROUNDED, "overflow")),)),
    Sentence("6.3", Level.SHOULD, "Scales end at E8M0's ends.", (Asked("quantize", MX, ("scale-clamp",)),), "follows from 5.4.1"),
    Sentence("6.3", Level.OPEN, "The scale of a block of zeros, or below 2^-127, and the sign of zero are not fixed.", (Asked("quantize", MX, ("zero-block", "low-end", "zero-sign")),)),
)  # fmt: skip


@lru_cache(maxsize=1)
def count_cases() -> Mapping[tuple[str, str, str], int]:
    """(operation, format, topic) -> cases of the vectors."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for path in sorted(vectors_root().glob("*/*.json")):
        operation = "matmul" if path.parent.name == "dot" else path.parent.name
        for group in parse(path.read_bytes(), path.name).get("groups", []):
            if "topic" in group:
                counts[operation, path.stem, group["topic"]] += len(group.get("cases", []))
    return counts


@lru_cache(maxsize=1)
def list_entries() -> tuple[Entry, ...]:
    """The newest result of each implementation."""
    newest: dict[str, Entry] = {}
    for entry in sorted(read_collection([REPORTS / "peers", REPORTS / "products"]).entries, key=age):
        newest[entry.name] = entry
    return tuple(newest[name] for name in sorted(newest))


def requirements_of(entry: Entry, sentence: Sentence) -> list[Requirement]:
    """What an implementation was asked of a sentence and gave an answer to."""
    silent = (Verdict.UNSUPPORTED, Verdict.TIMEOUT)
    found = []
    for requirement in entry.report.requirements:
        operation, fmt, topic = requirement.id.split("/")
        if requirement.verdict not in silent and any(a.covers(operation, fmt, topic) for a in sentence.asked):
            found.append(requirement)
    return found


def differ(requirements: Iterable[Requirement]) -> str:
    """The formats in which an answer differs from the rule that it was judged by, where there are any."""
    return ", ".join(dict.fromkeys(r.id.split("/")[1] for r in requirements if r.failing and r.verdict not in (Verdict.PASS, Verdict.OPEN)))


def describe_cases(sentence: Sentence) -> str:
    """How many cases of which operations and topics ask."""
    counts = count_cases()
    parts = []
    for asked in sentence.asked:
        found = [n for (o, f, t), n in counts.items() if asked.covers(o, f, t)]
        topics = [t for t in asked.topics if any(asked.covers(o, f, t) and topic == t for o, f, topic in counts)]
        files = "dot" if asked.operation == "matmul" else asked.operation
        parts.append(f"{sum(found)} of [{files}](../../vectors/mxspec_vectors/v1/{files}): {', '.join(topics)}")
    return "; ".join(parts) or "-"


def list_rows() -> list[tuple[Sentence, int, dict[str, str]]]:
    """(sentence, implementations asked, those that differ -> formats)."""
    rows = []
    for sentence in SENTENCES:
        asked = {f"{entry.name} {entry.version}": requirements_of(entry, sentence) for entry in list_entries()} if sentence.asked else {}
        named = {name: differ(found) for name, found in asked.items()}
        rows.append((sentence, sum(bool(found) for found in asked.values()), {name: formats for name, formats in named.items() if formats}))
    return rows


def render() -> str:
    """The page."""
    rows = list_rows()
    lines = [
        "# OCP MX v1.0, sentence by sentence",
        "",
        "Generated by `python -m tests.pages.sentences --page reports/peers/ocp.md` from the vectors, [reports/peers](.) and",
        "[reports/products](../products). The sentences are paraphrased and numbered by section; OCP's own words are known here only from quotations, so",
        "the sections were not compared with the document itself. Levels: [judge](../../docs/judge.md#requirements). An implementation is listed under",
        "*differ*, with the formats, if it misses a case of the row under the rule that it was judged by. Only a difference in a row of level *must* departs",
        "from OCP. Differences in rows of level *open* are not listed.",
        "",
        f"{len(rows)} sentences, {sum(bool(s.asked) for s, _, _ in rows)} of them tested; {len(list_entries())} implementations and modes, each in its newest version.",
        "",
        "| section | level | sentence | cases, by topic | tested | differ |",
        "|---|---|---|---|---:|---|",
    ]
    for sentence, asked, named in rows:
        words = f"{sentence.words}{f' ({sentence.note})' if sentence.note else ''}"
        differing = "; ".join(f"{name}: {formats}" for name, formats in named.items()) or "-"
        lines.append(
            f"| {sentence.section} | {sentence.level.value} | {words} | {describe_cases(sentence)} | {asked or '-'} | {differing} |"
        )
    return "\n".join([*lines, ""])


def main(arguments: Sequence[str]) -> int:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--page", type=Path)
    given = parser.parse_args(arguments)
    if given.page is None:
        print(render())
    else:
        write_file(given.page, render().encode("utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
