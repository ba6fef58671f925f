"""Terms of bit-vectors: built with constants folded, printed as SMT-LIB, evaluated on NumPy arrays.

A term of width 0 is a Bool. Widths have no limit; an evaluation computes in Python integers where one lies beyond 64. Floating-point nodes
(`double_of_float32` and below) stand for SMT-LIB's theory of floats, rounded to nearest even; they are evaluated by NumPy, which has nothing in
common with a solver's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

BOOL = 0


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """One node. Equal nodes are one object, so that identity is equality."""

    op: str
    width: int
    args: tuple[Term, ...] = ()
    #: Numbers of the operation: a constant's value, an extract's bits.
    numbers: tuple[int, ...] = ()
    name: str = ""

    @property
    def value(self) -> int | None:
        """The value of a constant, else None."""
        return self.numbers[0] if self.op == "const" else None

    def __hash__(self) -> int:
        return id(self)


@cache
def _node(op: str, width: int, args: tuple[Term, ...] = (), numbers: tuple[int, ...] = (), name: str = "") -> Term:
    return Term(op, width, args, numbers, name)


def const(value: int, width: int) -> Term:
    """A constant, modulo 2**width."""
    return _node("const", width, numbers=(value & ((1 << width) - 1) if width else int(bool(value)),))


TRUE, FALSE = const(1, BOOL), const(0, BOOL)


def variable(name: str, width: int) -> Term:
    """An input."""
    return _node("var", width, name=name)


_FOLD: Mapping[str, Callable[[int, int], int]] = {
    "bvadd": lambda a, b: a + b, "bvsub": lambda a, b: a - b, "bvmul": lambda a, b: a * b, "bvand": lambda a, b: a & b,
    "bvor": lambda a, b: a | b, "bvxor": lambda a, b: a ^ b, "bvult": lambda a, b: a < b, "bvule": lambda a, b: a <= b,
    "=": lambda a, b: a == b,
}  # fmt: skip


def signed(value: int, width: int) -> int:
    """A pattern as two's complement."""
    return value - (1 << width) if value >> (width - 1) else value


def binary(op: str, a: Term, b: Term) -> Term:
    """`bvadd`, `bvsub`, `bvmul`, `bvand`, `bvor`, `bvxor`, and the tests `bvult`, `bvule`, `=`."""
    assert a.width == b.width, (op, a.width, b.width)
    width = BOOL if op in ("bvult", "bvule", "=") else a.width
    if a.value is not None and b.value is not None:
        return const(_FOLD[op](a.value, b.value), width)
    if op == "=" and a is b:
        return TRUE
    for one, other in ((a, b), (b, a)):
        if one.value == 0 and op in ("bvadd", "bvor", "bvxor"):
            return other
        if one.value == 0 and op in ("bvand", "bvmul"):
            return one
        if one.value == 1 and op == "bvmul":
            return other
    if op == "bvsub" and b.value == 0:
        return a
    if op == "=" and b.value is not None and a.op == "ite" and a.args[1].value is not None and a.args[2].value is not None:
        return ite(a.args[0], binary("=", a.args[1], b), binary("=", a.args[2], b))
    return _node(op, width, (a, b))


def negate(a: Term) -> Term:
    """Not, of a Bool."""
    if a.value is not None:
        return const(1 - a.value, BOOL)
    return a.args[0] if a.op == "not" else _node("not", BOOL, (a,))


def both(a: Term, b: Term) -> Term:
    """And, of Bools."""
    if a is FALSE or b is FALSE:
        return FALSE
    if a is TRUE or a is b:
        return b
    return a if b is TRUE else _node("and", BOOL, (a, b))


def either(a: Term, b: Term) -> Term:
    """Or, of Bools."""
    return negate(both(negate(a), negate(b)))


def invert(a: Term) -> Term:
    """Every bit."""
    return binary("bvxor", a, const(-1, a.width))


def ite(test: Term, a: Term, b: Term) -> Term:
    """a where the test holds, else b."""
    if test.value is not None:
        return a if test.value else b
    if a is b:
        return a
    assert a.width == b.width
    if test.op == "not":
        return ite(test.args[0], b, a)
    if a.op == "ite" and a.args[0] is test:
        a = a.args[1]
    if b.op == "ite" and b.args[0] is test:
        b = b.args[2]
    if a.width == BOOL:
        if a.value is not None and b.value is not None:
            return test if a.value else negate(test)
        if a is FALSE:
            return both(negate(test), b)
        if b is FALSE:
            return both(test, a)
    return _node("ite", a.width, (test, a, b))


def extract(a: Term, high: int, low: int) -> Term:
    """Bits high to low."""
    if (low, high) == (0, a.width - 1):
        return a
    width = high - low + 1
    if a.value is not None:
        return const(a.value >> low, width)
    if a.op == "extract":
        return extract(a.args[0], a.numbers[1] + high, a.numbers[1] + low)
    if a.op == "concat":
        upper, lower = a.args
        if low >= lower.width:
            return extract(upper, high - lower.width, low - lower.width)
        if high < lower.width:
            return extract(lower, high, low)
        return concat(extract(upper, high - lower.width, 0), extract(lower, lower.width - 1, low))
    if a.op == "ite" and (a.args[1].op in ("const", "concat") or a.args[2].op in ("const", "concat")):
        return ite(a.args[0], extract(a.args[1], high, low), extract(a.args[2], high, low))
    return _node("extract", width, (a,), (high, low))


