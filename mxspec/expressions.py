"""Arithmetic as data: an expression names each operation and the domain in which its result is rounded.

An expression can be printed, compared, explained step by step, evaluated in exact rationals (`mxspec.exact`) or on
arrays (`mxspec.arrays`), and compiled to a kernel. Stacks that agree on a formula and differ in its bits differ here.

Leaves, bound by the evaluator:

======== ==========================================================================================
x        one element of the block
amax     the block's largest magnitude
tmax     the tensor's largest magnitude (NVFP4)
S        the tensor's encode scale, about 2688 / tmax
g        the tensor's decode scale, about tmax / 2688
sf       the value of the stored scale byte
q        the value of a stored element code
scaled   what the element encoder is given (known where an element rule's `error` is evaluated)
M        the element's largest value
======== ==========================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypeVar

import numpy as np

from mxspec import reals
from mxspec.enums import StrEnum
from mxspec.formats import FLOAT32
from mxspec.rounding import Overflow


class Domain(StrEnum):
    """How the exact result of one operation is rounded."""

    #: Not at all.
    EXACT = "exact"
    #: float32, nearest even, subnormals kept.
    F32 = "f32"
    #: float32, nearest even; subnormal operands and results become zeros of their sign. A result is tiny if, rounded to
    #: 24 bits with an unbounded exponent, it lies below 2**-126 (measured on sm_90: mul, div.rn, fma).
    F32_FTZ = "f32.ftz"
    #: float32, then bfloat16: what a framework does that computes bfloat16 operations in float32.
    BF16 = "bf16"
    #: float32, then float16.
    F16 = "f16"
    #: NVIDIA's `rcp.approx.ftz.f32`, by the table measured on sm_90.
    RCP_APPROX = "sm90.rcp"


class Op(StrEnum):
    """One operation."""

    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"
    #: Smaller / larger operand; NaN if either is NaN (torch.clamp, np.minimum).
    MIN = "min"
    MAX = "max"
    #: Smaller / larger operand; the other operand if one is NaN (C fminf, CUDA min.f32).
    FMIN = "fmin"
    FMAX = "fmax"
    ABS = "abs"
    #: The reciprocal in the domain `sm90.rcp`.
    RCP = "rcp"
    #: The operand, rounded to the domain.
    ROUND = "round"
    #: The magnitude rounded up to a power of two, of any size; zeros, infinities and NaN as they are. Exact.
    CEIL_POW2 = "pow2ceil"


class Test(StrEnum):
    """A condition on two values."""

    EQUAL = "=="
    LESS = "<"
    IS_NAN = "is nan"
    IS_INF = "is inf"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value bound at evaluation."""

    name: str

    def __str__(self) -> str:
        return self.name


#: Digits of a decimal that is short.
_SHORT = 6


@dataclass(frozen=True, slots=True)
class Const:
    """A float32 constant by its bits."""

    bits: int

    def __str__(self) -> str:
        """The shortest decimal that float32 rounds to these bits; the bits behind one that is neither exact nor short."""
        text = f"{float(str(np.uint32(self.bits).view(np.float32))):.9g}"
        value = reals.decode_real(self.bits, FLOAT32)
        short = len(text.partition("e")[0].replace(".", "").strip("-0")) <= _SHORT
        return (
            text if value.is_infinite or (value.is_finite and (short or Fraction(text) == value.value)) else f"{text} [0x{self.bits:08x}]"
        )


@dataclass(frozen=True, slots=True)
class Apply:
    """One operation, rounded in one domain."""

    op: Op
    domain: Domain
    args: tuple[Expr, ...]

    def __str__(self) -> str:
        suffix = "" if self.domain is Domain.EXACT else f"_{self.domain.value}"
        if self.op in (Op.ADD, Op.SUB, Op.MUL, Op.DIV):
            left, right = self.args
            return f"({left} {self.op.value}{suffix} {right})"
        return f"{self.op.value}{suffix}({', '.join(map(str, self.args))})"


