"""Mechanical mutation: the places in the model's own source where one small change can be made."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

#: Where changes are made: all arithmetic, and the normative profiles' expressions.
MODULES = (
    "mxspec.rounding", "mxspec.elements", "mxspec.scales", "mxspec.blocks", "mxspec.dequantizing", "mxspec.fast", "mxspec.arrays",
    "mxspec.expressions", "mxspec.stochastic", "mxspec.tensorscale", "mxspec.profiles.normative",
)  # fmt: skip

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr, ast.Mod: ast.FloorDiv,
    ast.FloorDiv: ast.Mod,
}  # fmt: skip
#: Names that are taken for each other.
_NAMES = {
    "floor": "ceil", "ceil": "floor", "rint": "floor", "minimum": "maximum", "maximum": "minimum", "fmin": "fmax",
    "fmax": "fmin", "all": "any", "any": "all", "isnan": "isinf", "isinf": "isnan", "isfinite": "isnan",
    "EVEN": "TIES_AWAY", "TIES_AWAY": "TIES_TO_ZERO", "TIES_TO_ZERO": "EVEN", "UP": "DOWN", "DOWN": "UP",
    "RNE": "RNA", "RTP": "RNE", "FLOOR": "CEIL", "CEIL": "FLOOR", "HALF_UP": "FLOOR", "mul": "div", "div": "mul",
    "AMAX": "X", "SF": "ONE", "G": "S", "S": "G", "TMAX": "ONE", "ONE": "ZERO", "ZERO": "ONE", "f32": "exact",
    "exact": "f32", "SATURATE": "OWN", "left": "right", "right": "left",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """One change of the source."""

    module: str
    #: Which of the changes of the module, in the order of the source.
    number: int
    line: int
    kind: str
    #: What stood there, and what stands there now.
    before: str
    after: str
    #: The function or class around it.
    inside: str
    #: Whether `inside` is a function's name; a class or a module is run when it is imported.
    is_in_function: bool

    @property
    def id(self) -> str:
        """module:line:number."""
        return f"{self.module}:{self.line}:{self.number}"


def source_of(module: str) -> str:
    """The source of a module, which is not imported for it."""
    found = find_spec(module)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).read_text("utf-8")


class _Sites(ast.NodeVisitor):
    """Finds (node, kind, replacement, inside) where one small change can be made."""

    def __init__(self) -> None:
        self.found: list[tuple[ast.AST, str, ast.AST, str, bool]] = []
        self._inside: list[ast.FunctionDef | ast.ClassDef] = []

    def _enter(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        self._inside.append(node)
        for part in node.body:
            self.visit(part)
        self._inside.pop()
        if isinstance(node, ast.FunctionDef):
            for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
                self.visit(default)

    visit_FunctionDef = visit_ClassDef = _enter  # noqa: N815  (names of ast.NodeVisitor)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Messages are not arithmetic."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """Nor are assertions."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Annotations are not run."""
        if node.value is not None:
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Text."""

    def _add(self, node: ast.AST, kind: str, replacement: ast.AST) -> None:
        in_function = bool(self._inside) and isinstance(self._inside[-1], ast.FunctionDef)
        self.found.append((node, kind, replacement, ".".join(n.name for n in self._inside), in_function))

    def visit_Constant(self, node: ast.Constant) -> None:
        """Numbers and flags."""
        value = node.value
        if isinstance(value, bool):
            self._add(node, "flag", ast.Constant(not value))
        elif isinstance(value, int):
            self._add(node, "constant", ast.Constant(value + 1))
            if value not in (0, 1):
                self._add(node, "constant", ast.Constant(value - 1))
        elif isinstance(value, float):
            self._add(node, "constant", ast.Constant(value * 2 if value else 1.0))

    def visit_Compare(self, node: ast.Compare) -> None:
        """Comparisons."""
        if type(node.ops[0]) in _COMPARISONS:
            other = deepcopy(node)
            other.ops[0] = _COMPARISONS[type(node.ops[0])]()
            self._add(node, "comparison", other)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Arithmetic, shifts and masks."""
        if type(node.op) in _OPERATORS:
            other = deepcopy(node)
            other.op = _OPERATORS[type(node.op)]()
            self._add(node, "operator", other)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """and, or."""
        other = deepcopy(node)
        other.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._add(node, "and/or", other)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """not, ~ and - are left out."""
        self._add(node, "sign or not", deepcopy(node.operand))
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Functions and members that are taken for others."""
        if node.attr in _NAMES:
            other = deepcopy(node)
            other.attr = _NAMES[node.attr]
            self._add(node, "name", other)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        """Leaves and domains of expressions that are taken for others."""
        if node.id in _NAMES and node.id.upper() == node.id:
            self._add(node, "name", ast.Name(_NAMES[node.id], node.ctx))


@lru_cache(maxsize=32)
def _sites(module: str) -> tuple[ast.Module, list[tuple[ast.AST, str, ast.AST, str, bool]]]:
    tree = ast.parse(source_of(module))
    visitor = _Sites()
    for statement in tree.body:
        visitor.visit(statement)
    return tree, visitor.found


def list_changes(module: str) -> Iterator[Change]:
    """Every change of a module."""
    for number, (node, kind, replacement, inside, in_function) in enumerate(_sites(module)[1]):
        before, after = ast.unparse(node), ast.unparse(replacement)
        yield Change(module, number, getattr(node, "lineno", 0), kind, before[:90], after[:90], inside, in_function)


def change_source(change: Change) -> str:
    """The module's source with the change made."""
    tree, sites = _sites(change.module)
    target, _, replacement, _, _ = sites[change.number]

    class Replace(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return replacement if node is target else self.generic_visit(node)

    # The transformer writes into lists of the tree: it is given a copy in which the node is found by its place.
    marked = id(target)
    memo: dict[int, object] = {marked: target}
    return ast.unparse(ast.fix_missing_locations(Replace().visit(deepcopy(tree, memo))))