def concat(upper: Term, lower: Term) -> Term:
    """The bits of both, those of `lower` last."""
    if upper.value is not None and lower.value is not None:
        return const(upper.value << lower.width | lower.value, upper.width + lower.width)
    if lower.value is not None and upper.op == "concat" and upper.args[1].value is not None:
        return concat(upper.args[0], concat(upper.args[1], lower))
    return _node("concat", upper.width + lower.width, (upper, lower))


def zero_extend(a: Term, width: int) -> Term:
    """Wider, or as it is."""
    return a if width == a.width else concat(const(0, width - a.width), a)


def resize(a: Term, width: int, *, is_signed: bool) -> Term:
    """To a width as C converts: cut, or extended by zeros or by the sign."""
    if width <= a.width:
        return extract(a, width - 1, 0)
    if a.value is not None:
        return const(signed(a.value, a.width) if is_signed else a.value, width)
    return _node("sign_extend", width, (a,), (width - a.width,)) if is_signed else zero_extend(a, width)


def shift(op: str, a: Term, by: Term) -> Term:
    """`bvshl`, `bvlshr` or `bvashr`; from the width on nothing is left (or the sign)."""
    assert a.width == by.width
    n = by.value
    if n == 0 or (n is None and a.value == 0):
        return a
    if n is None:
        return _node(op, a.width, (a, by))
    if op == "bvashr":
        return resize(extract(a, a.width - 1, min(n, a.width - 1)), a.width, is_signed=True)
    if n >= a.width:
        return const(0, a.width)
    if op == "bvshl":
        return concat(extract(a, a.width - 1 - n, 0), const(0, n))
    return concat(const(0, n), extract(a, a.width - 1, n))


def less(a: Term, b: Term, *, is_signed: bool) -> Term:
    """a < b."""
    if is_signed:  # the order of the patterns with the sign turned over
        top = const(1 << (a.width - 1), a.width)
        a, b = binary("bvxor", a, top), binary("bvxor", b, top)
    return binary("bvult", a, b)


# Floats: only what the array model does. Their terms have the width of their format and the names f32 and f64.


def double_of_float32(bits: Term) -> Term:
    """The float32 with these bits as a float64."""
    return _node("f64.from_f32bits", 64, (bits,))


def double(value: float) -> Term:
    """A constant float64."""
    return _node("f64.const", 64, numbers=(int(np.float64(value).view(np.uint64)),))


def float_op(op: str, *args: Term) -> Term:
    """`f64.div`; `f32.from_f64`, `f64.from_f32`; tests of floats: `f64.abs_gt`, `f64.ne`, `f64.isnan`, `f64.isinf`; `f64.bits`, `f32.bits`."""
    widths = {"f64.div": 64, "f32.from_f64": 32, "f64.from_f32": 64, "f64.bits": 64, "f32.bits": 32}
    return _node(op, widths.get(op, BOOL), args)


_FLOAT_TEXT = {
    "f64.from_f32bits": "((_ to_fp 11 53) RNE ((_ to_fp 8 24) {0}))", "f64.div": "(fp.div RNE {0} {1})", "f32.from_f64": "((_ to_fp 8 24) RNE {0})",
    "f64.from_f32": "((_ to_fp 11 53) RNE {0})", "f64.abs_gt": "(fp.gt (fp.abs {0}) (fp.abs {1}))", "f64.ne": "(not (fp.eq {0} {1}))",
    "f64.isnan": "(fp.isNaN {0})", "f64.isinf": "(fp.isInfinite {0})",
}  # fmt: skip


def in_order(roots: Iterable[Term]) -> list[Term]:
    """Every node once, arguments before what uses them."""
    done: set[Term] = set()
    order: list[Term] = []
    stack: list[tuple[Term, bool]] = [(r, False) for r in roots]
    while stack:
        node, visited = stack.pop()
        if visited:
            if node not in done:
                done.add(node)
                order.append(node)
        elif node not in done:
            stack.append((node, True))
            stack.extend((a, False) for a in node.args if a not in done)
    return order


def _sort(term: Term) -> str:
    if term.op.startswith(("f64.from", "f64.div", "f64.const")):
        return "Float64"
    if term.op == "f32.from_f64":
        return "Float32"
    return "Bool" if term.width == BOOL else f"(_ BitVec {term.width})"


def _literal(value: int, width: int) -> str:
    if width == BOOL:
        return "true" if value else "false"
    return f"#x{value:0{width // 4}x}" if width % 4 == 0 else f"#b{value:0{width}b}"


