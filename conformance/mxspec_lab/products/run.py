"""Judge every wrong kernel and every right one, by the judge and by the vectors alone, and publish the kill matrix of products.

python -m mxspec_lab.products.run [--json reports/mutants/products.json] [--markdown reports/mutants/products.md] [--jobs 2]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from mxspec.dot import DEFAULT_ACCUMULATOR
from mxspec_conformance import Report, check
from mxspec_conformance.results.report import GOOD, Requirement, Verdict
from mxspec_conformance.targets.laying_out import hand_over
from mxspec_conformance.targets.operands import Numbers, parse_operand
from mxspec_lab.evidence.status import write_result
from mxspec_lab.products.kernels import Kernel, KernelTarget
from mxspec_lab.products.kinds import KindKernel
from mxspec_lab.products.kinds_right import RIGHT_KINDS
from mxspec_lab.products.kinds_wrong import WRONG_KINDS
from mxspec_lab.products.right import RIGHT
from mxspec_lab.products.wrong import list_wrong
from mxspec_vectors.build_dot import DOT_FILES
from mxspec_vectors.cases import DotCase, DotOperand, load_dot_cases
from mxspec_vectors.files import write_file

# Kernels against the vectors alone, as somebody sees them who has the files and no judge.


def find_file(product: Sequence[str]) -> tuple[str, tuple[str, str]]:
    """The file of a product, and the operands by which a kernel is asked: where there is no file, a's format on both sides."""
    a, b = (text.partition("/")[0] for text in product)
    return (f"{a}@{b}", (product[0], product[1])) if f"{a}@{b}" in DOT_FILES else (f"{a}@{a}", (product[0], product[0]))


def take_side(operand: DotOperand, text: str) -> Any:
    """A side of a case in the layout that a kernel takes."""
    assert operand.scales is not None
    tensor = None if operand.tensor_scale is None else float(operand.tensor_scale)
    return hand_over(Numbers(spec=parse_operand(text), codes=operand.data, scales=operand.scales, tensor_scale=tensor))


def list_asked(kernel: Kernel) -> list[DotCase]:
    """The cases that a kernel is asked: its output dtypes, its class."""
    name, _ = find_file(kernel.product)
    wanted = kernel.accumulator or DEFAULT_ACCUMULATOR
    return [c for c in load_dot_cases(name) if c.out in kernel.out_dtypes and wanted in c.answers]


def list_failing(kernel: Kernel) -> list[DotCase]:
    """The cases that a kernel fails; topics that no class decides are left out."""
    _, texts = find_file(kernel.product)
    failing = []
    for case in list_asked(kernel):
        if case.topic == "zero-block":
            continue
        a, b = (take_side(x, text) for x, text in zip((case.a, case.b), texts, strict=True))
        with np.errstate(all="ignore"):
            output = kernel.matmul(a, b, case.out)
        if not case.answers[kernel.accumulator or DEFAULT_ACCUMULATOR].accepts(output).all():
            failing.append(case)
    return failing


SCHEMA = "mxspec-product-mutants/1"


def list_accused(report: Report) -> list[Requirement]:
    """Requirements that do not pass, and are not open."""
    return [r for r in report.requirements if r.verdict not in GOOD]


def describe_kernel(kernel: Kernel) -> dict[str, Any]:
    """What a kernel is judged as."""
    return {
        "kernel": kernel.name, "product": " @ ".join(kernel.product), "out_dtypes": list(kernel.out_dtypes),
        "accumulator": kernel.accumulator, "contract": kernel.contract, "fold": kernel.fold,
    }  # fmt: skip


def ask_vectors(kernel: Kernel) -> dict[str, Any]:
    """What the vectors alone find of a kernel."""
    failing = list_failing(kernel)
    return {
        "file": find_file(kernel.product)[0], "asked": len(list_asked(kernel)), "failing": len(failing),
        "topics": sorted({case.topic for case in failing}),
    }  # fmt: skip


