"""Kernels against the vectors of products alone, as somebody sees them who has the files and no judge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mxspec.dot import DEFAULT_ACCUMULATOR
from mxspec_conformance.targets.laying_out import hand_over
from mxspec_conformance.targets.operands import Numbers, parse_operand
from mxspec_lab.products.kernels import Kernel
from mxspec_vectors.build_dot import DOT_FILES
from mxspec_vectors.cases import DotCase, DotOperand, load_dot_cases


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