def write_query(claim: Term, note: Iterable[str] = ()) -> str:
    """An SMT-LIB 2 script that asks for inputs under which a Bool holds.

    The bits of a float are a variable of their own, bound by what reads it back; of a NaN there are several, so claims must not look at one's.
    """
    names: dict[Term, str] = {}
    order = in_order([claim])
    floats = any(n.op.startswith("f") and "." in n.op for n in order)
    lines = [*(f"; {text}" for text in note), f"(set-logic {'QF_BVFP' if floats else 'QF_BV'})", "(set-option :produce-models true)"]
    for node in order:
        if node.op == "const":
            names[node] = _literal(node.numbers[0], node.width)
        elif node.op == "var":
            names[node] = node.name
            lines.append(f"(declare-const {node.name} {_sort(node)})")
        elif node.op in ("f64.bits", "f32.bits"):
            names[node] = f"t{len(names)}"
            lines.append(f"(declare-const {names[node]} (_ BitVec {node.width}))")
            lines.append(f"(assert (= ((_ to_fp {'11 53' if node.width == 64 else '8 24'}) {names[node]}) {names[node.args[0]]}))")
        else:
            names[node] = f"t{len(names)}"
            args = [names[a] for a in node.args]
            lines.append(f"(define-fun {names[node]} () {_sort(node)} {_write(node, args)})")
    return "\n".join([*lines, f"(assert {names[claim]})", "(check-sat)", ""])


def _write(node: Term, args: list[str]) -> str:
    if node.op == "f64.const":
        return f"((_ to_fp 11 53) {_literal(node.numbers[0], 64)})"
    if node.op in _FLOAT_TEXT:
        return _FLOAT_TEXT[node.op].format(*args)
    head = node.op if not node.numbers else f"(_ {node.op} {' '.join(map(str, node.numbers))})"
    return f"({head} {' '.join(args)})"


# Evaluation


def evaluate(roots: Iterable[Term], inputs: Mapping[str, Any]) -> list[Any]:
    """The values of terms on arrays of inputs (unsigned integers of one shape), as arrays; Bools are arrays of bool."""
    wanted = list(roots)
    order = in_order(wanted)
    wide = any(n.width > 64 for n in order)
    kind = object if wide else np.uint64
    shape = np.broadcast_shapes(*(np.shape(v) for v in inputs.values()))
    values: dict[Term, Any] = {}
    with np.errstate(all="ignore"):
        for node in order:
            values[node] = _compute(node, [values[a] for a in node.args], inputs, shape, kind)
    return [np.broadcast_to(values[r], shape) for r in wanted]


def _compute(node: Term, args: list[Any], inputs: Mapping[str, Any], shape: tuple[int, ...], kind: Any) -> Any:
    if node.op == "const":
        return np.full(shape, bool(node.numbers[0])) if node.width == BOOL else np.full(shape, node.numbers[0], kind)
    if node.op == "var":
        return np.broadcast_to(np.asarray(inputs[node.name]), shape).astype(np.uint64).astype(kind)
    if node.op == "f64.const":
        return np.uint64(node.numbers[0]).view(np.float64)
    if node.op in ("f64.bits", "f32.bits"):
        whole = np.ascontiguousarray(args[0])
        return whole.view(np.uint64 if node.width == 64 else np.uint32).astype(np.uint64).astype(kind)
    number: Any = int if kind is object else kind
    value = _VALUES[node.op](*args) if node.op in _VALUES else _bits(node, args, number)
    if node.width == BOOL:
        return value.astype(bool)
    return value if node.op.startswith(("f64.", "f32.")) else value & number((1 << node.width) - 1)


#: What operations without numbers of their own compute.
_VALUES: Mapping[str, Callable[..., Any]] = {
    "not": np.logical_not, "and": np.logical_and, "ite": np.where, "=": np.equal, "bvult": np.less, "bvule": np.less_equal,
    "bvadd": np.add, "bvsub": np.subtract, "bvmul": np.multiply, "bvand": np.bitwise_and, "bvor": np.bitwise_or, "bvxor": np.bitwise_xor,
    "f64.from_f32bits": lambda a: a.astype(np.uint64).astype(np.uint32).view(np.float32).astype(np.float64), "f64.div": np.divide,
    "f32.from_f64": lambda a: a.astype(np.float32), "f64.from_f32": lambda a: a.astype(np.float64),
    "f64.abs_gt": lambda a, b: np.abs(a) > np.abs(b), "f64.ne": np.not_equal, "f64.isnan": np.isnan, "f64.isinf": np.isinf,
}  # fmt: skip


def _bits(node: Term, args: list[Any], number: Any) -> Any:
    if node.op == "extract":
        return args[0] >> number(node.numbers[1])
    if node.op == "concat":
        return args[0] << number(node.args[1].width) | args[1]
    if node.op == "sign_extend":
        narrow = node.args[0].width
        return args[0] | (args[0] >> number(narrow - 1)) * number(((1 << node.width) - 1) ^ ((1 << narrow) - 1))
    inside = args[1] < number(node.width)
    by = np.where(inside, args[1], number(0))
    return np.where(inside, args[0] << by if node.op == "bvshl" else args[0] >> by, number(0))