@dataclass(frozen=True, slots=True)
class Choose:
    """`then` where the test holds of (left, right), else `otherwise`; the unary tests ignore right."""

    left: Expr
    test: Test
    right: Expr
    then: Expr
    otherwise: Expr

    def __str__(self) -> str:
        condition = (
            f"{self.left} {self.test.value}" if self.test in (Test.IS_NAN, Test.IS_INF) else f"{self.left} {self.test.value} {self.right}"
        )
        return f"({self.then} if {condition} else {self.otherwise})"


Expr = Leaf | Const | Apply | Choose

X, AMAX, TMAX, S, G, SF, Q, M = (Leaf(n) for n in ("x", "amax", "tmax", "S", "g", "sf", "q", "M"))
SCALED = Leaf("scaled")


def const(value: float | Fraction | int) -> Const:
    """A constant whose value float32 holds exactly.

    Raises ValueError otherwise; round it in the expression, or give bits with `Const`.
    """
    exact = reals.make_real(Fraction(value))
    bits = reals.encode_real(exact, FLOAT32, overflow=Overflow.OWN)
    if reals.decode_real(bits, FLOAT32).value != exact.value:
        raise ValueError(f"{value} is not a float32; write it as an operation or as Const(bits)")
    return Const(bits)


ONE, ZERO = const(1), const(0)
FLT_MAX = Const(0x7F7FFFFF)
#: float32(1/6), which every NVFP4 stack that multiplies by a sixth uses.
ONE_SIXTH = Const(0x3E2AAAAB)


@dataclass(frozen=True, slots=True)
class Domained:
    """Builders of operations in one domain: `f32.mul(X, S)`."""

    domain: Domain

    def add(self, a: Expr, b: Expr) -> Apply:
        """a + b."""
        return Apply(Op.ADD, self.domain, (a, b))

    def sub(self, a: Expr, b: Expr) -> Apply:
        """a - b."""
        return Apply(Op.SUB, self.domain, (a, b))

    def mul(self, a: Expr, b: Expr) -> Apply:
        """a * b."""
        return Apply(Op.MUL, self.domain, (a, b))

    def div(self, a: Expr, b: Expr) -> Apply:
        """a / b."""
        return Apply(Op.DIV, self.domain, (a, b))

    def round(self, a: Expr) -> Apply:
        """a, rounded."""
        return Apply(Op.ROUND, self.domain, (a,))


exact, f32, ftz, bf16, f16 = (Domained(d) for d in (Domain.EXACT, Domain.F32, Domain.F32_FTZ, Domain.BF16, Domain.F16))


def rcp_approx(a: Expr) -> Apply:
    """NVIDIA's approximate reciprocal of a."""
    return Apply(Op.RCP, Domain.RCP_APPROX, (a,))


def minimum(a: Expr, b: Expr) -> Apply:
    """The smaller; NaN if either is."""
    return Apply(Op.MIN, Domain.EXACT, (a, b))


def maximum(a: Expr, b: Expr) -> Apply:
    """The larger; NaN if either is."""
    return Apply(Op.MAX, Domain.EXACT, (a, b))


def fmin(a: Expr, b: Expr) -> Apply:
    """The smaller; the other if one is NaN."""
    return Apply(Op.FMIN, Domain.EXACT, (a, b))


def fmax(a: Expr, b: Expr) -> Apply:
    """The larger; the other if one is NaN."""
    return Apply(Op.FMAX, Domain.EXACT, (a, b))


def clamp(a: Expr, low: Expr, high: Expr) -> Apply:
    """a, not below low and not above high; NaN stays NaN."""
    return minimum(maximum(a, low), high)


def absolute(a: Expr) -> Apply:
    """|a|."""
    return Apply(Op.ABS, Domain.EXACT, (a,))


def ceil_pow2(a: Expr) -> Apply:
    """The smallest power of two not below |a|, with a's sign; zeros, infinities and NaN as they are."""
    return Apply(Op.CEIL_POW2, Domain.EXACT, (a,))


def if_equal(a: Expr, b: Expr, then: Expr, otherwise: Expr) -> Choose:
    """then where a == b (zeros of both signs are equal, NaN never is)."""
    return Choose(a, Test.EQUAL, b, then, otherwise)


def if_less(a: Expr, b: Expr, then: Expr, otherwise: Expr) -> Choose:
    """then where a < b."""
    return Choose(a, Test.LESS, b, then, otherwise)