def describe_wrong(kernel: Kernel, report: Report) -> dict[str, Any]:
    """How a wrong kernel is found out."""
    return {**describe_kernel(kernel), **describe_found(report), "vectors": ask_vectors(kernel)}


def describe_kind(kernel: KindKernel) -> dict[str, Any]:
    """What a kernel with an affine or sparse side is judged as."""
    return {
        "kernel": kernel.name, "product": " @ ".join(kernel.product), "accumulator": kernel.accumulator, "contract": kernel.contract
    }  # fmt: skip


def describe_found(report: Report) -> dict[str, Any]:
    """What a report says of a wrong kernel."""
    accused = list_accused(report)
    shown = [r.first.given["m x n x k"] for r in accused if r.first is not None and "m x n x k" in r.first.given]
    return {
        "topics": {r.topic: f"{r.failing}/{r.cases}" for r in accused},
        "verdict": "fail" if any(r.verdict is Verdict.FAIL for r in accused) else accused[0].verdict.value if accused else "pass",
        "named": list(dict.fromkeys(d for f in report.formats for d in f.deviations)),
        "smallest": min(shown, key=_volume, default=""),
    }


def _volume(shape: str) -> int:
    m, n, k = map(int, shape.split(" x "))
    return m * n * k


def describe_right(kernel: Kernel, report: Report) -> dict[str, Any]:
    """What a right kernel gets."""
    return {**describe_kernel(kernel), **describe_passed(report), "vectors": ask_vectors(kernel)}


def describe_passed(report: Report) -> dict[str, Any]:
    """What a report says of a right kernel."""
    return {
        "requirements": len(report.requirements),
        "passed": sum(r.verdict is Verdict.PASS for r in report.requirements),
        "accused": [r.topic for r in list_accused(report)],
    }  # fmt: skip


#: Part of what is published -> its kernels, and what is said of one by its report.
PARTS: dict[str, tuple[Callable[[], Sequence[Any]], Callable[[Any, Report], dict[str, Any]]]] = {
    "wrong": (lambda: list_wrong(), describe_wrong),  # looked up when called, as the others are
    "right": (lambda: RIGHT, describe_right),
    "wrong_kinds": (lambda: WRONG_KINDS, lambda kernel, report: describe_kind(kernel) | describe_found(report)),
    "right_kinds": (lambda: RIGHT_KINDS, lambda kernel, report: describe_kind(kernel) | describe_passed(report)),
}


def judge_row(part: str, number: int) -> tuple[dict[str, Any], float]:
    """A row of a part, and the CPU seconds that it took."""
    started = time.process_time()
    kernels, describe = PARTS[part]
    kernel = kernels()[number]
    return describe(kernel, check(KernelTarget(kernel))), time.process_time() - started


def make_document(jobs: int = 1) -> dict[str, Any]:
    """What is published."""
    tasks = [(part, number) for part, (kernels, _) in PARTS.items() for number in range(len(kernels()))]
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:  # which starts no process before it is asked
        rows = list((map if jobs == 1 else pool.map)(judge_row, *zip(*tasks, strict=True)))
    wrong, right, wrong_kinds, right_kinds = (
        [row for (part, _), (row, _) in zip(tasks, rows, strict=True) if part == name] for name in PARTS
    )
    return {
        "schema": SCHEMA,
        "counts": {
            "wrong": len(wrong), "killed": sum(bool(w["topics"]) for w in wrong), "named": sum(bool(w["named"]) for w in wrong),
            "by_vectors": sum(w["vectors"]["failing"] > 0 for w in wrong),
            "right": len(right), "accused": sum(bool(r["accused"]) for r in right),
            "wrong_kinds": len(wrong_kinds), "killed_kinds": sum(bool(w["topics"]) for w in wrong_kinds),
            "named_kinds": sum(bool(w["named"]) for w in wrong_kinds),
            "right_kinds": len(right_kinds), "accused_kinds": sum(bool(r["accused"]) for r in right_kinds),
        },
        "seconds": round(sum(seconds for _, seconds in rows), 1),
        "wrong": wrong,
        "right": right,
        "wrong_kinds": wrong_kinds,
        "right_kinds": right_kinds,
    }  # fmt: skip


