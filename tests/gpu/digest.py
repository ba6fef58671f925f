"""Digests of what the evidence of the GPU depends on: the kernels, what calls them, and the rules generated for them.

Comments, docstrings and the texts of errors do not count.
"""

from __future__ import annotations

import ast
import hashlib
import re
from pathlib import Path
from typing import Any

from tests.gpu.arithmetic import LEVELS, level_id, rules_of

PACKAGE = Path(__file__).resolve().parents[2] / "gpu" / "mxspec_gpu"
#: The modules that a call goes through; not those that measure, draw or probe, nor `rules`, whose texts count instead.
MODULES = (
    "api", "arguments", "arrays", "build", "kernels", "launch", "lookup", "plans", "quick", "scalars", "transform", "views",
)  # fmt: skip
#: The files and modules of a group, and the sections of the evidence that depend on them besides those of all.
Group = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]

PRODUCT_SECTIONS = ("affine", "devices", "exact", "fp8", "products", "records", "sparse", "tiles")
STEP_SECTIONS = ("sparse_gemv", "steps")
#: What may change without the evidence of other calls: products and stored weights; what calls them under a library's names; products
#: with a few vectors; with many rows; of FP8 in groups; the documents' steps and sparse products; rows of experts; blocks of 16 x 16; fused functions.
GROUPS: dict[str, Group] = {
    "products": (
        ("affine.cu", "affine.cuh", "affine_pairs.cuh", "bias.cu", "exact.cu", "exact.cuh", "records.cu", "records.cuh", "sparse.cu", "sparse.cuh"),
        ("affine", "blas", "exact", "product_kernels", "products", "records", "sparse", "vectors"),
        (*PRODUCT_SECTIONS, *STEP_SECTIONS, "lightx2v"),
    ),
    "operators": ((), ("finish", "lightx2v"), ("lightx2v",)),
    "vectors": (
        ("gemv.cu", "gemv.cuh", "gemv_affine.cu", "gemv_parts.cuh", "gemv_x.cuh"), ("gemv_tunings",),
        ("affine", "devices", "fp8", "lightx2v", "lookup", "products", "sparse_gemv", "tiles"),
    ),
    "tiles": (("hopper.cuh", "tiles.cu"), ("tiles",), ("affine", "devices", "fp8", "lightx2v", "products", "tiles")),
    "fp8": (("fp8.cu",), ("fp8",), ("fp8",)),
    "steps": (("sparse_gemv.cu", "step_affine.cu", "step_dequantize.cu", "step_quantize.cu"), ("sparse_gemv", "step_kernels", "steps"), STEP_SECTIONS),
    "experts": (("quantize_experts.cu",), ("experts",), ("devices", "experts")),
    "square": (("quantize_square.cu",), (), ("square",)),
    "fused": (("quantize_norm.cu",), ("fused",), ("fused",)),
}  # fmt: skip


def find_groups(section: str) -> tuple[str, ...]:
    """Which digests a section of the evidence depends on."""
    return ("kernels", "modules", "rules", *(name for name, (_, _, sections) in GROUPS.items() if section in sections))


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


def digest_sources() -> dict[str, Any]:
    """What -> digest; of the rules, that of each level."""
    kernels = {f.name: _code_of_kernel(f.read_text("utf-8")) for f in (PACKAGE / "kernels").iterdir() if f.suffix in (".cu", ".cuh")}
    parts = {
        name: {f: kernels.pop(f) for f in files} | {m: _code_of_module((PACKAGE / f"{m}.py").read_text("utf-8")) for m in modules}
        for name, (files, modules, _) in (GROUPS | {"modules": ((), MODULES, ())}).items()
    }
    rules = {level_id(level): _digest({"rules": _code_of_kernel(rules_of(level).text)}) for level in LEVELS}
    return {**{name: _digest(part) for name, part in (parts | {"kernels": kernels}).items()}, "rules": rules}
