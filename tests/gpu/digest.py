"""Digests of what the evidence of the GPU depends on: the kernels, what calls them, and the rules generated for them.

Comments and docstrings do not count.
"""

from __future__ import annotations

import ast
import hashlib
import re
from pathlib import Path

from tests.gpu.arithmetic import LEVELS, level_id, rules_of

PACKAGE = Path(__file__).resolve().parents[2] / "gpu" / "mxspec_gpu"
#: The modules that a call goes through; not those that measure, draw or probe.
MODULES = (
    "api", "arguments", "arrays", "build", "kernels", "launch", "lookup", "plans", "quick", "rules", "scalars", "transform",
    "views",
)  # fmt: skip


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
    lines = (line.strip() for number, line in enumerate(text.splitlines(), 1) if number not in left_out)
    return "\n".join(line for line in lines if line and not line.startswith("#"))


def _code_of_kernel(text: str) -> str:
    return " ".join(re.sub(r"//[^\n]*", "", text).split())


def digest_sources() -> dict[str, str]:
    """What -> digest."""
    kernels = {
        f.name: _code_of_kernel(f.read_text("utf-8"))
        for f in (PACKAGE / "kernels").iterdir()
        if f.suffix in (".cu", ".cuh")
    }
    modules = {name: _code_of_module((PACKAGE / f"{name}.py").read_text("utf-8")) for name in MODULES}
    rules = {level_id(level): _code_of_kernel(rules_of(level).text) for level in LEVELS}
    return {"kernels": _digest(kernels), "modules": _digest(modules), "rules": _digest(rules)}