def render_markdown(document: Mapping[str, Any]) -> str:
    """The same as a page."""
    counts = document["counts"]
    lines = [
        "# Kill matrix of products",
        "",
        "Written by `python -m mxspec_lab.products.run`; the numbers are those of [products.json](products.json).",
        "",
        f"{counts['killed']} of {counts['wrong']} wrong kernels are found, {counts['named']} by name or class; "
        f"{counts['accused']} of {counts['right']} right kernels are accused. The vectors of products alone find {counts['by_vectors']}: "
        "they ask no epilogue, and no more than 96 rows.",
        "",
        f"With an affine or sparse side: {counts['killed_kinds']} of {counts['wrong_kinds']} wrong kernels are found, {counts['named_kinds']} by name or "
        f"class; {counts['accused_kinds']} of {counts['right_kinds']} right kernels are accused.",
        "",
        "*Smallest*: m x n x k of the smallest product that was still wrong. *Found by*: topics of docs/products.md, wrong calls of all. *Vectors*: cases of the "
        "file that fail. They ask for operands that are not rounded first, and so fail right kernels that round them to 16 bits.",
        "",
        "## Wrong kernels",
        "",
        "| kernel | judged as | found by | what the judge says of it | smallest | vectors |",
        "|---|---|---|---|---|---|",
    ]
    lines += [f"{_wrong_cells(row)} {_count(row)} |" for row in document["wrong"]]
    lines += ["", "## Right kernels", "", "| kernel | judged as | declares | passes | accused | vectors |", "|---|---|---|---|---|---|"]
    lines += [f"{_right_cells(row)} {_count(row)} |" for row in document["right"]]
    lines += [
        "",
        "## Wrong kernels with an affine or sparse side",
        "",
        "| kernel | judged as | found by | what the judge says of it | smallest |",
        "|---|---|---|---|---|",
    ]
    lines += [_wrong_cells(row) for row in document["wrong_kinds"]]
    lines += [
        "",
        "## Right kernels with an affine or sparse side",
        "",
        "| kernel | judged as | declares | passes | accused |",
        "|---|---|---|---|---|",
    ]
    lines += [_right_cells(row) for row in document["right_kinds"]]
    return "\n".join(lines) + "\n"


def _wrong_cells(row: Mapping[str, Any]) -> str:
    topics = ", ".join(f"{topic} {count}" for topic, count in row["topics"].items()) or "nothing"
    return f"| {row['kernel']} | {row['product']} | {topics} | {'; '.join(row['named'])} | {row['smallest']} |"


def _right_cells(row: Mapping[str, Any]) -> str:
    declared = ", ".join(filter(None, (row["accumulator"], row["contract"])))
    passed = f"{row['passed']} of {row['requirements']}"
    return f"| {row['kernel']} | {row['product']} | {declared} | {passed} | {', '.join(row['accused']) or '-'} |"


def _count(row: Mapping[str, Any]) -> str:
    return f"{row['vectors']['failing']}/{row['vectors']['asked']}"


def main(arguments: list[str] | None = None) -> int:
    """Print the counts, and write them; returns 1 where a wrong kernel survives or a right one is accused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args(arguments)
    document = make_document(given.jobs)
    for row in [*document["wrong"], *document["wrong_kinds"]]:
        if not row["topics"]:
            print(f"survives: {row['kernel']}")
    for row in [*document["right"], *document["right_kinds"]]:
        if row["accused"]:
            print(f"accused: {row['kernel']}: {', '.join(row['accused'])}")
    counts = document["counts"]
    print(json.dumps(counts))
    if given.json:
        write_result(given.json, document)
    if given.markdown:
        write_file(given.markdown, render_markdown(document).encode("ascii"))
    survive = counts["killed"] < counts["wrong"] or counts["killed_kinds"] < counts["wrong_kinds"]
    return int(survive or counts["accused"] > 0 or counts["accused_kinds"] > 0)


if __name__ == "__main__":
    sys.exit(main())
