"""Index formulas as data: the text that is printed is the text that is evaluated."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

_ALLOWED = (
    ast.Expression, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.BitXor, ast.Name, ast.Load,
    ast.Constant, ast.Call,
)  # fmt: skip
#: m, k (or c): row and column of the item; M, K (or C): the logical sizes; b: bit of the item's code.
NAMES = ("m", "k", "c", "M", "K", "C", "b")


@dataclass(frozen=True, slots=True)
class Formula:
    """An integer expression of + - * // % ^, ceil(a, b) (a rounded up to a multiple of b) and `NAMES`."""

    text: str

    @property
    def names(self) -> frozenset[str]:
        """The names that occur."""
        return frozenset(n.id for n in ast.walk(ast.parse(self.text, mode="eval")) if isinstance(n, ast.Name))

    def evaluate(self, *, m: Any, k: Any, rows: int, columns: int, b: Any = 0) -> Any:
        """The value: exact on Python integers of any size, elementwise on int64 arrays."""
        known = {"m": m, "k": k, "c": k, "M": rows, "K": columns, "C": columns, "b": b, "ceil": _ceil}
        return eval(_compile(self.text), {"__builtins__": {}}, known)


def _ceil(value: Any, multiple: int) -> Any:
    return -(-value // multiple) * multiple


@lru_cache(maxsize=256)
def _compile(text: str) -> CodeType:
    tree = ast.parse(text, mode="eval")
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED) or (isinstance(node, ast.Name) and node.id not in (*NAMES, "ceil")):
            raise ValueError(f"formula {text!r}: {ast.unparse(node)!r} is not allowed; names are {', '.join(NAMES)}")
    return compile(tree, "<formula>", "eval")
