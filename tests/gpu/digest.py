"""Digests of what the evidence of the GPU depends on: the kernels, what calls them, and the rules generated for them.

Comments, docstrings and the texts of errors do not count.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from tests.gpu.arithmetic import GROUP_LEVELS, LEVELS, Level, level_id, rules_of

PACKAGE = Path(__file__).resolve().parents[2] / "gpu" / "mxspec_gpu"
#: The modules that a call goes through; not those that measure, draw or probe, nor `rules`, whose texts count instead.
MODULES = (
    "api", "arguments", "arrays", "build", "kernels", "launch", "lookup", "plans", "quick", "scalars", "transform", "views",
)  # fmt: skip
#: What calls the products under a library's names, and the section of its evidence.
OPERATOR_MODULES = ("finish", "lightx2v")
OPERATOR_SECTIONS = ("lightx2v",)
#: The same of products and stored weights, whose evidence is renewed apart: files of kernels, and modules.
PRODUCT_KERNELS = (
    "affine.cu", "affine.cuh", "affine_pairs.cuh", "bias.cu", "exact.cu", "exact.cuh", "records.cu", "records.cuh", "sparse.cu",
    "sparse.cuh",
)  # fmt: skip
PRODUCT_MODULES = ("affine", "blas", "exact", "product_kernels", "products", "records", "sparse", "vectors")
#: The same of rows of experts.
EXPERT_KERNELS = ("quantize_experts.cu",)
EXPERT_MODULES = ("experts",)
EXPERT_SECTIONS = ("devices", "experts")
#: The same of blocks of 16 x 16.
SQUARE_KERNELS = ("quantize_square.cu",)
SQUARE_SECTIONS = ("square",)
#: The same of products with a few vectors, and the sections that call them.
VECTOR_KERNELS = ("gemv.cu", "gemv.cuh", "gemv_affine.cu", "gemv_parts.cuh", "gemv_x.cuh")
VECTOR_MODULES = ("gemv_tunings",)
VECTOR_SECTIONS = ("affine", "devices", "lightx2v", "lookup", "products", "sparse_gemv")
#: The same of the documents' steps and of sparse products.
STEP_KERNELS = ("sparse_gemv.cu", "step_affine.cu", "step_dequantize.cu", "step_quantize.cu")
STEP_MODULES = ("sparse_gemv", "step_kernels", "steps")
#: Sections of the evidence that depend on those, too.
STEP_SECTIONS = ("sparse_gemv", "steps")
PRODUCT_SECTIONS = ("affine", "devices", "exact", "products", "records", "sparse")


#: Profiles that joined after the last run on a chip, which therefore has none of their levels; reports/gpu/README.md names them.
PENDING: frozenset[str] = frozenset({"flashinfer-0.6.18/mxfp8/cute-dsl", *(level[0] for level in GROUP_LEVELS)})
#: Modules, and the sections that test them, that were written after the last run on a chip; reports/gpu/README.md names them.
PENDING_SECTIONS: frozenset[str] = frozenset({"tiles"})
#: Their kernels.
PENDING_KERNELS = ("tiles.cu",)
#: The levels that the evidence covers.
COVERED = tuple(level for level in LEVELS if level[0] not in PENDING)


def find_groups(section: str) -> tuple[str, ...]:
    """Which digests a section of the evidence depends on."""
    groups = ["kernels", "modules", "rules"]
    if section in (*PRODUCT_SECTIONS, *STEP_SECTIONS, *OPERATOR_SECTIONS):
        groups.append("products")
    for group, sections in (
        ("vectors", VECTOR_SECTIONS), ("steps", STEP_SECTIONS), ("operators", OPERATOR_SECTIONS), ("experts", EXPERT_SECTIONS),
        ("square", SQUARE_SECTIONS),
    ):  # fmt: skip
        if section in sections:
            groups.append(group)
    return tuple(groups)


def _digest(parts: dict[str, str]) -> str:
    h = hashlib.blake2b(digest_size=16)
    for name in sorted(parts):
        h.update(f"{name}\0{parts[name]}\1".encode())
    return h.hexdigest()


def _code_of_module(text: str) -> str:
    # Lines, not a printed syntax tree: those of two versions of Python differ.
    left_out: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                left_out.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
        if isinstance(node, ast.Raise):
            left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = (line.strip() for number, line in enumerate(text.splitlines(), 1) if number not in left_out)
    return "\n".join(line for line in lines if line and not line.startswith("#"))


def _code_of_kernel(text: str) -> str:
    return " ".join(re.sub(r"//[^\n]*", "", text).split())


def digest_sources(levels: Sequence[Level] = COVERED) -> dict[str, str]:
    """What -> digest; levels: those whose rules count."""
    kernels = {f.name: _code_of_kernel(f.read_text("utf-8")) for f in (PACKAGE / "kernels").iterdir() if f.suffix in (".cu", ".cuh")}
    later, vectors, steps, of_experts, square, _ = (
        {name: kernels.pop(name) for name in names}
        for names in (PRODUCT_KERNELS, VECTOR_KERNELS, STEP_KERNELS, EXPERT_KERNELS, SQUARE_KERNELS, PENDING_KERNELS)
    )
    modules, product_modules, vector_modules, step_modules, operator_modules, expert_modules = (
        {name: _code_of_module((PACKAGE / f"{name}.py").read_text("utf-8")) for name in names}
        for names in (MODULES, PRODUCT_MODULES, VECTOR_MODULES, STEP_MODULES, OPERATOR_MODULES, EXPERT_MODULES)
    )
    rules = {level_id(level): _code_of_kernel(rules_of(level).text) for level in levels}
    return {
        "kernels": _digest(kernels), "modules": _digest(modules), "rules": _digest(rules),
        "products": _digest(later | product_modules), "vectors": _digest(vectors | vector_modules), "steps": _digest(steps | step_modules),
        "operators": _digest(operator_modules), "experts": _digest(of_experts | expert_modules), "square": _digest(square),
    }  # fmt: skip