def if_nan(a: Expr, then: Expr, otherwise: Expr) -> Choose:
    """then where a is NaN."""
    return Choose(a, Test.IS_NAN, a, then, otherwise)


def if_inf(a: Expr, then: Expr, otherwise: Expr) -> Choose:
    """then where a is infinite."""
    return Choose(a, Test.IS_INF, a, then, otherwise)


V = TypeVar("V")


class Arithmetic(Protocol[V]):
    """What an evaluator of expressions computes with."""

    def constant(self, bits: int) -> V:
        """The float32 with these bits."""

    def apply(self, op: Op, domain: Domain, args: tuple[V, ...]) -> V:
        """One operation, rounded in its domain."""

    def choose(self, left: V, test: Test, right: V, then: V, otherwise: V) -> V:
        """then where the test holds, else otherwise."""


def evaluate(expr: Expr, bindings: dict[str, V], arithmetic: Arithmetic[V]) -> V:
    """The value of an expression.

    Raises ValueError for a leaf that is not bound.
    """
    if isinstance(expr, Leaf):
        if expr.name not in bindings:
            raise ValueError(f"{expr.name} is not bound; bound are {', '.join(bindings)}")
        return bindings[expr.name]
    if isinstance(expr, Const):
        return arithmetic.constant(expr.bits)
    if isinstance(expr, Apply):
        args = tuple(evaluate(a, bindings, arithmetic) for a in expr.args)
        return arithmetic.apply(expr.op, expr.domain, args)
    parts = (expr.left, expr.right, expr.then, expr.otherwise)
    left, right, then, otherwise = (evaluate(e, bindings, arithmetic) for e in parts)
    return arithmetic.choose(left, expr.test, right, then, otherwise)


def children(expr: Expr) -> tuple[Expr, ...]:
    """The sub-expressions one level down."""
    if isinstance(expr, Apply):
        return expr.args
    if isinstance(expr, Choose):
        return (expr.left, expr.right, expr.then, expr.otherwise)
    return ()


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all below it, operands before operations, repeats once."""
    seen: set[Expr] = set()

    def visit(e: Expr) -> Iterator[Expr]:
        if e in seen:
            return
        seen.add(e)
        for child in children(e):
            yield from visit(child)
        yield e

    return visit(expr)


def leaves(expr: Expr) -> set[str]:
    """Names of the leaves."""
    return {e.name for e in walk(expr) if isinstance(e, Leaf)}


def substitute(expr: Expr, replacements: dict[Leaf, Expr]) -> Expr:
    """The expression with leaves replaced."""
    if isinstance(expr, Leaf):
        return replacements.get(expr, expr)
    if isinstance(expr, Apply):
        return Apply(expr.op, expr.domain, tuple(substitute(a, replacements) for a in expr.args))
    if isinstance(expr, Choose):
        left, right, then, otherwise = (substitute(e, replacements) for e in children(expr))
        return Choose(left, expr.test, right, then, otherwise)
    return expr


_INFIX = (Op.ADD, Op.SUB, Op.MUL, Op.DIV)
_ROUNDED_TO = {
    Domain.EXACT: "exact", Domain.F32: "rounded to float32", Domain.F32_FTZ: "rounded to float32 without subnormals",
    Domain.BF16: "rounded to bfloat16", Domain.F16: "rounded to float16", Domain.RCP_APPROX: "as the chip approximates 1 / x",
}  # fmt: skip


def put_in_words(expr: Expr, names: Mapping[str, str]) -> str:
    """An expression for people: `1 / (448 / amax), each result rounded to float32`; names: leaf -> what is printed for it."""
    rounded = [e.domain for e in walk(expr) if isinstance(e, Apply) and e.op in (*_INFIX, Op.ROUND, Op.RCP)]
    text = str(substitute(expr, {Leaf(name): Leaf(words) for name, words in names.items()}))
    for domain in sorted(Domain, key=len, reverse=True):
        text = text.replace(f"_{domain.value}", "")
    text = text[1:-1] if isinstance(expr, Choose) or (isinstance(expr, Apply) and expr.op in _INFIX) else text
    each = "each result " if len(rounded) > 1 else ""
    return f"{text}, {each}{' or '.join(_ROUNDED_TO[d] for d in dict.fromkeys(rounded))}" if rounded else text
